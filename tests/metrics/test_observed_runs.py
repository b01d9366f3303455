"""What watches an Airflow installation sees of real runs: metrics by name, tags and value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG

from airflow_sitemaps import LocalStore, Section, Sitemap, SitemapTaskGroup, SitemapVerifyOperator
from airflow_sitemaps.testing.source import MemorySourceConfig
from tests.support.airflow_db import run, states

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.statsd_server import StatsdServer

URL = "https://shop.example/"
SITEMAP = {"sitemap": "shop.example_sitemap.xml"}


def test_runs_are_measured_whatever_their_result(tmp_path: Path, statsd: StatsdServer) -> None:
    rows: list[dict[str, Any]] = [{"id": n, "loc": f"{URL}p/{n}"} for n in range(2_000)]
    sitemap = Sitemap(LocalStore(tmp_path / "site", base_url=URL), [Section("products", MemorySourceConfig(rows))])
    with DAG("measured", schedule=None, max_active_runs=1) as dag:
        SitemapTaskGroup("sitemap", sitemap) >> SitemapVerifyOperator(task_id="verify", sitemap=sitemap)

    assert set(states(run(dag)).values()) == {"success"}
    products = {**SITEMAP, "section": "products"}
    assert statsd.wait_for("airflow.sitemaps.runs", **SITEMAP, result="published").value == 1
    assert statsd.wait_for("airflow.sitemaps.urls", **products).value == 2_000
    assert statsd.wait_for("airflow.sitemaps.rows_read", **products).value == 2_000
    assert statsd.wait_for("airflow.sitemaps.shards_changed", **products, outcome="created").value == 1
    assert statsd.wait_for("airflow.sitemaps.verify_errors", **SITEMAP).value == 0

    del rows[500:]
    refused = states(run(dag))
    assert refused["sitemap.plan"] == "failed"
    assert statsd.wait_for("airflow.sitemaps.runs", **SITEMAP, result="refused").value == 1
    assert statsd.wait_for("airflow.sitemaps.refusals", **products, guard="shrink").value == 1
