"""Outcomes of runs: what each run published, found unchanged, was refused, or failed to publish, section by section.

This is the only place that derives them. What was published is known from asset events, from the numbers that tasks
push, and from the reports in the store; the state of a task only says that a run ended without publishing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from airflow_sitemaps.errors import PartlyPublishedError, RequestError
from airflow_sitemaps.operators.facts import FAILED, REFUSED, SECTIONS, UNCHANGED
from airflow_sitemaps.operators.plan import PLAN_KEY
from airflow_sitemaps.plugin import dag_runs
from airflow_sitemaps.plugin.event_payload import items, mapping, moment_of, text, texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy.orm import Session

    from airflow_sitemaps.plugin.asset_tasks import TaskKey
    from airflow_sitemaps.plugin.dag_runs import RunState, TaskState
    from airflow_sitemaps.plugin.event_payload import RunSummary

RECENT: Final = 6
"""Number of newest runs to read of each DAG."""
RETURNED: Final = "return_value"

Activity = Literal["", "running", "planning", "queued"]
Result = Literal["published", "unchanged", "refused", "failed"]
WORST: Final[Sequence[Result]] = ("refused", "failed", "published", "unchanged")
"""Results, the most severe first."""
GOOD: Final = frozenset({"published", "unchanged"})

BY_HAND: Final = "The run or its publishing task was marked as successful by hand: it published nothing"
TIMED_OUT: Final = "Airflow ended the run before it published (dagrun_timeout), and skipped the tasks that were left"
MARKED: Final = "The run was marked as failed before it published"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A guard that refused a run.

    Attributes:
        guard: Name of the guard; empty for a refusal without a guard.
        section: Section that it concerns.
        message: The reason.
        permit: Value of ``allow`` that lets one run pass; empty if none does.
    """

    guard: str
    section: str
    message: str
    permit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one run did for a sitemap.

    Attributes:
        result: The worst result of its sections.
        at: Time of the result. Outcomes are ordered by it, and not by the start of their runs.
        read_at: Time at which the run began to read its data.
        run: The DAG run; a run without an ID for an outcome that only the store knows.
        task_id: The publishing task. Default: empty.
        sections: Results by section. Default: none.
        others: Result of the sections that ``sections`` does not name. Default: None, the run says nothing of them.
        messages: Reasons by section. Default: none.
        failed_tasks: Failed tasks and batches of its group, each as (task, map index). Default: none.
        refusals: The guards that refused. Default: none.
        reasons: The tasks' own reasons for failing, without repetition. Default: none.
        store_run: Identifier of a refused run in the store, which holds what it would have published. Default: empty.
        is_partial: Whether the run published some sections and failed because of others. Default: False.
        is_misnamed: Whether the run's request has a name that does not exist, and so says nothing of any section.
            Default: False.
    """

    result: Result
    at: datetime
    read_at: datetime
    run: RunState
    task_id: str = ""
    sections: Mapping[str, Result] = field(default_factory=dict)
    others: Result | None = None
    messages: Mapping[str, str] = field(default_factory=dict)
    failed_tasks: Sequence[tuple[str, int]] = ()
    refusals: Sequence[Refusal] = ()
    reasons: Sequence[str] = ()
    store_run: str = ""
    is_partial: bool = False
    is_misnamed: bool = False

    def of_section(self, name: str) -> Result | None:
        """Return the result of a section, or None if the run says nothing of it."""
        return self.sections.get(name, self.others)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recent:
    """Runs of some DAGs with their sitemap tasks, and what those tasks pushed.

    Attributes:
        runs: The newest runs of each DAG, newest first, and earlier runs that may still count.
        tasks: Tasks of those runs, and their failed batches, by (DAG, run ID).
        pushed: XCom values by (DAG, run ID, task, key).
    """

    runs: Mapping[str, Sequence[RunState]]
    tasks: Mapping[tuple[str, str], Sequence[TaskState]]
    pushed: Mapping[tuple[str, str, str, str], Any]

    def task(self, run: RunState, task_id: str) -> TaskState | None:
        """Return one task of a run, or None if the run has no such task."""
        tasks = self.tasks.get((run.dag_id, run.run_id), ())
        return next((task for task in tasks if task.task_id == task_id and task.map_index < 0), None)


def recent(
    session: Session,
    runs: Mapping[str, Sequence[RunState]],
    *,
    events: Iterable[RunSummary] = (),
) -> Recent:
    """Return runs with their sitemap tasks and what these pushed.

    Args:
        events: Events of runs. What the tasks that emitted them pushed is not read. Default: none.
    """
    emitted = {(event.dag_id, event.run_id, event.group_id): event for event in events}
    states = {(run.dag_id, run.run_id): run.state for members in runs.values() for run in members}
    unmapped = dag_runs.sitemap_tasks(session, list(states), batches=False)
    broken = sorted({(t.dag_id, t.run_id) for t in unmapped if t.kind == "publish" and _may_have_failed(t, states)})
    batches = dag_runs.sitemap_tasks(session, broken, states=["failed"]) if broken else []
    tasks: dict[tuple[str, str], list[TaskState]] = {}
    for task in [*unmapped, *(batch for batch in batches if batch.map_index >= 0)]:
        tasks.setdefault((task.dag_id, task.run_id), []).append(task)
    publishing = [
        task
        for task in unmapped
        if task.kind == "publish"
        and task.has_ended
        and not (task.state == "success" and _is_of(task, emitted.get((task.dag_id, task.run_id, task.group_id))))
    ]
    pushed = dag_runs.pushed_by(session, publishing, (FAILED, REFUSED, UNCHANGED, RETURNED))
    asked = dict.fromkeys((task.dag_id, task.run_id) for task in publishing)
    others = [task for key in asked for task in tasks[key] if task.kind in ("plan", "write")]
    pushed.update(dag_runs.pushed_by(session, others, (FAILED, REFUSED, SECTIONS, PLAN_KEY)))
    return Recent(runs=runs, tasks=tasks, pushed=pushed)


def _is_of(publish: TaskState, event: RunSummary | None) -> bool:
    """Return whether the last try of a publishing task emitted an event. An earlier try may have emitted it."""
    return event is not None and (publish.start is None or moment_of(event.at) >= publish.start)


def _may_have_failed(publish: TaskState, states: Mapping[tuple[str, str], str]) -> bool:
    return publish.state in dag_runs.FAILED or states[publish.dag_id, publish.run_id] == "failed"


def run_outcome(run: RunState, task_id: str, known: Recent, event: RunSummary | None = None) -> Outcome | None:
    """Return what a run did for a sitemap; None for dry, skipped and unfinished runs.

    Args:
        known: The tasks of the run, and what they pushed.
        event: The event that the run emitted. Default: None.
    """
    publish = known.task(run, task_id)
    if publish is None or run.is_dry:
        return None
    if event is not None and _is_of(publish, event):
        return report_outcome(event, run, task_id)
    attempted = _attempted(run, publish, known)
    good: Result | None = None
    if (run.dag_id, run.run_id, task_id, UNCHANGED) in known.pushed:
        good = "unchanged"
    elif publish.state == "success" and (run.dag_id, run.run_id, task_id, RETURNED) in known.pushed:
        good = "published"
    if good is not None:
        at, read_at = _times(run, (publish,))
        sections, others = _for_all(good, attempted)
        return Outcome(result=good, at=at, read_at=read_at, run=run, task_id=task_id, sections=sections, others=others)
    cause = _cause(run, publish, known)
    return None if cause is None else _failure(run, publish, known, attempted, cause)


def is_idle(run: RunState, task_id: str, known: Recent) -> bool:
    """Return whether a run ended without an error before it read any data: a sensor or a branch skipped its tasks."""
    publish = known.task(run, task_id)
    if publish is None or run.is_dry or run.state != "success" or publish.state != "skipped":
        return False
    tasks = known.tasks.get((run.dag_id, run.run_id), ())
    return any(t.kind == "plan" and t.group_id == publish.group_id and t.state == "skipped" for t in tasks)


def _times(run: RunState, tasks: Iterable[TaskState]) -> tuple[datetime, datetime]:
    """Return the time of a run's result, and the time at which it began to read."""
    ends = [task.end for task in tasks if task.end is not None]
    at = max(ends, default=None) or run.end or run.start or run.queued_at
    assert at is not None, run
    return at, run.start or at


