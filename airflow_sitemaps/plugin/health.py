"""What is wrong with a sitemap, or about to be, and what to do next: from facts alone, without any I/O."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final, Literal

from airflow_sitemaps.plugin.headroom import gauges
from airflow_sitemaps.plugin.situation import last_result, moment
from airflow_sitemaps.protocol.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_sitemaps.plugin.facts import Point
    from airflow_sitemaps.plugin.situation import Situation
    from airflow_sitemaps.plugin.verifications import Verification

Severity = Literal["error", "warning", "info"]

MANY_DROPPED: Final = 0.01
"""Part of the rows whose being dropped is a warning; the guard's own default."""
NEAR: Final = 0.8
"""Part of a limit from which on it is a warning."""
LATE: Final = 3.0
"""So many times the usual time between runs without one is late."""
MIN_LATE_S: Final = 3_600.0
"""Seconds below which nothing is late."""
ALLOWED: Final = "allowed: "
"""Begins a report's warning about a guard that somebody let pass: they know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing to look at. ``next_step`` says what to do. ``permits``: what ``allow`` takes to let a run pass.

    ``run_dag_id``: the DAG of the run ``run_id``, empty for the publishing one.
    """

    severity: Severity
    kind: str
    title: str
    detail: str = ""
    next_step: str = ""
    permits: tuple[str, ...] = ()
    run_id: str = ""
    run_dag_id: str = ""


def problems(situation: Situation) -> list[Problem]:
    """Everything to look at, the worst first."""
    found = [
        *_of_run(situation),
        *_of_verification(situation),
        *_of_dag(situation),
        *_of_age(situation),
        *_of_dropped(situation),
        *_of_limits(situation.report),
        *_of_drift(situation.report),
        *_of_warnings(situation.report),
    ]
    order = {"error": 0, "warning": 1, "info": 2}
    return sorted(found, key=lambda problem: order[problem.severity])


def worst(found: Sequence[Problem]) -> str:
    """``error``, ``warning`` or ``ok``."""
    severities = {problem.severity for problem in found}
    return "error" if "error" in severities else "warning" if "warning" in severities else "ok"


def _of_run(situation: Situation) -> list[Problem]:
    result, run = last_result(situation), situation.run
    stands = f"Generation {situation.points[-1].generation:,} stays published, unchanged."
    if result == "refused":
        permits = tuple(str(r["permit"]) for r in situation.refused if r.get("permit"))
        return [
            Problem(
                severity="error",
                kind="refused",
                title="The last run was refused by a guard",
                detail=" ".join(str(r.get("message", "")) for r in situation.refused) + f" {stands}",
                next_step="Look at the source's data. If the change is meant, let one run pass; else mend the data.",
                permits=permits,
                run_id=run.run_id if run else "",
            )
        ]
    if result == "failed":
        failed = sorted({task.task_id for task in situation.tasks if task.state == "failed"})
        why = sorted({f"{said.rstrip('.')}." for said in situation.failed.values()})[:3]
        return [
            Problem(
                severity="error",
                kind="failed",
                title="The last run failed",
                detail=" ".join([f"The task {', '.join(failed) or 'before it'} failed.", *why, stands]),
                next_step="Open the run, read the failed task's log, then clear the task or trigger the DAG again.",
                run_id=run.run_id if run else "",
            )
        ]
    return []


def _of_verification(situation: Situation) -> list[Problem]:
    found = situation.verification
    if found is None or not found.has_ended or found.state == "success":
        return []
    if not found.broken:
        failed = "The last verification failed" if found.warnings else "The last verification did not come to an end"
        step = "Open the run and read the log of its task verify."
        return [_verified(found, severity="warning", kind="unverified", title=failed, next_step=step)]
    if not situation.is_invalid:
        old = "Verification found errors in an earlier generation"
        return [_verified(found, severity="warning", kind="invalid", title=old, next_step="Verify again.")]
    step = "Run the DAG: it puts right what somebody else changed. Rebuild shards that stay broken. Then verify again."
    title = f"Verification found {_some(found.errors, 'error')} in what is published"
    return [_verified(found, severity="error", kind="invalid", title=title, next_step=step)]


def _verified(found: Verification, *, severity: Severity, kind: str, title: str, next_step: str) -> Problem:
    said = [f"{failure['where']}: {failure['message']}." for failure in found.failures[:2]]
    more = found.errors + found.warnings - len(said)
    return Problem(
        severity=severity,
        kind=kind,
        title=title,
        detail=" ".join([*said, f"And {more:,} more." if more > 0 else ""]).strip(),
        next_step=next_step,
        run_id=found.run_id,
        run_dag_id=found.dag_id,
    )


