"""DAGs that the browser tests run: a healthy sitemap, one that a guard refuses, one with hostile rows, a rollback.

``failing`` never publishes; ``unreachable`` has a store that nothing serves; ``regions`` publishes three sitemaps, one of
them with an index per section, feeds, a file of recent entries, images and alternates; ``twin_a`` and ``twin_b`` publish to one address, and ``twin_b`` fails. ``huge`` and
``planted`` are never run: their history and manifests are generated, to show 50,000 shards and hostile names.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, Param

from airflow_sitemaps import Guards, LocalStore, S3Store, Section, ShardPolicy, Sitemap, SitemapTaskGroup, SqlSource
from airflow_sitemaps.operators.publish import SitemapRollbackOperator
from airflow_sitemaps.operators.verify import SitemapVerifyOperator

SITES = Path(os.environ["SITEMAPS_UI_SITES"])


def section(name: str, table: str, host: str) -> Section:
    source = SqlSource("warehouse", table=table, key="id", loc=f"https://{host}/{name}/{{slug}}", lastmod="updated_at")
    return Section(name, source)


shop = Sitemap(
    LocalStore(SITES / "shop", base_url="https://shop.example/"),
    [section("products", "products", "shop.example"), section("articles", "articles", "shop.example")],
    shards=ShardPolicy(max_urls=40),
    guards=Guards(max_dropped=0.5),
)
fading = Sitemap(
    LocalStore(SITES / "fading", base_url="https://fading.example/"),
    [section("offers", "offers", "fading.example")],
    shards=ShardPolicy(max_urls=500),
)
hostile = Sitemap(
    LocalStore(SITES / "hostile", base_url="https://hostile.example/"),
    [Section("rows", SqlSource("warehouse", table="hostile", key="id", loc="loc", lastmod="updated_at"))],
    guards=Guards(max_dropped=1.0),
)

with DAG("shop", schedule=None, max_active_runs=1, default_args={"retries": 0}) as shop_dag:
    group = SitemapTaskGroup("sitemap", shop, batch_size=10, write_kwargs={"max_active_tis_per_dagrun": 1})

with DAG("shop_verify", schedule=None, max_active_runs=1, default_args={"retries": 0}) as verify_dag:
    SitemapVerifyOperator(task_id="verify", sitemap=shop, inlets=[shop.asset])

with DAG(
    "shop_rollback", schedule=None, max_active_runs=1, params={"generation": Param(1, type="integer", minimum=1)}
) as rollback_dag:
    SitemapRollbackOperator(task_id="rollback", sitemap=shop, generation="{{ params.generation }}")

with DAG("fading", schedule=None, max_active_runs=1, default_args={"retries": 0}) as fading_dag:
    SitemapTaskGroup("sitemap", fading)

with DAG("hostile", schedule=None, max_active_runs=1, default_args={"retries": 0}) as hostile_dag:
    SitemapTaskGroup("sitemap", hostile)

huge = Sitemap(
    LocalStore(SITES / "huge", base_url="https://huge.example/"), [section("products", "products", "huge.example")]
)
with DAG("huge", schedule=None, max_active_runs=1, default_args={"retries": 0}) as huge_dag:
    SitemapTaskGroup("sitemap", huge)

planted = Sitemap(
    LocalStore(SITES / "planted", base_url="https://planted.example/"),
    [section("products", "products", "planted.example")],
)
with DAG("planted", schedule=None, max_active_runs=1, default_args={"retries": 0}) as planted_dag:
    SitemapTaskGroup("sitemap", planted)

unreachable = Sitemap(
    S3Store("s3://nowhere/maps", base_url="https://unreachable.example/", conn_id="nowhere"),
    [section("articles", "articles", "unreachable.example")],
)
with DAG("unreachable", schedule=None, max_active_runs=1, default_args={"retries": 0}) as unreachable_dag:
    SitemapTaskGroup("sitemap", unreachable)

guides = SqlSource(
    "warehouse", table="guides", key="id", loc="https://regions.example/guides/{slug}", lastmod="updated_at",
    images="image", alternates="other",
)  # fmt: skip
north = Sitemap(
    LocalStore(SITES / "north", base_url="https://regions.example/"),
    [Section("guides", guides), section("articles", "articles", "regions.example")],
    guards=Guards(max_dropped=0.5),
    index="per_section",
    feeds=("rss", "atom"),
    recent=timedelta(days=2),
)
others = [
    Sitemap(
        LocalStore(SITES / name, base_url=f"https://{name}.example/"),
        [section("products", "products", f"{name}.example")],
    )
    for name in ("south", "west")
]
with DAG("regions", schedule=None, max_active_runs=1, default_args={"retries": 0}) as regions_dag:
    for name, sitemap in zip(("north", "south", "west"), (north, *others), strict=True):
        SitemapTaskGroup(name, sitemap)

failing = Sitemap(
    LocalStore(SITES / "failing", base_url="https://failing.example/"),
    [section("missing", "no_such_table", "failing.example")],
)
with DAG("failing", schedule=None, max_active_runs=1, default_args={"retries": 0}, tags=["seo"]) as failing_dag:
    SitemapTaskGroup("sitemap", failing)

for dag_id, table in (("twin_a", "articles"), ("twin_b", "no_such_table")):
    twin = Sitemap(
        LocalStore(SITES / "twin", base_url="https://twin.example/"), [section("pages", table, "twin.example")],
        guards=Guards(max_dropped=0.5), owner="twin",
    )  # fmt: skip
    with DAG(dag_id, schedule="@daily", catchup=False, max_active_runs=1, default_args={"retries": 0}) as twin_dag:
        SitemapTaskGroup("sitemap", twin)
    globals()[dag_id] = twin_dag
