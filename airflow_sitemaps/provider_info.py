"""What Airflow is told about this package as a provider."""

from __future__ import annotations

from typing import Any, Final

_INTEGRATION: Final = "Sitemaps"
_OPERATORS: Final = ("plan", "write", "publish", "verify", "rollback", "indexnow", "searchconsole", "ping")

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
                "external-doc-url": "https://www.sitemaps.org/protocol.html",
                "tags": ["service"],
            }
        ],
        "operators": [
            {
                "integration-name": _INTEGRATION,
                "python-modules": [f"airflow_sitemaps.operators.{name}" for name in _OPERATORS],
            }
        ],
        "extra-links": [f"airflow_sitemaps.links.{name}" for name in _LINKS],
    }
