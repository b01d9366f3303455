"""Outcomes of runs: what each run published, found unchanged, was refused, or failed to publish, section by section.

Only this module derives them. What was published is known from asset events, from the numbers that tasks push, and from
reports in the store; the state of a task only says that a run ended without publishing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from sqlalchemy.orm import Session

from airflow_sitemaps.errors import PartlyPublishedError, RequestError
from airflow_sitemaps.operators import FAILED, QUESTIONS, REFUSED, SECTIONS, UNCHANGED
from airflow_sitemaps.operators.plan import PLAN_KEY
from airflow_sitemaps.plugin import dag_runs
from airflow_sitemaps.plugin.dag_profiles import TaskKey
from airflow_sitemaps.plugin.dag_runs import RETURNED, Pushed, RunKey, RunState, TaskState
from airflow_sitemaps.plugin.events import RunSummary
from airflow_sitemaps.plugin.readings import StrictModel, attributes, items, mapping, moment_of, read_as, text, texts

RECENT: Final = 6
"""Number of newest runs to read of each DAG."""

Activity = Literal["", "running", "planning", "queued"]
Result = Literal["published", "unchanged", "refused", "failed"]
WORST: Final[Sequence[Result]] = ("refused", "failed", "published", "unchanged")
GOOD: Final = frozenset({"published", "unchanged"})

LINKS: Final = 5
"""Largest number of failed tasks to which one problem or run links."""

BY_HAND: Final = "The run or its publishing task was marked as successful by hand: it published nothing"
SKIPPED: Final = "It published nothing: a task before publish skipped it, or a person marked the run as successful"
TIMED_OUT: Final = "Airflow ended the run before it published (dagrun_timeout), and skipped the tasks that were left"
MARKED: Final = "The run was marked as failed before it published"


class PushedRefusal(StrictModel):
    """A refusal that a task pushed; ``guard`` is empty if no guard refused. ``permit`` lets one run pass."""

    guard: str = ""
    section: str = ""
    message: str = ""
    permit: str = ""


class AskingRun(StrictModel):
    """A run in which Airflow asks a person about a section that a guard refused."""

    section: str
    dag_id: str
    run_id: str


class FailedTask(StrictModel):
    """A failed task. ``map_index`` is -1 for a task that is not mapped."""

    task_id: str
    map_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """What one run did for a sitemap. ``result`` is the worst of its sections'.

    Attributes:
        at: Time of the result. Outcomes are ordered by it, and not by the start of their runs.
        read_at: Time at which the run began to read its data.
        run: A run without an ID for an outcome that only the store knows.
        others: Result of the sections that ``sections`` does not name; None if the run says nothing of them.
        store_run: Identifier of a refused run in the store, which holds what it would have published.
        questions: Runs that ask a person about its refusals, and have no answer yet.
        is_misnamed: Whether the run's request has a name that does not exist, and so says nothing of any section.
    """

    result: Result
    at: datetime
    read_at: datetime
    run: RunState
    sections: Mapping[str, Result] = field(default_factory=dict)
    others: Result | None = None
    failed_tasks: Sequence[FailedTask] = ()
    refusals: Sequence[PushedRefusal] = ()
    reasons: Sequence[str] = ()
    store_run: str = ""
    questions: Sequence[AskingRun] = ()
    is_partial: bool = False
    is_misnamed: bool = False

    def of_section(self, name: str) -> Result | None:
        """Return the result of a section, or None if the run says nothing of it."""
        return self.sections.get(name, self.others)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentRuns:
    """Runs of some DAGs, newest first, and earlier ones that may still count; their tasks and failed batches."""

    runs: Mapping[str, Sequence[RunState]]
    tasks: Mapping[RunKey, Sequence[TaskState]]
    pushed: Pushed
    asking: frozenset[RunKey] = frozenset()
    """The runs that ask a person about what earlier runs refused, and have no answer yet."""

    def task(self, run: RunState, task_id: str) -> TaskState | None:
        """Return one task of a run, or None if the run has no such task; of a mapped one the part that did least."""
        tasks = self.tasks.get(run.key, ())
        return min((task for task in tasks if task.task_id == task_id), key=_least_done, default=None)

    def plan(self, publish: TaskState) -> TaskState | None:
        """Return the planning task of a publishing task's group."""
        tasks = self.tasks.get((publish.dag_id, publish.run_id), ())
        plans = [task for task in tasks if task.kind == "plan" and task.group_id == publish.group_id]
        return next((plan for plan in plans if plan.map_index == publish.map_index), next(iter(plans), None))

    def of_tasks(self, keys: Iterable[TaskKey]) -> list[tuple[RunState, str]]:
        """Return the runs of the tasks' DAGs, each with the task."""
        return [(run, task_id) for dag_id, task_id in keys for run in self.runs.get(dag_id, ())]

    def value(self, task: TaskState | None, key: str) -> Any:
        """Return what a task pushed under a key; None if it pushed nothing."""
        return None if task is None else self.pushed.get((*task.key, key))


