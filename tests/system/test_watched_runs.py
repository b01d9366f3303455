"""What watches an Airflow installation sees of runs in a real scheduler: OpenTelemetry, OpenLineage, a deadline."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from tests.lineage import specification
from tests.support.airflow_processes import Airflow, running
from tests.support.otlp_server import OtlpServer, otlp_server
from tests.support.website import Page, Site, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.system, pytest.mark.long, pytest.mark.timeout(900)]

PASSWORD = "s3cr3t-passw0rd"
DAGS = """
from datetime import timedelta
from airflow.sdk import DAG, AsyncCallback, DeadlineAlert, DeadlineReference
from airflow_sitemaps import (
    LocalStore, Section, Sitemap, SitemapFreshnessOperator, SitemapNotifier, SitemapTaskGroup, SqlSource,
)
from airflow_sitemaps.http import HttpClient
from airflow_sitemaps.http import AccessRules

rules = AccessRules(allow_http=True, allow_private=True)
targets = [{
    "notifier": "airflow.providers.http.notifications.HttpNotifier",
    "http_conn_id": "hook",
    "endpoint": "alert",
    "json": {"text": "{{ sitemap.text }}"},
}]

def sitemap(name):
    source = SqlSource("shop", table="products", key="id", loc=f"WEB/{name}/{{slug}}")
    store = LocalStore(f"FOLDER/site/{name}", base_url=f"WEB/{name}/")
    return Sitemap(store, [Section("products", source)], freshness=timedelta(days=1))

