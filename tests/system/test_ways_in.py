"""The examples of docs/start.md in a real scheduler with a triggerer: each way in which data starts a run.

Those that need more packages are in ``test_queue_and_dbt.py``.
"""

from __future__ import annotations

import gzip
import json
import re
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.support.s3 import REGION, moto_server
from tests.support.start_page import DAG_ID, EXAMPLES, PAGE, airflow_with, dag_ids, load, started_by

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.airflow_processes import Airflow

pytestmark = [pytest.mark.system, pytest.mark.long, pytest.mark.timeout(900)]

NEED_MORE = ("from cosmos", "SqsSensorTrigger")
EXPORT = "2,from-s3\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ways_in")


@pytest.fixture(scope="module")
def airflow(folder: Path) -> Iterator[Airflow]:
    """Airflow with the page's DAGs over the tables and the bucket that they name. What runs at night runs each minute."""
    examples = [text for text in EXAMPLES if not any(word in text for word in NEED_MORE)]
    replaced = {
        "/tmp/sitemap-export.done": f"{folder}/export.done",
        '"0 3 * * *"': '"* * * * *"',
        # At the turn of an hour its own run would take the change that the test's run waits for.
        '"shop_when_moved", schedule="@hourly"': '"shop_when_moved", schedule=None',
        '"shop_when_changed", schedule="@hourly"': '"shop_when_changed", schedule=None',
        # The load starts one of the thirty: a small machine would run them all for minutes.
        'f"shop_{locale}", schedule=[PRODUCTS]': 'f"shop_{locale}", schedule=[PRODUCTS] if number == 0 else None',
        "poke_interval=60": "poke_interval=1",
        "acme-exports": "exports",
        'table="products",\n        column_list': 'table="imported",\n        column_list',
        'shop("imported", "products")': 'shop("imported", "imported")',
    }
    with moto_server() as server:
        client = server.client()
        client.create_bucket(Bucket="exports")
        client.put_object(Bucket="exports", Key="products.csv", Body=EXPORT.encode())
        client.close()
        extra = {"endpoint_url": server.endpoint, "region_name": REGION}
        aws = {"conn_type": "aws", "login": server.access_key, "password": server.secret_key, "extra": extra}
        settings = {"AIRFLOW_CONN_AWS_DEFAULT": json.dumps(aws)}
        with airflow_with(
            examples, folder, replaced, tables=("products", "articles", "de", "fr", "imported"), settings=settings
        ) as airflow:
            yield airflow


def test_the_page_defines_every_dag_it_names(airflow: Airflow) -> None:
    defined = {name for text in EXAMPLES for name in DAG_ID.findall(text)}
    assert set(DAG_ID.findall(PAGE)) == defined
    assert defined - set(dag_ids(airflow)) == {"shop_on_message", "dbt_shop", "shop_after_dbt"}
    assert sum(bool(re.fullmatch(r"shop_l\d\d", dag_id)) for dag_id in dag_ids(airflow)) == 30


def test_loads_start_the_dags_that_are_scheduled_on_their_assets(airflow: Airflow, folder: Path) -> None:
    load(airflow, "load_products")
    started_by(airflow, "shop_after_any", "asset_triggered")
    assert airflow.get("/dags/shop_after_all/dagRuns")["dag_runs"] == []
    load(airflow, "load_articles")
    for dag_id in ("shop_after_all", "shop_nightly_or_loaded", "shop_l00"):
        started_by(airflow, dag_id, "asset_triggered")
    for name in ("any", "all", "nightly_or_loaded", "l00"):
        assert (folder / "site" / name / "sitemap.xml").exists()


def test_a_time_starts_a_run(airflow: Airflow, folder: Path) -> None:
    for dag_id in ("shop_nightly", "shop_nightly_or_loaded"):
        started_by(airflow, dag_id, "scheduled")
        airflow.pause(dag_id)
    assert (folder / "site" / "nightly" / "sitemap.xml").exists()


def test_a_load_from_s3_starts_a_run(airflow: Airflow, folder: Path) -> None:
    load(airflow, "import_products")
    run = started_by(airflow, "shop_after_import", "asset_triggered")

    report = airflow.get(
        f"/dags/shop_after_import/dagRuns/{run['dag_run_id']}/taskInstances/sitemap.publish/xcomEntries/return_value"
    )
    assert report["value"]["urls"] == 2


