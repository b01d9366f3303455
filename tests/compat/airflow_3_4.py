"""What the pages read from Airflow 3.4's tables: python -m tests.compat.airflow_3_4.

Airflow 3.4 cannot be installed here yet, so models of its tables take the place of ``airflow.models``. They follow its
migration: earlier attempts stay in ``task_instance`` with an empty ``working_set``; values of new attempts are in ``xcom_v2``
by the attempt's identifier, those from before the upgrade in ``xcom_v1``; ``XComModel`` reads both, and is made when the
module is first queried for it.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime, timezone
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

AT = datetime(2026, 11, 25, tzinfo=timezone.utc)


class Base(DeclarativeBase):
    pass


class DagRun(Base):
    __tablename__ = "dag_run"
    id: Mapped[int] = mapped_column(primary_key=True)
    dag_id: Mapped[str]
    run_id: Mapped[str]
    _state: Mapped[str] = mapped_column("state")
    run_type: Mapped[str] = mapped_column(default="manual")
    queued_at: Mapped[datetime | None]
    start_date: Mapped[datetime | None]
    end_date: Mapped[datetime | None]
    run_after: Mapped[datetime | None]
    clear_number: Mapped[int] = mapped_column(default=0)
    conf: Mapped[Any] = mapped_column(sa.JSON)
    triggering_user_name: Mapped[str | None]
    triggered_by: Mapped[str | None]


class TaskInstance(Base):
    __tablename__ = "task_instance"
    id: Mapped[int] = mapped_column(primary_key=True)
    dag_id: Mapped[str]
    run_id: Mapped[str]
    task_id: Mapped[str]
    map_index: Mapped[int] = mapped_column(default=-1)
    operator: Mapped[str]
    state: Mapped[str]
    _rendered_map_index: Mapped[str | None] = mapped_column("rendered_map_index")
    try_number: Mapped[int]
    start_date: Mapped[datetime | None]
    end_date: Mapped[datetime | None]
    working_set: Mapped[bool | None]


class XComModelV1(Base):
    __tablename__ = "xcom_v1"
    task_instance_id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[Any] = mapped_column(sa.JSON)
    timestamp: Mapped[datetime]


class XComModelV2(Base):
    __tablename__ = "xcom_v2"
    task_instance_id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[Any] = mapped_column(sa.JSON)
    timestamp: Mapped[datetime]


@cache
def xcom_model() -> type:
    place = [getattr(TaskInstance, name) for name in ("dag_id", "task_id", "run_id", "map_index")]
    rows = [
        sa.select(model.task_instance_id, model.key, model.value, model.timestamp, *place).join(
            TaskInstance, TaskInstance.id == model.task_instance_id
        )
        for model in (XComModelV2, XComModelV1)
    ]
    table = sa.union_all(*rows).subquery("xcom")
    mapped = {"primary_key": [table.c.task_instance_id, table.c.key]}
    return type("XComModel", (Base,), {"__table__": table, "__mapper_args__": mapped})


class AnyColumn(type):
    """The type of a model that this script does not read: every attribute is a column."""

    def __getattr__(cls, name: str) -> Any:
        return sa.column(name)


class Models(MetaPathFinder, Loader):
    """In place of ``airflow.models``: the models above, and any other name with any columns."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name.split(".")[:2] == ["airflow", "models"]:
            return ModuleSpec(name, self, is_package=name == "airflow.models")
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return ModuleType(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        def by_name(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return xcom_model() if name == "XComModel" else globals().get(name) or AnyColumn(name, (), {})

        module.__dict__["__getattr__"] = by_name


def database() -> Session:
    """Return a database in which the second attempt of a task published, and the first pushed another value."""
    engine = sa.create_engine("sqlite://")
    Base.metadata.create_all(engine, tables=[m.__table__ for m in (DagRun, TaskInstance, XComModelV1, XComModelV2)])
    session = Session(engine)
    names = {"dag_id": "shop", "run_id": "r1"}
    task = {**names, "operator": "SitemapPublishOperator", "task_id": "publish", "end_date": AT}
    session.add_all(
        [
            DagRun(id=1, **names, _state="failed", conf={}),
            TaskInstance(id=1, **task, state="failed", try_number=1, working_set=None),
            TaskInstance(id=2, **task, state="success", try_number=2, working_set=True),
            TaskInstance(
                id=3, **task | {"task_id": "plan", "operator": "SitemapPlanOperator"},
                state="success", try_number=1, working_set=True,
            ),
            XComModelV1(task_instance_id=3, key="sitemap_plan", value="before the upgrade", timestamp=AT),
            XComModelV2(task_instance_id=2, key="return_value", value="second attempt", timestamp=AT),
            XComModelV2(task_instance_id=1, key="sitemap_failed", value="first attempt", timestamp=AT),
            XComModelV2(task_instance_id=1, key="return_value", value="first attempt", timestamp=AT),
        ]
    )  # fmt: skip
    session.flush()
    return session


def main() -> None:
    """Print what the pages read."""
    sys.meta_path.insert(0, Models())
    from airflow_sitemaps.plugin import dag_runs  # noqa: PLC0415 - after the models are in place

    with database() as session:
        (run,) = dag_runs.recent_runs(session, ["shop"], 5)["shop"]
        tasks = dag_runs.sitemap_tasks(session, [run.key])
        keys = ("sitemap_plan", "return_value", "sitemap_failed")
        print(
            json.dumps(
                {
                    "run": run.state,
                    "tasks": [[task.task_id, task.state, task.tries] for task in tasks],
                    "pushed": {key[-1]: value for key, value in dag_runs.pushed_by(session, tasks, keys).items()},
                    "failed": dag_runs.runs_that_pushed(session, ["shop"], "sitemap_failed", 5),
                    "returned": dag_runs.runs_that_pushed(session, ["shop"], "return_value", 5),
                    "unpublished": dag_runs.unpublished_runs(session, ["shop"], 5),
                }
            )
        )


if __name__ == "__main__":
    main()
