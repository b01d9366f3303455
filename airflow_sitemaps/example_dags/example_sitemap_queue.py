"""On a message, to Azure Blob Storage: an asset watcher polls a queue in the triggerer, and a message starts the run.

The connection ``warehouse`` is the database, ``wasb_default`` the storage account, ``aws_default`` the account with the
queue. The triggerer needs ``apache-airflow-providers-amazon[aiobotocore]``; other queues have triggers in their providers.
"""

from __future__ import annotations

from airflow.providers.amazon.aws.triggers.sqs import SqsSensorTrigger
from airflow.sdk import DAG, Asset, AssetWatcher

from airflow_sitemaps import AzureBlobStore, Section, Sitemap, SitemapTaskGroup, SqlSource

SITE = "https://azure.example.com/"

# [START howto_sitemap_queue]
QUEUE = "https://sqs.eu-west-1.amazonaws.com/123456789012/loads"
queue = SqsSensorTrigger(QUEUE, waiter_delay=10)
message = Asset("example_load_message", watchers=[AssetWatcher("queue", trigger=queue)])
products = SqlSource(
    "warehouse",
    table="products",
    key="id",
    loc=SITE + "p/{slug}",
    lastmod="updated_at",
)
store = AzureBlobStore("az://example-web/public", base_url=SITE)
sitemap = Sitemap(store, [Section("products", products)])

with DAG(
    "example_sitemap_queue",
    schedule=[message],
    max_active_runs=1,
    tags=["example", "sitemap"],
) as dag:
    SitemapTaskGroup("sitemap", sitemap)
# [END howto_sitemap_queue]