def recent(
    session: Session, runs: Mapping[str, Sequence[RunState]], *, events: Iterable[RunSummary] = ()
) -> RecentRuns:
    """Return runs with their sitemap tasks and what these pushed; it is not read of tasks that emitted an event."""
    emitted = {(event.dag_id, event.run_id, event.group_id): event for event in events}
    states = {run.key: run.state for members in runs.values() for run in members}
    whole = dag_runs.sitemap_tasks(session, list(states), batches=False)
    publish = [task for task in whole if task.kind == "publish"]
    broken = sorted({t.key[:2] for t in publish if t.state in dag_runs.FAILED or states[t.key[:2]] == "failed"})
    batches = dag_runs.sitemap_tasks(session, broken, states=["failed"]) if broken else []
    tasks: dict[RunKey, list[TaskState]] = {}
    every = dag_runs.in_chains(session, list({task.key: task for task in (*whole, *batches)}.values()))
    for task in every:
        tasks.setdefault(task.key[:2], []).append(task)
    publishing = [
        task
        for task in every
        if task.kind == "publish"
        and task.has_ended
        and not (task.state == "success" and _is_of(task, emitted.get((task.dag_id, task.run_id, task.group_id))))
    ]
    pushed = dag_runs.pushed_by(session, publishing, (FAILED, QUESTIONS, REFUSED, UNCHANGED, RETURNED))
    asked = dict.fromkeys(task.key[:2] for task in publishing)
    others = [task for key in asked for task in tasks[key] if task.kind in ("plan", "write")]
    pushed.update(dag_runs.pushed_by(session, others, (FAILED, REFUSED, SECTIONS, PLAN_KEY)))
    questions = [
        read_as(AskingRun, each) for (*_, key), value in pushed.items() if key == QUESTIONS for each in items(value)
    ]
    asking = dag_runs.runs_by_id(session, [(question.dag_id, question.run_id) for question in questions])
    active = frozenset(key for key, run in asking.items() if run.is_active)
    return RecentRuns(runs=runs, tasks=tasks, pushed=pushed, asking=active)


def _least_done(task: TaskState) -> tuple[bool, bool, int]:
    return task.has_ended, task.state not in dag_runs.FAILED, task.map_index


def _is_of(publish: TaskState, event: RunSummary | None) -> bool:
    """Return whether the last try of a publishing task emitted an event. An earlier try may have emitted it."""
    return event is not None and (publish.start is None or moment_of(event.at) >= publish.start)


def run_outcome(run: RunState, task_id: str, known: RecentRuns, event: RunSummary | None = None) -> RunOutcome | None:
    """Return what a run did for a sitemap; None for dry, skipped and unfinished runs."""
    publish = known.task(run, task_id)
    if publish is None or run.is_dry:
        return None
    is_failed_part = publish.map_index >= 0 and publish.state in dag_runs.FAILED  # the event is of another part
    if event is not None and _is_of(publish, event) and not is_failed_part:
        return report_outcome(event, run)
    attempted = texts(known.value(known.plan(publish), SECTIONS))  # empty if that is not known
    if (*publish.key, UNCHANGED) in known.pushed:
        return _outcome(run, (publish,), "unchanged", attempted)
    if publish.state == "success" and (*publish.key, RETURNED) in known.pushed:
        return _outcome(run, (publish,), "published", attempted)
    cause = _cause(run, publish, known)
    return None if cause is None else _failure(run, publish, known, attempted, cause)