def _some(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' if number != 1 else ''}"


def _of_dag(situation: Situation) -> list[Problem]:
    dag = situation.dag
    if dag is None or dag.is_stale:
        return [
            Problem(
                severity="error",
                kind="dag-gone",
                title="The DAG that publishes this sitemap is gone",
                detail="Airflow no longer finds it in any DAG file, so the sitemap is not kept up to date.",
                next_step="Restore the DAG file, or delete the sitemap's files if it is no longer wanted.",
            )
        ]
    found = []
    if dag.has_import_errors:
        found.append(
            Problem(
                severity="error",
                kind="dag-broken",
                title="The DAG's file has import errors",
                detail="Airflow runs the last version that it could read, or none.",
                next_step="Read the import error on Airflow's home page and mend the file.",
            )
        )
    if dag.is_paused:
        found.append(
            Problem(
                severity="warning",
                kind="paused",
                title="The DAG is paused",
                detail="Nothing keeps this sitemap up to date.",
                next_step="Unpause the DAG when the sitemap is to follow its source again.",
            )
        )
    return found


def usual_gap_s(points: Sequence[Point]) -> float | None:
    """The usual time between two runs in seconds: the median of the last thirty. None of fewer than four."""
    moments = [moment(p.at).timestamp() for p in points[-31:]]
    gaps = [later - earlier for earlier, later in itertools.pairwise(moments)]
    return median(gaps) if len(gaps) >= 3 else None


def _of_age(situation: Situation) -> list[Problem]:
    usual = usual_gap_s(situation.points)
    if usual is None or (situation.dag and situation.dag.is_paused) or last_result(situation) == "running":
        return []
    age = (situation.now - moment(situation.points[-1].at)).total_seconds()
    if age <= max(LATE * usual, MIN_LATE_S):
        return []
    return [
        Problem(
            severity="warning",
            kind="late",
            title=f"No run has finished for {duration(age)}",
            detail=f"Runs usually finish every {duration(usual)}.",
            next_step="See whether the scheduler runs and whether the DAG's schedule or source assets still trigger it.",
        )
    ]


def duration(seconds: float) -> str:
    """A time for people in one unit: ``3 hours``."""
    for size, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            number = round(seconds / size)
            return f"{number:,} {name}{'s' if number != 1 else ''}"
    return f"{round(seconds)} seconds"


def _of_dropped(situation: Situation) -> list[Problem]:
    report = situation.report
    dropped, rows = sum(report["rows_dropped"].values()), report["rows"]
    if not rows or not dropped:
        return []
    rule, number = max(report["rows_dropped"].items(), key=lambda item: item[1])
    says = f": {RULES[rule].text}" if rule in RULES else ""
    severe = dropped > rows * MANY_DROPPED
    return [
        Problem(
            severity="warning" if severe else "info",
            kind="dropped",
            title=f"{dropped:,} of {rows:,} rows are not in the sitemap ({dropped / rows:.2%})",
            detail=f"Most break the rule {rule} ({number:,} rows){says}.",
            next_step="Mend these rows in the source; the samples under “Rows that broke a rule” show which.",
        )
    ]


def _of_limits(report: Mapping[str, Any]) -> list[Problem]:
    return [
        Problem(
            severity="warning",
            kind="limit",
            title=f"{gauge['name']}: {gauge['used']:,} of {gauge['limit']:,} {gauge['unit']}",
            detail=gauge["source"],
            next_step=gauge["next_step"],
        )
        for gauge in gauges(report)
        if gauge["used"] >= gauge["limit"] * NEAR and gauge["warns"]
    ]


def _of_drift(report: Mapping[str, Any]) -> list[Problem]:
    drift = report["drift"]
    if not drift:
        return []
    return [
        Problem(
            severity="warning",
            kind="drift",
            title=f"Somebody else changed {len(drift):,} published file{'s' if len(drift) != 1 else ''}",
            detail=" ".join(drift[:3]) + (" …" if len(drift) > 3 else ""),
            next_step="Runs put these files right again; find out who else writes to this address.",
        )
    ]


def _of_warnings(report: Mapping[str, Any]) -> list[Problem]:
    return [
        Problem(severity="info" if w.startswith(ALLOWED) else "warning", kind="warning", title=w)
        for w in report["warnings"][:20]
    ]
