"""Runs of a sitemap: the table of them, the columns of its history, and the progress of one."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

from sqlalchemy.orm import Session

from airflow_sitemaps.operators import FAILED, PLAN_FACTS, REFUSED, VERIFIED, WRITTEN
from airflow_sitemaps.plugin import dag_runs, events
from airflow_sitemaps.plugin.dag_profiles import KINDS, TaskKey
from airflow_sitemaps.plugin.dag_runs import ENDED, RETURNED, Pushed, RunKey, RunState, TaskState
from airflow_sitemaps.plugin.events import Event, RunSummary
from airflow_sitemaps.plugin.pages import Issue, PublishedReport, VerificationRun, issues_of, outcomes
from airflow_sitemaps.plugin.pages.outcomes import LINKS, FailedTask, PushedRefusal, RecentRuns, refusals_of
from airflow_sitemaps.plugin.pages.overview import Overview
from airflow_sitemaps.plugin.readings import (
    Moment,
    StrictModel,
    attributes,
    integer,
    iso,
    items,
    mapping,
    read_as,
    text,
)

MAX_RUNS: Final = 100
MAX_FAILURES: Final = 200
KEYS: Final = (FAILED, PLAN_FACTS, REFUSED, VERIFIED, WRITTEN)
"""XCom keys that the progress needs; of planning tasks it needs what they returned, too."""


class HistoryColumns(StrictModel):
    """Runs that published, oldest first, one column for each number. ``seconds`` is the DAG run's wall time, if known."""

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
    """One run in the table. ``urls_delta``: from the run before. ``reason``: why the run was refused or failed."""

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
    kinds: dict[TaskKey, Any] = dict.fromkeys(overview.tasks.publish, "publish")
    kinds |= dict.fromkeys(overview.tasks.rollback, "rollback")
    if not kinds and overview.dag_id:
        kinds = {(overview.dag_id, ""): "publish"}
    newest = dag_runs.recent_runs(session, {dag_id for dag_id, _ in kinds}, limit + 1, before=before)
    runs = [(run, task_id, kind) for (dag_id, task_id), kind in kinds.items() for run in newest.get(dag_id, ())]
    runs.sort(key=lambda item: -item[0].number)
    # A page ends after all tasks of a run: the next one begins with an earlier run.
    shown = [each for each in runs if each[0].number >= runs[:limit][-1][0].number]
    history = events.history(session, [overview.asset.id], dags=readable, limit=events.MAX_HISTORY)[overview.asset.id]
    pairs = [(was, (now.dag_id, now.run_id)) for was, now in itertools.pairwise(history)]
    earlier = {key: was.urls for was, key in pairs if key != (was.dag_id, was.run_id)}  # a run may publish twice
    summaries = {(summary.dag_id, summary.run_id): summary for summary in history}
    by_dag: dict[str, list[RunState]] = {}
    for run, _, _ in shown:
        by_dag.setdefault(run.dag_id, []).append(run)
    recent = outcomes.recent(session, by_dag, events=history)
    rows = [_row(run, task_id, kind, recent, summaries.get(run.key), earlier) for run, task_id, kind in shown]
    return RunTable(runs=rows, before=shown[-1][0].number if len(runs) > len(shown) else None)


def _row(
    run: RunState,
    task_id: str,
    kind: Any,
    recent: RecentRuns,
    summary: RunSummary | None,
    earlier: Mapping[RunKey, int],
) -> RunRow:
    outcome = outcomes.run_outcome(run, task_id, recent, summary) if kind == "publish" else None
    result: Any = outcome.result if outcome is not None else _state(run, recent.task(run, task_id), kind, summary)
    numbers: dict[str, Any] = {}
    if summary is not None:
        shards = summary.shards
        numbers = attributes(summary, "generation", "urls", "dropped")
        numbers["urls_delta"] = summary.urls - earlier[run.key] if run.key in earlier else None
        numbers["shards_written"] = shards.created + shards.rewritten + shards.repaired
    said = [*(refusal.message for refusal in outcome.refusals), *outcome.reasons] if outcome is not None else []
    return RunRow(
        **attributes(run, "number", "dag_id", "run_id", "state", "trigger", "end", "seconds"),
        kind=kind,
        result=result,
        start=run.start or run.queued_at,
        reason=" ".join(filter(None, said))[:500],
        failed_tasks=outcome.failed_tasks[:LINKS] if outcome is not None else (),
        **numbers,
    )


