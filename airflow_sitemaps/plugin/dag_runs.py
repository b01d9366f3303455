"""DAG runs and their sitemap tasks, and what these pushed, from Airflow's metadata database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import product
from typing import Any, Final

from sqlalchemy import case, func, select, union_all
from sqlalchemy.orm import Session

from airflow_sitemaps.airflow_compat import DagRun, TaskInstance, XComModel, is_last_attempt
from airflow_sitemaps.operators import is_dry_run, prefix_of
from airflow_sitemaps.plugin.dag_profiles import KINDS, TaskKey, dag_profiles, newest_of

FAILED: Final = frozenset({"failed", "upstream_failed"})
ENDED: Final = frozenset({"success", "failed", "upstream_failed", "skipped", "removed"})
PUBLISHES: Final = next(operator for operator, kind in KINDS.items() if kind == "publish")
WRITES: Final = next(operator for operator, kind in KINDS.items() if kind == "write")
RUNS_AT_ONCE: Final = 50

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
"""What the pages call it that Airflow records in ``triggered_by``."""
RETURNED: Final = "return_value"
"""XCom key of what a task returned."""

RunKey = tuple[str, str]
"""DAG ID and run ID."""
Pushed = Mapping[tuple[str, str, str, int, str], Any]
"""XCom values by (DAG, run ID, task, map index, key)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """A DAG run. ``number`` is Airflow's serial number; ``start`` is None until the first task can start.

    ``user`` is empty if no user triggered it; ``triggered_by`` is ``ui``, ``cli``, ``timetable``, ``asset`` and so on.
    ``cleared_after`` is the first time at which a run with cleared tasks could start: clearing gives it a new ``start``.
    """

    number: int = 0
    dag_id: str
    run_id: str
    state: str
    run_type: str
    queued_at: datetime | None
    start: datetime | None
    end: datetime | None
    conf: Mapping[str, Any] = field(default_factory=dict)
    user: str = ""
    triggered_by: str = ""
    cleared_after: datetime | None = None

    @classmethod
    def known_by_report(cls, dag_id: str, run_id: str) -> RunState:
        """Return a run that only its report describes, because Airflow did not start it or has forgotten it."""
        return cls(dag_id=dag_id, run_id=run_id, state="success", run_type="", queued_at=None, start=None, end=None)

    @property
    def key(self) -> RunKey:
        """DAG ID and run ID."""
        return self.dag_id, self.run_id

    @property
    def is_active(self) -> bool:
        """Whether the run is queued or running."""
        return self.state in ("queued", "running")

    @property
    def is_dry(self) -> bool:
        """Whether the run was triggered to plan only."""
        return is_dry_run(self.conf)

    @property
    def trigger(self) -> str:
        """What triggered the run: a user, the schedule, an asset event and so on."""
        return self.user or TRIGGERS.get(self.triggered_by, self.triggered_by or self.run_type)

    @property
    def seconds(self) -> float | None:
        """Wall time from start to end in seconds; None while the run is active."""
        return (self.end - self.start).total_seconds() if self.start and self.end else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskState:
    """One sitemap task of a run, or one part of a mapped task, such as a batch.

    ``map_index`` is the part, from 0; -1 for a task that is not mapped. ``state`` is ``scheduled`` until Airflow sets
    one. ``start`` and ``end`` are those of the last attempt. ``chain`` is the publishing task of its sitemap, if tasks of
    several sitemaps have one prefix.
    """

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
    chain: str = ""

    @property
    def key(self) -> tuple[str, str, str, int]:
        """DAG ID, run ID, task ID and map index."""
        return self.dag_id, self.run_id, self.task_id, self.map_index

    @property
    def group_id(self) -> str:
        """What the tasks of one sitemap have in common: the ID of their group, or their ``chain``; empty without either."""
        return self.chain or prefix_of(self.task_id)

    @property
    def has_ended(self) -> bool:
        """Whether the task will not run again in its DAG run."""
        return self.state in ENDED


_RUN_COLUMNS: Final = {
    "number": DagRun.id,
    "dag_id": DagRun.dag_id,
    "run_id": DagRun.run_id,
    "state": DagRun._state,  # noqa: SLF001 - the column; ``state`` is a property that selects it as well
    "run_type": DagRun.run_type,
    "queued_at": DagRun.queued_at,
    "start": DagRun.start_date,
    "end": DagRun.end_date,
    "conf": DagRun.conf,
    "user": DagRun.triggering_user_name,
    "triggered_by": DagRun.triggered_by,
    "cleared_after": case((DagRun.clear_number > 0, DagRun.run_after)),
}