def is_idle(run: RunState, task_id: str, known: RecentRuns) -> bool:
    """Return whether a run ended without an error before it read any data: a sensor or a branch skipped its tasks."""
    publish = known.task(run, task_id)
    if publish is None or run.is_dry or run.state != "success" or publish.state != "skipped":
        return False
    plan = known.plan(publish)
    return plan is not None and plan.state == "skipped"


def _outcome(
    run: RunState, tasks: Iterable[TaskState], result: Result, attempted: Sequence[str], **fields: Any
) -> RunOutcome:
    """Return an outcome with a result for each section that the run attempted; for all if it is not known which."""
    ends = [task.end for task in tasks if task.end is not None]
    at = max(ends, default=None) or run.end or run.start or run.queued_at
    assert at is not None, run
    sections = {"sections": dict.fromkeys(attempted, result), "others": None if attempted else result}
    return RunOutcome(result=result, at=at, read_at=run.start or at, run=run, **{**sections, **fields})


def _cause(run: RunState, publish: TaskState, known: RecentRuns) -> str | None:
    """Return why a run without an event published nothing, in words if the tasks have none; None if it has no result."""
    if publish.state == "success":
        return BY_HAND
    if publish.state in dag_runs.FAILED:
        return ""
    if run.is_active or publish.state == "removed":
        return None
    if publish.state != "skipped":
        return "" if run.state == "failed" else None
    plan = known.plan(publish)
    planned = known.value(plan, PLAN_KEY)
    if run.state != "failed":  # a run that is marked as successful skips the tasks that have not begun
        has_run = publish.start is not None and publish.end is not None and publish.start < publish.end
        skipped_itself = has_run and not any((*publish.key, key) in known.pushed for key in (FAILED, REFUSED))
        return SKIPPED if planned and not skipped_itself else None
    # Airflow sets no end where a time-out of the run skips a task. A task that a sensor or a branch skips has an end, as has
    # one that a person skips by marking the run as failed: of such a run, the tasks that had begun have failed.
    if publish.end is None or (plan is not None and plan.state == "skipped" and plan.end is None):
        return TIMED_OUT
    began = planned or any(
        task.group_id == publish.group_id and task.state == "failed" for task in known.tasks.get(run.key, ())
    )
    return MARKED if began else None


def _failure(run: RunState, publish: TaskState, known: RecentRuns, attempted: Sequence[str], cause: str) -> RunOutcome:
    """Return the outcome of a run that failed. The outcome is ``refused`` if a guard refused the run."""
    members = known.tasks.get(run.key, ())
    mine = [task for task in members if task.group_id == publish.group_id and task.state == "failed"]
    # Where the plan failed, the publishing task fails as well, for lack of a plan.
    kinds = ("plan",) if any(task.kind == "plan" for task in mine) else ("write", "publish")
    mine = [task for task in mine if task.kind in kinds]
    pushing = list({task.key: task for task in (*mine, publish)}.values())
    refused = [mapping(known.value(task, REFUSED)) for task in pushing]
    failures = [mapping(known.value(task, FAILED)) for task in pushing]
    refusals = [refusal for value in refused for refusal in refusals_of(value)]
    reasons = [reason for failure in failures for reason in _reasons(failure)]
    partly = [failure for failure in failures if failure.get("error") == PartlyPublishedError.__name__]
    is_partial = any(failure.get("is_published") is True for failure in partly)
    is_misnamed = any(failure.get("error") == RequestError.__name__ for failure in failures)
    parts = [mapping(part) for failure in failures for part in items(failure.get("sections"))]
    failed = [text(part.get("section")) for part in parts]
    failed += [name for value in refused for name in texts(value.get("sections"))]
    said: dict[str, Any] = {}  # of single sections
    if is_misnamed:
        said = {"sections": {}, "others": None}
    elif failed:
        guarded = {refusal.section for refusal in refusals}
        unchanged = {name for failure in partly for name in texts(failure.get("unchanged"))}
        sections = {n: "published" if is_partial and n not in unchanged else "unchanged" for n in attempted}
        sections |= {name: "refused" if name in guarded else "failed" for name in failed}
        said = {"sections": sections, "others": None if attempted or not is_partial else "published"}
    return _outcome(
        run,
        [*mine, publish],
        "refused" if refusals else "failed",
        attempted,
        **said,
        failed_tasks=[FailedTask(**attributes(task, "task_id", "map_index")) for task in mine],
        refusals=refusals,
        reasons=tuple(dict.fromkeys(reason for reason in (cause, *reasons) if reason)),
        store_run=next((store_run for value in refused if (store_run := text(value.get("run")))), ""),
        questions=[
            question
            for question in (read_as(AskingRun, each) for each in items(known.value(publish, QUESTIONS)))
            if (question.dag_id, question.run_id) in known.asking
        ],
        is_partial=is_partial,
        is_misnamed=is_misnamed,
    )