def _state(run: RunState, task: TaskState | None, kind: str, summary: RunSummary | None) -> str:
    """Return the state of a run that has no outcome: a rollback, a dry run, or one that has not ended or did nothing."""
    failed = run.state == "failed" if task is None else kind == "rollback" and task.state in dag_runs.FAILED
    if failed:
        return "failed"
    if run.is_active and not (task is not None and task.has_ended):
        return run.state
    if run.is_dry:
        return "planned" if run.state == "success" else "failed"
    if summary is not None:
        return "unchanged" if summary.result == "unchanged" else "published"
    return "skipped"


def history_of(
    session: Session, overview: Overview, readable: Collection[str], *, limit: int, before: int | None = None
) -> History:
    """Return the runs for the charts; only events with a lower ID than ``before``."""
    asset_id = overview.asset.id
    summaries = events.history(session, [asset_id], dags=readable, limit=limit, before=before)[asset_id]
    runs = dag_runs.runs_by_id(session, [(s.dag_id, s.run_id) for s in summaries])
    shards = {"shards": "total", **{name: name for name in ("created", "rewritten", "removed", "repaired")}}
    columns: dict[str, list[Any]] = {
        name: [getattr(s.shards, shards[name]) if name in shards else getattr(s, name) for s in summaries]
        for name in HistoryColumns.model_fields
        if name != "seconds"
    }
    columns["seconds"] = [run.seconds if (run := runs.get((s.dag_id, s.run_id))) else None for s in summaries]
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
    recent, rows = outcomes.recent(session, failing), []
    for run, task_id in recent.of_tasks(overview.tasks.publish):
        outcome = outcomes.run_outcome(run, task_id, recent)
        if outcome is not None and run.end is not None and outcome.result in ("refused", "failed"):
            fields = attributes(run, "dag_id", "run_id", "seconds")
            rows.append(FailedRun(at=iso(run.end), result=outcome.result, **fields))
    return sorted(rows, key=lambda row: row.at)[-MAX_FAILURES:]


class PlanSection(StrictModel):
    """A section of a plan. ``actions`` and ``reasons`` are numbers of shards."""

    actions: dict[str, int] = {}
    reasons: dict[str, int] = {}
    rows: int = 0
    rows_to_read: int = 0
    gone: int = 0


class PlanNumbers(StrictModel):
    """The numbers of a plan. ``lines`` explain it."""

    key: str | None = None
    base_generation: int = 0
    rows_to_read: int = 0
    batches: int = 0
    changes: bool = False
    sections: dict[str, PlanSection] = {}
    more_sections: int = 0
    warnings: list[str] = []
    lines: list[str] = []
    more_lines: int = 0


class TaskStep(StrictModel):
    """A sitemap task of a run."""

    task_id: str
    map_index: int
    kind: str
    state: str
    tries: int
    start: Moment | None
    end: Moment | None


class BatchProgress(TaskStep):
    """One batch of the write task. Its numbers are None until it is written."""

    label: str
    rows_planned: int | None
    rows: int | None = None
    urls: int | None = None
    dropped: int | None = None
    bytes: int | None = None


class Speed(StrictModel):
    """Completed and remaining batches and rows. ``rows_to_read`` is None without a plan."""

    batches: int
    done: int
    failed: int
    running: int
    rows: int
    rows_to_read: int | None
    urls: int
    elapsed_s: float
    urls_a_second: int | None
    seconds_left: int | None


class RunGroup(StrictModel):
    """One sitemap's tasks in a run. ``failed`` is the reason by task."""

    group_id: str
    steps: list[TaskStep]
    plan: PlanNumbers | None
    verifications: list[VerificationRun]
    failed: dict[str, str]
    refused: list[PushedRefusal]
    batches: list[BatchProgress]
    speed: Speed


class RunReport(StrictModel):
    """The report of a run for one sitemap."""

    group_id: str
    at: str
    report: PublishedReport
    issues: list[Issue]
    sections_left_out: int


class RunProgress(StrictModel):
    """A run: its steps, batches, speed, remaining work, and the reports of what it published."""

    dag_id: str
    run_id: str
    state: str
    trigger: str
    dry_run: bool
    start: Moment | None
    end: Moment | None
    conf: dict[str, Any]
    groups: list[RunGroup]
    reports: list[RunReport]


