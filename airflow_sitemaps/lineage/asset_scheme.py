"""The asset scheme ``sitemap``: ``sitemap://www.example.com/sitemap.xml`` names a sitemap by its public address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_sitemaps.errors import ConfigurationError

if TYPE_CHECKING:
    from urllib.parse import SplitResult

SCHEME = "sitemap"


def create_asset(*, url: str, extra: Any = None) -> Any:
    """Return the asset of the sitemap at a public address.

    Args:
        url: Address of the index, such as ``https://www.example.com/sitemap.xml``.

    Raises:
        ConfigurationError: ``url`` is not an absolute http or https address.
    """
    from airflow.sdk import Asset  # noqa: PLC0415 - Airflow takes seconds to import

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(f"{url!r}: give the address of an index, like 'https://www.example.com/sitemap.xml'")
    return Asset(uri=f"{SCHEME}://{parts.netloc.rpartition('@')[2]}{parts.path}", extra=extra)


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """Return the normal form of a ``sitemap://`` URI: without credentials, query and fragment, the host in lower case.

    Raises:
        ValueError: The URI has no host or no path. Airflow expects this type.
    """
    host = uri.netloc.rpartition("@")[2].lower()
    if not host or not uri.path.strip("/"):
        raise ValueError("a sitemap asset has a host and a path, like sitemap://www.example.com/sitemap.xml")
    return uri._replace(netloc=host, query="", fragment="")


def convert_asset_to_openlineage(asset: Any, lineage_context: Any) -> Any:
    """Return the OpenLineage dataset of a ``sitemap://`` asset: the site and the path of the index.

    Args:
        lineage_context: Context that Airflow passes. It is not used.
    """
    from airflow.providers.common.compat.openlineage.facet import Dataset  # noqa: PLC0415 - optional

    parts = urlsplit(asset.uri)
    return Dataset(namespace=f"https://{parts.netloc.rpartition('@')[2]}", name=parts.path)
