"""The table of runs of a sitemap's publishing and rollback tasks: result, reason and trigger of each run."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.plugin import dag_runs, events, outcomes
from airflow_sitemaps.plugin.events import iso
from airflow_sitemaps.plugin.responses import failed_tasks

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy.orm import Session

    from airflow_sitemaps.plugin.asset_tasks import AssetTasks, TaskKey
    from airflow_sitemaps.plugin.dag_runs import RunState, TaskState
    from airflow_sitemaps.plugin.event_payload import RunSummary
    from airflow_sitemaps.plugin.outcomes import Outcome, Recent
    from airflow_sitemaps.plugin.overview import Overview

MAX_RUNS: Final = 100
"""Largest number of runs in one response."""
MAX_FAILURES: Final = 200
"""Largest number of failed runs that the charts show."""
TRIGGERS: Final[Mapping[str, str]] = {
    "timetable": "schedule",
    "asset": "asset event",
    "rest_api": "REST API",
    "cli": "command line",
    "operator": "another DAG",
    "ui": "user interface",
    "backfill": "backfill",
    "test": "dag.test()",
}
"""Text for each kind of trigger of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    """A page of runs with the data that describes them.

    Attributes:
        runs: The runs with their publishing task and its kind, newest first.
        recent: Their sitemap tasks, and what these pushed.
        summaries: Summaries of the events that published runs emitted, by (DAG, run ID).
        before: Number of URLs of the run before each published one, by (DAG, run ID).
    """

    runs: Sequence[tuple[RunState, str, str]]
    recent: Recent
    summaries: Mapping[tuple[str, str], RunSummary]
    before: Mapping[tuple[str, str], int]


def run_table(
    session: Session, overview: Overview, readable: Collection[str], *, limit: int, before: int | None = None
) -> dict[str, Any]:
    """Return a page of the table of runs, newest first.

    Args:
        readable: DAGs that the user may read.
        before: Return only runs with a lower serial number. Default: no limit.
    """
    kinds = _kinds(overview.tasks, overview.dag_id)
    newest = dag_runs.recent_runs(session, {dag_id for dag_id, _ in kinds}, limit + 1, before=before)
    runs = [(run, t, kind) for (d, t), kind in kinds.items() for run in newest.get(d, ())]
    runs.sort(key=lambda item: -item[0].number)
    shown = runs[:limit]
    page = _page(session, overview, readable, shown)
    rows = [_row(page, run, task_id, kind) for run, task_id, kind in shown]
    return {"runs": rows, "before": shown[-1][0].number if len(runs) > limit else None}


def _kinds(tasks: AssetTasks, last_dag: str) -> dict[TaskKey, str]:
    """Return the kind, publish or rollback, of each task whose runs are in the table, by (DAG, task)."""
    kinds = {**dict.fromkeys(tasks.publish, "publish"), **dict.fromkeys(tasks.rollback, "rollback")}
    return kinds or ({(last_dag, ""): "publish"} if last_dag else {})


def _page(
    session: Session, overview: Overview, readable: Collection[str], runs: Sequence[tuple[RunState, str, str]]
) -> _Page:
    history = events.history(session, [overview.asset.id], dags=readable, limit=events.MAX_HISTORY)[overview.asset.id]
    earlier = {(now.dag_id, now.run_id): was.urls for was, now in itertools.pairwise(history)}
    summaries = {(summary.dag_id, summary.run_id): summary for summary in history}
    by_dag: dict[str, list[RunState]] = {}
    for run, _, _ in runs:
        by_dag.setdefault(run.dag_id, []).append(run)
    recent = outcomes.recent(session, by_dag, events=history)
    return _Page(runs=runs, recent=recent, summaries=summaries, before=earlier)


def _result(run: RunState, task: TaskState | None) -> str:
    """Return the state of a run that has no outcome."""
    if run.is_active and not (task is not None and task.has_ended):
        return run.state
    if run.is_dry:
        return "planned" if run.state == "success" else "failed"
    return "failed" if run.state == "failed" and task is None else "skipped"


def _row(page: _Page, run: RunState, task_id: str, kind: str) -> dict[str, Any]:
    key = (run.dag_id, run.run_id)
    summary = page.summaries.get(key)
    task = page.recent.task(run, task_id)
    if kind == "rollback":
        outcome = None
        result = "failed" if task is not None and task.state in dag_runs.FAILED else _result(run, task)
    else:
        outcome = outcomes.run_outcome(run, task_id, page.recent, summary)
        result = outcome.result if outcome is not None else _result(run, task)
    if summary is not None and result in ("published", "skipped"):
        result = "unchanged" if summary.result == "unchanged" else "published"
    return {
        "number": run.number,
        "dag_id": run.dag_id,
        "run_id": run.run_id,
        "kind": kind,
        "state": run.state,
        "result": result,
        "trigger": trigger_of(run),
        "start": _time(run.start or run.queued_at),
        "end": _time(run.end),
        "seconds": run.seconds,
        "generation": summary.generation if summary else None,
        "urls": summary.urls if summary else None,
        "urls_delta": summary.urls - page.before[key] if summary and key in page.before else None,
        "shards_written": summary.created + summary.rewritten + summary.repaired if summary else None,
        "dropped": summary.dropped if summary else None,
        "reason": _reason(outcome),
        "failed_tasks": failed_tasks(outcome.failed_tasks if outcome else ()),
    }


def _reason(outcome: Outcome | None) -> str:
    if outcome is None:
        return ""
    return " ".join([*(refusal.message for refusal in outcome.refusals), *outcome.reasons])[:500]


def trigger_of(run: RunState) -> str:
    """Return what triggered a run: a user, the schedule, an asset event and so on."""
    if run.user:
        return run.user
    return TRIGGERS.get(run.triggered_by, run.triggered_by or run.run_type)


def _time(moment: datetime | None) -> str | None:
    return iso(moment) if moment is not None else None


def failed_runs(session: Session, overview: Overview, since: str) -> list[dict[str, Any]]:
    """Return the runs that published nothing because they failed or were refused, oldest first, for the charts.

    Args:
        since: Return only runs that ended at this time or later, ISO 8601. Empty means all runs.
    """
    newest = dag_runs.recent_runs(session, overview.tasks.publishers, MAX_FAILURES)
    runs = [(run, t, "publish") for d, t in overview.tasks.publish for run in newest.get(d, ()) if run.end]
    failing = [(run, t, kind) for run, t, kind in runs if run.state == "failed" and _time(run.end) >= since]  # type: ignore[operator]
    by_dag = {dag_id: [run for run, _, _ in failing if run.dag_id == dag_id] for dag_id in newest}
    recent = outcomes.recent(session, by_dag)
    results = [outcomes.run_outcome(run, task_id, recent) for run, task_id, _ in failing]
    rows = [
        {
            "at": _time(outcome.run.end) or "",
            "dag_id": outcome.run.dag_id,
            "run_id": outcome.run.run_id,
            "result": outcome.result,
            "seconds": outcome.run.seconds,
        }
        for outcome in results
        if outcome is not None and outcome.result in ("refused", "failed")
    ]
    return sorted(rows, key=lambda row: str(row["at"]))[-MAX_FAILURES:]
