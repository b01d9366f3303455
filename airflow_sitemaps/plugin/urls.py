"""URLs of generations: the search for one, in one sitemap or in every one that serves its host, and what differs.

Two generations differ, or the live one and what a blocked run would publish: by section, and by URL if few files differ.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from airflow_sitemaps.errors import ConfigurationError, StoreContentError
from airflow_sitemaps.pipeline.changes import Changes, TooManyChangesError, ages, compare
from airflow_sitemaps.pipeline.find import UrlSearch, find_in_manifest
from airflow_sitemaps.pipeline.publish.draft import proposal_of
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.plugin.pages.overview import Overview
from airflow_sitemaps.plugin.readings import StrictModel, attributes
from airflow_sitemaps.plugin.shard_map import live_map
from airflow_sitemaps.plugin.state_reader import WAIT_S, StateReader, StateUnavailableError, readable
from airflow_sitemaps.ports import ObjectStore
from airflow_sitemaps.protocol.loc import normalise
from airflow_sitemaps.shards.manifest import Manifest, SectionManifest

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
    chosen = [s for s in published if not everywhere or host in s.hosts or (s.event and s.event.sections_left_out)]
    chosen.sort(key=lambda sitemap: host not in sitemap.hosts)  # the hosts of sections that were left out are not known
    if not chosen:
        return UrlSearches(results=[], note="No published sitemap serves this host." if everywhere else NOTHING)
    results, notes = [], []
    two = asyncio.Semaphore(2)  # so that a search leaves threads to the other pages
    searches = [asyncio.ensure_future(_one(states, sitemap, url, two)) for sitemap in chosen[:MAX_SITEMAPS]]
    _, late = await asyncio.wait(searches, timeout=WAIT_S)
    for one in late:
        one.cancel()
    for sitemap, one in zip(chosen, searches, strict=False):
        try:
            if one in late:
                notes.append(f"{sitemap.asset.uri} did not arrive within {WAIT_S:g} seconds; try again soon.")
            else:
                results.append(one.result())
        except StateUnavailableError as e:
            notes.append(str(e))
    if len(chosen) > MAX_SITEMAPS:
        notes.append(f"{len(chosen) - MAX_SITEMAPS:,} further sitemaps may serve this host; search on their pages.")
    return UrlSearches(results=results, note=" ".join(notes))


NOTHING: Final = "Nothing has been published yet."
NO_HOST: Final = "Give the whole URL, such as https://www.example.com/p/42, or search on the page of one sitemap."


def _host_of(url: str) -> str:
    try:
        return urlsplit(normalise(url.strip(), origin="").loc or url.strip()).hostname or ""
    except ValueError:
        return ""


async def _one(states: StateReader, sitemap: Overview, url: str, few: asyncio.Semaphore) -> SearchResult:
    async with few:
        return await _search(states, sitemap, url)


async def _search(states: StateReader, sitemap: Overview, url: str) -> SearchResult:
    store = readable(sitemap.store)
    _, live = await live_map(states, store, sitemap.snapshot.generation)
    settings = sitemap.event.settings if sitemap.event is not None else {}
    templates = {name: section.loc for name, section in settings.items() if section.loc}

    def job(area: ObjectStore) -> UrlSearch:
        try:
            return find_in_manifest(
                area, live.manifest, url, templates=templates, max_shards=MAX_SHARDS, max_seconds=MAX_SECONDS
            )
        except ConfigurationError as e:
            raise StateUnavailableError(str(e)) from e

    result = await states.run(store, f"find {url}", job)
    return SearchResult(asset=sitemap.asset.uri, **result.to_dict())


MAX_FILES: Final = 200
MAX_URLS: Final = 200_000
SAMPLES: Final = 20
KINDS: Final = ("added", "changed", "removed")
TOO_MANY: Final = (
    f"More than {MAX_URLS:,} URLs differ, too many to compare here; `airflow-sitemaps diff` compares up to a million."
)
NEW_DATES: Final = (
    "The next run of the publishing DAG gives a new date to every URL of {} in which the generations differ."
)
NOT_RENDERED: Final = (
    "The run was blocked before it rendered its entries. The new numbers are rows of the source, and only the URLs of "
    "files that would be removed are compared."
)


class SectionChanges(StrictModel):
    """The differences of a section between two generations, from their manifests."""

    section: str
    urls_before: int
    urls_after: int
    files_added: int
    files_changed: int
    files_removed: int


class UrlChanges(StrictModel):
    """The URLs that differ between two generations: counts, and the first of each kind.

    ``ages`` says of these when they were first listed, last changed, and gone (``first_listed``, ``changed_at``, ``gone``), as
    far as a ledger knows.
    """

    added: int
    changed: int
    removed: int
    added_samples: list[str]
    changed_samples: list[str]
    removed_samples: list[str]
    ages: dict[str, dict[str, str]]


class GenerationChanges(StrictModel):
    """The differences between two generations.

    ``urls`` is None if too many files differ to compare their URLs here; ``note`` then says so. ``to_generation`` is
    None for what a blocked run would publish.
    """

    from_generation: int
    to_generation: int | None
    sections: list[SectionChanges]
    urls: UrlChanges | None
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Two manifests to compare; ``to_generation`` is None for a blocked run.

    ``rows``: rows of the source by section, where the entries of ``after`` are not rendered. ``note``: the limits.
    """

    before: Manifest
    after: Manifest
    to_generation: int | None
    rows: Mapping[str, int]
    note: str = ""


