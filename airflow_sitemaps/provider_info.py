"""The description of this package that Airflow reads from a provider.

It names no connection types: Airflow ties each connection form to a hook, and this package has no hook of its own. Its
connections are those of other providers, whose forms Airflow shows, or of the type ``generic``. It names no plugin
either: the entry point ``airflow.plugins`` does, and Airflow would load the plugin twice.
"""

from __future__ import annotations

from typing import Any, Final

_INTEGRATION: Final = "Sitemaps"
_OPERATORS: Final = ("plan", "publish", "decisions", "verify", "announcements", "inspections")

_OPTIONS: Final = {
    "metrics": "Whether the tasks send metrics to the backend of the section [metrics].",
    "lineage": "Whether the tasks report their tables and files to Airflow's OpenLineage provider.",
}

_LINKS: Final = ("SitemapIndexLink", "SitemapPageLink", "SitemapConsoleLink")


def get_provider_info() -> dict[str, Any]:
    """The provider's metadata, by Airflow's provider info schema."""
    return {
        "package-name": "airflow-sitemaps",
        "name": _INTEGRATION,
        "description": "Large-scale sitemaps from SQL: sharded, incremental, published safely.",
        "integrations": [
            {
                "integration-name": _INTEGRATION,
                "external-doc-url": "https://pypi.org/project/airflow-sitemaps/",
                "how-to-guide": ["/docs/examples.md", "/docs/start.md"],
                "logo": "/sitemaps-ui/static/icon.svg",
                "tags": ["service"],
            }
        ],
        "operators": [
            {
                "integration-name": _INTEGRATION,
                "python-modules": [f"airflow_sitemaps.operators.{name}" for name in _OPERATORS],
            }
        ],
        "sensors": [{"integration-name": _INTEGRATION, "python-modules": ["airflow_sitemaps.sensors"]}],
        "triggers": [{"integration-name": _INTEGRATION, "python-modules": ["airflow_sitemaps.triggers"]}],
        "cli": ["airflow_sitemaps.cli.main.get_cli_commands"],
        "asset-uris": [
            {
                "schemes": ["sitemap"],
                "handler": "airflow_sitemaps.operators.lineage.sanitize_uri",
                "factory": "airflow_sitemaps.operators.lineage.create_asset",
                "to_openlineage_converter": "airflow_sitemaps.operators.lineage.convert_asset_to_openlineage",
            }
        ],
        "config": {
            "sitemaps": {
                "description": "Settings of airflow-sitemaps that hold for all DAGs.",
                "options": {
                    name: {
                        "description": text,
                        "type": "boolean",
                        "default": "True",
                        "example": None,
                        "version_added": "0.1.0",
                    }
                    for name, text in _OPTIONS.items()
                },
            }
        },
        "notifications": ["airflow_sitemaps.notifications.SitemapNotifier"],
        "extra-links": [f"airflow_sitemaps.operators.links.{name}" for name in _LINKS],
    }
