"""The plugin class that Airflow finds by its entry point. Nothing heavy is imported before the API server asks."""

from __future__ import annotations

from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from airflow.plugins_manager import AirflowPlugin

from airflow_sitemaps.addresses import API_PREFIX, DAG_ROUTE, NAV_ROUTE, RUN_ROUTE

STATIC: Final = Path(__file__).parent / "static"
BUNDLE: Final = "airflow-sitemaps.js"
VIEWS: Final = (
    ("Sitemaps", "nav", NAV_ROUTE),
    ("Sitemap", "dag", DAG_ROUTE),
    ("Sitemap run", "dag_run", RUN_ROUTE),
)
"""Name (unique: the host keeps components by it), destination and route of each page."""


def bundle_address(app: int) -> str:
    """The bundle's address, relative to the page's base, so that it works under any path prefix and host name.

    Each view needs another one: the host imports a module once, and finds nothing the second time. The checksum lets
    browsers keep the file until it changes.
    """
    file = STATIC / BUNDLE
    version = sha256(file.read_bytes()).hexdigest()[:12] if file.exists() else "missing"
    return f"{API_PREFIX.removeprefix('/')}/static/{BUNDLE}?app={app}&v={version}"


class SitemapsPlugin(AirflowPlugin):
    """The page "Sitemaps", the tabs on a DAG and a run, and the API beneath them."""

    name = "sitemaps"

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The API, made when the API server asks for it: FastAPI takes two seconds to import."""
        from airflow_sitemaps.plugin.api import make_app

        return [{"app": make_app(), "url_prefix": API_PREFIX, "name": "Sitemaps"}]

    @cached_property
    def react_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The three views, all from one bundle."""
        icon = f"{API_PREFIX.removeprefix('/')}/static/icon"
        return [
            {
                "name": name,
                "bundle_url": bundle_address(number),
                "destination": destination,
                "url_route": route,
                "icon": f"{icon}.svg",
                "icon_dark_mode": f"{icon}-dark.svg",
                "nav_top_level": destination == "nav",
            }
            for number, (name, destination, route) in enumerate(VIEWS)
        ]
