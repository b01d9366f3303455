"""The example DAGs in a real scheduler: one on a schedule, one started by the asset event of a data load."""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from demo.services import BUCKET, PASSWORD, REGION, USER, Bucket, serve
from tests.support.airflow_processes import Airflow, running

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.system, pytest.mark.long, pytest.mark.timeout(420)]

DAGS = Path(__file__).parents[2] / "dags"
SITE = "https://places.example/"
PLACES = 3_000


class Scene:
    """Airflow, an S3 server and a warehouse in SQLite."""

    def __init__(self, airflow: Airflow, bucket: Bucket, warehouse: Path) -> None:
        self.airflow, self.bucket, self.warehouse = airflow, bucket, warehouse

    def ask(self, statement: str) -> Any:
        connection = sqlite3.connect(self.warehouse)
        try:
            answer = connection.execute(statement).fetchall()
            connection.commit()
            return answer
        finally:
            connection.close()

    def published(self, prefix: str) -> dict[str, list[str]]:
        """What the index leads to: URLs by file."""

        def body(name: str) -> bytes:
            return bytes(self.bucket.client.get_object(Bucket=BUCKET, Key=prefix + name)["Body"].read())

        names = [u.removeprefix(SITE) for u in re.findall(r"<loc>(.*?)</loc>", body("sitemap.xml").decode())]
        return {name: re.findall(r"<loc>(.*?)</loc>", gzip.decompress(body(name)).decode()) for name in names}

    def events(self, dag_id: str) -> list[dict[str, Any]]:
        """Asset events that a DAG's tasks emitted, oldest first."""
        found = self.airflow.get(f"/assets/events?source_dag_id={dag_id}&order_by=timestamp")
        return list(found["asset_events"])

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        found = self.airflow.get(f"/dags/{dag_id}/dagRuns/{quote(run_id)}/taskInstances?limit=100")
        return list(found["task_instances"])


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("system")
    warehouse = folder / "places.db"
    places = {"conn_type": "generic", "extra": {"sqlalchemy_url": f"sqlite:///{warehouse}"}}
    with serve() as bucket:
        aws = {"endpoint_url": bucket.endpoint, "region_name": REGION}
        settings = {
            "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
            "AIRFLOW_CONN_PLACES": json.dumps(places),
            "AIRFLOW_CONN_AWS_DEFAULT": json.dumps(
                {"conn_type": "aws", "login": USER, "password": PASSWORD, "extra": aws}
            ),
            "PLACES_LIMIT": str(PLACES),
            "PLACES_MAX_URLS": "500",
        }
        with running(folder, settings) as airflow:
            yield Scene(airflow, bucket, warehouse)


@pytest.fixture(scope="module")
def loaded(scene: Scene) -> Scene:
    """The scene after the data load, whose event starts ``cities_sitemap``."""
    for dag_id in ("load_places", "cities_sitemap"):
        scene.airflow.unpause(dag_id)
    load = scene.airflow.trigger("load_places")
    assert scene.airflow.wait_for_run("load_places", load)["state"] == "success"
    return scene


@pytest.fixture(scope="module")
def nightly_run(loaded: Scene) -> dict[str, Any]:
    """The first scheduled run of ``places_sitemap``, ended: the scheduler makes the run of the last interval."""
    loaded.airflow.unpause("places_sitemap")
    return loaded.airflow.wait_for_run("places_sitemap")


def test_the_example_dags_are_found_without_a_complaint(scene: Scene) -> None:
    names = {"places_sitemap", "load_places", "cities_sitemap"}
    scene.airflow.wait("the DAGs", lambda: names <= {dag["dag_id"] for dag in scene.airflow.get("/dags")["dags"]})

    assert scene.airflow.get("/importErrors")["import_errors"] == []
    assert scene.airflow.get("/dagWarnings")["dag_warnings"] == []
    assert "airflow-sitemaps" in {p["package_name"] for p in scene.airflow.get("/providers?limit=100")["providers"]}


def test_a_data_load_starts_the_sitemap_by_its_asset_event(loaded: Scene) -> None:
    scene = loaded

    run = scene.airflow.wait_for_run("cities_sitemap")

    assert (run["state"], run["run_type"]) == ("success", "asset_triggered")
    expected = scene.ask("SELECT count(*) FROM places WHERE population >= 15000")[0][0]
    urls = [url for urls in scene.published("cities/").values() for url in urls]
    assert len(urls) == len(set(urls)) == expected == PLACES
    (event,) = scene.events("cities_sitemap")
    assert event["extra"]["report"]["urls"] == expected
    assert event["extra"]["run_id"] == run["dag_run_id"]
    assert event["extra"]["store"]["public_url"].startswith(f"s3://{BUCKET}/cities")


def test_the_scheduled_dag_publishes_and_its_tasks_say_what_they_do(scene: Scene, nightly_run: dict[str, Any]) -> None:
    run = nightly_run

    assert (run["state"], run["run_type"]) == ("success", "scheduled")
    files = scene.published("site/")
    rows = scene.ask("SELECT (SELECT count(*) + count(native_name) FROM places) + (SELECT count(*) FROM countries)")
    assert sum(map(len, files.values())) == rows[0][0]
    assert len([name for name in files if name.startswith("places-")]) == PLACES // 500
    tasks = scene.tasks("places_sitemap", run["dag_run_id"])
    names = {task["rendered_map_index"] for task in tasks if task["task_id"] == "sitemap.write"}
    assert names == {"places 1/1, native 1/1, countries 1/1 (13 shards)"}, "a batch fills up over the sections"
    path = f"/dags/places_sitemap/dagRuns/{quote(run['dag_run_id'])}/taskInstances/sitemap.publish/links"
    links = scene.airflow.get(path)["extra_links"]
    assert links["Sitemap index"] == f"{SITE}sitemap.xml"
    assert "/plugin/sitemaps?asset=s3%3A%2F%2F" in links["Sitemap page"]
    assert not links["Store console"], "moto is not AWS"


@pytest.mark.usefixtures("nightly_run")
def test_a_change_rewrites_what_it_concerns(scene: Scene) -> None:
    before = scene.bucket.look("site/")
    scene.ask(
        "UPDATE places SET slug = 'renamed', native_name = NULL WHERE id = (SELECT min(id) FROM places WHERE native_name IS NULL)"
    )

    run = scene.airflow.trigger("places_sitemap")

    assert scene.airflow.wait_for_run("places_sitemap", run)["state"] == "success"
    after = scene.bucket.look("site/")
    assert {name for name in after if before.get(name) != after[name]} == {"places-00001.xml.gz", "sitemap.xml"}
    report = scene.events("places_sitemap")[-1]["extra"]["report"]
    assert report["shards"]["rewritten"] == 1
    assert report["shards"]["kept"] == report["shards"]["total"] - 1
    assert any("/renamed-" in url for url in scene.published("site/")["places-00001.xml.gz"])


@pytest.mark.usefixtures("nightly_run")
def test_a_dry_run_is_explained_and_touches_nothing(scene: Scene) -> None:
    before = scene.bucket.look("")

    run = scene.airflow.trigger("places_sitemap", {"dry_run": True, "full": True})

    assert scene.airflow.wait_for_run("places_sitemap", run)["state"] == "success"
    states = {task["task_id"]: task["state"] for task in scene.tasks("places_sitemap", run)}
    assert states == {"sitemap.plan": "success", "sitemap.write": "skipped", "sitemap.publish": "skipped"}
    assert scene.bucket.look("") == before