def of_generations(area: ObjectStore, from_generation: int, to_generation: int) -> Compared:
    """Return two kept generations, or raise StateUnavailableError if one of them is not kept."""
    state = StateRepository(area)
    live = state.manifest()
    kept = []
    for number in (from_generation, to_generation):
        manifest = live if live is not None and live.generation == number else state.generation(number)
        if manifest is None:
            raise StateUnavailableError(f"Generation {number:,} is no longer kept.")
        kept.append(manifest)
    return Compared(before=kept[0], after=kept[1], to_generation=to_generation, rows={})


def of_blocked_run(area: ObjectStore, run: str) -> Compared:
    """Return the live and the blocked generation, or raise if another run has published since."""
    try:
        proposal = proposal_of(StateRepository(area), run)
    except (ConfigurationError, StoreContentError) as e:
        raise StateUnavailableError(str(e)) from e
    planned = {name: section.rows for name, section in proposal.plan.sections.items()}
    return Compared(
        before=proposal.live,
        after=proposal.manifest,
        to_generation=None,
        rows={} if proposal.is_rendered else {**dict.fromkeys(proposal.plan.retired, 0), **planned},
        note="" if proposal.is_rendered else NOT_RENDERED,
    )


def changes(area: ObjectStore, compared: Compared) -> GenerationChanges:
    """Return the differences of two manifests."""
    before, after = compared.before, compared.after
    names = dict.fromkeys((*before.sections, *after.sections, *compared.rows))
    sections = [
        _changes(name, before.sections.get(name), after.sections.get(name), compared.rows.get(name)) for name in names
    ]
    differing = sum(s.files_added + s.files_changed + s.files_removed for s in sections)
    urls, notes = None, [compared.note, *_new_dates(compared)]
    if differing > MAX_FILES:
        notes.append(f"{differing:,} files differ, too many to compare their URLs here.")
    else:
        try:
            differences = attributes(_compare(area, compared), *KINDS)
            samples: dict[str, Any] = {f"{name}_samples": list(some[:SAMPLES]) for name, some in differences.items()}
            counts: dict[str, Any] = {name: len(every) for name, every in differences.items()}
            ages_by_url = ages(StateRepository(area), before, after, [url for own in samples.values() for url in own])
            urls = UrlChanges(**counts, **samples, ages=ages_by_url)
        except TooManyChangesError:
            notes.append(TOO_MANY)
    return GenerationChanges(
        from_generation=before.generation,
        to_generation=compared.to_generation,
        sections=sections,
        urls=urls,
        note=" ".join(note for note in notes if note),
    )


def _new_dates(compared: Compared) -> list[str]:
    """Return what a rollback does to observed dates, or nothing."""
    if compared.to_generation is None or compared.to_generation >= compared.before.generation:
        return []
    sections = compared.after.sections.values()
    names = [s.name for s in sections if any(shard.part is not None and shard.part.observed for shard in s.shards)]
    return [NEW_DATES.format(", ".join(names))] if names else []


def url_rows(area: ObjectStore, compared: Compared) -> list[dict[str, Any]]:
    """Return every URL that differs, with the kind of its change. It raises if too many do, or a body is missing."""
    try:
        differences = _compare(area, compared)
    except TooManyChangesError as e:
        raise StateUnavailableError(TOO_MANY) from e
    return [{"change": kind, "url": url} for kind in KINDS for url in getattr(differences, kind)]


def _changes(
    name: str, before: SectionManifest | None, after: SectionManifest | None, rows: int | None
) -> SectionChanges:
    old = {file.name: file.xml_hash for file in before.files()} if before else {}
    new = {file.name: file.xml_hash for file in after.files()} if after else {}
    return SectionChanges(
        section=name,
        urls_before=before.urls if before else 0,
        urls_after=rows if rows is not None else after.urls if after else 0,
        files_added=len(new.keys() - old.keys()),
        files_changed=sum(old[file] != new[file] for file in old.keys() & new.keys()),
        files_removed=len(old.keys() - new.keys()),
    )


def _compare(area: ObjectStore, compared: Compared) -> Changes:
    try:
        return compare(StateRepository(area), compared.before, compared.after, most=MAX_URLS, at_once=2 * MAX_URLS)
    except StoreContentError as e:
        raise StateUnavailableError(str(e)) from e