def recent_runs(
    session: Session, dag_ids: Iterable[str], limit: int, *, before: int | None = None
) -> dict[str, list[RunState]]:
    """Return the newest runs of each DAG, newest first; only those with a lower serial number than ``before``."""
    chosen = sorted(set(dag_ids))
    newest: dict[str, list[RunState]] = {dag_id: [] for dag_id in chosen}
    for start in range(0, len(chosen), RUNS_AT_ONCE):
        parts = []
        for dag_id in chosen[start : start + RUNS_AT_ONCE]:
            ids = select(DagRun.id).where(DagRun.dag_id == dag_id)
            if before is not None:
                ids = ids.where(DagRun.id < before)
            parts.append(select(ids.order_by(DagRun.id.desc()).limit(limit).subquery().c.id))
        numbers = list(session.scalars(union_all(*parts) if len(parts) > 1 else parts[0]))
        for run in _runs(session, DagRun.id.in_(numbers)):
            newest[run.dag_id].append(run)
    for runs in newest.values():
        runs.sort(key=lambda run: -run.number)
    return newest


def runs_by_id(session: Session, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], RunState]:
    """Return runs by (DAG, run ID). Unknown runs are left out."""
    runs = {}
    for dag_id, run_ids in _by_dag(pairs).items():
        chosen = (DagRun.dag_id == dag_id) & DagRun.run_id.in_(run_ids)
        runs.update({run.key: run for run in _runs(session, chosen)})
    return runs


def _by_dag(pairs: Iterable[RunKey]) -> dict[str, list[str]]:
    by_dag: dict[str, list[str]] = {}
    for dag_id, run_id in pairs:
        by_dag.setdefault(dag_id, []).append(run_id)
    return by_dag


def _runs(session: Session, chosen: Any) -> list[RunState]:
    runs = []
    for row in session.execute(select(*_RUN_COLUMNS.values()).where(chosen)):
        fields = dict(zip(_RUN_COLUMNS, row, strict=True))
        fields["conf"] = fields["conf"] if isinstance(fields["conf"], dict) else {}
        fields |= {name: _value(fields[name]) for name in ("state", "run_type", "user", "triggered_by")}
        runs.append(RunState(**fields))
    return runs


def _value(member: Any) -> str:
    return str(getattr(member, "value", member) or "")


_TASK_COLUMNS: Final = {
    "dag_id": TaskInstance.dag_id,
    "run_id": TaskInstance.run_id,
    "task_id": TaskInstance.task_id,
    "map_index": TaskInstance.map_index,
    "kind": TaskInstance.operator,
    "state": TaskInstance.state,
    "label": TaskInstance._rendered_map_index,  # noqa: SLF001 - the column of the label
    "tries": TaskInstance.try_number,
    "start": TaskInstance.start_date,
    "end": TaskInstance.end_date,
}


def sitemap_tasks(
    session: Session, runs: Sequence[tuple[str, str]], *, batches: bool = True, states: Iterable[str] = ()
) -> list[TaskState]:
    """Return the sitemap tasks of runs, ordered by task and map index; without ``batches`` not those of mapped writes."""
    wanted, tasks, groups = set(runs), [], list(_by_dag(runs).items())
    for start in range(0, len(groups), RUNS_AT_ONCE):
        part = groups[start : start + RUNS_AT_ONCE]
        query = select(*_TASK_COLUMNS.values()).where(
            TaskInstance.dag_id.in_([dag_id for dag_id, _ in part]),
            TaskInstance.run_id.in_({run_id for _, run_ids in part for run_id in run_ids}),
            TaskInstance.operator.in_(list(KINDS)),
            is_last_attempt(TaskInstance),
        )
        if not batches:
            query = query.where((TaskInstance.map_index < 0) | (TaskInstance.operator != WRITES))
        if states:
            query = query.where(TaskInstance.state.in_(list(states)))
        tasks += [_task(row) for row in session.execute(query) if (row[0], row[1]) in wanted]
    return sorted(tasks, key=lambda task: (task.dag_id, task.run_id, task.task_id, task.map_index))


def _task(row: Any) -> TaskState:
    fields = dict(zip(_TASK_COLUMNS, row, strict=True))
    fields |= {"kind": KINDS[str(fields["kind"])], "state": _value(fields["state"]) or "scheduled"}
    return TaskState(**fields | {"label": fields["label"] or "", "tries": fields["tries"] or 0})


def in_chains(session: Session, tasks: Sequence[TaskState]) -> list[TaskState]:
    """Return all sitemap tasks of runs with their chains."""
    places = [(task.dag_id, task.run_id, task.group_id) for task in tasks if task.kind == "publish"]
    shared = {place[0] for place, number in Counter(places).items() if number > 1}
    chains = {dag_id: profile.chains() for dag_id, profile in dag_profiles(session, shared).items()}
    return [
        replace(task, chain=chain) if (chain := chains.get(task.dag_id, {}).get(task.task_id)) else task
        for task in tasks
    ]