def progress(
    run: RunState, tasks: Sequence[TaskState], pushed: Pushed, now: datetime, events: Sequence[Event] = ()
) -> RunProgress:
    """Return the run and, for each group with sitemap tasks, its steps, batches, speed and remaining work."""
    groups: dict[str, list[TaskState]] = {}
    for task in tasks:
        groups.setdefault(task.group_id, []).append(task)
    # An event may have another group, of an earlier version of the DAG.
    group_of = {task.task_id: task.group_id for task in tasks}
    several = sum(task.kind == "plan" for task in tasks) > 1
    return RunProgress(
        **attributes(run, "dag_id", "run_id", "state", "trigger", "start", "end"),
        dry_run=run.is_dry,
        conf={name: run.conf[name] for name in list(run.conf)[:50]},
        groups=[_group(members, pushed, now, name if several else None) for name, members in sorted(groups.items())],
        reports=[
            RunReport(
                group_id=group_of.get(e.task_id, e.summary.group_id),
                at=e.summary.at,
                issues=issues_of(e.report, e.settings),
                **attributes(e, "report", "sections_left_out"),
            )
            for e in reversed(events)  # the last try first
        ],
    )


def _group(tasks: Sequence[TaskState], pushed: Pushed, now: datetime, own: str | None) -> RunGroup:
    """Return one group's part of a run. ``own`` is its name in permits, if the run has several sitemaps."""
    ids = {task.task_id for task in tasks}
    mine = {where: value for where, value in pushed.items() if where[2] in ids}
    facts = next((mapping(value) for (*_, key), value in mine.items() if key == PLAN_FACTS), {})
    planned = items(facts.get("batches"))
    plan = read_as(PlanNumbers, facts, batches=len(planned)) if facts else None
    batches = [task for task in tasks if task.kind == "write" and task.map_index >= 0]
    # The names of batches as planned: Airflow names a batch only when it runs.
    returned = next((items(value) for (*_, index, key), value in mine.items() if key == RETURNED and index < 0), [])
    labels = {number: text(mapping(reference).get("label")) for number, reference in enumerate(returned)}
    order = list(KINDS.values())
    steps = sorted((t for t in tasks if t not in batches), key=lambda t: (order.index(t.kind), t.task_id, t.map_index))
    return RunGroup(
        group_id=tasks[0].group_id,
        steps=[TaskStep(**attributes(task, *TaskStep.model_fields)) for task in steps],
        plan=plan,
        verifications=[VerificationRun.of(t, mine.get((*t.key, VERIFIED))) for t in tasks if t.kind == "verify"],
        failed=outcomes.reasons_of(mine),
        refused=[r for (*_, key), each in mine.items() if key == REFUSED for r in refusals_of(each, own) if r.message],
        batches=[
            read_as(
                BatchProgress,
                mine.get((*task.key, WRITTEN)),
                **attributes(task, *TaskStep.model_fields),
                label=task.label or labels.get(task.map_index) or f"batch {task.map_index + 1}",
                rows_planned=integer(planned[task.map_index]) if task.map_index < len(planned) else None,
            )
            for task in batches
        ],
        speed=_speed(batches, plan, [mapping(value) for (*_, key), value in mine.items() if key == WRITTEN], now),
    )


def _speed(
    batches: Sequence[TaskState], plan: PlanNumbers | None, written: Sequence[Mapping[str, Any]], now: datetime
) -> Speed:
    """Return the batches and rows done and left, and the URLs per second since the first batch began."""
    done = [task for task in batches if task.state == "success"]
    started_at = min((task.start for task in batches if task.start), default=None)
    ended = all(task.state in ENDED for task in batches)
    until = max((task.end for task in batches if task.end), default=now) if ended else now
    elapsed = max(0.0, (until - started_at).total_seconds()) if started_at else 0.0
    rows, urls = (sum(integer(w.get(name)) for w in written) for name in ("rows", "urls"))
    to_read = plan.rows_to_read if plan is not None else None
    share = rows / to_read if to_read else (len(done) / len(batches) if batches else 0.0)
    return Speed(
        batches=len(batches),
        done=len(done),
        failed=sum(task.state in dag_runs.FAILED for task in batches),
        running=sum(task.state == "running" for task in batches),
        rows=rows,
        rows_to_read=to_read,
        urls=urls,
        elapsed_s=round(elapsed, 1),
        urls_a_second=round(urls / elapsed) if elapsed > 0 and urls else None,
        seconds_left=round(elapsed * (1 - share) / share) if started_at and not ended and 0 < share < 1 else None,
    )
