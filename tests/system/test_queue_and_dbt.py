"""The examples of docs/start.md whose packages are not in requirements.lock: a message queue, and a dbt run.

``make test-triggers`` makes an environment for them.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import boto3
import pytest

from tests.support.s3 import REGION, moto_server
from tests.support.start_page import EXAMPLES, airflow_with, load, started_by

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.airflow_processes import Airflow

pytest.importorskip("aiobotocore", reason="aiobotocore is not installed: run `make test-triggers`")
pytest.importorskip("cosmos", reason="astronomer-cosmos is not installed: run `make test-triggers`")
DBT = os.environ.get("SITEMAPS_DBT", "")
pytestmark = [
    pytest.mark.system,
    pytest.mark.heavy,
    pytest.mark.timeout(1_200),
    pytest.mark.skipif(not DBT, reason="SITEMAPS_DBT names no dbt: run `make test-triggers`"),
]

BUSY_S = 900
"""Longest wait for a run. With other work on its two processors, a machine took 250 seconds for the two runs of dbt's test."""

NEEDED = ("def shop(", "AssetWatcher", "from cosmos")
PROJECT = {
    "dbt_project.yml": "{name: shop, profile: shop, version: '1.0.0', models: {shop: {+materialized: table}}}",
    "models/sources.yml": "{version: 2, sources: [{name: shop, schema: public, tables: [{name: products}]}]}",
    "models/listed.sql": "SELECT id, slug FROM {{ source('shop', 'products') }} WHERE id < 3",
    "models/listed.yml": "{version: 2, models: [{name: listed, columns: [{name: id, data_tests: [unique]}]}]}",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a dbt project of one model, the table ``listed``, and one test of it."""
    folder = tmp_path_factory.mktemp("queue_and_dbt")
    for name, text in PROJECT.items():
        path = folder / "dbt" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture(scope="module")
def queue() -> Iterator[tuple[str, str, str]]:
    """An SQS server on the loopback: a queue's address, the server's, and the connection to it."""
    with moto_server() as server:
        keys = {"aws_access_key_id": server.access_key, "aws_secret_access_key": server.secret_key}
        client = boto3.client("sqs", endpoint_url=server.endpoint, region_name=REGION, **keys)
        url = client.create_queue(QueueName="loads")["QueueUrl"]
        client.close()
        extra = {"endpoint_url": server.endpoint, "region_name": REGION}
        connection = {"conn_type": "aws", "login": server.access_key, "password": server.secret_key, "extra": extra}
        yield url, server.endpoint, json.dumps(connection)


@pytest.fixture(scope="module")
def airflow(folder: Path, queue: tuple[str, str, str]) -> Iterator[Airflow]:
    """Airflow with these examples; dbt's first look at the project may take long on a busy machine."""
    replaced = {
        "https://sqs.eu-west-1.amazonaws.com/123456789012/loads": queue[0],
        "waiter_delay=10": "waiter_delay=1",
        "/tmp/sitemap-export.done": f"{folder}/export.done",
        "/opt/dbt/shop": f"{folder}/dbt",
        "/opt/dbt/bin/dbt": DBT,
    }
    settings = {
        "AIRFLOW_CONN_AWS_DEFAULT": queue[2],
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "240",
        "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "300",
        "AIRFLOW__COSMOS__CACHE_DIR": str(folder / "cosmos"),  # the default is one folder for all of a machine
        "AIRFLOW__COSMOS__ENABLE_TELEMETRY": "False",
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "False",
    }
    examples = [text for text in EXAMPLES if any(word in text for word in NEEDED)]
    with airflow_with(examples, folder, replaced, tables=("products",), settings=settings) as airflow:
        yield airflow


def test_a_message_in_a_queue_starts_a_run(airflow: Airflow, folder: Path, queue: tuple[str, str, str]) -> None:
    url, endpoint, connection = queue
    keys = json.loads(connection)
    client = boto3.client(
        "sqs",
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id=keys["login"],
        aws_secret_access_key=keys["password"],
    )
    try:
        assert airflow.get("/dags/shop_on_message/dagRuns")["dag_runs"] == []
        client.send_message(QueueUrl=url, MessageBody=json.dumps({"loaded": "products"}))
        started_by(airflow, "shop_on_message", "asset_triggered", seconds=BUSY_S)
    finally:
        client.close()
    assert (folder / "site" / "message" / "sitemap.xml").exists()


def test_a_dbt_run_starts_a_run_over_the_table_of_its_model(airflow: Airflow) -> None:
    load(airflow, "dbt_shop", seconds=BUSY_S)
    run = started_by(airflow, "shop_after_dbt", "asset_triggered", seconds=BUSY_S)

    path = f"/dags/shop_after_dbt/dagRuns/{run['dag_run_id']}/taskInstances/sitemap.publish/xcomEntries/return_value"
    assert airflow.get(path)["value"]["urls"] == 1