def _for_all(result: Result, attempted: Sequence[str]) -> tuple[dict[str, Result], Result | None]:
    """Return a result for each section that a run attempted; for all sections if it is not known which."""
    return dict.fromkeys(attempted, result), None if attempted else result


def _attempted(run: RunState, publish: TaskState, known: Recent) -> list[str]:
    """Return the sections that a run was to publish; empty if that is not known."""
    for task in known.tasks.get((run.dag_id, run.run_id), ()):
        if task.kind == "plan" and task.group_id == publish.group_id:
            return texts(known.pushed.get((run.dag_id, run.run_id, task.task_id, SECTIONS)))
    return []


def _cause(run: RunState, publish: TaskState, known: Recent) -> str | None:
    """Return why a run without an event published nothing, in words if the tasks have none; None if it has no result."""
    if publish.state == "success":
        return BY_HAND
    if publish.state in dag_runs.FAILED:
        return ""
    if run.is_active or publish.state == "removed":
        return None
    if publish.state != "skipped":
        return "" if run.state == "failed" else None
    tasks = known.tasks.get((run.dag_id, run.run_id), ())
    plan = next((task for task in tasks if task.kind == "plan" and task.group_id == publish.group_id), None)
    planned = plan is not None and known.pushed.get((run.dag_id, run.run_id, plan.task_id, PLAN_KEY))
    if run.state != "failed":  # a run that is marked as successful skips the tasks that have not begun
        return BY_HAND if planned else None
    # Airflow sets no end where a time-out of the run skips a task. A task that a sensor or a branch skips has an end, as has
    # one that a person skips by marking the run as failed: of such a run, the tasks that had begun have failed.
    if publish.end is None or (plan is not None and plan.state == "skipped" and plan.end is None):
        return TIMED_OUT
    began = planned or any(task.group_id == publish.group_id and task.state == "failed" for task in tasks)
    return MARKED if began else None


