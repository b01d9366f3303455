"""A sitemap as an Airflow asset, and the content of its events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from airflow.sdk import Asset

from airflow_sitemaps.protocol import CURRENT
from airflow_sitemaps.protocol.rules import changed_rules
from airflow_sitemaps.shards.guards import Guards

if TYPE_CHECKING:
    from airflow_sitemaps.pipeline.report import Report
    from airflow_sitemaps.ports import Store, StoreConfig
    from airflow_sitemaps.sitemap import Section, Sitemap

FRESHNESS_KEY: Final = "freshness_s"
"""Key in the asset's ``extra`` that holds ``Sitemap(freshness=…)`` in seconds."""
STORE_KEY: Final = "store"
"""Key in the asset's ``extra`` that holds where the sitemap is stored, for pages that know no event of it."""
EXTRA_FORMAT: Final = 1
EXTRA_LIMIT: Final = 32 * 1_024 - 1
"""Largest size of an event's ``extra`` in bytes of JSON. The UI reads hundreds of these values at once."""
MAX_HOSTS: Final = 20


def asset_of(store: StoreConfig, freshness: timedelta | None) -> Asset:
    """Return the asset that the publishing task emits events for: the index, by its address in the store.

    The name holds the whole address, because Airflow allows only one URI for each name.
    """
    uri = f"{store.uri}/{store.index_name}"
    extra: dict[str, Any] = {} if freshness is None else {FRESHNESS_KEY: freshness.total_seconds()}
    if state_uri := getattr(store, "state_uri", ""):
        place = {"public_url": store.uri, "state_url": state_uri, "conn_id": getattr(store, "conn_id", None)}
        extra[STORE_KEY] = {**place, "base_url": store.base_url, "index_name": store.index_name}
    return Asset(name=f"sitemap {uri}", uri=uri, extra=extra)


def sections_asset_of(asset: Asset) -> Asset:
    """Return the asset whose events have a partition for each section that changed.

    It is an asset of its own, because Airflow starts no DAG without partitions for an event that has one. The name does
    not begin with "sitemap", by which the pages find sitemaps.
    """
    return Asset(name=f"sections of {asset.name}", uri=f"{asset.uri}/sections")


def event_extra(
    report: Report, *, store: Mapping[str, Any], settings: Mapping[str, Mapping[str, Any]] | None = None, **where: str
) -> dict[str, Any]:
    """Return the content of the asset event, without what ``shortened`` names if it is above ``EXTRA_LIMIT``.

    Samples go first, then the reasons and drift, then the sections with the fewest rows read.
    """
    extra: dict[str, Any] = {"format": EXTRA_FORMAT, "report": report.to_dict(), "store": dict(store), **where}
    shown = extra["report"]
    for name, section in shown["sections"].items():
        section.update((settings or {}).get(name, {}))
    for names in ((), ("samples",), ("reasons", "drift"), ("fields_fixed",)):
        for section in shown["sections"].values():
            section.update({name: {} if name != "drift" else [] for name in names})
            if names and (trust := section.pop("lastmod_trust", None)):
                section["lastmod_trust"] = {**trust, "date_only_samples": [], "page_only_samples": []}
        if "drift" in names:
            shown["drift"] = shown["drift"][:5]
        if names:
            extra["shortened"] = [*extra.get("shortened", []), *names]
        if fits(extra):
            return extra
    _shorten(extra, shown)
    return extra


def section_settings(sitemap: Sitemap) -> dict[str, dict[str, Any]]:
    """Return the settings by section that explain a report, without defaults. A search derives keys from ``loc``."""
    settings: dict[str, dict[str, Any]] = {}
    for section in sitemap.sections:
        max_dropped = sitemap.guards_of(section).max_dropped
        max_urls = sitemap.shards_of(section).max_urls
        loc = getattr(section.source, "loc", None)
        settings[section.name] = {
            **({"rules": rules} if (rules := changed_rules(sitemap.rulebook(section))) else {}),
            **({"max_urls": max_urls} if max_urls != CURRENT.max_urls else {}),
            **({"max_dropped": max_dropped} if max_dropped != Guards().max_dropped else {}),
            **({"loc": loc} if isinstance(loc, str) and "{" in loc else {}),
            **({"hosts": hosts} if (hosts := _further_hosts(sitemap, section)) else {}),
        }
    return settings


def _further_hosts(sitemap: Sitemap, section: Section) -> list[str]:
    """Return the hosts of a section's URLs other than that of the store."""
    addresses = [sitemap.base_url_of(section), *(f"//{each.rpartition('//')[2]}" for each in sitemap.cross_submit)]
    hosts = {urlsplit(address).hostname or "" for address in addresses}
    return sorted(hosts - {"", urlsplit(sitemap.store.base_url).hostname})[:MAX_HOSTS]


def fits(extra: Mapping[str, Any]) -> bool:
    """Return whether an ``extra`` is within ``EXTRA_LIMIT``."""
    return len(json.dumps(extra).encode()) <= EXTRA_LIMIT


def _shorten(extra: dict[str, Any], report: dict[str, Any]) -> None:
    """Shorten long lists, then drop sections, those without dropped rows and with the fewest rows read first."""
    for name in ("warnings", "refusals", "index_urls", "robots_urls"):
        report[name] = report[name][:20]
    sections = report["sections"]
    if {*sections} <= {*report["planned"]} and not report["failures"]:
        report["planned"] = []  # none named: all of them
    by_change = sorted(sections, key=lambda name: (bool(sections[name]["rows_dropped"]), sections[name]["rows_read"]))
    left_out = 0
    while by_change and not fits({**extra, "sections_left_out": left_out}):
        for name in by_change[: max(1, len(by_change) // 8)]:
            del sections[name]
            by_change.remove(name)
            left_out += 1
    extra["sections_left_out"] = left_out


def store_facts(config: StoreConfig, store: Store) -> dict[str, Any]:
    """Return where a sitemap is stored, for readers of the event. It contains no secrets."""
    return {
        "public_url": store.public.url(""),
        "state_url": store.state.url(""),
        "conn_id": getattr(config, "conn_id", None),
        "base_url": store.base_url,
        "index_name": store.index_name,
    }
