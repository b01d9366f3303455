"""Paths of the pages within Airflow's UI, for links from tasks, logs and messages."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

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


def dag_page(dag_id: str) -> str:
    """The sitemap tab of a DAG."""
    return f"/dags/{quote(dag_id, safe=SAFE)}/plugin/{DAG_ROUTE}"


def run_page(dag_id: str, run_id: str) -> str:
    """The sitemap tab of a DAG run."""
    return f"/dags/{quote(dag_id, safe=SAFE)}/runs/{quote(run_id, safe=SAFE)}/plugin/{RUN_ROUTE}"
