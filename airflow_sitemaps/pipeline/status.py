"""What is published now, and what was."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_sitemaps.shards.manifest import GenerationNote, Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionStatus:
    """One section: URLs, source rows, shards, and its newest written lastmod."""

    urls: int
    rows: int
    shards: int
    newest_lastmod: str | None
    changed_in: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A sitemap as last committed; ``generation`` 0: never. Bytes are of the files as stored."""

    generation: int
    promoted: bool
    committed_at: str | None
    run: str | None
    urls: int
    shards: int
    byte_size: int
    index_urls: tuple[str, ...]
    sections: dict[str, SectionStatus]
    history: tuple[GenerationNote, ...]
    departed: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        value = asdict(self)
        value["history"] = [{**asdict(n), "committed_at": n.committed_at.isoformat()} for n in self.history]
        return value


def status_of(manifest: Manifest | None, base_url: str) -> Status:
    """The status of a manifest, or of nothing."""
    if manifest is None:
        return Status(
            generation=0, promoted=True, committed_at=None, run=None, urls=0, shards=0, byte_size=0,
            index_urls=(), sections={}, history=(),
        )  # fmt: skip
    files = list(manifest.files())
    return Status(
        generation=manifest.generation,
        promoted=manifest.promoted,
        committed_at=manifest.committed_at.isoformat(),
        run=manifest.run,
        urls=manifest.urls,
        shards=len(files),
        byte_size=sum(file.byte_size for file in files),
        index_urls=tuple(base_url + index.name for index in manifest.indexes),
        sections={
            name: SectionStatus(
                urls=state.urls,
                rows=state.rows,
                shards=sum(shard.file is not None for shard in state.shards),
                newest_lastmod=max((s.newest_lastmod for s in state.shards if s.newest_lastmod), default=None),
                changed_in=state.changed_in,
            )
            for name, state in manifest.sections.items()
        },
        history=manifest.history,
        departed=len(manifest.departed),
    )