for name in ("shop", "unserved"):
    published = sitemap(name)
    late = DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(hours=2) if name == "shop" else timedelta(seconds=1),
        callback=AsyncCallback(SitemapNotifier, kwargs={"sitemap": published.index_url, "targets": targets}),
    )
    with DAG(name, schedule=None, max_active_runs=1, default_args={"retries": 0}, deadline=late):
        SitemapTaskGroup("sitemap", published) >> SitemapFreshnessOperator(
            task_id="served", sitemap=published, http=HttpClient(rules=rules), retries=200
        )
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a warehouse of two usable rows and one without a URL."""
    folder = tmp_path_factory.mktemp("watched")
    with sqlite3.connect(folder / "shop.db") as database:
        database.execute("CREATE TABLE products (id INTEGER PRIMARY KEY, slug TEXT)")
        database.executemany("INSERT INTO products VALUES (?, ?)", [(1, "a"), (2, "b"), (3, None)])
    database.close()
    return folder


@pytest.fixture(scope="module")
def web(folder: Path) -> Iterator[Site]:
    """A web server in front of the published folder, which also receives alerts."""

    def write(request: Any) -> None:
        index = folder / "site" / request.path.removeprefix("/")
        body = index.read_bytes() if index.exists() else b""
        request.send_response(200 if body else 404)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    with serving() as site:
        site.pages["/alert"] = Page(b"ok")
        for name in ("shop/sitemap.xml", "shop/products-00001.xml.gz", "unserved/products-00001.xml.gz"):
            site.pages[f"/{name}"] = Page(write=write)
        yield site


@pytest.fixture(scope="module")
def otlp() -> Iterator[OtlpServer]:
    with otlp_server() as server:
        yield server


@pytest.fixture(scope="module")
def airflow(folder: Path, web: Site, otlp: OtlpServer) -> Iterator[Airflow]:
    (folder / "dags").mkdir()
    (folder / "dags" / "watched.py").write_text(DAGS.replace("FOLDER", str(folder)).replace("WEB", web.base))
    shop = {"conn_type": "generic", "password": PASSWORD, "extra": {"sqlalchemy_url": f"sqlite:///{folder}/shop.db"}}
    settings = {
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__DEFAULT_TASK_RETRIES": "2",
        "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "1",
        "AIRFLOW_CONN_SHOP": json.dumps(shop),
        "AIRFLOW_CONN_HOOK": json.dumps({"conn_type": "http", "host": web.base}),
        "AIRFLOW__METRICS__OTEL_ON": "True",
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": f"http://127.0.0.1:{otlp.port}/v1/metrics",
        "OTEL_METRIC_EXPORT_INTERVAL": "1000",
        "AIRFLOW__OPENLINEAGE__NAMESPACE": "tests",
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(
            {"type": "file", "log_file_path": str(folder / "events.jsonl"), "append": True}
        ),
    }
    with running(folder, settings) as airflow:
        airflow.start("triggerer")
        airflow.wait("the DAGs", lambda: airflow.get("/dags")["total_entries"] == 2, seconds=300)
        yield airflow


@pytest.fixture(scope="module")
def published(airflow: Airflow) -> dict[str, Any]:
    """A run that succeeded, as the API shows it."""
    run = airflow.wait_for_run("shop", airflow.trigger("shop"), seconds=300)
    assert run["state"] == "success", run
    return run


@pytest.mark.usefixtures("published")
def test_opentelemetry_receives_the_metrics_of_a_run(otlp: OtlpServer, web: Site) -> None:
    tag = f"{web.base.removeprefix('http://').replace(':', '_')}_shop_sitemap.xml"
    products = {"sitemap": tag, "section": "products"}
    expected = {
        ("airflow.sitemaps.runs", "sum", 1, ("result", "published")),
        ("airflow.sitemaps.rows_read", "sum", 3, ()),
        ("airflow.sitemaps.shards_changed", "sum", 1, ("outcome", "created")),
        ("airflow.sitemaps.urls", "gauge", 2, ()),
        ("airflow.sitemaps.rows", "gauge", 3, ()),
        ("airflow.sitemaps.rows_dropped", "gauge", 1, ("rule", "loc-missing")),
        ("airflow.sitemaps.generation", "gauge", 1, ()),
    }
    for name, kind, value, more in expected:
        of_section = name.rpartition(".")[2] not in ("runs", "generation")
        attributes = {**(products if of_section else {"sitemap": tag}), **(dict([more]) if more else {})}
        point = otlp.wait_for(name, **attributes)
        assert (point.kind, point.value, point.tags) == (kind, value, attributes), name
    assert 0 <= otlp.wait_for("airflow.sitemaps.served_index_age", sitemap=tag).value < 86_400
    assert PASSWORD not in repr(otlp.points)


def test_openlineage_receives_valid_events_of_a_run(published: dict[str, Any], airflow: Airflow, folder: Path) -> None:
    def completed() -> Any:
        lines = (folder / "events.jsonl").read_text().splitlines()
        events = [json.loads(line) for line in lines]
        done = [e for e in events if e["eventType"] == "COMPLETE" and e["job"]["name"] == "shop.sitemap.publish"]
        return (events, done) if done else None

    events, (publish,) = airflow.wait("the event of publish", completed)

    for event in events:
        specification.validate(event)
    (table,) = publish["inputs"]
    assert (table["name"], table["inputFacets"]["inputStatistics"]["rowCount"]) == ("products", 3)
    statistics = [dataset["outputFacets"]["outputStatistics"]["rowCount"] for dataset in publish["outputs"]]
    assert statistics == [2, 2]
    assert PASSWORD not in json.dumps(events)


def test_an_index_that_is_not_served_in_time_causes_the_message_of_a_missed_deadline(
    published: dict[str, Any], airflow: Airflow, web: Site
) -> None:
    """The page's example: a run ends when crawlers get the index, and Airflow's own deadline reports one that does not."""
    run_id = airflow.trigger("unserved")

    def alerts() -> Any:
        return [json.loads(body)["text"] for _, path, _, body in web.asked if path == "/alert"]

    (alert,) = airflow.wait("the alert", alerts, seconds=300)
    title, reason, action, link = alert.splitlines()
    assert title == f"Sitemap late: {web.base}/unserved/sitemap.xml was not published in time"
    assert reason.startswith("The deadline was ")
    assert action.startswith("To do: Check whether the run waits")
    assert link.startswith(f"{airflow.url}/dags/unserved/runs/{run_id.partition('+')[0]}")
    assert PASSWORD not in alert

    web.pages["/unserved/sitemap.xml"] = web.pages["/shop/sitemap.xml"]
    assert airflow.wait_for_run("unserved", run_id, seconds=300)["state"] == "success"
