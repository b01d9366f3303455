"""A sitemap as an Airflow asset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Asset

if TYPE_CHECKING:
    from datetime import timedelta

    from airflow_sitemaps.ports import StoreConfig

FRESHNESS_KEY: Final = "freshness_s"
"""Key in the asset's ``extra`` that holds ``Sitemap(freshness=…)`` in seconds."""


STORE_KEY: Final = "store"
"""Key in the asset's ``extra`` that holds where the sitemap is stored, for pages that know no event of it."""


def asset_of(store: StoreConfig, freshness: timedelta | None) -> Asset:
    """Return the asset that the publishing task emits events for: the index, by its address in the store.

    The name is the address without its scheme, because Airflow allows only one URI for each name.

    Args:
        freshness: Largest age of the published data. None: no objective.
    """
    uri = f"{store.uri}/{store.index_name}"
    extra: dict[str, Any] = {} if freshness is None else {FRESHNESS_KEY: freshness.total_seconds()}
    if state_uri := getattr(store, "state_uri", ""):
        place = {"public_url": store.uri, "state_url": state_uri, "conn_id": getattr(store, "conn_id", None)}
        extra[STORE_KEY] = {**place, "base_url": store.base_url, "index_name": store.index_name}
    return Asset(name=f"sitemap {uri.split('://', 1)[1]}", uri=uri, extra=extra)
