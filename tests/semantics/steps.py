"""Runs of a DAG, driven one task at a time, as a scheduler and a person at the UI would.

Tasks are run by Airflow's own task runner in this process; what a person does (clear, mark failed) goes through the
functions behind the UI's buttons.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from airflow.api.common.mark_tasks import set_dag_run_state_to_failed, set_dag_run_state_to_success
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance, clear_task_instances
from airflow.sdk.definitions.dag import _run_task
from airflow.serialization.serialized_objects import DagSerialization
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState, TaskInstanceState
from airflow.utils.types import DagRunTriggeredByType, DagRunType
from sqlalchemy import select

from tests.support.airflow_db import sync, xcom

if TYPE_CHECKING:
    from airflow.sdk import DAG
    from sqlalchemy.orm import Session

LOOKS = 3
"""How often the scheduler looks in vain before nothing is left to do: what failed upstream travels a task a look."""


@dataclass
class Steps:
    """One run of a DAG. ``dag`` may be replaced between steps, as when its file is edited."""

    dag: DAG
    run_id: str
    tries: list[str] = field(default_factory=list)
    """What was run, in order: ``sitemap.write[0]``."""

    @classmethod
    def start(
        cls,
        dag: DAG,
        run_id: str,
        *,
        conf: dict[str, Any] | None = None,
        logical_date: datetime | None = None,
        run_type: DagRunType = DagRunType.MANUAL,
        without_date: bool = False,
    ) -> Steps:
        """Create the run, as a trigger or a backfill does; ``without_date``: as an asset's event does."""
        sync(dag)
        now = datetime.now(timezone.utc)
        date = None if without_date else logical_date or now
        with create_session() as session:
            _scheduled(dag).create_dagrun(
                run_id=run_id,
                logical_date=date,
                data_interval=None if date is None else (date, date),
                run_after=now,
                conf=conf or {},
                run_type=run_type,
                state=DagRunState.RUNNING,
                triggered_by=DagRunTriggeredByType.TEST,
                start_date=now,
                session=session,
            )
        return cls(dag, run_id)

    def step(self, *patterns: str) -> Steps:
        """Run what is ready, again and again, of the tasks that match (all by default). Returns itself."""
        idle = 0
        for _ in range(50):
            with create_session() as session:
                ready = self._ready(session)
            ready = [ti for ti in ready if not patterns or any(fnmatch.fnmatch(name_of(ti), p) for p in patterns)]
            idle = 0 if ready else idle + 1
            if idle == LOOKS:
                return self
            for ti in ready:
                self.tries.append(name_of(ti))
                _run_task(ti=ti, task=self.dag.task_dict[ti.task_id])
        raise AssertionError(f"{self.run_id} does not come to its end: {self.tries}")

    def clear(self, *patterns: str) -> Steps:
        """Clear these task instances, and no others."""
        with create_session() as session:
            tis = [ti for ti in self._tis(session) if any(name_of(ti) == p for p in patterns)]
            assert len(tis) == len(patterns)
            clear_task_instances(tis, session, dag_run_state=DagRunState.RUNNING)
        return self

    def mark_failed(self) -> Steps:
        """Mark the whole run failed."""
        with create_session() as session:
            set_dag_run_state_to_failed(dag=_scheduled(self.dag), run_id=self.run_id, commit=True, session=session)
        return self

    def mark_successful(self) -> Steps:
        """Mark the whole run successful."""
        with create_session() as session:
            set_dag_run_state_to_success(dag=_scheduled(self.dag), run_id=self.run_id, commit=True, session=session)
        return self

    def edit(self, dag: DAG) -> Steps:
        """The DAG's file has been changed."""
        sync(dag)
        self.dag = dag
        return self

    @property
    def state(self) -> str:
        """State of the run."""
        with create_session() as session:
            return str(self._run(session).state)

    @property
    def states(self) -> dict[str, str]:
        """State of each task instance."""
        with create_session() as session:
            return {name_of(ti): str(ti.state) for ti in self._tis(session)}

    def xcom(self, task_id: str, map_index: int = -1) -> Any:
        """What a task returned."""
        with create_session() as session:
            run = self._run(session)
        return xcom(run, task_id, "return_value", map_index)

    def _run(self, session: Session) -> DagRun:
        found = select(DagRun).where(DagRun.dag_id == self.dag.dag_id, DagRun.run_id == self.run_id)
        run: DagRun = session.scalars(found).one()
        return run

    def _tis(self, session: Session) -> list[TaskInstance]:
        return list(self._run(session).get_task_instances(session=session))

    def _ready(self, session: Session) -> list[TaskInstance]:
        run = self._run(session)
        if run.state != DagRunState.RUNNING:
            return []
        run.dag = _scheduled(self.dag)
        for ti in run.update_state(session=session)[0]:
            ti.try_number += 1
            ti.state = TaskInstanceState.SCHEDULED
        session.flush()
        return [ti for ti in self._tis(session) if ti.state == TaskInstanceState.SCHEDULED]


def name_of(ti: TaskInstance) -> str:
    """``sitemap.write[0]``, or the bare task id."""
    return f"{ti.task_id}[{ti.map_index}]" if ti.map_index >= 0 else str(ti.task_id)


def _scheduled(dag: DAG) -> Any:
    """A DAG as the scheduler knows it."""
    return DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