def _failure(run: RunState, publish: TaskState, known: Recent, attempted: Sequence[str], cause: str) -> Outcome:
    """Return the outcome of a run that failed. The outcome is ``refused`` if a guard refused the run."""
    members = known.tasks.get((run.dag_id, run.run_id), ())
    mine = [task for task in members if task.group_id == publish.group_id and task.state == "failed"]
    # Where the plan failed, the publishing task fails as well, for lack of a plan.
    kinds = ("plan",) if any(task.kind == "plan" for task in mine) else ("write", "publish")
    mine = [task for task in mine if task.kind in kinds]
    keys = [(run.dag_id, run.run_id, task_id) for task_id in dict.fromkeys(t.task_id for t in (*mine, publish))]
    refused = [mapping(known.pushed.get((*key, REFUSED))) for key in keys]
    failures = [mapping(known.pushed.get((*key, FAILED))) for key in keys]
    refusals = [refusal for value in refused for refusal in refusals_of(value)]
    reasons = [reason for failure in failures for reason in _reasons(failure)]
    is_partial = any(_is_partial(failure) for failure in failures)
    is_misnamed = any(failure.get("error") == RequestError.__name__ for failure in failures)
    failed = {text(s.get("section")): s for failure in failures for s in map(mapping, items(failure.get("sections")))}
    failed |= {name: {} for value in refused for name in texts(value.get("sections")) if name not in failed}
    result: Result = "refused" if refusals else "failed"
    sections, others = _for_all(result, attempted)
    if failed:
        sections = dict.fromkeys(attempted, "published" if is_partial else "unchanged")
        guarded = {refusal.section for refusal in refusals}
        sections |= {name: "refused" if name in guarded else "failed" for name in failed}
        others = None if attempted or not is_partial else "published"
    at, read_at = _times(run, [*mine, publish])
    return Outcome(
        result=result,
        at=at,
        read_at=read_at,
        run=run,
        task_id=publish.task_id,
        sections={} if is_misnamed else sections,
        others=None if is_misnamed else others,
        messages={name: text(facts.get("message")) for name, facts in failed.items()},
        failed_tasks=tuple((task.task_id, task.map_index) for task in mine),
        refusals=tuple(refusals),
        reasons=tuple(dict.fromkeys(reason for reason in (cause, *reasons) if reason)),
        store_run=next((store_run for value in refused if (store_run := text(value.get("run")))), ""),
        is_partial=is_partial,
        is_misnamed=is_misnamed,
    )


