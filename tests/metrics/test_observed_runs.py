"""What watches an Airflow installation sees of real runs: metrics by name, tags and value, over StatsD and OTLP alike."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils

from airflow_sitemaps import LocalStore, Section, Sitemap, SitemapTaskGroup, SitemapVerifyOperator
from airflow_sitemaps.testing import MemorySourceConfig
from tests.support.airflow_db import run, states
from tests.support.otlp_backend import close_exporter

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.otlp_server import OtlpServer
    from tests.support.statsd_server import StatsdServer

URL = "https://shop.example/"
SITEMAP = {"sitemap": "shop.example_sitemap.xml"}
PRODUCTS = {**SITEMAP, "section": "products"}


def measured_dag(name: str, folder: Path, rows: list[dict[str, Any]]) -> DAG:
    sitemap = Sitemap(LocalStore(folder / "site", base_url=URL), [Section("products", MemorySourceConfig(rows))])
    with DAG(name, schedule=None, max_active_runs=1, default_args={"retries": 0}) as dag:
        SitemapTaskGroup("sitemap", sitemap) >> SitemapVerifyOperator(task_id="verify", sitemap=sitemap)
    return dag


@pytest.mark.parametrize("backend", ["statsd", "otlp"])
def test_runs_are_measured_whatever_their_result(backend: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    server: StatsdServer | OtlpServer = request.getfixturevalue(backend)
    counter, gauge = ("c", "g") if backend == "statsd" else ("sum", "gauge")
    rows: list[dict[str, Any]] = [{"id": n, "loc": f"{URL}p/{n}"} for n in range(2_000)]
    dag = measured_dag(f"measured_{backend}", tmp_path, rows)

    def seen(name: str, **tags: str) -> tuple[str, float]:
        sample = server.wait_for(f"airflow.sitemaps.{name}", **tags)
        assert sample.tags == tags
        return sample.kind, sample.value

    assert set(states(run(dag)).values()) == {"success"}
    assert seen("runs", **SITEMAP, result="published") == (counter, 1)
    assert seen("rows_read", **PRODUCTS) == (counter, 2_000)
    assert seen("shards_changed", **PRODUCTS, outcome="created") == (counter, 1)
    assert seen("urls", **PRODUCTS) == (gauge, 2_000)
    assert seen("generation", **SITEMAP) == (gauge, 1)
    assert seen("rows_dropped", **PRODUCTS, rule="loc-missing") == (gauge, 0)
    assert seen("verify_errors", **SITEMAP) == (gauge, 0)

    del rows[500:]
    refused = states(run(dag))
    assert refused["sitemap.plan"] == "failed"
    assert seen("runs", **SITEMAP, result="refused") == (counter, 1)
    assert seen("refusals", **PRODUCTS, guard="shrink") == (counter, 1)


def test_a_collector_that_is_down_does_not_fail_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    monkeypatch.setenv("AIRFLOW__METRICS__OTEL_ON", "True")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", f"http://127.0.0.1:{port}/v1/metrics")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "1")
    stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
    try:
        ended = run(measured_dag("measured_down", tmp_path, [{"id": 1, "loc": f"{URL}p/1"}]))
    finally:
        close_exporter()

    assert set(states(ended).values()) == {"success"}
    assert (tmp_path / "site" / "sitemap.xml").exists()
    assert "Failed to export metrics" in caplog.text
