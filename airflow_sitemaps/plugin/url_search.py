"""The search for a URL in one sitemap, or in every sitemap that serves the URL's host."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Final, cast
from urllib.parse import urlsplit

import msgspec

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.pipeline.find import UrlSearch, find_in_manifest
from airflow_sitemaps.pipeline.state.repository import MANIFEST
from airflow_sitemaps.plugin.pages.overview import Overview
from airflow_sitemaps.plugin.readings import StrictModel
from airflow_sitemaps.plugin.state_reader import StateFile, StateReader, StateUnavailableError
from airflow_sitemaps.ports import ObjectStore
from airflow_sitemaps.shards.codec import decode
from airflow_sitemaps.shards.manifest import LedgerPart, Manifest, SectionManifest, Shard
from airflow_sitemaps.shards.ranges import KeyRange, show
from airflow_sitemaps.shards.schema import Count, Decoder

MAX_SITEMAPS: Final = 5
MAX_SHARDS: Final = 400
"""Largest number of files that one search reads if the URL does not contain its key."""
MAX_SECONDS: Final = 6.0


class FoundEntry(StrictModel):
    """A shard that lists the URL, with the fields of its entry."""

    section: str
    shard: str
    file_url: str | None
    lower: str | None
    upper: str | None
    written_in: int
    fields: dict[str, str]


class SearchResult(StrictModel):
    """Whether a sitemap lists a URL. ``complete``: whether every shard that could contain it was read."""

    url: str
    asset: str
    generation: int
    listed: bool
    complete: bool
    matches: list[FoundEntry]
    shards_read: int
    shards_total: int
    note: str


class UrlSearches(StrictModel):
    """The results for every sitemap that serves the URL's host."""

    results: list[SearchResult]
    note: str


async def search(states: StateReader, sitemaps: Sequence[Overview], url: str, *, everywhere: bool) -> UrlSearches:
    """Return the search results of the sitemaps, or with ``everywhere`` of those that serve the URL's host."""
    published = [sitemap for sitemap in sitemaps if sitemap.snapshot.published]
    host = _host_of(url)
    if everywhere and not host:
        return UrlSearches(results=[], note=NO_HOST)
    chosen = [sitemap for sitemap in published if not everywhere or host in sitemap.hosts]
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


async def _one(states: StateReader, sitemap: Overview, url: str) -> SearchResult:
    file = StateFile.of(sitemap.store, MANIFEST)
    settings = sitemap.known.event.settings if sitemap.known.event is not None else {}
    templates = {name: section.loc for name, section in settings.items() if section.loc}
    announced = sitemap.snapshot.generation
    _, manifest = await states.read(file, "search", read_search_manifest, is_old=lambda m: m.generation < announced)

    def job(area: ObjectStore) -> UrlSearch:
        try:
            return find_in_manifest(
                area, manifest, url, templates=templates, max_shards=MAX_SHARDS, max_seconds=MAX_SECONDS
            )
        except ConfigurationError as e:
            raise StateUnavailableError(str(e)) from e

    return _answer(await states.run(file, f"find {url}", job), sitemap.asset.uri)


def _answer(found: UrlSearch, asset: str) -> SearchResult:
    numbers = ("url", "generation", "listed", "complete", "shards_read", "shards_total", "note")
    return SearchResult(
        asset=asset,
        matches=[
            FoundEntry(
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
        **{name: getattr(found, name) for name in numbers},
    )


NOT_READ: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
"""Stands for times that the search does not need."""


class _File(msgspec.Struct, gc=False):
    name: str
    body: str
    xml_byte_size: Count
    byte_size: Count = 0


class _Shard(msgspec.Struct, gc=False):
    range: KeyRange
    file: _File | None = None
    urls: Count = 0
    dropped: dict[str, Count] = {}
    expired: dict[str, Count] = {}
    written_in: Count = 0
    part: LedgerPart | None = None


class _Section(msgspec.Struct, gc=False):
    name: str
    shards: tuple[_Shard, ...]
    base_url: str = ""
    path: str = ""
    key_kinds: list[str] = []


class _Manifest(msgspec.Struct, gc=False):
    generation: Count
    base_url: str
    sections: dict[str, _Section]


_MANIFEST: Final = Decoder(_Manifest)


def read_search_manifest(body: bytes, where: str) -> Manifest:
    """Return what a search needs of a manifest, or raise ManifestError if it is damaged, or of a later version."""
    decoded = decode(_MANIFEST, body, where)
    return Manifest(
        generation=decoded.generation,
        write_id="",
        run="",
        owner="",
        base_url=decoded.base_url,
        committed_at=NOT_READ,
        sections={name: _section(section) for name, section in decoded.sections.items()},
        indexes=(),
    )


def _section(section: _Section) -> SectionManifest:
    return SectionManifest(
        name=section.name,
        fingerprint="",
        digest_kind="",
        changed_in=0,
        next_serial=0,
        shards=cast("tuple[Shard, ...]", section.shards),
        base_url=section.base_url,
        path=section.path,
        key_kinds=tuple(section.key_kinds),
    )
