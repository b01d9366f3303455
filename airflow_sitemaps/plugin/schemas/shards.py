"""Responses about the shards of the published generation."""

from __future__ import annotations

from airflow_sitemaps.plugin.schemas.strict_model import StrictModel


class Unavailable(StrictModel):
    """The store could not be read; the page shows the sentence instead."""

    unavailable: str


class MapSection(StrictModel):
    """A section's shards in key order, a column each. Sizes in bytes, times in seconds since 1970."""

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
    """The protocol's limits."""

    urls: int
    xml_bytes: int
    files: int


class ShardColumns(StrictModel):
    """Every shard's numbers."""

    generation: int
    committed_at: str
    run: str
    promoted: bool
    shards: int
    limits: MapLimits
    sections: list[MapSection]


class ShardTexts(StrictModel):
    """One shard's texts: file name and URL (None: no file), key range ``[lower, upper)`` (None: open), newest lastmod."""

    name: str | None
    url: str | None
    lower: str | None
    upper: str | None
    lastmod: str | None
    dropped: dict[str, int]
    mended: dict[str, int]
    settled: bool


class ShardPage(StrictModel):
    """Shards of a section from a position on, of one generation."""

    generation: int
    section: str
    start: int
    shards: list[ShardTexts]