def test_a_partition_plans_only_its_section(airflow: Airflow, folder: Path) -> None:
    load(airflow, "load_locales", {"locales": ["fr"]})
    run = started_by(airflow, "shop_locales", "asset_triggered")

    assert run["partition_key"] == "fr"
    assert published(folder) == {"fr"}


def test_runs_of_different_partitions_at_the_same_time_are_both_published(airflow: Airflow, folder: Path) -> None:
    before = runs_of_locales(airflow)
    load(airflow, "load_locales", {"locales": ["de", "fr"]})

    def ended() -> Any:
        runs = [run for name, run in runs_of_locales(airflow).items() if name not in before]
        return runs if len(runs) == 2 and all(run["state"] in ("success", "failed") for run in runs) else None

    runs = airflow.wait("the runs of both partitions", ended, seconds=300)
    assert {(run["partition_key"], run["state"]) for run in runs} == {("de", "success"), ("fr", "success")}
    assert published(folder) == {"de", "fr"}


def test_a_partition_that_is_no_section_fails_with_the_sections(airflow: Airflow) -> None:
    before = runs_of_locales(airflow)
    load(airflow, "load_locales", {"locales": ["es"]})

    def failed() -> Any:
        return [
            run for name, run in runs_of_locales(airflow).items() if name not in before and run["state"] == "failed"
        ]

    (run,) = airflow.wait("the run of the unknown partition", failed, seconds=300)
    logs = airflow.get(f"/dags/shop_locales/dagRuns/{run['dag_run_id']}/taskInstances/sitemap.plan/logs/1")
    assert "de, fr" in json.dumps(logs)


def test_what_follows_runs_for_each_section_that_changed(airflow: Airflow) -> None:
    run = airflow.trigger("shop_published")
    assert airflow.wait_for_run("shop_published", run)["state"] == "success"

    def warmed() -> Any:
        runs = airflow.get("/dags/warm_locale/dagRuns")["dag_runs"]
        return runs if len(runs) == 2 and all(each["state"] in ("success", "failed") for each in runs) else None

    runs = airflow.wait("the runs of both sections", warmed, seconds=300)
    assert {(each["partition_key"], each["state"]) for each in runs} == {("de", "success"), ("fr", "success")}
    (one,) = (each["dag_run_id"] for each in runs if each["partition_key"] == "fr")
    assert "warm the cache of fr" in json.dumps(
        airflow.get(f"/dags/warm_locale/dagRuns/{one}/taskInstances/warm/logs/1")
    )


def test_a_file_and_a_moved_table_start_a_run(airflow: Airflow, folder: Path) -> None:
    (folder / "export.done").touch()
    started_by(airflow, "shop_when_landed", "asset_triggered")
    assert (folder / "site" / "landed" / "sitemap.xml").exists()
    load(airflow, "shop_when_moved")
    assert (folder / "site" / "sensed" / "sitemap.xml").exists()


def test_a_sensor_waits_in_the_triggerer_until_a_table_differs_from_what_is_published(
    airflow: Airflow, folder: Path
) -> None:
    load(airflow, "shop_when_changed")
    index = folder / "site" / "watched" / "products-00001.xml.gz"
    assert b"first-products" in gzip.decompress(index.read_bytes())

    run = airflow.trigger("shop_when_changed")
    sensor = f"/dags/shop_when_changed/dagRuns/{run}/taskInstances/changed"
    airflow.wait("the sensor in the triggerer", lambda: airflow.get(sensor)["state"] == "deferred")
    warehouse = airflow.environment["AIRFLOW_CONN_WAREHOUSE"].replace("postgres://", "postgresql://", 1)
    with psycopg.connect(warehouse) as connection:
        connection.execute("UPDATE products SET slug = 'second-products'")

    assert airflow.wait_for_run("shop_when_changed", run)["state"] == "success"
    assert b"second-products" in gzip.decompress(index.read_bytes())


def runs_of_locales(airflow: Airflow) -> dict[str, Any]:
    return {run["dag_run_id"]: run for run in airflow.get("/dags/shop_locales/dagRuns")["dag_runs"]}


def published(folder: Path) -> set[str]:
    """The sections that have a file."""
    return {path.name.partition("-")[0] for path in (folder / "site" / "locales").glob("*-*.xml*")}
