"""Promote a committed generation: private bodies to their public names, the index last.

Every step can be repeated by anybody: what is already there is recognised by its write id, each put replaces only
what was read just before, and nothing is put once another generation has been committed.
"""

from __future__ import annotations

import gzip
import logging
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import ConfigurationError, StoreContentError, StoreError
from airflow_sitemaps.pipeline.conditions import copies
from airflow_sitemaps.pipeline.parallel import mapped
from airflow_sitemaps.pipeline.putting import WRITE_ID, RefusedPutError, copy_surely, put_surely
from airflow_sitemaps.pipeline.state import GZIP, Root, State
from airflow_sitemaps.ports import Create, Update
from airflow_sitemaps.protocol.gzip import with_variant
from airflow_sitemaps.shards.index import IndexSettings, render

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from airflow_sitemaps.ports import Clock, ObjectInfo, Progress, PutMode, Store
    from airflow_sitemaps.shards.manifest import IndexFile, Manifest, PublicFile, SectionState

log = logging.getLogger(__name__)

ATTEMPTS: Final = 6
NOT_SEEN: Final[Mapping[str, ObjectInfo]] = MappingProxyType({})
XML: Final = "application/xml; charset=utf-8"
CONTENT_TYPES: Final = {"gz": GZIP, "atom": "application/atom+xml", "rss": "application/rss+xml", "xsl": "text/xsl"}


class SupersededError(Exception):
    """Another generation has been committed; whoever did it finished this one first."""


def promote(
    store: Store,
    root: Root,
    settings: IndexSettings,
    *,
    clock: Clock,
    progress: Progress,
    fresh: bool = False,
    bodies: Mapping[str, ObjectInfo] = NOT_SEEN,
) -> Root:
    """Make the public area what the manifest says, and record that it is.

    ``fresh``: nobody can have begun to, so that each file is put at once, under the condition that the old one is
    as the manifest says; only where that fails it is looked at first. ``bodies``: what was seen of them at the commit.

    Raises:
        SupersededError: another generation is current.
        StoreError: the store failed; nothing is lost, the next try or run goes on from here.
    """
    state = State(store.state)
    manifest = root.manifest
    if manifest.promoted:
        return root
    pending = [file for file in manifest.files() if file.etag is None]
    progress.start("promote", len(pending), "files")
    etags: dict[str, str] = {}
    copy = copies(store, len(pending))
    for files in ([f for f in pending if f.replaces is None], [f for f in pending if f.replaces is not None]):
        promoted = mapped(
            lambda f: (f.name, _promote_file(store, state, root, f, fresh=fresh, bodies=bodies if copy else None)),
            files,
            "sitemap-promote",
        )
        for name, etag in promoted:
            etags[name] = etag
            progress.advance(1)
    for index in manifest.indexes:
        if index.etag is None:
            etags[index.name] = _promote_index(store, state, root, settings, index)
    progress.finish()
    return _record(state, root, etags, clock)


def put_back(store: Store, root: Root, settings: IndexSettings, names: Collection[str]) -> None:
    """Put those public files that the manifest names and that are not there, whatever became of them.

    Raises SupersededError where another generation is current, StoreError.
    """
    state = State(store.state)
    for file in root.manifest.files():
        if file.name in names:
            _promote_file(store, state, root, file)
    for index in root.manifest.indexes:
        if index.name in names:
            _promote_index(store, state, root, settings, index)


def _promote_file(
    store: Store,
    state: State,
    root: Root,
    file: PublicFile,
    *,
    fresh: bool = False,
    bodies: Mapping[str, ObjectInfo] | None = None,
) -> str:
    """The etag of a file that is now public. ``bodies`` (None: the store does not copy) is what was seen of them."""
    for attempt in range(ATTEMPTS):
        etag = file.replaces
        if attempt or not fresh:
            there = store.public.head(file.name)
            if there is not None and _is(there, file.stamp) and there.byte_size == file.byte_size:
                return there.etag
            etag = None if there is None else there.etag
        mode = Create() if etag is None else Update(etag)
        if bodies is not None and not attempt:
            copied = _copied(store, state, root, file, mode, bodies.get(file.body))
            if copied is not None:
                return copied
        body = _body(state, file)
        _still(state, root)
        if etag is not None and etag != file.replaces:
            log.warning("%s is not as we left it; it is replaced", store.public.url(file.name))
        try:
            return put_surely(
                store.public,
                file.name,
                body,
                mode=mode,
                write_id=file.stamp,
                content_type=_content_type(file.name),
                cache_control=store.cache_control,
            )
        except RefusedPutError as refused:
            log.info("%s; reading again", refused)
    raise StoreError(f"{store.public.url(file.name)} changed {ATTEMPTS} times while it was being promoted; run again")


