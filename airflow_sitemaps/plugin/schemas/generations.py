"""Responses about generations and how they differ."""

from __future__ import annotations

from airflow_sitemaps.plugin.schemas.strict_model import StrictModel


class KeptGeneration(StrictModel):
    """A generation that is available for a rollback."""

    generation: int
    committed_at: str | None
    urls: int | None
    shards: int | None
    byte_size: int | None
    action: str | None
    touched: int | None
    dropped: int | None


class Generations(StrictModel):
    """The published generation and the kept ones, newest first."""

    generation: int
    kept: list[KeptGeneration]


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
