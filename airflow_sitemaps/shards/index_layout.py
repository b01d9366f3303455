"""Layout of the index files and of their entries, as pure functions of the manifest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from airflow_sitemaps.protocol.markup import STYLESHEET_NAME as STYLESHEET
from airflow_sitemaps.protocol.markup import IndexEntry, render_index
from airflow_sitemaps.shards.shard_names import with_part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_sitemaps.protocol.entry import Limits
    from airflow_sitemaps.shards.manifest import Manifest, SectionManifest

INDEX_ENTRY_BYTES = 2_400
"""Upper bound of the size of an index entry: a loc of 2,047 characters, a lastmod, and the tags."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSettings:
    """Settings of the indexes."""

    base_url: str
    name: str
    mode: Literal["one", "per_section"]
    limits: Limits


def address(section: SectionManifest, name: str) -> str:
    """Return the public address of a section's file."""
    return section.base_url + name[len(section.path) :]


def index_entries(manifest: Manifest, settings: IndexSettings) -> dict[str, tuple[IndexEntry, ...]]:
    """Return the entries of each index file by its name; there are several files if one is not enough.

    The file of recent entries comes first, then the sections in order, and their shards in key order.
    """
    groups: dict[str, list[IndexEntry]] = {}
    listed = [IndexEntry(loc=settings.base_url + f.name, lastmod=f.modified_at) for f in manifest.extras if f.listed]
    if listed:
        groups[settings.name if settings.mode == "one" else with_part(settings.name, "recent")] = listed
    for section in manifest.sections.values():
        stem = settings.name if settings.mode == "one" else with_part(settings.name, section.name)
        entries = [
            IndexEntry(loc=address(section, shard.file.name), lastmod=shard.file.modified_at)
            for shard in section.shards
            if shard.file is not None
        ]
        groups.setdefault(stem, []).extend(entries)
    result: dict[str, tuple[IndexEntry, ...]] = {}
    for stem, entries in groups.items():
        for number, part in enumerate(_parts(entries, settings.limits), start=1):
            result[stem if number == 1 else with_part(stem, str(number))] = part
    return result


def robots_urls(manifest: Manifest) -> tuple[str, ...]:
    """Return the addresses for robots.txt: every index, and the extra files that no index lists (feeds)."""
    feeds = (f.name for f in manifest.extras if not f.listed and f.name != STYLESHEET)
    names = (*(index.name for index in manifest.indexes), *feeds)
    return tuple(manifest.base_url + name for name in names)


def extra_urls(manifest: Manifest) -> tuple[str, ...]:
    """Return the addresses of the file of recent entries and of the feeds."""
    return tuple(manifest.base_url + file.name for file in manifest.extras if file.name != STYLESHEET)


def index_contents(manifest: Manifest, settings: IndexSettings) -> dict[str, bytes]:
    """Return the uncompressed bytes of each index file by its name."""
    # Beside the index, so that a copy of the folder shows it as well.
    stylesheet = STYLESHEET if any(file.name == STYLESHEET for file in manifest.extras) else None
    entries = index_entries(manifest, settings)
    return {name: render_index(listed, stylesheet=stylesheet) for name, listed in entries.items()}


def _parts(entries: Sequence[IndexEntry], limits: Limits) -> list[tuple[IndexEntry, ...]]:
    size = min(limits.max_sitemaps, max(1, limits.max_byte_size // INDEX_ENTRY_BYTES))
    longest = max((len(entry.loc.encode()) for entry in entries), default=0) + 200
    size = max(size, min(limits.max_sitemaps, (limits.max_byte_size - 1_000) // max(longest, 1)))
    return [tuple(entries[start : start + size]) for start in range(0, len(entries), size)]