def report_outcome(summary: RunSummary, run: RunState) -> RunOutcome | None:
    """Return the outcome that a report describes; None for a rollback, which reads no data."""
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
    return RunOutcome(
        result=min([result, *(sections[name] for name in summary.failed)], key=WORST.index),
        at=moment_of(summary.at),
        read_at=moment_of(summary.data_at or summary.at),
        run=run,
        sections=sections,
        others=None if sections else result,
        reasons=tuple(f"Section {name}: {message}" for name, (_, message) in summary.failed.items()),
        is_partial=summary.result == "partly_published",
    )


def _reasons(failure: Mapping[str, Any]) -> list[str]:
    """Return why a task failed; for a run that could not publish some sections, why those failed that no guard refused."""
    sections = [mapping(section) for section in items(failure.get("sections"))]
    if not sections:
        return [why(failure)]
    failed = [section for section in sections if section.get("message") and not section.get("permits")]
    return [f"Section {text(section.get('section'))}: {text(section.get('message'))}" for section in failed]


def refusals_of(value: Any, group: str | None = None) -> list[PushedRefusal]:
    """Return the refusals that a task pushed; empty if it pushed none. Their permits are for a ``group``, if one is given."""
    pushed = mapping(value)
    if not pushed:
        return []
    parts = [mapping(refusal) for refusal in items(pushed.get("refusals"))]
    refusals = [read_as(PushedRefusal, part, permit=of_group(text(part.get("permit")), group)) for part in parts]
    return refusals or [PushedRefusal(message=text(pushed.get("message")))]


def of_group(permit: str, group: str | None) -> str:
    """Return a permit for one sitemap of a DAG with several: ``shrink:shop/products``."""
    guard, colon, name = permit.rpartition(":")
    return permit if not permit or group is None else f"{guard}{colon}{group}/{name}"


def why(value: Any) -> str:
    """Return the reason that a failed task pushed; empty if it pushed none."""
    pushed = mapping(value)
    error, message = text(pushed.get("error")), text(pushed.get("message"))
    return message or (f"It ended with {error}" if error else "")


def reasons_of(pushed: Pushed) -> dict[str, str]:
    """Return why tasks of one run failed, by task. Each different reason of the batches of one task stands once, with a batch."""
    failed: dict[str, dict[str, str]] = {}
    for (*_, task, index, key), value in sorted(pushed.items(), key=lambda item: item[0]):
        if key == FAILED and (said := why(value)):
            failed.setdefault(task, {}).setdefault(said, f"Batch {index + 1}: " if index >= 0 else "")
    return {task: "\n".join(batch + said for said, batch in reasons.items()) for task, reasons in failed.items()}


def activity(publishers: Sequence[TaskKey], newest: RecentRuns) -> Activity:
    """Return the current activity, or an empty text. Publishing precedes planning and waiting."""
    order: tuple[Activity, ...] = ("running", "planning", "queued")
    active: set[str] = set()
    for run, task_id in newest.of_tasks(publishers):
        task = newest.task(run, task_id)
        if run.is_active and not (task is not None and task.has_ended):
            active.add("queued" if run.state == "queued" else "planning" if run.is_dry else "running")
    return next((each for each in order if each in active), "")
