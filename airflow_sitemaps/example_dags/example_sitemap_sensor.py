"""When a table has changed, to Google Cloud Storage: a sensor waits in the triggerer, without a worker slot.

The connection ``warehouse`` is the database, ``google_cloud_default`` the project with the bucket.
"""

from __future__ import annotations

from datetime import datetime, timezone

from airflow.sdk import DAG

from airflow_sitemaps import GCSStore, Section, Sitemap, SitemapSourceSensor, SitemapTaskGroup, SqlSource

SITE = "https://gcs.example.com/"

# [START howto_sitemap_sensor]
products = SqlSource(
    "warehouse",
    table="products",
    key="id",
    loc=SITE + "p/{slug}",
    lastmod="updated_at",
)
store = GCSStore("gs://example-web/public", base_url=SITE)
sitemap = Sitemap(store, [Section("products", products)])

with DAG(
    "example_sitemap_sensor",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    tags=["example", "sitemap"],
) as dag:
    changed = SitemapSourceSensor(
        task_id="changed",
        sitemap=sitemap,
        poke_interval=60,
        timeout=3000,
        soft_fail=True,
        deferrable=True,
    )
    changed >> SitemapTaskGroup("sitemap", sitemap)
# [END howto_sitemap_sensor]
