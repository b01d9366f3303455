"""Drift: what lies at the public prefix against what the manifest says. Found at plan time, repaired by the run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_sitemaps.pipeline.putting import WRITE_ID
from airflow_sitemaps.shards.naming import shard_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_sitemaps.ports import ObjectInfo, Store
    from airflow_sitemaps.shards.manifest import Manifest, SectionState


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One section's files that are not as we left them, by position of the shard."""

    files: Mapping[int, str | None] = field(default_factory=dict)
    bodiless: frozenset[int] = frozenset()
    taken: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()


def look(store: Store) -> dict[str, ObjectInfo]:
    """Everything at the public prefix, by name."""
    return {info.key: info for info in store.public.list()}


def find(store: Store, state: SectionState, listing: Mapping[str, ObjectInfo]) -> Drift:
    """The drift of a section whose last promotion is complete."""
    files: dict[int, str | None] = {}
    bodiless: set[int] = set()
    sentences = []
    for position, shard in enumerate(state.shards):
        if shard.file is None:
            continue
        info = listing.get(shard.file.name)
        if info is not None and info.etag == shard.file.etag:
            continue
        if info is not None and _is_ours(
            store, shard.file.name, shard.file.stamp, info.byte_size, shard.file.byte_size
        ):
            continue
        files[position] = None if info is None else info.etag
        what = "is gone" if info is None else f"was overwritten ({info.byte_size:,} bytes lie there)"
        if store.state.head(shard.file.body) is None:
            bodiless.add(position)
            what += ", and so is its private body: its rows are read again"
        sentences.append(f"{store.public.url(shard.file.name)} {what}")
    return Drift(files=files, bodiless=frozenset(bodiless), sentences=tuple(sentences))


def taken(path: str, section: str, listing: Mapping[str, ObjectInfo], manifest: Manifest | None) -> tuple[str, ...]:
    """Names that look like a section's but are none of ours: their serials are passed over."""
    pattern = shard_names(path, section)
    ours: set[str] = set()
    if manifest is not None:
        ours = {file.name for file in manifest.files()} | {d.key for d in manifest.departed if d.area == "public"}
    return tuple(name for name in listing if name not in ours and pattern.fullmatch(name))


def _is_ours(store: Store, name: str, stamp: str, found_bytes: int, known_bytes: int) -> bool:
    """Whether another etag hides our own bytes (encryption changed, the object was copied in place)."""
    if found_bytes != known_bytes:
        return False
    info = store.public.head(name)
    return info is not None and info.metadata.get(WRITE_ID) == stamp