def newest_ended(session: Session, keys: Collection[TaskKey]) -> list[TaskState]:
    """Return the newest of each task, as (DAG, task ID), that succeeded, and that failed: all parts of a mapped one."""
    task, tasks, parts = TaskInstance, list[TaskState](), []
    ended = (task.end_date.is_not(None), task.operator.in_(list(KINDS)), is_last_attempt(task))
    for (dag_id, task_id), state in product(sorted(keys), ("success", "failed")):
        query = select(*_TASK_COLUMNS.values()).where(task.dag_id == dag_id, task.task_id == task_id)
        newest = query.where(task.state == state, *ended).order_by(task.end_date.desc()).limit(1)
        parts.append(select(newest.subquery()))
    for start in range(0, len(parts), RUNS_AT_ONCE):
        tasks += map(_task, session.execute(union_all(*parts[start : start + RUNS_AT_ONCE])))
    mapped = {one.key[:3] for one in tasks if one.map_index >= 0}
    whole = sitemap_tasks(session, list({key[:2] for key in mapped}), batches=False) if mapped else ()
    return list({one.key: one for one in (*tasks, *(part for part in whole if part.key[:3] in mapped))}.values())


def unpublished_runs(session: Session, dag_ids: Iterable[str], limit: int) -> list[tuple[str, str, datetime | None]]:
    """Return (DAG, run ID, end) of the newest runs whose publishing task failed, or was skipped by a failure."""
    ended = func.coalesce(TaskInstance.end_date, DagRun.end_date)
    same_run = (DagRun.dag_id == TaskInstance.dag_id) & (DagRun.run_id == TaskInstance.run_id)
    skipped = (TaskInstance.state == "skipped") & (DagRun._state == "failed")  # noqa: SLF001 - the column
    chosen = (
        select(TaskInstance.dag_id, TaskInstance.run_id, ended.label("ended"))
        .join(DagRun, same_run)
        .where(TaskInstance.dag_id.in_(list(dag_ids)), TaskInstance.operator == PUBLISHES)
        .where(TaskInstance.state.in_(list(FAILED)) | skipped, is_last_attempt(TaskInstance))
    )
    newest = newest_of(TaskInstance.dag_id, chosen, by=ended, limit=limit)
    return [(dag_id, run_id, end) for dag_id, run_id, end in session.execute(newest)]


def runs_that_pushed(session: Session, dag_ids: Iterable[str], key: str, limit: int) -> list[tuple[str, str]]:
    """Return the newest runs of each DAG in which a task pushed an XCom key, as (DAG, run ID)."""
    chosen = (XComModel.dag_id.in_(list(dag_ids)), XComModel.key == key, is_last_attempt(XComModel))
    pushed = select(XComModel.dag_id, XComModel.run_id).where(*chosen)
    newest = newest_of(XComModel.dag_id, pushed, by=XComModel.timestamp, limit=limit)
    return [(dag_id, run_id) for dag_id, run_id in session.execute(newest)]


def pushed_by(
    session: Session, tasks: Sequence[TaskState], keys: Sequence[str]
) -> dict[tuple[str, str, str, int, str], Any]:
    """Return what tasks of any runs pushed, as plain JSON. One SQL statement reads all of it."""
    wanted = {task.key for task in tasks}
    if not wanted:
        return {}
    dag_ids, run_ids, task_ids, _ = (set(ids) for ids in zip(*wanted, strict=True))
    columns = select(
        XComModel.dag_id, XComModel.run_id, XComModel.task_id, XComModel.map_index, XComModel.key, XComModel.value
    ).where(
        XComModel.dag_id.in_(dag_ids),
        XComModel.run_id.in_(run_ids),
        XComModel.task_id.in_(task_ids),
        XComModel.key.in_(list(keys)),
        is_last_attempt(XComModel),
    )
    return {tuple(row[:5]): plain(_stored(row)) for row in session.execute(columns) if tuple(row[:4]) in wanted}


def _stored(row: Any) -> Any:
    """Return an XCom value. A text may be the address at which an XCom backend keeps it: None if it cannot be read there."""
    if not isinstance(row.value, str):
        return row.value
    try:
        from airflow_sitemaps.airflow_compat import XCom  # only workers may have the backend

        value = XCom.deserialize_value(row)
    except Exception:
        return None
    return None if isinstance(value, str) and "://" in value else value


def plain(value: Any) -> Any:
    """Return an XCom value without the markers that Airflow's serialization adds."""
    if isinstance(value, dict):
        if "__data__" in value:
            return plain(value["__data__"])
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    return value
