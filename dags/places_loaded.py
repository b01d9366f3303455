"""Triggered by data: one DAG loads the places, and its asset event starts the other, which publishes the cities.

The same connections as ``places_sitemap``. ``PLACES_MAX_URLS`` and ``PLACES_BATCH_SIZE`` make more and smaller tasks of
few rows, for trying out several workers.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from typing import Any

from airflow.sdk import Asset, dag, task

from airflow_sitemaps import S3Store, Section, ShardPolicy, Sitemap, SitemapTaskGroup, SqlSource

SITE = "https://places.example"
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
PLACES = Asset("places loaded", uri="x-places://warehouse/places")

sitemap = Sitemap(
    store=S3Store(os.environ.get("CITIES_STORE", "s3://places-web/cities"), base_url=f"{SITE}/"),
    sections=[
        Section(
            "cities",
            SqlSource(
                "places",
                table="places",
                where="population >= 15000",
                key="id",
                loc=SITE + "/{country}/{slug}-{id}",
                lastmod="updated_at",
            ),
        ),
    ],
    shards=ShardPolicy(max_urls=int(os.environ.get("PLACES_MAX_URLS", "50000"))),
)


@dag(schedule=None, start_date=START, catchup=False, max_active_runs=1, tags=["sitemap"])
def load_places() -> None:
    @task(outlets=[PLACES])
    def load() -> dict[str, Any]:
        from demo.warehouse import load_connection

        return load_connection("places", limit=int(os.environ.get("PLACES_LIMIT", "0")) or None)

    load()


@dag(
    schedule=[PLACES],
    start_date=START,
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=30)},
    tags=["sitemap"],
)
def cities_sitemap() -> None:
    SitemapTaskGroup("sitemap", sitemap, batch_size=int(os.environ.get("PLACES_BATCH_SIZE", "0")) or None)


load_places()
cities_sitemap()
