"""A metadata database for the tests of this process, and DAGs run in it."""

from __future__ import annotations

import sys
import time
from functools import cache
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from airflow.models.asset import AssetEvent
from airflow.models.dagbundle import DagBundleModel
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.xcom import XComModel
from airflow.sdk.definitions import dag as dag_module
from airflow.serialization.definitions.dag import SerializedDAG
from airflow.serialization.serialized_objects import LazyDeserializedDAG
from airflow.utils.db import initdb
from airflow.utils.session import create_session
from sqlalchemy import select

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from airflow.sdk import DAG

BUNDLE = "tests"


@cache
def database() -> None:
    """Make the database once; ``tests/conftest.py`` says where."""

    initdb()
    with create_session() as session:
        session.add(DagBundleModel(name=BUNDLE))


def sync(dag: DAG) -> None:
    """Let Airflow know a DAG made in a test, or its newer form."""

    database()
    serialised = LazyDeserializedDAG.from_dag(dag)
    with create_session() as session:
        SerializedDAG.bulk_write_to_db(BUNDLE, None, [serialised], session=session)
        session.flush()
        SerializedDagModel.write_dag(serialised, bundle_name=BUNDLE, session=session)


def run(dag: DAG, conf: dict[str, Any] | None = None) -> DagRun:
    """Sync a DAG made in a test, and run it in this process."""

    sync(dag)
    sleep = time.sleep

    def paused(seconds: float) -> None:
        """``DAG.test`` looks once a second whether a task can begin, which is a third of the time of such a test."""
        sleep(0.01 if sys._getframe(1).f_code.co_filename == dag_module.__file__ else seconds)

    with patch("time.sleep", paused):
        return dag.test(run_conf=conf or {})


def states(run: DagRun) -> dict[str, str]:
    """The state of each task instance, mapped ones as ``write[0]``."""
    return {
        f"{ti.task_id}[{ti.map_index}]" if ti.map_index >= 0 else ti.task_id: str(ti.state)
        for ti in run.get_task_instances()
    }


def events(dag_id: str) -> list[dict[str, Any]]:
    """The extras of the asset events that a DAG emitted, oldest first."""

    with create_session() as session:
        found = select(AssetEvent.extra).where(AssetEvent.source_dag_id == dag_id).order_by(AssetEvent.id)
        return [dict(extra) for extra in session.scalars(found)]


def xcom(run: DagRun, task_id: str, key: str, map_index: int = -1) -> Any:
    """One XCom value as the API would show it."""

    with create_session() as session:
        query = XComModel.get_many(
            run_id=run.run_id, key=key, task_ids=task_id, dag_ids=run.dag_id, map_indexes=map_index
        )
        found = session.scalars(query).first()
        return None if found is None else XComModel.deserialize_value(found)


def xcom_of(dag_id: str, run_id: str, task_id: str, key: str) -> Any:
    """One XCom value of a task that is not mapped."""
    with create_session() as session:
        query = XComModel.get_many(run_id=run_id, key=key, task_ids=task_id, dag_ids=dag_id, map_indexes=-1)
        found = session.scalars(query).first()
        return None if found is None else XComModel.deserialize_value(found)
