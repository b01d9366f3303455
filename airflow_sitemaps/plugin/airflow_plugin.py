"""The plugin class that Airflow finds by its entry point. Expensive imports wait until the API server needs them."""

from __future__ import annotations

from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps import __version__
from airflow_sitemaps.airflow_compat import AirflowPlugin
from airflow_sitemaps.operators.links import API_PREFIX, DAG_ROUTE, NAV_ROUTE, RUN_ROUTE, WIDGET_ROUTE
from airflow_sitemaps.plugin import STATIC

if TYPE_CHECKING:
    from fastapi import FastAPI

BUNDLE: Final = "airflow-sitemaps.js"
VIEWS: Final = (
    ("Sitemaps", "nav", NAV_ROUTE),
    ("Sitemap", "dag", DAG_ROUTE),
    ("Sitemap run", "dag_run", RUN_ROUTE),
    ("Sitemaps overview", "dashboard", WIDGET_ROUTE),
)
"""Name, destination and route of each view. The name is unique, because the host identifies components by it."""


def bundle_address(app: int) -> str:
    """Return the address of a view's bundle.

    It is relative to the page's base, so that it works under any path prefix and host. Each view has its own, because
    the host imports a module once. The checksum in it lets browsers keep the file until it changes.
    """
    file = STATIC / BUNDLE
    version = sha256(file.read_bytes()).hexdigest()[:12] if file.exists() else "missing"
    return f"{API_PREFIX.removeprefix('/')}/static/{BUNDLE}?app={app}&v={version}"


def make_app() -> FastAPI:
    """Return the application that is mounted on the API server."""
    from fastapi import FastAPI
    from fastapi.exceptions import RequestValidationError

    from airflow_sitemaps.plugin import routes, store_routes
    from airflow_sitemaps.plugin.state_reader import StateUnavailableError

    app = FastAPI(
        title="Sitemaps",
        version=__version__,
        description="What Airflow knows about the sitemaps that its DAGs publish. Serves the pages in Airflow's UI.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    for router in (routes.router, store_routes.router, routes.static_router):
        app.include_router(router)
    app.add_exception_handler(StateUnavailableError, store_routes.unavailable)
    app.add_exception_handler(RequestValidationError, routes.wrong_request)
    return app


class SitemapsPlugin(AirflowPlugin):
    """The page "Sitemaps", the tabs on a DAG and a run, the panel on the dashboard, and the API beneath them."""

    name = "sitemaps"

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The API. It is created when the API server requests it, because FastAPI takes two seconds to import."""
        return [{"app": make_app(), "url_prefix": API_PREFIX, "name": "Sitemaps"}]

    @cached_property
    def react_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The four views, all served from one bundle."""
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
