"""The shard map: a manifest as columns for a page, small enough for 50,000 shards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from airflow_sitemaps.protocol.entry import CURRENT
from airflow_sitemaps.shards.codec import decode
from airflow_sitemaps.shards.digest import EMPTY as NO_ROWS
from airflow_sitemaps.shards.digest import Digest
from airflow_sitemaps.shards.key import Key, KeyRange, show
from airflow_sitemaps.shards.schema import Count, Decoder, Moment

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_PAGE: Final = 500
"""Largest number of shards whose names and ranges are in one response."""
KEY_CHARACTERS: Final = 200

KEPT, WRITTEN, WAITING, EMPTY = range(4)
"""States of a shard: kept by the last generation, written by it, written but not yet public, or without a file."""


# The part of a manifest that a map needs, with the names and types of its fields (``shards.manifest``). A map creates hundreds of thousands of these objects. They hold no
# cycles, so the garbage collector does not have to track them.
class _File(msgspec.Struct, gc=False):
    name: str
    modified_at: Moment
    xml_byte_size: Count = 0
    byte_size: Count = 0
    etag: str | None = None


class _Shard(msgspec.Struct, gc=False):
    range: KeyRange
    digest: Digest = NO_ROWS
    urls: Count = 0
    file: _File | None = None
    newest_lastmod: str | None = None
    settled: bool = True
    dropped: dict[str, Count] = {}
    mended: dict[str, Count] = {}
    written_in: Count = 0


class _Section(msgspec.Struct, gc=False):
    name: str
    shards: list[_Shard]
    base_url: str = ""
    path: str = ""
    null_keys: Count = 0


class _Note(msgspec.Struct, gc=False):
    generation: Count
    committed_at: str
    urls: Count
    shards: Count
    byte_size: Count
    action: str = "build"
    touched: Count = 0
    dropped: Count = 0


class _Manifest(msgspec.Struct, gc=False):
    generation: Count
    committed_at: str
    run: str
    sections: dict[str, _Section]
    promoted: bool = False
    history: list[_Note] = []


_MANIFEST: Final = Decoder(_Manifest)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardMap:
    """A manifest, prepared for the page.

    Attributes:
        generation: Number of the generation.
        columns: The encoded response with every number.
        places: By section, the URL that its files are served under, and the path in their names that it replaces.
        texts: By section, each shard's name, range, newest lastmod, dropped rows, repaired rows and settled state.
        kept: Generations that are available for a rollback.
    """

    generation: int
    columns: bytes
    places: Mapping[str, tuple[str, str]]
    texts: Mapping[str, tuple[tuple[Any, ...], ...]]
    kept: tuple[Mapping[str, Any], ...]

    def page(self, section: str, start: int, count: int) -> list[dict[str, Any]]:
        """Return names, ranges and rules of a section's shards.

        Args:
            start: Position of the first shard, from 0.
        """
        names = ("name", "lower", "upper", "lastmod", "dropped", "mended", "settled")
        base_url, path = self.places.get(section, ("", ""))
        return [
            {
                **dict(zip(names, (t[0], _key(t[1]), _key(t[2]), *t[3:]), strict=True)),
                "url": base_url + t[0].removeprefix(path) if t[0] and base_url else None,
            }
            for t in self.texts.get(section, ())[start : start + min(count, MAX_PAGE)]
        ]


def read_map(body: bytes, where: str) -> ShardMap:
    """Return the map of a manifest.

    Raises:
        ManifestError: The manifest is damaged, or written by a later version.
    """
    manifest = decode(_MANIFEST, body, where)
    return ShardMap(
        generation=manifest.generation,
        columns=msgspec.json.encode(columns_of(manifest)),
        places={name: (section.base_url, section.path) for name, section in manifest.sections.items()},
        texts={name: tuple(map(_texts, section.shards)) for name, section in manifest.sections.items()},
        kept=tuple(kept_of(manifest)),
    )


def columns_of(manifest: _Manifest) -> dict[str, Any]:
    """Return the numbers of every shard in key order, one column each; sizes in bytes, times in seconds since 1970."""
    sections = list(manifest.sections.values())
    return {
        "generation": manifest.generation,
        "committed_at": manifest.committed_at,
        "run": manifest.run,
        "promoted": manifest.promoted,
        "shards": sum(len(section.shards) for section in sections),
        "limits": {"urls": CURRENT.max_urls, "xml_bytes": CURRENT.max_byte_size, "files": CURRENT.max_sitemaps},
        "sections": [_section(manifest.generation, section) for section in sections],
    }


def _section(generation: int, section: _Section) -> dict[str, Any]:
    shards = section.shards
    files = [shard.file for shard in shards]
    return {
        "name": section.name,
        "null_keys": section.null_keys,
        "urls": [shard.urls for shard in shards],
        "rows": [shard.digest.rows for shard in shards],
        "xml_bytes": [file.xml_byte_size if file else 0 for file in files],
        "file_bytes": [file.byte_size if file else 0 for file in files],
        "written_at": [int(file.modified_at.timestamp()) if file else 0 for file in files],
        "written_in": [shard.written_in for shard in shards],
        "dropped": [sum(shard.dropped.values()) for shard in shards],
        "state": [_state(generation, shard) for shard in shards],
    }


def _state(generation: int, shard: _Shard) -> int:
    if shard.file is None:
        return EMPTY
    if shard.file.etag is None:
        return WAITING
    return WRITTEN if shard.written_in == generation else KEPT


def _texts(shard: _Shard) -> tuple[Any, ...]:
    """Return a shard's texts in the order of ``ShardMap.page``."""
    name = shard.file.name if shard.file else None
    return name, shard.range.lower, shard.range.upper, shard.newest_lastmod, shard.dropped, shard.mended, shard.settled


def _key(key: Key | None) -> str | None:
    """Return a key for people. JSON has no lone surrogates, so the page shows them as question marks."""
    return None if key is None else show(key)[:KEY_CHARACTERS].encode("utf-8", "replace").decode()


def kept_of(manifest: _Manifest) -> list[dict[str, Any]]:
    """Return the earlier generations that are available for a rollback, newest first."""
    notes = sorted(manifest.history, key=lambda note: -note.generation)
    return [msgspec.structs.asdict(note) for note in notes if note.generation != manifest.generation]
