"""The search for a URL in one sitemap, or in every sitemap that serves the URL's host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.pipeline.find import find_in_manifest
from airflow_sitemaps.pipeline.state.repository import MANIFEST
from airflow_sitemaps.plugin import event_payload
from airflow_sitemaps.plugin.schemas.url_matches import UrlMatch, UrlSearch, UrlSearches
from airflow_sitemaps.plugin.search_manifest import read_search_manifest
from airflow_sitemaps.plugin.state_reader import StateFile, StateUnavailableError
from airflow_sitemaps.shards.key import show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_sitemaps.pipeline.find import UrlSearch as Found
    from airflow_sitemaps.plugin.overview import Overview
    from airflow_sitemaps.plugin.state_reader import StateReader
    from airflow_sitemaps.ports import ObjectStore

MAX_SITEMAPS: Final = 5
"""Largest number of sitemaps that one search reads."""
MAX_SHARDS: Final = 400
"""Largest number of files that one search reads if the URL does not contain its key."""
MAX_SECONDS: Final = 6.0
"""Time in seconds after which a search reads no further files."""


async def search(states: StateReader, sitemaps: Sequence[Overview], url: str, *, everywhere: bool) -> UrlSearches:
    """Return the search results of the sitemaps that could list a URL.

    Args:
        everywhere: Whether to search only the sitemaps that serve the URL's host.
    """
    published = [sitemap for sitemap in sitemaps if sitemap.snapshot.published]
    host = _host_of(url)
    if everywhere and not host:
        return UrlSearches(results=[], note=NO_HOST)
    chosen = [sitemap for sitemap in published if not everywhere or _serves(sitemap, host)]
    if not chosen:
        return UrlSearches(results=[], note="No published sitemap serves this host." if everywhere else NOTHING)
    results, notes = [], []
    for sitemap in chosen[:MAX_SITEMAPS]:
        try:
            results.append(await _one(states, sitemap, url))
        except StateUnavailableError as e:
            notes.append(str(e))
    if len(chosen) > MAX_SITEMAPS:
        notes.append(f"{len(chosen) - MAX_SITEMAPS:,} further sitemaps serve this host; search on their pages.")
    return UrlSearches(results=results, note=" ".join(notes))


NOTHING: Final = "Nothing has been published yet."


NO_HOST: Final = "Give the whole URL, such as https://www.example.com/p/42, or search on the page of one sitemap."


def _host_of(url: str) -> str:
    try:
        return urlsplit(url.strip()).hostname or ""
    except ValueError:
        return ""


def _serves(sitemap: Overview, host: str) -> bool:
    return host in event_payload.hosts_of(sitemap.extra)


async def _one(states: StateReader, sitemap: Overview, url: str) -> UrlSearch:
    extra = sitemap.extra
    file = StateFile.of(event_payload.store_of(extra), MANIFEST)
    templates = event_payload.templates_of(extra)
    announced = sitemap.snapshot.generation
    _, manifest = await states.read(file, "search", read_search_manifest, is_old=lambda m: m.generation < announced)

    def job(area: ObjectStore) -> Found:
        try:
            return find_in_manifest(
                area, manifest, url, templates=templates, max_shards=MAX_SHARDS, max_seconds=MAX_SECONDS
            )
        except ConfigurationError as e:
            raise StateUnavailableError(str(e)) from e

    return _answer(await states.run(file, f"find {url}", job), sitemap.asset.uri)


def _answer(found: Found, asset: str) -> UrlSearch:
    return UrlSearch(
        url=found.url,
        asset=asset,
        generation=found.generation,
        listed=found.listed,
        complete=found.complete,
        matches=[
            UrlMatch(
                section=match.section,
                shard=match.shard,
                file_url=match.file_url,
                lower=None if match.range.lower is None else show(match.range.lower),
                upper=None if match.range.upper is None else show(match.range.upper),
                written_in=match.written_in,
                fields=dict(match.fields),
            )
            for match in found.matches
        ],
        shards_read=found.shards_read,
        shards_total=found.shards_total,
        note=found.note,
    )
