"""A DAG that Airflow runs in this process publishes to Azure and to Google Cloud Storage, by Airflow connections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG

from airflow_sitemaps import Section, ShardPolicy, Sitemap, SitemapTaskGroup
from airflow_sitemaps.operators.links import SitemapConsoleLink
from airflow_sitemaps.pipeline.state.capability_probe import forget
from airflow_sitemaps.testing import MemorySourceConfig, crawl
from tests.stores.conftest import BASE
from tests.support.airflow_db import events, run, states

if TYPE_CHECKING:
    from airflow_sitemaps.stores.azure import AzureBlobStore
    from airflow_sitemaps.stores.gcs import GCSStore

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize("kind", ["azure", "gcs"])
def test_two_runs_publish_what_changed(kind: str, request: pytest.FixtureRequest) -> None:
    forget()
    store: AzureBlobStore | GCSStore = request.getfixturevalue(f"{kind}_store")
    rows: list[dict[str, Any]] = [{"id": n, "loc": f"{BASE}p/{n}"} for n in range(25)]
    sitemap = Sitemap(store, [Section("products", MemorySourceConfig(rows, key="id"))], shards=ShardPolicy(max_urls=10))
    with DAG(f"sitemap_on_{kind}", schedule=None, max_active_runs=1, default_args={"retries": 0}) as dag:
        SitemapTaskGroup("sitemap", sitemap)

    first = run(dag)

    assert set(states(first).values()) == {"success"}, states(first)
    assert crawl(store.open()).locs() == {row["loc"] for row in rows}
    rows.append({"id": 99, "loc": f"{BASE}p/99"})
    assert set(states(run(dag)).values()) == {"success"}
    assert crawl(store.open()).locs() == {row["loc"] for row in rows}
    _, event = events(dag.dag_id)
    assert event["store"]["state_url"] == store.state_uri
    assert event["store"]["conn_id"] == store.conn_id
    publish = dag.get_task("sitemap.publish")
    assert SitemapConsoleLink().get_link(publish, ti_key=None) == store.console_url()
