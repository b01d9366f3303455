"""A compressed month of hourly runs on a changing table, with faults now and then: ``make soak``.

Rows, store and clock are in memory, so that 720 runs take minutes. After each day it is noted what the sitemap keeps and what
it wrote; all of that must stay flat. A run that a fault stops is followed by the next one, as in a DAG.
"""

from __future__ import annotations

import argparse
import gc
import os
from bisect import bisect_right
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from statistics import mean
from typing import TYPE_CHECKING, Any, Final

from benchmarks import growth_report
from benchmarks.meter import resident_mb

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_sitemaps.pipeline.report import Report

BASE: Final = "https://www.example.com/"
HOURS: Final = 720
DAY: Final = 24
HISTORY: Final = 10
FAULTY: Final = 0.1
"""Share of the runs in which calls to the store fail."""
FAULT_RATE: Final = 0.02
"""Share of the calls that fail in such a run."""


@dataclass
class Month:
    """A sitemap, its rows, and an hour at a time.

    Each hour some rows change, as many rows come as go, and keys are added at the end and in the middle.
    """

    rows_number: int = 100
    max_urls: int = 10
    changes: int = 1
    seed: int = 1
    rows: list[dict[str, Any]] = field(default_factory=list)
    failed: int = 0
    struck: int = 0

    def __post_init__(self) -> None:
        from airflow_sitemaps import Guards, MemoryStore, Section, ShardPolicy, Sitemap
        from airflow_sitemaps.testing import FakeClock, MemorySourceConfig
        from tests.simulation.faults import Faults, FaultyStore

        self.chance = Random(self.seed)
        self.clock = FakeClock()
        self.memory = MemoryStore(base_url=BASE, now=self.clock.now)
        self.faults = Faults()
        for number in range(self.rows_number):
            self._add(2 * number)
        self.next_key = 2 * self.rows_number
        source = MemorySourceConfig(
            self.rows, key="id", lastmod="lastmod", priority="priority", clock=self.clock.now
        )  # fmt: skip
        self.sitemap = Sitemap(
            FaultyStore(self.memory, self.faults), [Section("pages", source)], history=HISTORY,
            shards=ShardPolicy(max_urls=self.max_urls), guards=Guards.disabled(),
        )  # fmt: skip

    def hour(self, *, faulty: bool) -> tuple[Report | None, int]:
        """One hour and one run; its report, or None where a fault stopped it, and the shards whose rows it changed."""
        from airflow_sitemaps import SitemapError, pipeline
        from tests.simulation.faults import Fault, SimulatedCrash, seeded

        self.clock.advance(timedelta(hours=1))
        touched = self._change()
        kinds = tuple(fault for fault in Fault if fault is not Fault.STALE)
        self.faults.chooser = seeded(self.chance, FAULT_RATE, kinds) if faulty else None
        try:
            report = pipeline.build(self.sitemap, clock=self.clock)
        except (SitemapError, SimulatedCrash):
            self.failed += 1
            return None, touched
        finally:
            self.struck += len(self.faults.struck)
            self.faults.struck.clear()
            self.faults.calls.clear()
            self.faults.land()
            self.faults.answers.clear()
            self.memory.log.clear()
        return report, touched

    def _add(self, key: int) -> None:
        stamp = self.clock.now().isoformat()
        self.rows.append({"id": key, "loc": f"{BASE}p/{key}", "lastmod": stamp, "priority": 0.5})

    def _change(self) -> int:
        """Change, add and remove rows; the shards that this concerns, by the ranges that are published."""
        keys = set()
        for row in self.chance.sample(self.rows, self.changes):
            row["lastmod"], row["priority"] = self.clock.now().isoformat(), self.chance.randrange(11) / 10
            keys.add(row["id"])
        for _ in range(2):
            gone = self.rows.pop(self.chance.randrange(len(self.rows)))
            keys.add(gone["id"])
        present = {row["id"] for row in self.rows}
        middle = self.chance.choice([key for key in range(1, self.next_key, 2) if key not in present])
        for key in (middle, self.next_key):
            self._add(key)
            keys.add(key)
        self.next_key += 2
        lowers = self._lowers()
        return len({bisect_right(lowers, key) for key in keys})

    def _lowers(self) -> list[int]:
        manifest = self.manifest()
        shards = manifest.sections["pages"].shards if manifest is not None else ()
        return [int(shard.range.lower[0]) for shard in shards if shard.range.lower is not None]

    def manifest(self) -> Any:
        """The manifest as it is."""
        from airflow_sitemaps.pipeline.state.repository import StateRepository

        return StateRepository(self.memory.state).manifest()

    def mark(self, run: int, written: int, touched: int) -> dict[str, float]:
        """What is kept now, and what a day's runs wrote for each shard that had to change."""
        manifest = self.manifest()
        shards = manifest.sections["pages"].shards
        state = self.memory.state.objects
        gc.collect()
        return {
            "run": run,
            "rows": len(self.rows),
            "shards": len(shards),
            "fill": mean(shard.digest.rows / self.max_urls for shard in shards),
            "public_objects": len(self.memory.public.objects),
            "state_objects": sum(not key.startswith("reports/") for key in state),
            "reports": sum(key.startswith("reports/") for key in state),
            "state_kb": sum(len(kept.body) for kept in state.values()) / 1_000,
            "manifest_kb": len(state["manifest.json.gz"].body) / 1_000,
            "index_kb": len(self.memory.public.objects["sitemap.xml"].body) / 1_000,
            "python_objects": len(gc.get_objects()),
            "memory_mb": resident_mb(),
            "rewrites_per_change": written / max(1, touched),
        }


