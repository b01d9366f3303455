"""The problems of a sitemap, each with its next step. This module does no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from airflow_sitemaps.plugin.headroom import gauges
from airflow_sitemaps.plugin.snapshot import Publisher, Snapshot, check_of
from airflow_sitemaps.protocol.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_sitemaps.plugin.outcomes import Outcome
    from airflow_sitemaps.plugin.verifications import Verification

Severity = Literal["error", "warning", "info"]

MANY_DROPPED: Final = 0.01
"""Fraction of the rows above which dropped rows cause a warning. It is the default of the guard ``max_dropped``."""
NEAR: Final = 0.8
"""Fraction of a limit from which usage causes a warning."""
ALLOWED: Final = "allowed: "
"""Prefix of a report's warning about an override. Such a warning is expected, because the user set the override."""
SHOWN: Final = 3
"""Largest number of reasons, files or findings that one problem names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A condition that needs attention.

    Attributes:
        severity: ``error``, ``warning`` or ``info``.
        kind: Stable name, for tests and styles.
        title: The problem in one sentence without a full stop.
        detail: The facts, in sentences. Default: empty.
        next_step: What to do. Default: empty.
        permits: Values of ``allow`` that let one run pass. Default: none.
        dag_id: DAG that the links open. Default: empty, no link.
        run_id: Run that the links open. Default: empty, no link.
        failed_tasks: Tasks whose logs contain details, each as (task, map index). Default: none.
    """

    severity: Severity
    kind: str
    title: str
    detail: str = ""
    next_step: str = ""
    permits: tuple[str, ...] = ()
    dag_id: str = ""
    run_id: str = ""
    failed_tasks: tuple[tuple[str, int], ...] = ()


def problems(snapshot: Snapshot) -> list[Problem]:
    """Return every problem, the most severe first."""
    every = [
        *_of_publishers(snapshot),
        *_of_outcomes(snapshot),
        *_of_verification(snapshot),
        *_of_freshness(snapshot),
        *_of_rollback(snapshot),
        *_of_report(snapshot.report),
    ]
    order = {"error": 0, "warning": 1, "info": 2}
    return sorted(every, key=lambda problem: order[problem.severity])


def is_warned(report: Mapping[str, Any]) -> bool:
    """Return whether a report needs attention: many dropped rows, drift, usage close to a limit, or a warning."""
    return any(problem.severity == "warning" for problem in _of_report(report))


def _of_outcomes(snapshot: Snapshot) -> list[Problem]:
    of_outcomes = []
    for publisher in snapshot.publishers:
        outcome = publisher.outcome
        if outcome is not None and outcome.result == "refused":
            of_outcomes.append(_refused(snapshot, outcome))
        elif outcome is not None and outcome.result == "failed":
            of_outcomes.append(_failed(snapshot, publisher, outcome))
    return of_outcomes


def _refused(snapshot: Snapshot, outcome: Outcome) -> Problem:
    guards = sorted({refusal.guard for refusal in outcome.refusals if refusal.guard})
    named = f" ({', '.join(guards)})" if guards else ""
    blocked = "Some sections blocked by a safety check" if outcome.is_partial else "Last run blocked by a safety check"
    said = [*(refusal.message for refusal in outcome.refusals), *outcome.reasons[:SHOWN]]
    return Problem(
        severity="error",
        kind="refused",
        title=f"{blocked}{named}{'; the others are published' if outcome.is_partial else ''}",
        detail=_joined([*said, _live(snapshot, outcome)]),
        next_step="Check the source's data. If the change is intended, override the check for one run; otherwise correct the data.",
        permits=tuple(refusal.permit for refusal in outcome.refusals if refusal.permit),
        dag_id=outcome.run.dag_id,
        run_id=outcome.run.run_id,
        failed_tasks=tuple(outcome.failed_tasks),
    )


