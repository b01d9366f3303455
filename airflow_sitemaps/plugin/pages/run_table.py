"""The table of runs of a sitemap's publishing and rollback tasks, and the columns of its history."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal

from sqlalchemy.orm import Session

from airflow_sitemaps.plugin import dag_runs, events
from airflow_sitemaps.plugin.dag_profiles import AssetTasks, TaskKey
from airflow_sitemaps.plugin.dag_runs import RunKey, RunState, TaskState
from airflow_sitemaps.plugin.events import RunSummary
from airflow_sitemaps.plugin.pages import outcomes
from airflow_sitemaps.plugin.pages.outcomes import FailedTask, RecentRuns, RunOutcome
from airflow_sitemaps.plugin.pages.overview import Overview
from airflow_sitemaps.plugin.pages.problems import LINKS
from airflow_sitemaps.plugin.readings import Moment, StrictModel, iso

MAX_RUNS: Final = 100
MAX_FAILURES: Final = 200
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


class HistoryColumns(StrictModel):
    """Runs that published, oldest first, one column for each number.

    ``seconds`` is the wall time of the DAG run, or None if it is not known.
    """

    event: list[int]
    at: list[str]
    dag_id: list[str]
    run_id: list[str]
    result: list[str]
    action: list[str]
    generation: list[int]
    urls: list[int]
    shards: list[int]
    created: list[int]
    rewritten: list[int]
    removed: list[int]
    repaired: list[int]
    dropped: list[int]
    file_bytes: list[int]
    bytes_written: list[int]
    rows_read: list[int]
    seconds: list[float | None]


class FailedRun(StrictModel):
    """A run that published nothing, because it was refused or failed."""

    at: str
    dag_id: str
    run_id: str
    result: Literal["refused", "failed"]
    seconds: float | None


class History(StrictModel):
    """Runs for the charts. Pass ``before`` to get earlier runs; None if there are no earlier ones."""

    columns: HistoryColumns
    failures: list[FailedRun]
    before: int | None


class RunRow(StrictModel):
    """One run in the table of runs.

    ``urls_delta`` is the difference from the run before; ``reason`` is why the run was refused or failed.
    """

    number: int
    dag_id: str
    run_id: str
    kind: Literal["publish", "rollback"]
    state: str
    result: Literal["published", "unchanged", "refused", "failed", "planned", "skipped", "running", "queued"]
    trigger: str
    start: Moment | None
    end: Moment | None
    seconds: float | None
    generation: int | None = None
    urls: int | None = None
    urls_delta: int | None = None
    shards_written: int | None = None
    dropped: int | None = None
    reason: str = ""
    failed_tasks: Sequence[FailedTask] = ()


class RunTable(StrictModel):
    """Runs, newest first. Pass ``before`` to get earlier runs; None if there are no earlier ones."""

    runs: list[RunRow]
    before: int | None


def run_table(
    session: Session, overview: Overview, readable: Collection[str], *, limit: int, before: int | None = None
) -> RunTable:
    """Return a page of the table of runs, newest first; only runs with a lower serial number than ``before``."""
    kinds = _kinds(overview.tasks, overview.dag_id)
    newest = dag_runs.recent_runs(session, {dag_id for dag_id, _ in kinds}, limit + 1, before=before)
    runs = [(run, task_id, kind) for (dag_id, task_id), kind in kinds.items() for run in newest.get(dag_id, ())]
    runs.sort(key=lambda item: -item[0].number)
    shown = runs[:limit]
    history = events.history(session, [overview.asset.id], dags=readable, limit=events.MAX_HISTORY)[overview.asset.id]
    earlier = {(now.dag_id, now.run_id): was.urls for was, now in itertools.pairwise(history)}
    summaries = {(summary.dag_id, summary.run_id): summary for summary in history}
    recent = outcomes.recent(session, _by_dag(run for run, _, _ in shown), events=history)
    rows = [_row(run, task_id, kind, recent, summaries.get(run.key), earlier) for run, task_id, kind in shown]
    return RunTable(runs=rows, before=shown[-1][0].number if len(runs) > limit else None)


def _kinds(tasks: AssetTasks, last_dag: str) -> dict[TaskKey, Any]:
    """Return the kind, publish or rollback, of each task whose runs are in the table."""
    kinds = {**dict.fromkeys(tasks.publish, "publish"), **dict.fromkeys(tasks.rollback, "rollback")}
    return kinds or ({(last_dag, ""): "publish"} if last_dag else {})


def _by_dag(runs: Any) -> dict[str, list[RunState]]:
    by_dag: dict[str, list[RunState]] = {}
    for run in runs:
        by_dag.setdefault(run.dag_id, []).append(run)
    return by_dag


def _row(
    run: RunState,
    task_id: str,
    kind: Any,
    recent: RecentRuns,
    summary: RunSummary | None,
    earlier: Mapping[RunKey, int],
) -> RunRow:
    outcome = outcomes.run_outcome(run, task_id, recent, summary) if kind == "publish" else None
    result = outcome.result if outcome is not None else _state(run, recent.task(run, task_id), kind)
    if summary is not None and result in ("published", "skipped"):
        result = "unchanged" if summary.result == "unchanged" else "published"
    numbers: dict[str, int | None] = {}
    if summary is not None:
        shards = summary.shards
        numbers = {name: getattr(summary, name) for name in ("generation", "urls", "dropped")}
        numbers["urls_delta"] = summary.urls - earlier[run.key] if run.key in earlier else None
        numbers["shards_written"] = shards.created + shards.rewritten + shards.repaired
    return RunRow(
        number=run.number,
        dag_id=run.dag_id,
        run_id=run.run_id,
        kind=kind,
        state=run.state,
        result=result,
        trigger=trigger_of(run),
        start=run.start or run.queued_at,
        end=run.end,
        seconds=run.seconds,
        reason=_reason(outcome),
        failed_tasks=outcome.failed_tasks[:LINKS] if outcome is not None else (),
        **numbers,
    )


def _state(run: RunState, task: TaskState | None, kind: str) -> Any:
    """Return the state of a run that has no outcome."""
    if kind == "rollback" and task is not None and task.state in dag_runs.FAILED:
        return "failed"
    if run.is_active and not (task is not None and task.has_ended):
        return run.state
    if run.is_dry:
        return "planned" if run.state == "success" else "failed"
    return "failed" if run.state == "failed" and task is None else "skipped"


def _reason(outcome: RunOutcome | None) -> str:
    if outcome is None:
        return ""
    return " ".join([*(refusal.message for refusal in outcome.refusals), *outcome.reasons])[:500]


def trigger_of(run: RunState) -> str:
    """Return what triggered a run: a user, the schedule, an asset event and so on."""
    return run.user or TRIGGERS.get(run.triggered_by, run.triggered_by or run.run_type)


def history_of(
    session: Session, overview: Overview, readable: Collection[str], *, limit: int, before: int | None = None
) -> History:
    """Return the runs for the charts; only events with a lower ID than ``before``."""
    asset_id = overview.asset.id
    summaries = events.history(session, [asset_id], dags=readable, limit=limit, before=before)[asset_id]
    runs = dag_runs.runs_by_id(session, [(s.dag_id, s.run_id) for s in summaries])
    in_order = [runs.get((s.dag_id, s.run_id)) for s in summaries]
    shards = {"shards": "total", **{name: name for name in ("created", "rewritten", "removed", "repaired")}}
    columns: dict[str, list[Any]] = {
        name: [getattr(s.shards, shards[name]) if name in shards else getattr(s, name) for s in summaries]
        for name in HistoryColumns.model_fields
        if name != "seconds"
    }
    columns["seconds"] = [run.seconds if run is not None else None for run in in_order]
    return History(
        columns=HistoryColumns(**columns),
        failures=_failed_runs(session, overview, summaries[0].at if summaries else "") if before is None else [],
        before=summaries[0].event if len(summaries) == limit else None,
    )


def _failed_runs(session: Session, overview: Overview, since: str) -> list[FailedRun]:
    """Return the failed and refused runs that ended at ``since`` (ISO 8601; empty: any time) or later, oldest first."""
    newest = dag_runs.recent_runs(session, overview.tasks.publishers, MAX_FAILURES)
    failing = {
        dag_id: [run for run in runs if run.state == "failed" and run.end is not None and iso(run.end) >= since]
        for dag_id, runs in newest.items()
    }
    recent = outcomes.recent(session, failing)
    rows = [
        FailedRun(at=iso(run.end), dag_id=dag_id, run_id=run.run_id, result=outcome.result, seconds=run.seconds)
        for dag_id, task_id in overview.tasks.publish
        for run in failing.get(dag_id, ())
        if (outcome := outcomes.run_outcome(run, task_id, recent)) is not None
        and run.end is not None
        and (outcome.result in ("refused", "failed"))
    ]
    return sorted(rows, key=lambda row: row.at)[-MAX_FAILURES:]
