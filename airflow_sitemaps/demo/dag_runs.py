"""A separate Airflow, and DAG runs in it: its home folder, metadata database and connections.

``python -m airflow_sitemaps.demo.dag_runs FILE DAG_ID RESULT`` makes one run, and writes its result as JSON to RESULT.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_sitemaps.demo.bucket import PASSWORD, REGION, USER

if TYPE_CHECKING:
    from collections.abc import Mapping


class DemoError(RuntimeError):
    """A part of the demonstration failed; the message names its log file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DagRun:
    """The result of a DAG run: ``seconds`` with the start of Airflow included, and the ``extra`` of the asset event."""

    state: str
    seconds: float
    tasks: Mapping[str, str]
    extra: Mapping[str, Any]
    log: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """An AIRFLOW_HOME below ``work``, with the connections ``places`` and ``aws_default`` in its environment."""

    work: Path
    dags: Path
    warehouse_url: str
    endpoint: str
    settings: Mapping[str, str]

    def environment(self) -> dict[str, str]:
        """Return the environment of Airflow's processes, without the Airflow settings of this shell."""
        home = self.work / "airflow"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
        return {
            **inherited,
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "AIRFLOW_CONN_PLACES": json.dumps(
                {"conn_type": "generic", "extra": {"sqlalchemy_url": self.warehouse_url}}
            ),
            "AIRFLOW_CONN_AWS_DEFAULT": json.dumps(
                {
                    "conn_type": "aws",
                    "login": USER,
                    "password": PASSWORD,
                    "extra": {"endpoint_url": self.endpoint, "region_name": REGION},
                }
            ),
            **self.settings,
        }

    def run(self, file: str, dag_id: str, number: int) -> DagRun:
        """Run a DAG in a separate process that logs to a file."""
        (self.work / "airflow").mkdir(parents=True, exist_ok=True)
        log, result = self.work / f"run-{number}.log", self.work / f"run-{number}.json"
        command = [sys.executable, "-m", "airflow_sitemaps.demo.dag_runs", str(self.dags / file), dag_id, str(result)]
        started = time.monotonic()
        with log.open("wb") as stream:
            done = subprocess.run(  # noqa: S603 - our own module
                command, env=self.environment(), stdout=stream, stderr=subprocess.STDOUT, check=False
            )
        seconds = time.monotonic() - started
        if done.returncode != 0 or not result.is_file():
            raise DemoError(f"run {number} of the DAG {dag_id!r} failed (status {done.returncode}); its log is {log}")
        document = json.loads(result.read_text())
        if document["state"] != "success":
            raise DemoError(f"run {number} of the DAG {dag_id!r} ended as {document['state']!r}; its log is {log}")
        return DagRun(
            state=document["state"], seconds=seconds, tasks=document["tasks"], extra=document["extra"], log=log
        )


def dags_folder() -> Path:
    """Return the folder of the example DAGs: beside this file if the package is installed, or at the root of a checkout."""
    packaged = Path(__file__).parent / "dags"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "dags"


def main(file: str, dag_id: str, result: str) -> None:
    """Run the DAG once."""
    from airflow.configuration import conf
    from airflow.dag_processing.dagbag import DagBag
    from airflow.utils.db import initdb

    database = conf.get("database", "sql_alchemy_conn").removeprefix("sqlite:///")
    if not Path(database).exists():
        initdb()
    bag = DagBag(file)
    if bag.import_errors:
        sys.exit("\n".join(bag.import_errors.values()))
    run = bag.dags[dag_id].test()
    tasks = {
        f"{task.task_id}[{task.map_index}]" if task.map_index >= 0 else task.task_id: str(task.state)
        for task in run.get_task_instances()
    }
    document = {"state": str(run.state.value), "tasks": tasks, "extra": _last_event(dag_id)}
    Path(result).write_text(json.dumps(document))


def _last_event(dag_id: str) -> dict[str, Any]:
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session
    from sqlalchemy import select

    events = select(AssetEvent.extra).where(AssetEvent.source_dag_id == dag_id).order_by(AssetEvent.id.desc())
    with create_session() as session:
        return dict(session.scalars(events).first() or {})


if __name__ == "__main__":
    main(*sys.argv[1:])