def _failed(snapshot: Snapshot, publisher: Publisher, outcome: Outcome) -> Problem:
    tasks = sorted({task_id for task_id, _ in outcome.failed_tasks})
    said = f"The task {', '.join(tasks)} failed" if tasks else "A task before the sitemap's own tasks failed"
    run = f"Last run of {publisher.dag.dag_id}" if len(snapshot.publishers) > 1 else "Last run"
    return Problem(
        severity="error",
        kind="failed",
        title=f"{run} failed for some sections; the others are published" if outcome.is_partial else f"{run} failed",
        detail=_joined([said, *outcome.reasons[:SHOWN], _live(snapshot, outcome)]),
        next_step="Read the failed task's log. Then clear the task, or trigger the DAG again.",
        dag_id=outcome.run.dag_id,
        run_id=outcome.run.run_id,
        failed_tasks=tuple(outcome.failed_tasks),
    )


def _live(snapshot: Snapshot, outcome: Outcome) -> str:
    return "The numbers below are of the last run that succeeded" if outcome.is_partial else _still_live(snapshot)


def _still_live(snapshot: Snapshot) -> str:
    if not snapshot.summaries:
        return "Nothing has been published yet"
    return f"Generation {snapshot.summaries[-1].generation:,} is still live"


def _joined(sentences: Sequence[str]) -> str:
    """Join sentences, each ending with exactly one full stop."""
    return " ".join(f"{sentence.rstrip('. ')}." for sentence in sentences if sentence.strip(". "))


def _of_verification(snapshot: Snapshot) -> list[Problem]:
    verification, check = snapshot.verification, check_of(snapshot)
    if verification is None or check not in ("incomplete", "invalid", "invalid_before"):
        return []
    if check == "incomplete":
        strict = "Last verification failed because of warnings" if verification.warnings else ""
        title = strict or "Last verification did not finish"
        return [_verified(verification, "warning", "unverified", title, "Read the log of the verifying task.")]
    if check == "invalid_before":
        title = "Verification found errors before the last run; that run may have corrected them"
        return [_verified(verification, "warning", "invalid", title, "Verify again.")]
    title = f"Verification found {_counted(verification.errors, 'error')} in the published files"
    step = "Trigger the publishing DAG: it restores files that were modified outside Airflow. Rebuild shards that stay invalid. Then verify again."
    return [_verified(verification, "error", "invalid", title, step)]


def _verified(found: Verification, severity: Severity, kind: str, title: str, next_step: str) -> Problem:
    said = [f"{failure['where']}: {failure['message']}" for failure in found.failures[:2]]
    more = found.errors + found.warnings - len(said)
    return Problem(
        severity=severity,
        kind=kind,
        title=title,
        detail=_joined([*said, f"{more:,} more" if more > 0 and said else ""]),
        next_step=next_step,
        dag_id=found.dag_id,
        run_id=found.run_id,
        failed_tasks=((found.task_id, -1),),
    )


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' if number != 1 else ''}"


def _of_publishers(snapshot: Snapshot) -> list[Problem]:
    dags = {publisher.dag.dag_id: publisher.dag for publisher in snapshot.publishers}
    if not dags:
        return [
            Problem(
                severity="info",
                kind="orphaned",
                title="Orphaned: no DAG publishes this sitemap",
                detail="Its DAG was removed, or now publishes to another address. The published files are no longer updated.",
                next_step="Restore the DAG if the sitemap is still needed. Otherwise archive it here, and remove its files from the store.",
            )
        ]
    of_dags = [
        Problem(
            severity="error",
            kind="dag-broken",
            title=f"The file of the DAG {dag.dag_id} cannot be imported",
            detail="Airflow runs the last version that it could read.",
            next_step="Read the import error on Airflow's home page and correct the file.",
        )
        for dag in dags.values()
        if dag.has_import_errors
    ]
    if len(dags) > 1:
        of_dags.append(
            Problem(
                severity="warning",
                kind="several-publishers",
                title=f"{len(dags)} DAGs publish this sitemap: {', '.join(sorted(dags))}",
                detail="Each run replaces what the other DAG published.",
                next_step="Let one DAG publish it, or give each DAG's sitemap an address of its own.",
            )
        )
    if snapshot.paused:
        of_dags.append(
            Problem(
                severity="info",
                kind="paused",
                title="The DAG is paused" if len(dags) == 1 else "All its DAGs are paused",
                detail="The sitemap is not updated, and no next run is planned.",
                next_step="Unpause the DAG to update the sitemap again.",
            )
        )
    return of_dags


