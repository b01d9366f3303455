"""Paths of the pages within Airflow's UI, for logs and messages, and the links that the UI shows on a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from airflow.sdk import BaseOperator, BaseOperatorLink

from airflow_sitemaps.airflow_compat import api_base_url

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey  # from Airflow 3.2 on

NAV_ROUTE: Final = "sitemaps"
DAG_ROUTE: Final = "sitemap"
RUN_ROUTE: Final = "sitemap-run"
WIDGET_ROUTE: Final = "sitemaps-overview"
"""Airflow requires a route for each view; the dashboard's panel is not reached by it."""
API_PREFIX: Final = "/sitemaps-ui"
"""Where the plugin's API and bundle are mounted on the API server."""


SAFE: Final = ":+@$&=,;~!*'()"
"""Characters that Airflow's own links leave as they are; its tab is highlighted only where ours do the same."""


def sitemaps_page() -> str:
    """The list of all sitemaps."""
    return f"/plugin/{NAV_ROUTE}"


def sitemap_page(asset_uri: str) -> str:
    """One sitemap's page, by the URI of the asset that its publisher emits."""
    return f"/plugin/{NAV_ROUTE}?asset={quote(asset_uri, safe='')}"


def comparison_page(asset_uri: str, run: str) -> str:
    """One sitemap's page with a comparison of what a blocked or staged run would publish."""
    return f"{sitemap_page(asset_uri)}&compare={quote(run, safe='')}"


def dag_page(dag_id: str) -> str:
    """The sitemap tab of a DAG."""
    return f"/dags/{quote(dag_id, safe=SAFE)}/plugin/{DAG_ROUTE}"


def run_page(dag_id: str, run_id: str) -> str:
    """The sitemap tab of a DAG run."""
    return f"/dags/{quote(dag_id, safe=SAFE)}/runs/{quote(run_id, safe=SAFE)}/plugin/{RUN_ROUTE}"


class SitemapIndexLink(BaseOperatorLink):
    """A link from the publishing task to the index that it published."""

    name = "Sitemap index"
    xcom_key = "sitemap_index_url"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the index's public address; empty unless it is an http or https address."""
        sitemap = getattr(operator, "sitemap", None)
        url = "" if sitemap is None else str(sitemap.index_url)
        return url if url.startswith(("https://", "http://")) else ""


class SitemapPageLink(BaseOperatorLink):
    """A link from the publishing task to the sitemap's page in Airflow's UI."""

    name = "Sitemap page"
    xcom_key = "sitemap_page_url"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the page's address under the API server's ``base_url``."""
        sitemap = getattr(operator, "sitemap", None)
        return "" if sitemap is None else api_base_url() + sitemap_page(str(sitemap.asset.uri))


class SitemapConsoleLink(BaseOperatorLink):
    """A link from the publishing task to the files in the store's web console; empty if the store has none."""

    name = "Store console"
    xcom_key = "sitemap_console_url"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the console's page of the public prefix."""
        sitemap = getattr(operator, "sitemap", None)
        return "" if sitemap is None else str(sitemap.store.console_url())
