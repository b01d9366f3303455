"""Links that Airflow's UI shows on a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from airflow.sdk import BaseOperatorLink

from airflow_sitemaps.airflow_compat import api_base_url
from airflow_sitemaps.ui_routes import sitemap_page

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

    from airflow_sitemaps.sitemap import Sitemap


@runtime_checkable
class SitemapHolder(Protocol):
    """An operator that holds a sitemap."""

    sitemap: Sitemap


class SitemapIndexLink(BaseOperatorLink):
    """A link from the publishing task to the index that it published."""

    name = "Sitemap index"

    @property
    def xcom_key(self) -> str:
        """XCom key under which the worker stores the address for the UI."""
        return "sitemap_index_url"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the index's public address; empty unless it is an http or https address."""
        url = operator.sitemap.index_url if isinstance(operator, SitemapHolder) else ""
        return url if url.startswith(("https://", "http://")) else ""


class SitemapPageLink(BaseOperatorLink):
    """A link from the publishing task to the sitemap's page in Airflow's UI."""

    name = "Sitemap page"

    @property
    def xcom_key(self) -> str:
        """XCom key under which the worker stores the address for the UI."""
        return "sitemap_page_url"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the page's address under the API server's ``base_url``."""
        if not isinstance(operator, SitemapHolder):
            return ""
        return api_base_url() + sitemap_page(str(operator.sitemap.asset.uri))


class SitemapConsoleLink(BaseOperatorLink):
    """A link from the publishing task to the files in the store's web console; empty if the store has none."""

    name = "Store console"

    @property
    def xcom_key(self) -> str:
        """XCom key under which the worker stores the address for the UI."""
        return "sitemap_console_url"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the console's page of the public prefix."""
        return operator.sitemap.store.console_url() if isinstance(operator, SitemapHolder) else ""
