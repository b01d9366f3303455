"""Results of the last runs of the publishing DAGs (published, refused or failed), and their current activity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from airflow_sitemaps.errors import PartlyPublishedError
from airflow_sitemaps.operators.facts import FAILED, REFUSED, UNCHANGED
from airflow_sitemaps.plugin import dag_runs
from airflow_sitemaps.plugin.event_payload import items, mapping, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy.orm import Session

    from airflow_sitemaps.plugin.asset_tasks import TaskKey
    from airflow_sitemaps.plugin.dag_runs import RunState, TaskState

RECENT: Final = 6
"""Number of newest runs to read of each DAG. Dry runs and active runs have no result."""
FAR_BACK: Final = 200
"""Number of runs to read if none of the newest has a result."""

Activity = Literal["", "running", "planning", "queued"]


@dataclass(frozen=True, slots=True, kw_only=True)
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
    """The result of one run of a publishing task.

    Attributes:
        result: ``published``, ``refused`` or ``failed``.
        run: The DAG run.
        task_id: The publishing task.
        failed_tasks: Failed tasks and batches of its group, each as (task, map index). Default: none.
        refusals: The guards that refused. Default: none.
        reasons: The tasks' own reasons for failing, without repetition. Default: none.
        store_run: Identifier of a refused run in the store, which holds what it would have published. Default: empty.
        is_partial: Whether the run published some sections and failed because of others. Default: False.
    """

    result: Literal["published", "refused", "failed"]
    run: RunState
    task_id: str
    failed_tasks: Sequence[tuple[str, int]] = ()
    refusals: Sequence[Refusal] = ()
    reasons: Sequence[str] = ()
    store_run: str = ""
    is_partial: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Recent:
    """The newest runs of some DAGs with their sitemap tasks, without batches.

    Attributes:
        runs: The newest runs of each DAG, newest first.
        tasks: Tasks of those runs, by (DAG, run ID).
    """

    runs: Mapping[str, Sequence[RunState]]
    tasks: Mapping[tuple[str, str], Sequence[TaskState]]

    def task(self, run: RunState, task_id: str) -> TaskState | None:
        """Return one task of a run, or None if the run has no such task."""
        tasks = self.tasks.get((run.dag_id, run.run_id), ())
        return next((task for task in tasks if task.task_id == task_id), None)


def recent(session: Session, dag_ids: Iterable[str], limit: int = RECENT) -> Recent:
    """Return the newest runs of DAGs.

    Args:
        session: Session of Airflow's metadata database.
        dag_ids: The DAGs.
        limit: Number of runs for each DAG. Default: ``RECENT``.
    """
    runs = dag_runs.recent_runs(session, dag_ids, limit)
    pairs = [(run.dag_id, run.run_id) for members in runs.values() for run in members]
    tasks: dict[tuple[str, str], list[TaskState]] = {}
    for task in with_unchanged(session, dag_runs.sitemap_tasks(session, pairs, batches=False)):
        tasks.setdefault((task.dag_id, task.run_id), []).append(task)
    return Recent(runs=runs, tasks=tasks)


def with_unchanged(session: Session, tasks: Sequence[TaskState]) -> list[TaskState]:
    """Return tasks in the same order, and mark publishing tasks that were skipped because nothing had changed.

    Args:
        session: Session of Airflow's metadata database.
        tasks: The tasks.
    """
    skipped = [task for task in tasks if task.kind == "publish" and task.state == "skipped"]
    unchanged = {key[:3] for key in dag_runs.pushed_by(session, skipped, (UNCHANGED,))}
    return [
        replace(task, is_unchanged=True) if (task.dag_id, task.run_id, task.task_id) in unchanged else task
        for task in tasks
    ]


def last_outcomes(session: Session, publishers: Sequence[TaskKey], newest: Recent) -> dict[TaskKey, Outcome]:
    """Return the last outcome of each publishing task. Tasks whose runs have no result are left out.

    Args:
        session: Session of Airflow's metadata database.
        publishers: The publishing tasks.
        newest: The newest runs of their DAGs.
    """
    ended: dict[TaskKey, tuple[RunState, str]] = {}
    missing = []
    for key in publishers:
        last = _last_result(key, newest)
        if last is not None:
            ended[key] = last
        elif len(newest.runs.get(key[0], ())) >= RECENT:
            missing.append(key)
    if missing:
        earlier = recent(session, {dag_id for dag_id, _ in missing}, FAR_BACK)
        ended.update({key: last for key in missing if (last := _last_result(key, earlier)) is not None})
    return _explained(session, ended)


def _last_result(publisher: TaskKey, newest: Recent) -> tuple[RunState, str] | None:
    for run in newest.runs.get(publisher[0], ()):
        result = result_of(run, newest.task(run, publisher[1]))
        if result is not None:
            return run, result
    return None


def result_of(run: RunState, publish: TaskState | None) -> str | None:
    """Return the result of a run for a sitemap: published or failed; None for dry, skipped or unfinished runs.

    A run that found nothing to change counts as published, also if ``skip_unchanged`` skipped its publishing task.

    Args:
        run: The DAG run.
        publish: The publishing task of the run; None if the run has none.
    """
    if publish is None or run.is_dry:
        return None
    if publish.state == "success" or publish.is_unchanged:
        return "published"
    if publish.state in dag_runs.FAILED:
        return "failed"
    ran_out = run.state == "failed" and publish.state not in ("skipped", "removed")
    return "failed" if ran_out else None


def _explained(session: Session, ended: Mapping[TaskKey, tuple[RunState, str]]) -> dict[TaskKey, Outcome]:
    """Return the outcomes of failed runs, with their failed tasks, refusals and reasons."""
    pairs = sorted({(run.dag_id, run.run_id) for run, result in ended.values() if result == "failed"})
    failed = dag_runs.sitemap_tasks(session, pairs, states=["failed"]) if pairs else []
    pushed = dag_runs.pushed_by(session, failed, (FAILED, REFUSED))
    return {
        key: outcome_of(run, key[1], result, failed, pushed) if result == "failed" else _published(run, key[1])
        for key, (run, result) in ended.items()
    }


def _published(run: RunState, task_id: str) -> Outcome:
    return Outcome(result="published", run=run, task_id=task_id)


def outcome_of(
    run: RunState,
    task_id: str,
    result: str,
    failed: Sequence[TaskState],
    pushed: Mapping[tuple[str, str, str, str], Any],
) -> Outcome:
    """Return the outcome of a failed run. The outcome is ``refused`` if a guard refused the run.

    Args:
        run: The DAG run.
        task_id: Its publishing task.
        result: The value of ``result_of``.
        failed: Failed tasks of this run and of other runs.
        pushed: XCom values of failed tasks, by (DAG, run, task, key).
    """
    if result != "failed":
        return _published(run, task_id)
    group = task_id.rpartition(".")[0]
    mine = [t for t in failed if (t.dag_id, t.run_id, t.group_id) == (run.dag_id, run.run_id, group)]
    # Where the plan failed, the publishing task fails as well, for lack of a plan.
    kinds = ("plan",) if any(task.kind == "plan" for task in mine) else ("write", "publish")
    mine = [task for task in mine if task.kind in kinds]
    keys = [(task.dag_id, task.run_id, task.task_id) for task in mine]
    refusals = [r for key in dict.fromkeys(keys) for r in refusals_of(pushed.get((*key, REFUSED)))]
    failures = [mapping(pushed.get((*key, FAILED))) for key in keys]
    reasons = [reason for failure in failures for reason in _reasons(failure)]
    store_runs = [text(mapping(pushed.get((*key, REFUSED))).get("run")) for key in keys]
    return Outcome(
        result="refused" if refusals else "failed",
        run=run,
        task_id=task_id,
        failed_tasks=tuple((task.task_id, task.map_index) for task in mine),
        refusals=tuple(refusals),
        reasons=tuple(dict.fromkeys(reason for reason in reasons if reason)),
        store_run=next((store_run for store_run in store_runs if store_run), ""),
        is_partial=any(_is_partial(failure) for failure in failures),
    )


def _reasons(failure: Mapping[str, Any]) -> list[str]:
    """Return why a task failed; for a run that could not publish some sections, why each that no guard refused failed."""
    sections = [mapping(section) for section in items(failure.get("sections"))]
    if not sections:
        return [why(failure)]
    return [f"Section {text(s.get('section'))}: {text(s.get('message'))}" for s in sections if not s.get("permits")]


def _is_partial(failure: Mapping[str, Any]) -> bool:
    """Return whether a task that failed had published some sections. Early versions did not record it."""
    return failure.get("error") == PartlyPublishedError.__name__ and failure.get("is_published", True) is not False


def refusals_of(value: Any) -> list[Refusal]:
    """Return the refusals that a task pushed; empty if it pushed none."""
    pushed = mapping(value)
    if not pushed:
        return []
    names = ("guard", "section", "message", "permit")
    refusals = [Refusal(**{name: text(mapping(r).get(name)) for name in names}) for r in items(pushed.get("refusals"))]
    return refusals or [Refusal(guard="", section="", message=text(pushed.get("message")), permit="")]


def why(value: Any) -> str:
    """Return the reason that a failed task pushed; empty if it pushed none."""
    pushed = mapping(value)
    error, message = text(pushed.get("error")), text(pushed.get("message"))
    return message or (f"It ended with {error}" if error else "")


def activity(publishers: Sequence[TaskKey], newest: Recent) -> tuple[Activity, RunState | None]:
    """Return the current activity, and its run. Publishing takes precedence over planning and waiting.

    Args:
        publishers: The publishing tasks.
        newest: The newest runs of their DAGs.

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


def ended_at(outcome: Outcome) -> datetime | None:
    """Return the end of an outcome's run, or its start while tasks after the publication still run."""
    return outcome.run.end or outcome.run.start
