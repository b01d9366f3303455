"""Responses about the shards of the published generation."""

from __future__ import annotations

from airflow_sitemaps.plugin.schemas.strict_model import StrictModel


class Unavailable(StrictModel):
    """The store cannot be read. The page shows this sentence instead."""

    unavailable: str


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
    """The limits of the protocol."""

    urls: int
    xml_bytes: int
    files: int


class ShardColumns(StrictModel):
    """The numbers of every shard."""

    generation: int
    committed_at: str
    run: str
    promoted: bool
    shards: int
    limits: MapLimits
    sections: list[MapSection]


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
    mended: dict[str, int]
    settled: bool


class ShardPage(StrictModel):
    """Part of a section's shards, of one generation. ``start`` is the position of the first one."""

    generation: int
    section: str
    start: int
    shards: list[ShardTexts]
