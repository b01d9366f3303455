"""Promote a committed generation: put its private bodies under their public names, the index last.

Any run can repeat any step. An object that is already public is recognised by its write id and its content. Each put
replaces only the object that was read just before. Nothing is put after another generation has been committed.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Final

from msgspec.structs import replace

from airflow_sitemaps.errors import (
    ConfigurationError,
    ConflictError,
    OwnershipError,
    SitemapError,
    StoreContentError,
    StoreError,
)
from airflow_sitemaps.pipeline.concurrency import mapped
from airflow_sitemaps.pipeline.publish.public_files import with_files
from airflow_sitemaps.pipeline.request import OpenSitemap
from airflow_sitemaps.pipeline.state.capability_probe import copies
from airflow_sitemaps.pipeline.state.identity import check_stamp, in_variant, is_public_body, stamp
from airflow_sitemaps.pipeline.state.repository import (
    GZIP,
    RACES,
    WRITE_ID,
    ManifestVersion,
    RefusedPutError,
    StateRepository,
    copy_verified,
    put_verified,
)
from airflow_sitemaps.ports import Create, ObjectInfo, Store, Update
from airflow_sitemaps.shards.layout import address
from airflow_sitemaps.shards.manifest import Manifest, PublicFile
from airflow_sitemaps.waits import waiting

log = logging.getLogger(__name__)

ATTEMPTS: Final = 6
NOT_SEEN: Final[Mapping[str, ObjectInfo]] = MappingProxyType({})
XML: Final = "application/xml; charset=utf-8"
CONTENT_TYPES: Final = {"gz": GZIP, "atom": "application/atom+xml", "rss": "application/rss+xml", "xsl": "text/xsl"}


class SupersededError(Exception):
    """Another generation has been committed; the run that committed it finished this one first."""


def promote(
    opened: OpenSitemap, current: ManifestVersion, *, fresh: bool = False, bodies: Mapping[str, ObjectInfo] = NOT_SEEN
) -> ManifestVersion:
    """Put all files of a manifest into the public area, and record in the manifest that they are public.

    If it is ``fresh``, no other run can have begun this promotion. Each file is then put at once, on the condition that the
    old one is as the manifest says; only if that fails, the old one is read first.

    Raises SupersededError if another generation is current, OwnershipError if another pipeline put an object under one of the
    names, StoreError if the store or a required purge failed. Nothing is lost: the next try or run continues.
    """
    for _ in range(RACES):
        try:
            return _promote(opened, current, fresh=fresh, bodies=bodies)
        except SupersededError:
            now = opened.state.current()
            if now is None or _number(now) != _number(current):
                raise
            # A question was opened or closed: the manifest is another, and its files are the same.
            current, fresh = now, False
    raise ConflictError(
        f"questions about generation {current.manifest.generation} were opened or closed {RACES} times while it was being "
        "promoted; run again"
    )


def _number(current: ManifestVersion) -> tuple[int, str]:
    return current.manifest.generation, current.manifest.run


def _promote(
    opened: OpenSitemap, current: ManifestVersion, *, fresh: bool, bodies: Mapping[str, ObjectInfo]
) -> ManifestVersion:
    store, manifest, clock, progress = opened.store, current.manifest, opened.clock, opened.progress
    if manifest.promoted:
        return current
    pending = [file for file in manifest.files() if file.etag is None]
    indexes = [index for index in manifest.indexes if index.etag is None]
    progress.start("promote", len(pending) + len(indexes), "files")
    etags: dict[str, str] = {}
    infos = bodies if copies(store, len(pending)) else None

    def put(files: Sequence[PublicFile]) -> None:
        promoted = mapped(
            lambda f: _promote_file(store, current, f, fresh=fresh, bodies=infos), files, "sitemap-promote"
        )
        for file, etag in zip(files, promoted, strict=True):
            etags[file.name] = etag
            progress.advance(1)

    put([file for file in pending if file.replaces is None])
    put([file for file in pending if file.replaces is not None])
    purge_shards(store, manifest, etags.keys())
    put(indexes)
    purge_indexes(store, [index.name for index in indexes])
    progress.finish()
    return _record(
        opened.state, current, etags, clock.token(), max(clock.now(), _last_put(store, manifest, clock.now()))
    )


def _last_put(store: Store, manifest: Manifest, now: datetime) -> datetime:
    """Return when the index was put by the store's clock: a slow worker's clock would begin the grace too early."""
    if not any(item.generation == manifest.generation for item in manifest.departed):
        return now
    times = (info.modified_at for i in manifest.indexes if (info := store.public.head(i.name)) is not None)
    return max((time for time in times if time is not None), default=now)


def put_back(store: Store, names: Collection[str]) -> None:
    """Restore deleted or changed files whose names the current manifest has."""
    for _ in range(RACES):
        now = StateRepository(store.state).current()
        if now is None:
            return
        try:
            for file in now.manifest.public_files():
                # The index of an unfinished promotion is put after all shards that it lists.
                if file.name in names and (file not in now.manifest.indexes or _lists_public(store, now.manifest)):
                    _promote_file(store, now, file)
            return
        except SupersededError:
            continue


def _lists_public(store: Store, manifest: Manifest) -> bool:
    """Return whether every file that the indexes list is public, though a rival may not have recorded that yet."""
    pending = ((file, store.public.head(file.name)) for file in manifest.files() if file.etag is None)
    return all(there is not None and _is_promoted(store, file, there) for file, there in pending)


def _promote_file(
    store: Store,
    current: ManifestVersion,
    file: PublicFile,
    *,
    fresh: bool = False,
    bodies: Mapping[str, ObjectInfo] | None = None,
) -> str:
    """Make a file public and return its etag. Without ``bodies``, the store does not copy."""
    state = StateRepository(store.state)
    for attempt in range(ATTEMPTS):
        etag = file.replaces
        if attempt or not fresh:
            there = store.public.head(file.name)
            if there is not None and _is_promoted(store, file, there):
                return there.etag
            etag = None if there is None else there.etag
            if there is not None and etag != file.replaces:
                check_stamp(store.public.url(file.name), there, current.manifest)
        put = {"mode": Create() if etag is None else Update(etag), **_put_arguments(store, current, file)}
        if bodies is not None and not attempt:
            copied = _copied(store, current, file, bodies.get(file.body), put)
            if copied is not None:
                return copied
        body = _body(state, file)
        _still(state, current)
        if etag is not None and etag != file.replaces:
            log.warning("%s was changed by another program; overwriting it", store.public.url(file.name))
        try:
            return put_verified(store.public, file.name, body, **put)
        except RefusedPutError as refused:
            log.info("%s; checking the object again", refused)
    raise StoreError(f"{store.public.url(file.name)} changed {ATTEMPTS} times while it was being promoted; run again")


def _is_promoted(store: Store, file: PublicFile, there: ObjectInfo) -> bool:
    """Return whether a public object is the file. Its content is read unless its etag proves it: metadata can be copied."""
    if there.etag == file.etag:
        return True
    stored = store.public.get(file.name) if _is(there, file.stamp) else None
    return stored is not None and stored.info.etag == there.etag and is_public_body(file, stored.body)


def _copied(
    store: Store, current: ManifestVersion, file: PublicFile, info: ObjectInfo | None, put: Mapping[str, Any]
) -> str | None:
    """Copy a body to its public name within the store and return its etag, or None if the store did not copy.

    A returning content (a variant) is not copied, because its bytes differ from its body. After None, for whatever
    reason, the caller reads, checks and puts the bytes, and reports what is wrong.
    """
    if file.variant:
        return None
    try:
        if info is None:
            info = store.state.head(file.body)
            if info is None or not _is(info, file.body) or info.byte_size != file.byte_size:
                return None
        _still(StateRepository(store.state), current)
        return copy_verified(store.public, file.name, store.state, info, **put)
    except (RefusedPutError, StoreError, ConfigurationError) as e:
        log.info("%s; uploading the bytes instead", e)
        return None


def _body(state: StateRepository, file: PublicFile) -> bytes:
    """Read the bytes to publish, and check their length and that in the gzip trailer (RFC 1952, ISIZE)."""
    stored = state.objects.get(file.body)
    url = state.objects.url(file.body)
    if stored is None:
        raise StoreContentError(f"{url}, the body of {file.name}, is missing: run again with rebuild=[{file.name!r}]")
    zipped = file.name.endswith(".gz")
    xml_byte_size = int.from_bytes(stored.body[-4:], "little") if zipped else len(stored.body)
    if len(stored.body) != file.byte_size or xml_byte_size != file.xml_byte_size % (1 << 32):
        raise StoreContentError(
            f"{url}, the body of {file.name}, is damaged: it has {len(stored.body):,} bytes ({xml_byte_size:,} uncompressed) instead of "
            f"{file.byte_size:,} ({file.xml_byte_size:,} uncompressed). The body was not "
            f"published: run again with rebuild=[{file.name!r}]"
        )
    return in_variant(file, stored.body)


def _put_arguments(store: Store, current: ManifestVersion, file: PublicFile) -> dict[str, Any]:
    """Return what every put of a file has: its write id, headers and stamp.

    Caches revalidate files that an index lists. Clients read a feed without the index, so it may be a few minutes old.
    """
    return {
        "write_id": file.stamp,
        "content_type": CONTENT_TYPES.get(file.name.rpartition(".")[2], XML),
        "cache_control": store.shard_cache_control if file.listed else store.cache_control,
        "metadata": stamp(current.manifest),
    }


def _is(info: ObjectInfo, stamp: str) -> bool:
    return info.metadata.get(WRITE_ID) == stamp


def _still(state: StateRepository, current: ManifestVersion) -> None:
    if not state.still(current):
        raise SupersededError(f"generation {current.manifest.generation} is no longer the current one")


def _record(
    state: StateRepository, current: ManifestVersion, etags: Mapping[str, str], write_id: str, promoted_at: datetime
) -> ManifestVersion:
    """Put the manifest with the etags of its public files.

    The grace of departed files begins now, not at the commit: until now the index listed them, and a promotion may end
    days after its commit.
    """
    manifest = current.manifest
    promoted = replace(
        with_files(
            manifest, lambda file: replace(file, etag=etags[file.name], replaces=None) if file.name in etags else file
        ),
        write_id=write_id,
        promoted=True,
        departed=tuple(
            replace(item, at=max(item.at, promoted_at)) if item.generation == manifest.generation else item
            for item in manifest.departed
        ),
    )
    try:
        return state.replace_manifest(promoted, current)
    except RefusedPutError as refused:
        raise SupersededError(str(refused)) from refused


def roll_forward(opened: OpenSitemap, current: ManifestVersion) -> ManifestVersion:
    """Finish the promotion of a committed generation that another run left unfinished.

    If another run finishes it first and commits the next generation, that one is finished too. The next commit then
    always follows a generation that is public. Raises ConflictError if that never ends, or if the manifest was removed.
    """
    for _ in range(RACES):
        manifest = current.manifest
        log.warning(
            "generation %d (run %s) was committed but not completely promoted; finishing its promotion first",
            manifest.generation,
            manifest.run,
        )
        try:
            return promote(opened, current)
        except (StoreContentError, ConfigurationError) as error:
            paths = {section.name: section.path for section in opened.sitemap.sections}
            has_same_names = {name: state.path for name, state in manifest.sections.items()}.items() <= paths.items()
            if has_same_names and not isinstance(error, (StoreContentError, OwnershipError)):
                raise  # the next generation would have the files that the store refuses, too
            # Do not raise, or every later run would fail here: the next commit reads the rows of lost bodies again, and
            # the next plan refuses objects of another pipeline.
            log.warning(
                "the promotion of generation %d cannot be finished; the next run replaces the generation: %s",
                manifest.generation,
                error,
            )
            return current
        except SupersededError:
            now = opened.state.current()
        if now is None:
            raise ConflictError(
                "the manifest was removed while this run finished an earlier promotion; run the DAG again"
            )
        if now.manifest.promoted:
            return now
        current = now
    raise ConflictError(
        f"other runs committed {RACES} times while this run finished an earlier promotion; run again when fewer runs publish at once"
    )


def purge_shards(store: Store, manifest: Manifest, names: Collection[str]) -> None:
    """Remove changed shards from caches before the new index is put.

    A failure stops the promotion only if caches may answer with an old shard. The index then stays as it was, and the
    next attempt or run continues. If caches revalidate shards, crawlers read the right shard despite the failure.
    """
    addresses = sorted(_addresses(manifest, frozenset(names)))
    problem = _purge(store, addresses)
    if problem is None:
        return
    text = f"the purge of {len(addresses)} addresses failed ({problem})"
    if store.needs_purge:
        raise StoreError(
            f"{text}. Shards may be cached (shard_cache_control={store.shard_cache_control!r}), so the index was not "
            "replaced. It still lists the complete earlier generation. Check the purge hook, then run again"
        )
    log.warning("%s; crawlers get the new shards nevertheless, because caches revalidate them", text)


def purge_indexes(store: Store, names: Sequence[str]) -> None:
    """Remove changed indexes from caches. A failure is only logged, because caches expire."""
    problem = _purge(store, [store.base_url + name for name in names])
    if problem is not None:
        log.warning(
            "the purge of %d indexes failed (%s); caches serve the old indexes until they expire", len(names), problem
        )


def _purge(store: Store, addresses: Sequence[str]) -> str | None:
    """Call the hook, if there is one, and return how it failed; a user's function may raise any exception.

    The text of an exception is shown only if it is of this package: others quote requests, with tokens in them.
    """
    if store.purge is None or not addresses:
        return None
    try:
        with waiting("the purge hook", "The hook's own time-outs apply"):
            store.purge(addresses)
    except SitemapError as error:
        return f"{type(error).__name__}: {error}"
    except Exception as error:
        hook = traceback.extract_tb(error.__traceback__)[:2][-1]  # the frame after this one is the hook's
        return f"{type(error).__name__} at {PurePath(hook.filename).name}, line {hook.lineno}"
    log.info("purged %d addresses from caches", len(addresses))
    return None


def _addresses(manifest: Manifest, names: frozenset[str]) -> Iterator[str]:
    for section in manifest.sections.values():
        yield from (address(section, file.name) for file in section.files() if file.name in names)
    yield from (manifest.base_url + file.name for file in manifest.extras if file.name in names)