def _copied(
    store: Store, state: State, root: Root, file: PublicFile, mode: PutMode, found: ObjectInfo | None
) -> str | None:
    """The etag of a body that the store copied to its public name by itself.

    None where it did not, for whatever reason: then the bytes are read, judged and put from here, which says what is
    wrong. A content that returns (a variant) has other bytes than its body.
    """
    if file.variant:
        return None
    try:
        if found is None:
            found = state.objects.head(file.body)
            if found is None or not _is(found, file.body) or found.byte_size != file.byte_size:
                return None
        _still(state, root)
        return copy_surely(
            store.public,
            file.name,
            state.objects,
            found,
            mode=mode,
            write_id=file.stamp,
            content_type=_content_type(file.name),
            cache_control=store.cache_control,
        )
    except (RefusedPutError, StoreError, ConfigurationError) as e:
        log.info("%s; it is put from here", e)
        return None


def _promote_index(store: Store, state: State, root: Root, settings: IndexSettings, index: IndexFile) -> str:
    body = render(root.manifest, settings, index.name, index.changed_in)
    stamp = f"index#{index.changed_in}#{index.xml_sha256}"
    zipped = index.name.endswith(".gz")
    for _ in range(ATTEMPTS):
        there = store.public.head(index.name)
        if there is not None and _is(there, stamp):
            return there.etag
        _still(state, root)
        try:
            return put_surely(
                store.public,
                index.name,
                gzip.compress(body, mtime=0) if zipped else body,
                mode=Create() if there is None else Update(there.etag),
                write_id=stamp,
                content_type=GZIP if zipped else XML,
                cache_control=store.cache_control,
            )
        except RefusedPutError as refused:
            log.info("%s; reading again", refused)
    raise StoreError(f"{store.public.url(index.name)} changed {ATTEMPTS} times while it was being promoted; run again")


def _body(state: State, file: PublicFile) -> bytes:
    """A private body as it goes to its public name, checked to be whole.

    Its length must be what was written, and so must the length that its gzip trailer tells (RFC 1952, ISIZE).
    """
    found = state.objects.get(file.body)
    url = state.objects.url(file.body)
    if found is None:
        raise StoreContentError(f"{url}, the body of {file.name}, is gone: run again with rebuild=[{file.name!r}]")
    zipped = file.name.endswith(".gz")
    told = int.from_bytes(found.body[-4:], "little") if zipped else len(found.body)
    if len(found.body) != file.byte_size or told != file.xml_byte_size % (1 << 32):
        raise StoreContentError(
            f"{url}, the body of {file.name}, has {len(found.body):,} bytes that hold {told:,}; "
            f"{file.byte_size:,} and {file.xml_byte_size:,} were written: it is damaged and was not published"
        )
    return with_variant(found.body, file.variant) if zipped else found.body


def _content_type(name: str) -> str:
    return CONTENT_TYPES.get(name.rpartition(".")[2], XML)


def _is(info: ObjectInfo, stamp: str) -> bool:
    return info.metadata.get(WRITE_ID) == stamp


def _still(state: State, root: Root) -> None:
    if not state.still(root):
        raise SupersededError(f"generation {root.manifest.generation} is no longer the one to promote")


def _record(state: State, root: Root, etags: Mapping[str, str], clock: Clock) -> Root:
    """Put the manifest with the etags of its public files.

    The grace of what departed begins now, not at the commit: until now crawlers were told of it, and a promotion may
    be finished days after its commit.
    """
    manifest = root.manifest
    promoted = replace(
        manifest,
        write_id=clock.token(),
        promoted=True,
        sections={name: _with_etags(section, etags) for name, section in manifest.sections.items()},
        extras=tuple(_told(file, etags) for file in manifest.extras),
        departed=tuple(
            replace(item, at=max(item.at, clock.now())) if item.generation == manifest.generation else item
            for item in manifest.departed
        ),
        indexes=tuple(
            replace(i, etag=etags[i.name], replaces=None) if i.name in etags else i for i in manifest.indexes
        ),
    )
    try:
        return state.replace_root(promoted, root)
    except RefusedPutError as refused:
        now = state.root()
        if now is not None and _same_generation(now.manifest, manifest) and now.manifest.promoted:
            return now
        raise SupersededError(str(refused)) from refused


def _same_generation(left: Manifest, right: Manifest) -> bool:
    return (left.generation, left.run) == (right.generation, right.run)


def _told(file: PublicFile, etags: Mapping[str, str]) -> PublicFile:
    return replace(file, etag=etags[file.name], replaces=None) if file.name in etags else file


def _with_etags(section: SectionState, etags: Mapping[str, str]) -> SectionState:
    shards = tuple(
        replace(shard, file=_told(shard.file, etags)) if shard.file is not None and shard.file.name in etags else shard
        for shard in section.shards
    )
    return replace(section, shards=shards)
