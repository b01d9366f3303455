"""Progress of a run, from its task instances, the numbers that its tasks pushed, and the events that it emitted. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import BeforeValidator

from airflow_sitemaps.operators.facts import FAILED, PLAN_FACTS, REFUSED, VERIFIED, WRITTEN
from airflow_sitemaps.plugin.dag_profiles import KINDS
from airflow_sitemaps.plugin.dag_runs import ENDED, RETURNED, RunState, TaskState
from airflow_sitemaps.plugin.dag_runs import FAILED as FAILED_STATES
from airflow_sitemaps.plugin.events import Event
from airflow_sitemaps.plugin.pages.findings import Issue, PublishedReport, VerificationRun, issues_of
from airflow_sitemaps.plugin.pages.outcomes import GuardRefusal, refusals_of, why
from airflow_sitemaps.plugin.pages.run_table import trigger_of
from airflow_sitemaps.plugin.readings import (
    Counts,
    ForeignModel,
    Moment,
    StrictModel,
    Texts,
    Whole,
    integer,
    items,
    mapping,
    text,
)

KEYS: Final = (FAILED, PLAN_FACTS, REFUSED, VERIFIED, WRITTEN)
"""XCom keys of sitemap tasks that the progress needs; of planning tasks it needs what they returned, too."""

XComRow = tuple[str, int, str, Any]
"""Task, map index, key and value."""


class PlanSection(ForeignModel):
    """A section of a plan. ``actions`` and ``reasons`` are numbers of shards."""

    actions: Counts = {}
    reasons: Counts = {}
    rows: Whole = 0
    rows_to_read: Whole = 0
    gone: Whole = 0


class PlanNumbers(ForeignModel):
    """The numbers of a plan. ``lines`` explain it."""

    key: Annotated[str | None, BeforeValidator(lambda value: text(value) or None)] = None
    base_generation: Whole = 0
    rows_to_read: Whole = 0
    batches: Annotated[int, BeforeValidator(lambda value: len(items(value)))] = 0
    changes: Annotated[bool, BeforeValidator(bool)] = False
    sections: Annotated[
        dict[str, PlanSection],
        BeforeValidator(lambda value: {name: PlanSection.read(part) for name, part in mapping(value).items()}),
    ] = {}
    warnings: Texts = []
    lines: Texts = []
    more_lines: Whole = 0


class TaskStep(StrictModel):
    """A sitemap task of a run, unless it is mapped."""

    task_id: str
    kind: str
    state: str
    tries: int
    start: Moment | None
    end: Moment | None


class BatchProgress(ForeignModel):
    """One batch of the write task. Its numbers are None until it is written."""

    task_id: str
    number: int
    label: str
    state: str
    tries: int
    start: Moment | None
    end: Moment | None
    rows_planned: int | None
    rows: Whole | None = None
    urls: Whole | None = None
    dropped: Whole | None = None
    bytes: Whole | None = None


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
    refused: list[GuardRefusal]
    batches: list[BatchProgress]
    speed: Speed


class RunReport(StrictModel):
    """The report of a run for one sitemap."""

    group_id: str
    at: str
    report: PublishedReport
    issues: list[Issue]


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
    as_of: Moment


def progress(
    run: RunState, tasks: Sequence[TaskState], xcoms: Sequence[XComRow], now: datetime, events: Sequence[Event] = ()
) -> RunProgress:
    """Return the run and, for each group with sitemap tasks, its steps, batches, speed and remaining work."""
    groups: dict[str, list[TaskState]] = {}
    for task in tasks:
        groups.setdefault(task.group_id, []).append(task)
    return RunProgress(
        dag_id=run.dag_id,
        run_id=run.run_id,
        state=run.state,
        trigger=trigger_of(run),
        dry_run=run.is_dry,
        start=run.start,
        end=run.end,
        conf={name: run.conf[name] for name in list(run.conf)[:50]},
        groups=[_group(name, members, xcoms, now) for name, members in sorted(groups.items())],
        reports=[
            RunReport(
                group_id=event.summary.group_id,
                at=event.summary.at,
                report=event.report,
                issues=issues_of(event.report, event.settings),
            )
            for event in events
        ],
        as_of=now,
    )


def _group(name: str, tasks: Sequence[TaskState], xcoms: Sequence[XComRow], now: datetime) -> RunGroup:
    ids = {task.task_id for task in tasks}
    mine = [row for row in xcoms if row[0] in ids]
    pushed = next((mapping(value) for _, _, key, value in mine if key == PLAN_FACTS), {})
    plan = PlanNumbers.read(pushed) if pushed else None
    planned = items(pushed.get("batches"))
    written = {(task, index): mapping(value) for task, index, key, value in mine if key == WRITTEN}
    batches = [task for task in tasks if task.kind == "write" and task.map_index >= 0]
    verified = {task: value for task, _, key, value in mine if key == VERIFIED}
    labels = _labels(mine)
    steps = sorted((task for task in tasks if task not in batches), key=_place)
    return RunGroup(
        group_id=name,
        steps=[TaskStep(**{field: getattr(task, field) for field in TaskStep.model_fields}) for task in steps],
        plan=plan,
        verifications=[VerificationRun.of(t, verified.get(t.task_id)) for t in tasks if t.kind == "verify"],
        failed=_failures(mine),
        refused=[refusal for _, _, key, value in mine if key == REFUSED for refusal in refusals_of(value)],
        batches=[
            BatchProgress.read(
                written.get((task.task_id, task.map_index)),
                task_id=task.task_id,
                number=task.map_index,
                label=task.label or labels.get(task.map_index) or f"batch {task.map_index + 1}",
                state=task.state,
                tries=task.tries,
                start=task.start,
                end=task.end,
                rows_planned=integer(planned[task.map_index]) if task.map_index < len(planned) else None,
            )
            for task in batches
        ],
        speed=_speed(batches, plan, list(written.values()), now),
    )


def _failures(mine: Sequence[XComRow]) -> dict[str, str]:
    """Return why tasks failed, by task. Each different reason of the batches of one task stands once, with a batch."""
    failed: dict[str, dict[str, str]] = {}
    for task, index, key, value in sorted(mine, key=lambda row: row[:2]):
        if key == FAILED and (said := why(value)):
            failed.setdefault(task, {}).setdefault(said, f"Batch {index + 1}: " if index >= 0 else "")
    return {task: "\n".join(batch + said for said, batch in reasons.items()) for task, reasons in failed.items()}


def _place(task: TaskState) -> tuple[int, str]:
    """Return a sort key: the order in which tasks run."""
    return list(KINDS.values()).index(task.kind), task.task_id


def _labels(mine: Sequence[XComRow]) -> dict[int, str]:
    """Return the names of batches by number, as planned: Airflow names a batch only when it runs."""
    returned = next((items(value) for _, index, key, value in mine if key == RETURNED and index < 0), [])
    return {number: text(mapping(reference).get("label")) for number, reference in enumerate(returned)}


def _speed(
    batches: Sequence[TaskState], plan: PlanNumbers | None, written: Sequence[Mapping[str, Any]], now: datetime
) -> Speed:
    """Return the batches and rows done and left, and the URLs per second since the first batch began."""
    done = [task for task in batches if task.state == "success"]
    starts = [task.start for task in batches if task.start]
    ended = all(task.state in ENDED for task in batches)
    until = max((task.end for task in batches if task.end), default=now) if ended else now
    elapsed = max(0.0, (until - min(starts)).total_seconds()) if starts else 0.0
    rows, urls = (sum(integer(w.get(name)) for w in written) for name in ("rows", "urls"))
    to_read = plan.rows_to_read if plan is not None else None
    share = rows / to_read if to_read else (len(done) / len(batches) if batches else 0.0)
    running = bool(starts) and not ended
    return Speed(
        batches=len(batches),
        done=len(done),
        failed=sum(task.state in FAILED_STATES for task in batches),
        running=sum(task.state == "running" for task in batches),
        rows=rows,
        rows_to_read=to_read,
        urls=urls,
        elapsed_s=round(elapsed, 1),
        urls_a_second=round(urls / elapsed) if elapsed > 0 and urls else None,
        seconds_left=round(elapsed * (1 - share) / share) if running and 0 < share < 1 else None,
    )
