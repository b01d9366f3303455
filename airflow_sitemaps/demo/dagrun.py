"""One run of a DAG in this process: ``python -m airflow_sitemaps.demo.dagrun FILE DAG_ID RESULT``.

It creates the metadata database if there is none, and writes the result as JSON to the file RESULT.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


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