def _of_freshness(snapshot: Snapshot) -> list[Problem]:
    freshness = snapshot.freshness
    if freshness.state not in ("missed", "behind_schedule") or not snapshot.publishers:
        return []
    age, objective = duration(freshness.age_s or 0), duration(freshness.objective_s or 0)
    source = "set on the sitemap" if freshness.source == "sitemap" else "from the DAG's schedule"
    severe = freshness.state == "missed" and not snapshot.paused
    return [
        Problem(
            severity="error" if severe else "warning",
            kind="late",
            title=f"The published data is {age} old; the objective is {objective}",
            detail=f"The objective comes {source}."
            if freshness.source == "schedule"
            else f"The objective is {source}.",
            next_step="Unpause the DAG."
            if snapshot.paused
            else "Check that the scheduler runs, and that runs of the DAG start and succeed.",
        )
    ]


def duration(seconds: float) -> str:
    """Return a duration as text in one unit, such as ``3 hours``."""
    for size, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            return _counted(round(seconds / size), name)
    return _counted(round(seconds), "second")


def _of_rollback(snapshot: Snapshot) -> list[Problem]:
    run = snapshot.rollback_failed
    if run is None:
        return []
    return [
        Problem(
            severity="warning",
            kind="rollback-failed",
            title="The last rollback failed",
            detail=_joined([_still_live(snapshot)]),
            next_step="Read the log of the task that failed, then roll back again.",
            dag_id=run.dag_id,
            run_id=run.run_id,
        )
    ]


def _of_report(report: Mapping[str, Any]) -> list[Problem]:
    return [*_of_dropped(report), *_of_limits(report), *_of_drift(report), *_of_warnings(report)]


def _of_dropped(report: Mapping[str, Any]) -> list[Problem]:
    # Articles past their two days are not in the sitemap either, but nothing is wrong with them.
    faulty = {rule: number for rule, number in report["rows_dropped"].items() if rule != "news-age"}
    dropped, rows = sum(faulty.values()), report["rows"]
    if not rows or not dropped:
        return []
    rule, number = max(faulty.items(), key=lambda item: item[1])
    says = f" ({RULES[rule].text})" if rule in RULES else ""
    return [
        Problem(
            severity="warning" if dropped > rows * MANY_DROPPED else "info",
            kind="dropped",
            title=f"{dropped:,} of {_counted(rows, 'row')} {'are' if dropped != 1 else 'is'} not in the sitemap ({dropped / rows:.2%})",
            detail=f"The most frequent reason is the rule {rule}{says}: {_counted(number, 'row')}.",
            next_step="Correct these rows in the source; “Validation issues” below shows samples.",
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
    files = _counted(len(drift), "file")
    more = f"{len(drift) - SHOWN:,} more" if len(drift) > SHOWN else ""
    return [
        Problem(
            severity="warning",
            kind="drift",
            title=f"{files} {'were' if len(drift) != 1 else 'was'} modified outside Airflow",
            detail=_joined([*drift[:SHOWN], more, "The run restored the files that it found changed"]),
            next_step="Find out what else writes to this address.",
        )
    ]


def _of_warnings(report: Mapping[str, Any]) -> list[Problem]:
    return [
        Problem(severity="info" if w.startswith(ALLOWED) else "warning", kind="warning", title=_override(w))
        for w in report["warnings"][:20]
    ]


def _override(warning: str) -> str:
    """Return a report's warning. A warning about an override uses the page's terms."""
    return f"Override used: {warning.removeprefix(ALLOWED)}" if warning.startswith(ALLOWED) else warning
