"""DAGs, DAG runs and their sitemap tasks, as Airflow's metadata database has them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from sqlalchemy import func, select

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy.orm import Session

KINDS: Final[Mapping[str, str]] = {
    "SitemapPlanOperator": "plan",
    "SitemapWriteOperator": "write",
    "SitemapPublishOperator": "publish",
    "SitemapRollbackOperator": "rollback",
    "SitemapVerifyOperator": "verify",
}
"""What a task does, by its operator's class."""

FAILED: Final = frozenset({"failed", "upstream_failed"})
ENDED: Final = frozenset({"success", "failed", "upstream_failed", "skipped", "removed"})
RUNNING: Final = frozenset({"running", "restarting", "up_for_retry", "up_for_reschedule", "deferred"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DagFacts:
    """A DAG: whether it can run. ``every``: its schedule in Airflow's words."""

    dag_id: str
    is_paused: bool
    is_stale: bool
    has_import_errors: bool
    every: str
    next_run: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """A DAG run."""

    dag_id: str
    run_id: str
    state: str
    run_type: str
    queued_at: datetime | None
    start: datetime | None
    end: datetime | None
    conf: Mapping[str, Any] = field(default_factory=dict)
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts:
    """One sitemap task, or one batch of a mapped one (``map_index`` from 0; -1 for a task that is not mapped)."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    kind: str
    state: str
    label: str
    tries: int
    start: datetime | None
    end: datetime | None

    @property
    def group_id(self) -> str:
        """The task group, empty where there is none."""
        return self.task_id.rpartition(".")[0]


def dags(session: Session, dag_ids: Iterable[str]) -> dict[str, DagFacts]:
    """Facts of DAGs, by id; those that are gone are not in it."""
    columns = select(
        DagModel.dag_id,
        DagModel.is_paused,
        DagModel.is_stale,
        DagModel.has_import_errors,
        DagModel.timetable_summary,
        DagModel.next_dagrun_create_after,
    )
    rows = session.execute(columns.where(DagModel.dag_id.in_(list(dag_ids))))
    return {
        dag_id: DagFacts(
            dag_id=dag_id,
            is_paused=bool(paused),
            is_stale=bool(stale),
            has_import_errors=bool(errors),
            every=every or "",
            next_run=following,
        )
        for dag_id, paused, stale, errors, every, following in rows
    }


def latest_runs(session: Session, dag_ids: Iterable[str]) -> dict[str, RunFacts]:
    """The newest run of each DAG."""
    newest = select(func.max(DagRun.id)).where(DagRun.dag_id.in_(list(dag_ids))).group_by(DagRun.dag_id)
    return {run.dag_id: run for run in _runs(session, DagRun.id.in_(newest))}


def run(session: Session, dag_id: str, run_id: str) -> RunFacts | None:
    """One run, None where there is none."""
    return next(iter(_runs(session, (DagRun.dag_id == dag_id) & (DagRun.run_id == run_id))), None)


def _runs(session: Session, chosen: Any) -> list[RunFacts]:

    columns = select(
        DagRun.dag_id,
        DagRun.run_id,
        DagRun._state,  # noqa: SLF001 - the column; ``state`` is a property that selects it as well
        DagRun.run_type,
        DagRun.queued_at,
        DagRun.start_date,
        DagRun.end_date,
        DagRun.conf,
        DagRun.triggering_user_name,
    )
    return [
        RunFacts(
            dag_id=dag_id,
            run_id=run_id,
            state=str(getattr(state, "value", state) or ""),
            run_type=str(getattr(kind, "value", kind)),
            queued_at=queued,
            start=start,
            end=end,
            conf=conf if isinstance(conf, dict) else {},
            by=user or "",
        )
        for dag_id, run_id, state, kind, queued, start, end, conf, user in session.execute(columns.where(chosen))
    ]


def sitemap_tasks(session: Session, runs: Sequence[tuple[str, str]]) -> list[TaskFacts]:
    """The sitemap tasks of runs given as (DAG, run), in order of task and batch."""
    if not runs:
        return []
    columns = select(
        TaskInstance.dag_id,
        TaskInstance.run_id,
        TaskInstance.task_id,
        TaskInstance.map_index,
        TaskInstance.operator,
        TaskInstance.state,
        TaskInstance._rendered_map_index,  # noqa: SLF001 - the column of the label
        TaskInstance.try_number,
        TaskInstance.start_date,
        TaskInstance.end_date,
    )
    dag_ids, run_ids = {dag_id for dag_id, _ in runs}, {run_id for _, run_id in runs}
    wanted = set(runs)
    rows = session.execute(
        columns.where(
            TaskInstance.dag_id.in_(dag_ids), TaskInstance.run_id.in_(run_ids), TaskInstance.operator.in_(list(KINDS))
        ).order_by(TaskInstance.dag_id, TaskInstance.run_id, TaskInstance.task_id, TaskInstance.map_index)
    )
    return [
        TaskFacts(
            dag_id=dag_id,
            run_id=run_id,
            task_id=task_id,
            map_index=map_index,
            kind=KINDS[str(operator)],
            state=str(getattr(state, "value", state) or "scheduled"),
            label=label or "",
            tries=tries or 0,
            start=start,
            end=end,
        )
        for dag_id, run_id, task_id, map_index, operator, state, label, tries, start, end in rows
        if (dag_id, run_id) in wanted
    ]


def xcoms(session: Session, dag_id: str, run_id: str, task_ids: Sequence[str], keys: Sequence[str]) -> list[Any]:
    """Rows of (task, map index, key, value) that tasks of a run left, values as plain JSON."""
    columns = select(XComModel.task_id, XComModel.map_index, XComModel.key, XComModel.value).where(
        XComModel.dag_id == dag_id,
        XComModel.run_id == run_id,
        XComModel.task_id.in_(list(task_ids)),
        XComModel.key.in_(list(keys)),
    )
    return [(task, index, key, plain(value)) for task, index, key, value in session.execute(columns)]


def left_by(session: Session, tasks: Sequence[TaskFacts], key: str) -> dict[tuple[str, str, str], Any]:
    """What tasks of any runs left under a key, by (DAG, run, task), values as plain JSON; one statement for all."""
    wanted = {(task.dag_id, task.run_id, task.task_id) for task in tasks}
    if not wanted:
        return {}
    columns = select(XComModel.dag_id, XComModel.run_id, XComModel.task_id, XComModel.value).where(
        XComModel.dag_id.in_({dag_id for dag_id, _, _ in wanted}),
        XComModel.run_id.in_({run_id for _, run_id, _ in wanted}),
        XComModel.task_id.in_({task_id for _, _, task_id in wanted}),
        XComModel.key == key,
    )
    rows = session.execute(columns)
    return {(d, r, t): plain(value) for d, r, t, value in rows if (d, r, t) in wanted}


def plain(value: Any) -> Any:
    """A value of XCom without the marks that Airflow's serialisation leaves on it."""
    if isinstance(value, dict):
        if "__data__" in value:
            return plain(value["__data__"])
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    return value
