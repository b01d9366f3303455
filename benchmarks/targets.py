"""The targets of issue 4, and what was measured beside each."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Verdict:
    """One target. ``at_least``: whether larger is better. ``measured`` None: not measured in this run.

    ``large_only``: says nothing on few rows, where what a run costs whatever its rows outweighs the rest.
    """

    number: str
    what: str
    target: float
    at_least: bool
    measured: float | None
    large_only: bool = False

    @property
    def passed(self) -> bool:
        """Whether it is met."""
        if self.measured is None:
            return False
        return self.measured >= self.target if self.at_least else self.measured <= self.target

    def far_off(self, known: float | None, factor: float) -> bool:
        """Whether it is missed by more than a factor; ``known`` is what a full run measured, where that missed too."""
        if self.measured is None or self.large_only:
            return False
        worse = min if self.at_least else max
        expected = self.target if known is None else worse(self.target, known)
        return self.measured * factor < expected if self.at_least else self.measured > expected * factor

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {**asdict(self), "passed": self.passed}


def middle(runs: Sequence[Mapping[str, Any]], name: str) -> float:
    """The median of one number."""
    return float(median(run[name] for run in runs))


def rate(runs: Sequence[Mapping[str, Any]]) -> float:
    """URLs per CPU second: the median of the runs."""
    return float(median(run["urls"] / run["cpu_s"] for run in runs))


def verdicts(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Verdict]:
    """Every target with its figure."""

    def times(name: str, peer: str) -> float | None:
        return rate(runs[name]) / rate(runs[peer]) if runs.get(name) and runs.get(peer) else None

    found = [
        Verdict(
            "1", "URLs per CPU second, to S3 ÷ sitemap.js buffered", 12, True, times("to S3", "sitemap.js buffered")
        ),
        Verdict("2", "÷ Django sitemaps", 38, True, times("to S3", "Django sitemaps")),
        Verdict("3", "÷ pandas and a loop", 14, True, times("to S3", "pandas and a loop")),
        Verdict("3", "÷ a plain loop", 5.5, True, times("to S3", "a plain loop")),
        Verdict("4", "small preset ÷ sitemap.js buffered", 5, True, times("small preset", "sitemap.js buffered")),
        Verdict("4", "small preset ÷ a plain loop", 2.7, True, times("small preset", "a plain loop")),
    ]
    return [*found, *_inside(runs, times("cursor fallback", "a plain loop"))]


def _inside(runs: Mapping[str, Sequence[Mapping[str, Any]]], fallback: float | None) -> list[Verdict]:
    """Targets that compare the package with its own parts."""
    parts, drain = runs["parts"], runs["drain"]
    size = median(run["gzip small bytes"] / run["gzip zlib 6 bytes"] for run in parts)
    gzip = middle(parts, "gzip fast") * drain[0]["rows"] / 1e6
    share = (middle(drain, "cpu_s") + gzip) / middle(runs["to disk"], "cpu_s")
    wall = middle(runs["to S3"], "wall_s") / middle(drain, "wall_s")
    survey = middle(runs["digest"], "server_cpu_s") / (drain[0]["rows"] / 1e6)
    changed = runs["changed"]
    unchanged = median(
        median(run["wall_s"] for run in one["unchanged runs"]) / median(run["wall_s"] for run in one["digest alone"])
        for one in changed
    )
    return [
        Verdict("4", "small preset: size ÷ zlib 6", 1.0, False, size),
        Verdict("5", "(drain + gzip) CPU ÷ pipeline CPU", 0.60, True, share),
        Verdict("6", "wall to S3 ÷ wall of the drain", 1.15, False, wall, large_only=True),
        Verdict("7", "peak MB to disk, Airflow's imports left out", 220, False, _peak(runs, "to disk")),
        Verdict("7", "peak MB to S3, Airflow's imports left out", 280, False, _peak(runs, "to S3")),
        Verdict("7", "peak of the largest ÷ of the smallest table", 1.15, False, flatness(runs)),
        Verdict("8", "unchanged run ÷ its digest query, wall", 1.2, False, unchanged, large_only=True),
        Verdict("9", "one of 100 shards ÷ full, bytes", 0.011, False, _part(changed, "bytes")),
        Verdict("9", "one of 100 shards ÷ full, client CPU", 0.03, False, _part(changed, "cpu_s"), large_only=True),
        Verdict("10", "cursor fallback ÷ a plain loop", 3, True, fallback),
        Verdict("11", "CPU s to import the operators, beyond Airflow", 0.15, False, _imports(runs)),
        Verdict("12", "survey: PostgreSQL's CPU s per million rows", 0.45, False, survey, large_only=True),
    ]


def _peak(runs: Mapping[str, Sequence[Mapping[str, Any]]], name: str) -> float:
    """The highest peak, without what Airflow alone adds to the process."""
    return max(run["peak_mb"] - run["airflow_mb"] for run in runs[name])


def _part(changed: Sequence[Mapping[str, Any]], name: str) -> float:
    return float(median(one["one shard"][name] / one["full"][name] for one in changed))


def flatness(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> float | None:
    """Peak memory of the largest table ÷ that of the smallest; None where only one was measured."""
    by_rows = sorted((run["urls"], run["peak_mb"]) for run in runs.get("memory", ()))
    return by_rows[-1][1] / by_rows[0][1] if len(by_rows) > 1 else None


def _imports(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> float | None:
    found = runs.get("import")
    return None if not found else middle(found, "beyond_airflow_s")