def soak(hours: int, month: Month | None = None, every: int = DAY) -> dict[str, Any]:
    """So many hours. Raises AssertionError where the sitemap differs from the rows after the last one."""
    from airflow_sitemaps.testing import crawl

    month = month or Month()
    marks, written, touched = [], 0, 0
    for run in range(1, hours + 1):
        report, concerned = month.hour(faulty=month.chance.random() < FAULTY and 1 < run < hours)
        if run > 1:  # the first build writes everything
            touched += concerned
            written += report.shards.created + report.shards.rewritten if report is not None else 0
        if run % every == 0:
            marks.append(month.mark(run, written, touched))
            written = touched = 0
    listed = crawl(month.memory.open()).locs()
    assert sorted(listed) == sorted(row["loc"] for row in month.rows)
    return {"runs": hours, "failed": month.failed, "faults": month.struck, "marks": marks}


def flat(marks: list[Mapping[str, float]], name: str, *, skipped: int = 3) -> float:
    """The mean of the last third ÷ the mean of the third before it, without the first days, in which history fills."""
    values = [one[name] for one in marks[skipped:]]
    third = max(1, len(values) // 3)
    return mean(values[-third:]) / mean(values[-2 * third : -third])


NAMES: Final = {
    "shards": "shards", "fill": "mean fill of a shard", "public_objects": "public objects",
    "state_objects": "private objects, without reports", "manifest_kb": "manifest, kB", "index_kb": "index, kB",
    "python_objects": "objects of Python", "memory_mb": "memory of the process, MB", "rewrites_per_change": "files written ÷ shards that rows changed in",
}  # fmt: skip


def report(result: Mapping[str, Any]) -> str:
    """The table for people."""
    marks = result["marks"]
    days = [marks[at] for at in (2, len(marks) // 2, len(marks) - 1)]
    rows = [
        (
            what,
            *(f"{day[name]:,.2f}" if day[name] < 100 else f"{day[name]:,.0f}" for day in days),
            f"{flat(marks, name):.2f}",
        )
        for name, what in NAMES.items()
    ]
    head = ("", *(f"day {day['run'] // DAY}" for day in days), "last ÷ middle third")
    return (
        f"{result['runs']} hourly runs, {result['faults']} injected faults, {result['failed']} runs stopped by them.\n\n"
        + growth_report.table(head, rows)
    )


def main() -> None:
    """Run and print; ``--keep`` stores the result, with plot and table in the docs."""
    from benchmarks.__main__ import facts, folder_of

    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--hours", type=int, default=HOURS)
    parser.add_argument(
        "--keep", action="store_true", help="write results/soak.json, docs/soak.svg and docs/scale-runs.md"
    )
    given = parser.parse_args()
    os.environ.setdefault("AIRFLOW__LOGGING__LOGGING_LEVEL", "CRITICAL")
    result = {**facts(Month().rows_number, 1), **soak(given.hours)}
    print(report(result))
    if given.keep:
        with ExitStack() as stack:
            growth_report.keep("soak", result, report(result), folder_of(stack), plot=True)


if __name__ == "__main__":
    main()
