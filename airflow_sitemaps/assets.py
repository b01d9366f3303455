"""A sitemap as an Airflow asset, and what the event of a published one carries."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Asset

from airflow_sitemaps.stores.local import LocalStore
from airflow_sitemaps.stores.s3 import S3Store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_sitemaps.pipeline.report import Report
    from airflow_sitemaps.ports import Store, StoreConfig
    from airflow_sitemaps.sitemap import Sitemap

EXTRA_FORMAT: Final = 1
"""Version of the event's ``extra``."""

EXTRA_LIMIT: Final = 32 * 1_024 - 1
"""Bytes of JSON that an event's ``extra`` may have: it lies in a column that the UI reads by the hundred."""


def asset_of(sitemap: Sitemap) -> Asset:
    """The asset whose event the publisher emits: the index, by its address in the store.

    The name is the address without its scheme, since Airflow allows one URI a name.
    """
    uri = f"{_address(sitemap.store)}/{sitemap.store.index_name}"
    return Asset(name=f"sitemap {uri.split('://', 1)[1]}", uri=uri)


def _address(store: StoreConfig) -> str:
    """The public area as a URI without a slash at its end. Stores of no known kind are named by what they serve."""
    if isinstance(store, S3Store):
        return store.public.url.rstrip("/")
    if isinstance(store, LocalStore):
        return f"file://{store.path.expanduser().absolute()}".rstrip("/")
    return store.base_url.rstrip("/")


def event_extra(report: Report, *, store: Mapping[str, Any], **where: str) -> dict[str, Any]:
    """What the asset event tells: the report, the store, and ``where`` it comes from (DAG, run, group, task).

    Made smaller until it fits ``EXTRA_LIMIT``: first the samples go, then the reasons and drift, then the sections
    with the fewest changes; ``shortened`` says so.
    """
    extra: dict[str, Any] = {"format": EXTRA_FORMAT, "report": report.to_dict(), "store": dict(store), **where}
    told = extra["report"]
    for names in ((), ("samples",), ("reasons", "drift"), ("fields_mended",)):
        for section in told["sections"].values():
            section.update({name: {} if name != "drift" else [] for name in names})
        if "drift" in names:
            told["drift"] = told["drift"][:5]
        if names:
            extra["shortened"] = [*extra.get("shortened", []), *names]
        if fits(extra):
            return extra
    _shorten(extra, told)
    return extra


def fits(extra: Mapping[str, Any]) -> bool:
    """Whether an ``extra`` is within ``EXTRA_LIMIT``."""
    return len(json.dumps(extra).encode()) <= EXTRA_LIMIT


def _shorten(extra: dict[str, Any], told: dict[str, Any]) -> None:
    """Leave out long lists, then sections, those with the fewest rows read first."""
    for name in ("warnings", "refusals", "index_urls"):
        told[name] = told[name][:20]
    by_change = sorted(told["sections"], key=lambda name: told["sections"][name]["rows_read"])
    left_out = 0
    while by_change and not fits({**extra, "sections_left_out": left_out}):
        for name in by_change[: max(1, len(by_change) // 8)]:
            del told["sections"][name]
            by_change.remove(name)
            left_out += 1
    extra["sections_left_out"] = left_out


def store_facts(config: StoreConfig, store: Store) -> dict[str, Any]:
    """Where a sitemap lies, for readers of the event; no secrets."""
    public_url = store.public.url("")
    kind = public_url.split("://", 1)[0] if "://" in public_url else "local"
    return {
        "kind": "local" if kind == "file" else kind,
        "public_url": public_url,
        "state_url": store.state.url(""),
        "conn_id": getattr(config, "conn_id", None),
        "base_url": store.base_url,
        "index_name": store.index_name,
    }
