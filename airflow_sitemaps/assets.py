"""A sitemap as an Airflow asset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Asset

from airflow_sitemaps.stores.local.config import LocalStore
from airflow_sitemaps.stores.s3.config import S3Store

if TYPE_CHECKING:
    from datetime import timedelta

    from airflow_sitemaps.ports import StoreConfig

FRESHNESS_KEY: Final = "freshness_s"
"""Key in the asset's ``extra`` that holds ``Sitemap(freshness=…)`` in seconds."""


def asset_of(store: StoreConfig, freshness: timedelta | None) -> Asset:
    """Return the asset that the publishing task emits events for: the index, by its address in the store.

    The name is the address without its scheme, because Airflow allows only one URI for each name.

    Args:
        store: Settings of the sitemap's store.
        freshness: Largest age of the published data. None: no objective.
    """
    uri = f"{_address(store)}/{store.index_name}"
    extra: dict[str, Any] = {} if freshness is None else {FRESHNESS_KEY: freshness.total_seconds()}
    return Asset(name=f"sitemap {uri.split('://', 1)[1]}", uri=uri, extra=extra)


def _address(store: StoreConfig) -> str:
    """Return the public area as a URI without a trailing slash. For an unknown kind of store, this is the base URL."""
    if isinstance(store, S3Store):
        return store.public.url.rstrip("/")
    if isinstance(store, LocalStore):
        return f"file://{store.path.expanduser().absolute()}".rstrip("/")
    return store.base_url.rstrip("/")
