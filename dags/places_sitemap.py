"""On a schedule: the places of the world as one sitemap of three sections, each night.

The connection ``places`` is the warehouse, ``aws_default`` the S3 store; ``load_places`` fills the warehouse.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone

from airflow.sdk import dag

from airflow_sitemaps import Approval, Observed, S3Store, Section, ShardPolicy, Sitemap, SitemapTaskGroup, SqlSource

SITE = "https://places.example"

sitemap = Sitemap(
    store=S3Store(os.environ.get("PLACES_STORE", "s3://places-web/site"), base_url=f"{SITE}/"),
    sections=[
        Section(
            "places",
            SqlSource(
                "places",
                table="places",
                key="id",
                loc=SITE + "/{country}/{slug}-{id}",
                lastmod=Observed("name", "population", initial="updated_at"),
            ),
        ),
        Section(
            "native",
            SqlSource(
                "places",
                table="places",
                where="native_name IS NOT NULL",
                key="id",
                loc=SITE + "/native/{native_name}-{id}",
                lastmod="updated_at",
            ),
        ),
        Section(
            "countries",
            SqlSource("places", table="countries", key="code", loc=SITE + "/{code}", lastmod="updated_at"),
        ),
    ],
    shards=ShardPolicy(max_urls=int(os.environ.get("PLACES_MAX_URLS", "50000"))),
)


@dag(
    schedule="@daily",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=30)},
    tags=["sitemap"],
)
def places_sitemap() -> None:
    SitemapTaskGroup("sitemap", sitemap, approval=Approval())


places_sitemap()
