"""Differences of two kept generations: by section from the manifests, and by URL if only a few files differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.pipeline.changes import TooManyChangesError, compare
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.plugin.state_reader import StateUnavailableError

if TYPE_CHECKING:
    from airflow_sitemaps.ports import ObjectStore
    from airflow_sitemaps.shards.manifest import Manifest, SectionManifest

MAX_FILES: Final = 200
"""Largest number of differing files whose URLs are compared in one response."""
MAX_URLS: Final = 200_000
"""Largest number of differing URLs that are compared in one response."""
SAMPLES: Final = 20
"""Number of URLs of each kind that are shown."""


def changes(area: ObjectStore, from_generation: int, to_generation: int) -> dict[str, Any]:
    """Return the differences of two generations.

    Args:
        area: Private area of the store.
        from_generation: Generation to compare with, usually the live one.
        to_generation: Generation to compare, usually the target of a rollback.

    Raises:
        StateUnavailableError: One of the generations is not kept.
    """
    state = StateRepository(area)
    before, after = _kept(state, from_generation), _kept(state, to_generation)
    names = dict.fromkeys((*before.sections, *after.sections))
    sections = [_section(name, before.sections.get(name), after.sections.get(name)) for name in names]
    differing = sum(s["files_added"] + s["files_changed"] + s["files_removed"] for s in sections)
    urls, note = None, f"{differing:,} files differ, too many to compare their URLs here."
    if differing <= MAX_FILES:
        urls, note = _urls(state, from_generation, to_generation)
    return {
        "from_generation": from_generation,
        "to_generation": to_generation,
        "sections": sections,
        "urls": urls,
        "note": note,
    }


def _kept(state: StateRepository, number: int) -> Manifest:
    root = state.root()
    kept = root.manifest if root is not None and root.manifest.generation == number else state.generation(number)
    if kept is None:
        raise StateUnavailableError(f"Generation {number:,} is no longer kept.")
    return kept


def _section(name: str, before: SectionManifest | None, after: SectionManifest | None) -> dict[str, Any]:
    old = {file.name: file.xml_sha256 for file in before.files()} if before else {}
    new = {file.name: file.xml_sha256 for file in after.files()} if after else {}
    return {
        "section": name,
        "urls_before": before.urls if before else 0,
        "urls_after": after.urls if after else 0,
        "files_added": len(new.keys() - old.keys()),
        "files_changed": sum(old[file] != new[file] for file in old.keys() & new.keys()),
        "files_removed": len(old.keys() - new.keys()),
    }


def _urls(state: StateRepository, from_generation: int, to_generation: int) -> tuple[dict[str, Any] | None, str]:
    try:
        found = compare(state, since=from_generation, generation=to_generation, most=MAX_URLS)
    except TooManyChangesError:
        return None, f"More than {MAX_URLS:,} URLs differ, too many to compare here."
    except ConfigurationError as e:
        raise StateUnavailableError(str(e)) from e
    counts: dict[str, Any] = {name: len(getattr(found, name)) for name in ("added", "changed", "removed")}
    samples = {f"{name}_samples": list(getattr(found, name)[:SAMPLES]) for name in ("added", "changed", "removed")}
    return {**counts, **samples}, ""
