"""The shard map: the live manifest, and its columns, small enough for 50,000 shards."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from airflow_sitemaps.plugin.events import StoreFacts
from airflow_sitemaps.plugin.readings import Moment, StrictModel
from airflow_sitemaps.plugin.state_reader import StateReader
from airflow_sitemaps.protocol import CURRENT
from airflow_sitemaps.search_engines.fetches import FetchRecord
from airflow_sitemaps.shards.codec import decode_manifest
from airflow_sitemaps.shards.manifest import Manifest, SectionManifest, Shard
from airflow_sitemaps.shards.ranges import Key, show

MAX_PAGE: Final = 500
KEY_CHARACTERS: Final = 200

KEPT, WRITTEN, PENDING, EMPTY, WAITING = range(5)
"""States of a shard: kept by the last generation, written by it, written but not yet public, without a file, or with changed
rows that wait for its turn."""


class MapSection(StrictModel):
    """A section's shards in key order, one column for each number. Sizes are in bytes, times in seconds since 1970."""

    name: str
    null_keys: int
    urls: list[int]
    rows: list[int]
    xml_bytes: list[int]
    file_bytes: list[int]
    written_at: list[int]
    written_in: list[int]
    dropped: list[int]
    state: list[int]


class MapLimits(StrictModel):
    """Limits of the protocol."""

    urls: int = CURRENT.max_urls
    xml_bytes: int = CURRENT.max_byte_size
    files: int = CURRENT.max_sitemaps


class ShardColumns(StrictModel):
    """The numbers of every shard."""

    generation: int
    promoted: bool
    shards: int
    limits: MapLimits
    sections: list[MapSection]


class FetchTimes(StrictModel):
    """The last fetch of every shard by crawler and section, in seconds since 1970; 0: none since the day ``since``."""

    since: str
    crawlers: dict[str, dict[str, list[int]]]


class ShardTexts(StrictModel):
    """The texts of one shard.

    ``name`` and ``url`` are None if it has no file. The key range is ``[lower, upper)``; None: open.
    """

    name: str | None
    url: str | None
    lower: str | None
    upper: str | None
    lastmod: str | None
    dropped: dict[str, int]
    fixed: dict[str, int]
    settled: bool


class ShardPage(StrictModel):
    """Part of a section's shards, of one generation. ``start`` is the position of the first one."""

    generation: int
    section: str
    start: int
    shards: list[ShardTexts]


class KeptGeneration(StrictModel):
    """A generation that is available for a rollback."""

    generation: int
    committed_at: Moment
    urls: int
    shards: int
    byte_size: int
    action: str
    dropped: int


class Generations(StrictModel):
    """The published generation and the kept ones, newest first."""

    generation: int
    kept: list[KeptGeneration]


@dataclass(frozen=True, kw_only=True)
class ShardMap:
    """The live generation, as the map shows it."""

    manifest: Manifest

    @property
    def generation(self) -> int:
        """Number of the generation."""
        return self.manifest.generation

    @property
    def generations(self) -> Generations:
        """The generation and the kept ones, newest first."""
        notes = sorted(self.manifest.history, key=lambda note: -note.generation)
        kept = [
            KeptGeneration.model_validate(n, from_attributes=True) for n in notes if n.generation != self.generation
        ]
        return Generations(generation=self.generation, kept=kept)

    @cached_property
    def columns(self) -> bytes:
        """The encoded response with every number. Compute it in a thread: it takes 70 ms for 50,000 shards."""
        sections = list(self.manifest.sections.values())
        columns = ShardColumns(
            generation=self.generation,
            promoted=self.manifest.promoted,
            shards=sum(len(section.shards) for section in sections),
            limits=MapLimits(),
            sections=[_columns(self.generation, section) for section in sections],
        )
        return columns.model_dump_json().encode()

    def fetched(self, record: FetchRecord) -> FetchTimes:
        """Return the last fetches by a record, in the order of the columns."""
        names = {
            name: [shard.file.name if shard.file else "" for shard in section.shards]
            for name, section in self.manifest.sections.items()
        }
        crawlers = sorted({crawler for times in record.files.values() for crawler in times})
        return FetchTimes(
            since=record.since.isoformat() if record.files else "",
            crawlers={
                crawler: {
                    name: [record.files.get(file, {}).get(crawler, 0) for file in of] for name, of in names.items()
                }
                for crawler in crawlers
            },
        )

    def page(self, section: str, start: int, count: int) -> ShardPage:
        """Return names, ranges and rules of a section's shards, the first at position ``start``, from 0."""
        part = self.manifest.sections.get(section)
        shards = part.shards[start : start + min(count, MAX_PAGE)] if part is not None else ()
        texts = [_texts(shard, part) for shard in shards if part is not None]
        return ShardPage(generation=self.generation, section=section, start=start, shards=texts)


def read_map(body: bytes, where: str) -> ShardMap:
    """Return the map of a manifest, or raise ManifestError if it is damaged, or written by a later version."""
    return ShardMap(manifest=decode_manifest(body, where))


async def live_map(states: StateReader, store: StoreFacts, announced: int) -> tuple[str, ShardMap]:
    """Return the ETag and the map of the live manifest, at least of the generation that the newest event announces."""
    return await states.read(
        store, read_map, is_old=lambda found: found.generation < announced or not found.manifest.promoted
    )


def _columns(generation: int, section: SectionManifest) -> MapSection:
    shards = section.shards
    files = [shard.file for shard in shards]
    return MapSection(
        name=section.name,
        null_keys=section.null_keys,
        urls=[shard.urls for shard in shards],
        rows=[shard.digest.rows for shard in shards],
        xml_bytes=[file.xml_byte_size if file else 0 for file in files],
        file_bytes=[file.byte_size if file else 0 for file in files],
        written_at=[int(file.modified_at.timestamp()) if file else 0 for file in files],
        written_in=[shard.written_in for shard in shards],
        dropped=[sum(shard.dropped.values()) for shard in shards],
        state=[_state(generation, shard) for shard in shards],
    )


def _state(generation: int, shard: Shard) -> int:
    if shard.file is None:
        return EMPTY
    if shard.file.etag is None:
        return PENDING
    if shard.dirty_since is not None:
        return WAITING
    return WRITTEN if shard.written_in == generation else KEPT


def _texts(shard: Shard, section: SectionManifest) -> ShardTexts:
    name = shard.file.name if shard.file else None
    return ShardTexts(
        name=name,
        url=section.base_url + name.removeprefix(section.path) if name and section.base_url else None,
        lower=_key(shard.range.lower),
        upper=_key(shard.range.upper),
        lastmod=shard.newest_lastmod,
        dropped=dict(shard.dropped),
        fixed=dict(shard.fixed),
        settled=shard.settled,
    )


def _key(key: Key | None) -> str | None:
    """Return a key for people. JSON has no lone surrogates, so the page shows them as question marks."""
    return None if key is None else show(key)[:KEY_CHARACTERS].encode("utf-8", "replace").decode()
