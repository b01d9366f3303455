"""After a load, to Amazon S3: the load emits an asset event, which starts the sitemap's run.

The connection ``warehouse`` is the database, ``aws_default`` the account with the bucket.
"""

from __future__ import annotations

import os

from airflow.sdk import DAG, Asset, task

from airflow_sitemaps import S3Store, Section, Sitemap, SitemapTaskGroup, SqlSource

SITE = "https://s3.example.com/"
BUCKET = os.environ.get("SITEMAPS_EXAMPLE_BUCKET", "example-web")

# [START howto_sitemap_asset]
products_loaded = Asset("example_products_loaded")
products = SqlSource(
    "warehouse",
    table="products",
    key="id",
    loc=SITE + "p/{slug}",
    lastmod="updated_at",
)
store = S3Store(f"s3://{BUCKET}/public", base_url=SITE)
sitemap = Sitemap(store, [Section("products", products)])

with DAG("example_sitemap_load", schedule=None, tags=["example", "sitemap"]) as loader:

    @task(outlets=[products_loaded])
    def load() -> None:
        """Load the table. Any operator can have the outlet."""

    load()

with DAG(
    "example_sitemap_asset",
    schedule=[products_loaded],
    max_active_runs=1,
    tags=["example", "sitemap"],
) as dag:
    SitemapTaskGroup("sitemap", sitemap)
# [END howto_sitemap_asset]