def report_outcome(summary: RunSummary, run: RunState, task_id: str = "") -> Outcome | None:
    """Return the outcome that a report describes; None for a rollback, which reads no data.

    Args:
        summary: Summary of the report, from an event or from the store.
        task_id: Its publishing task. Default: empty.
    """
    if summary.action != "build":
        return None
    result: Result = "unchanged" if summary.result in ("unchanged", "refused") else "published"
    sections: dict[str, Result] = {
        name: "published" if result == "published" and summary.sections.get(name, (0, True))[1] else "unchanged"
        for name in summary.planned
    }
    # A run that publishes all sections or none plans the refused section as well.
    if summary.failed.keys() & sections.keys():
        sections = dict.fromkeys(sections, "refused")
    sections |= {name: "refused" if guarded else "failed" for name, (guarded, _) in summary.failed.items()}
    if not sections and summary.result == "refused":
        return None
    at = moment_of(summary.at)
    return Outcome(
        result=min([result, *(sections[name] for name in summary.failed)], key=WORST.index),
        at=at,
        read_at=moment_of(summary.data_at or summary.at),
        run=run,
        task_id=task_id,
        sections=sections,
        others=None if sections else result,
        messages={name: message for name, (_, message) in summary.failed.items()},
        reasons=tuple(f"Section {name}: {message}" for name, (_, message) in summary.failed.items()),
        is_partial=summary.result == "partly_published",
    )


def _reasons(failure: Mapping[str, Any]) -> list[str]:
    """Return why a task failed; for a run that could not publish some sections, why each that no guard refused failed."""
    sections = [mapping(section) for section in items(failure.get("sections"))]
    if not sections:
        return [why(failure)]
    return [f"Section {text(s.get('section'))}: {text(s.get('message'))}" for s in sections if not s.get("permits")]


def _is_partial(failure: Mapping[str, Any]) -> bool:
    """Return whether a task that failed had published some sections."""
    return failure.get("error") == PartlyPublishedError.__name__ and failure.get("is_published") is True


def refusals_of(value: Any) -> list[Refusal]:
    """Return the refusals that a task pushed; empty if it pushed none."""
    pushed = mapping(value)
    if not pushed:
        return []
    names = ("guard", "section", "message", "permit")
    refusals = [Refusal(*(text(mapping(r).get(name)) for name in names)) for r in items(pushed.get("refusals"))]
    return refusals or [Refusal("", "", text(pushed.get("message")), "")]


def why(value: Any) -> str:
    """Return the reason that a failed task pushed; empty if it pushed none."""
    pushed = mapping(value)
    error, message = text(pushed.get("error")), text(pushed.get("message"))
    return message or (f"It ended with {error}" if error else "")


def activity(publishers: Sequence[TaskKey], newest: Recent) -> tuple[Activity, RunState | None]:
    """Return the current activity, and its run. Publishing takes precedence over planning and waiting.

    Returns:
        The activity and its run; an empty text and None if no run is active.
    """
    order: dict[Activity, int] = {"running": 0, "planning": 1, "queued": 2}
    active: list[tuple[Activity, RunState]] = []
    for dag_id, task_id in publishers:
        for run in newest.runs.get(dag_id, ()):
            task = newest.task(run, task_id)
            if not run.is_active or (task is not None and task.has_ended):
                continue
            kind: Activity = "queued" if run.state == "queued" else "planning" if run.is_dry else "running"
            active.append((kind, run))
    return min(active, key=lambda item: order[item[0]], default=("", None))
