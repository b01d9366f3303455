"""On a schedule, to a folder: each night a table becomes a sitemap that a web server serves, and a task verifies it.

The connection ``warehouse`` is the database. The worker writes the folder, and the web server serves it.
"""

from __future__ import annotations

import os
from datetime import datetime, timezone

from airflow.sdk import DAG

from airflow_sitemaps import LocalStore, Section, Sitemap, SitemapTaskGroup, SitemapVerifyOperator, SqlSource

SITE = "https://folder.example.com/"
FOLDER = os.environ.get("SITEMAPS_EXAMPLE_FOLDER", "/srv/www")

# [START howto_sitemap_schedule]
products = SqlSource(
    "warehouse",
    table="products",
    key="id",
    loc=SITE + "p/{slug}",
    lastmod="updated_at",
)
store = LocalStore(FOLDER, base_url=SITE)
sitemap = Sitemap(store, [Section("products", products)])

with DAG(
    "example_sitemap_schedule",
    schedule="@daily",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    tags=["example", "sitemap"],
) as dag:
    verify = SitemapVerifyOperator(task_id="verify", sitemap=sitemap)
    SitemapTaskGroup("sitemap", sitemap) >> verify
# [END howto_sitemap_schedule]
