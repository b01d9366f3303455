"""Links that Airflow's UI shows on a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

from airflow_sitemaps.addresses import sitemap_page
from airflow_sitemaps.stores.s3 import S3Store

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

    from airflow_sitemaps.sitemap import Sitemap


@runtime_checkable
class SitemapHolder(Protocol):
    """An operator that holds a sitemap."""

    sitemap: Sitemap


class SitemapIndexLink(BaseOperatorLink):
    """From the publishing task to the index it published."""

    name = "Sitemap index"

    @property
    def xcom_key(self) -> str:
        """Where the worker leaves the address for the UI."""
        return "sitemap_index_url"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The index's public address; only http and https are linked."""
        url = operator.sitemap.index_url if isinstance(operator, SitemapHolder) else ""
        return url if url.startswith(("https://", "http://")) else ""


class SitemapPageLink(BaseOperatorLink):
    """From the publishing task to the sitemap's page in Airflow's own UI."""

    name = "Sitemap page"

    @property
    def xcom_key(self) -> str:
        """Where the worker leaves the address for the UI."""
        return "sitemap_page_url"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The page's address below the API server's ``base_url``."""
        from airflow.sdk.configuration import conf  # noqa: PLC0415 - not needed to parse a DAG

        if not isinstance(operator, SitemapHolder):
            return ""
        base = conf.get("api", "base_url", fallback="") or ""
        return base.rstrip("/") + sitemap_page(str(operator.sitemap.asset.uri))


class SitemapConsoleLink(BaseOperatorLink):
    """From the publishing task to the files in AWS's console; empty for other stores."""

    name = "S3 console"

    @property
    def xcom_key(self) -> str:
        """Where the worker leaves the address for the UI."""
        return "sitemap_console_url"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The console's page of the public prefix."""
        store = operator.sitemap.store if isinstance(operator, SitemapHolder) else None
        return console_address(store) if isinstance(store, S3Store) else ""


def console_address(store: S3Store) -> str:
    """The page of a store's public prefix in AWS's console; empty where its connection names another endpoint."""
    from airflow_sitemaps.stores.s3_client import connection_of, is_aws  # noqa: PLC0415 - boto3

    if not is_aws(connection_of(store.conn_id).endpoint):
        return ""
    where = f"{quote(store.public.bucket)}?prefix={quote(store.public.prefix, safe='')}"
    return f"https://console.aws.amazon.com/s3/buckets/{where}"
