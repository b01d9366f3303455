"""Differences between two generations, or the live one and a blocked run's: by section, by URL if few files differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from airflow_sitemaps.errors import ConfigurationError, StoreContentError
from airflow_sitemaps.pipeline.changes import Changes, TooManyChangesError, compare_manifests
from airflow_sitemaps.pipeline.publish.draft import Proposal, proposal_of
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.plugin.readings import StrictModel
from airflow_sitemaps.plugin.state_reader import StateUnavailableError
from airflow_sitemaps.ports import ObjectStore
from airflow_sitemaps.shards.manifest import Manifest, SectionManifest

MAX_FILES: Final = 200
MAX_URLS: Final = 200_000
SAMPLES: Final = 20
KINDS: Final = ("added", "changed", "removed")
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
    """The URLs that differ between two generations: counts, and the first of each kind."""

    added: int
    changed: int
    removed: int
    added_samples: list[str]
    changed_samples: list[str]
    removed_samples: list[str]


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
    before, after = _kept(state, from_generation), _kept(state, to_generation)
    return Compared(before=before, after=after, to_generation=to_generation, rows={})


def of_blocked_run(area: ObjectStore, run: str) -> Compared:
    """Return the live and the blocked generation, or raise if another run has published since."""
    try:
        proposal = proposal_of(StateRepository(area), run)
    except (ConfigurationError, StoreContentError) as e:
        raise StateUnavailableError(str(e)) from e
    return Compared(
        before=proposal.live,
        after=proposal.manifest,
        to_generation=None,
        rows={} if proposal.is_rendered else _rows(proposal),
        note="" if proposal.is_rendered else NOT_RENDERED,
    )


def _rows(proposal: Proposal) -> dict[str, int]:
    retired = dict.fromkeys(proposal.plan.retired, 0)
    return {**retired, **{name: section.rows for name, section in proposal.plan.sections.items()}}


def changes(area: ObjectStore, compared: Compared) -> GenerationChanges:
    """Return the differences of two manifests."""
    before, after = compared.before, compared.after
    names = dict.fromkeys((*before.sections, *after.sections, *compared.rows))
    sections = [
        _section(name, before.sections.get(name), after.sections.get(name), compared.rows.get(name)) for name in names
    ]
    differing = sum(s.files_added + s.files_changed + s.files_removed for s in sections)
    urls, note = None, f"{differing:,} files differ, too many to compare their URLs here."
    if differing <= MAX_FILES:
        urls, note = _urls(area, compared)
    return GenerationChanges(
        from_generation=before.generation,
        to_generation=compared.to_generation,
        sections=sections,
        urls=urls,
        note=" ".join(text for text in (compared.note, note) if text),
    )


def url_rows(area: ObjectStore, compared: Compared) -> list[dict[str, Any]]:
    """Return every URL that differs, with the kind of its change. It raises if too many do, or a body is missing."""
    try:
        differences = _compare(area, compared)
    except TooManyChangesError as e:
        raise StateUnavailableError(TOO_MANY) from e
    return [{"change": kind, "url": url} for kind in KINDS for url in getattr(differences, kind)]


TOO_MANY: Final = (
    f"More than {MAX_URLS:,} URLs differ, too many to compare here; `airflow-sitemaps diff` compares up to a million."
)


def _kept(state: StateRepository, number: int) -> Manifest:
    live = state.manifest()
    kept = live if live is not None and live.generation == number else state.generation(number)
    if kept is None:
        raise StateUnavailableError(f"Generation {number:,} is no longer kept.")
    return kept


def _section(
    name: str, before: SectionManifest | None, after: SectionManifest | None, rows: int | None
) -> SectionChanges:
    old = {file.name: file.xml_sha256 for file in before.files()} if before else {}
    new = {file.name: file.xml_sha256 for file in after.files()} if after else {}
    return SectionChanges(
        section=name,
        urls_before=before.urls if before else 0,
        urls_after=rows if rows is not None else after.urls if after else 0,
        files_added=len(new.keys() - old.keys()),
        files_changed=sum(old[file] != new[file] for file in old.keys() & new.keys()),
        files_removed=len(old.keys() - new.keys()),
    )


def _urls(area: ObjectStore, compared: Compared) -> tuple[UrlChanges | None, str]:
    try:
        differences = _compare(area, compared)
    except TooManyChangesError:
        return None, TOO_MANY
    counts: dict[str, Any] = {name: len(getattr(differences, name)) for name in KINDS}
    samples: dict[str, Any] = {f"{name}_samples": list(getattr(differences, name)[:SAMPLES]) for name in KINDS}
    return UrlChanges(**counts, **samples), ""


def _compare(area: ObjectStore, compared: Compared) -> Changes:
    try:
        return compare_manifests(StateRepository(area), compared.before, compared.after, most=MAX_URLS)
    except StoreContentError as e:
        raise StateUnavailableError(str(e)) from e
