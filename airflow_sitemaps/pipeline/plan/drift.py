"""Drift: differences between the public files and the manifest. The plan finds them, and the run repairs them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from airflow_sitemaps.pipeline.concurrency import mapped
from airflow_sitemaps.pipeline.state.ownership import is_body
from airflow_sitemaps.shards.plan import Repair
from airflow_sitemaps.shards.shard_names import shard_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_sitemaps.ports import ObjectInfo, Store
    from airflow_sitemaps.shards.manifest import Manifest, PublicFile, SectionManifest
    from airflow_sitemaps.shards.plan import SectionPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One section's files that another program changed or deleted.

    Attributes:
        files: Etag of the object that now has the file's name, by position of the shard; None if there is no object.
            Default: none.
        bodiless: Positions of shards whose private body is missing or damaged. Default: none.
    """

    files: Mapping[int, str | None] = field(default_factory=dict)
    bodiless: frozenset[int] = frozenset()
    sentences: tuple[str, ...] = ()


def look(store: Store, manifest: Manifest | None = None, *, read: bool = False) -> dict[str, ObjectInfo]:
    """List all public objects by name.

    Args:
        manifest: The current manifest. Default: None.
        read: Whether a store that records etags reads the manifest's files, to compute their etags again.
            Default: False.
    """
    listing = {info.key: info for info in store.public.list()}
    if read and store.records_etags and manifest is not None:
        names = [file.name for file in manifest.public_files()]
        names = [name for name in names if name in listing]
        for name, etag in zip(names, mapped(lambda name: _read_etag(store, name), names, "sitemap-drift"), strict=True):
            listing[name] = replace(listing[name], etag=etag)
    return listing


def _read_etag(store: Store, name: str) -> str:
    stored = store.public.get(name)
    return "" if stored is None else stored.info.etag


def find(store: Store, state: SectionManifest, listing: Mapping[str, ObjectInfo]) -> Drift:
    """Find the drift of a section.

    A file is as it was promoted if its etag is. Size and metadata prove nothing, because another program can copy them.
    A file whose promotion is not finished does not count as drift, unless its private body is missing or damaged.
    """
    files: dict[int, str | None] = {}
    bodiless: set[int] = set()
    sentences = []
    for position, shard in enumerate(state.shards):
        if shard.file is None:
            continue
        if shard.file.etag is None and _is_whole(store, shard.file):
            continue  # the commit of this plan first finishes its promotion
        info = listing.get(shard.file.name)
        if info is not None and info.etag == shard.file.etag:
            continue
        if info is not None:
            info = store.public.head(shard.file.name)  # a listing may be outdated, or hold no etag of the content
        if info is not None and info.etag == shard.file.etag:
            continue
        files[position] = None if info is None else info.etag
        what = "is gone" if info is None else f"was overwritten by another program (now {info.byte_size:,} bytes)"
        if not _is_sound(store, shard.file):
            bodiless.add(position)
            what += "; its private body is missing or damaged too, so its rows are read again"
        sentences.append(f"{store.public.url(shard.file.name)} {what}")
    return Drift(files=files, bodiless=frozenset(bodiless), sentences=tuple(sentences))


def repairs(
    store: Store, manifest: Manifest | None, plans: Mapping[str, SectionPlan], listing: Mapping[str, ObjectInfo]
) -> tuple[Repair, ...]:
    """Find the files of all sections that can be put again without their source.

    Args:
        plans: The plans of sections by name. The drift of the other sections is looked for here.
    """
    damaged = []
    for name, state in manifest.sections.items() if manifest is not None else ():
        for position in plans[name].drifted if name in plans else find(store, state, listing).files:
            file = state.shards[position].file
            if file is None or file.etag is None or not _is_sound(store, file):
                continue
            info = listing.get(file.name)
            etag = info.etag if info is not None else None
            damaged.append(Repair(section=name, name=file.name, base=state.changed_in, found_etag=etag))
    return tuple(damaged)


def taken(path: str, section: str, listing: Mapping[str, ObjectInfo], manifest: Manifest | None) -> tuple[str, ...]:
    """Find names of a section's pattern that belong to other programs; new files skip their serials."""
    pattern = shard_names(path, section)
    ours: set[str] = set()
    if manifest is not None:
        ours = {file.name for file in manifest.files()} | {d.key for d in manifest.departed if d.area == "public"}
    return tuple(name for name in listing if name not in ours and pattern.fullmatch(name))


def _is_whole(store: Store, file: PublicFile) -> bool:
    """Return whether the private body of a file exists with its full length."""
    body = store.state.head(file.body)
    return body is not None and body.byte_size == file.byte_size


def _is_sound(store: Store, file: PublicFile) -> bool:
    """Return whether the private body of a file exists and has the file's content."""
    stored = store.state.get(file.body)
    return stored is not None and len(stored.body) == file.byte_size and is_body(file, stored.body)
