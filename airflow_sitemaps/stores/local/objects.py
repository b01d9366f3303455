"""Objects as files of a folder: complete or absent, with conditional writes across processes."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from airflow_sitemaps.errors import ConfigurationError, StoreError
from airflow_sitemaps.ports import Create, ObjectInfo, Overwrite, PutMode, PutOutcomeError, StoredObject
from airflow_sitemaps.stores import checked_key, checked_metadata, checked_prefix, is_key, read_source, refusal
from airflow_sitemaps.stores.local import files
from airflow_sitemaps.stores.local.files import NOT_A_FILE, SCRATCH, Sidecar, Sidecars, key_hash, regular_status
from airflow_sitemaps.stores.local.permissions import UMASK, Permissions, explained, make_folders

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from airflow_sitemaps.ports import Headers, ObjectStore

SITEMAP_SUFFIXES: Final = tuple(s + z for s in (".xml", ".txt", ".rss", ".atom", ".xsl") for z in ("", ".gz"))
"""Suffixes of the names that this package or another sitemap generator gives to public files."""
NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL})
REREADS: Final = 10
"""Number of attempts to read a file that other processes are replacing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalObjects:
    """One area of a local store, an ``ObjectStore``. Safe between threads and processes.

    ``root`` is absolute and without symlinks. ``books`` holds what a file system cannot store with a file: metadata,
    locks and scratch records.
    """

    area: Literal["public", "state"]
    root: Path
    books: Path
    permissions: Permissions = UMASK
    needs_locks: bool = True

    def url(self, key: str) -> str:
        return str(self.root / key)

    def get(self, key: str) -> StoredObject | None:
        path = self._path(key)
        with explained("read", path):
            return self._read(key, path, keep=True)

    def head(self, key: str) -> ObjectInfo | None:
        """Read the info of an object. The content is read if no sidecar belongs to the current file, and once a day."""
        path = self._path(key)
        with explained("inspect", path):
            status = regular_status(path)
            if status is None or self._is_claimed(key, path, status):
                return None
            if info := self._recorded(key, status):
                return info
            file = self._read(key, path, keep=False)
        return file.info if file is not None else None

    def _read(self, key: str, path: Path, *, keep: bool) -> StoredObject | None:
        """Read a file (``keep``: with its bytes), again while other processes replace it, and record its etag."""
        for _ in range(REREADS):
            handle = files.open_regular(path)
            if handle is None:
                return None
            with os.fdopen(handle, "rb") as f:
                before = os.fstat(handle)
                body = f.read() if keep else b""
                etag = files.etag_of(body) if keep else files.content_etag(handle)
                status = os.fstat(handle)
                info = self._info(key, status, etag, handle)
            if status.st_size == 0 and self._is_claimed(key, path, status):
                return None
            if info.metadata or files.is_same_file(path, status):
                self._record(key, etag, before)
                return StoredObject(info=info, body=body)
        raise StoreError(f"read {path}: other processes keep replacing it; run again")

    def put(self, key: str, body: bytes, *, mode: PutMode, **headers: Unpack[Headers]) -> str:
        """Write an object. The web server sets the headers ``content_type`` and ``cache_control``, not this store."""
        return self._put(key, body, files.etag_of(body), mode, checked_metadata(headers["metadata"]))

    def _put(self, key: str, body: bytes, etag: str, mode: PutMode, checked: dict[str, str]) -> str:
        path = self._path(key)

        def attach(handle: int) -> None:
            if self.area == "public":
                files.write_attribute(handle, etag, checked)

        with explained("write", path, len(body)), self._lock(key):
            self._check_condition(key, mode)
            try:
                with files.scratch_file(path, body, self.books / "half", self.permissions, attach) as scratch:
                    status = scratch.stat()
                    with explained("write", self._sidecars.folder / key_hash(key)):
                        self._sidecars.write(key, Sidecar(etag=etag, metadata=checked, stat=files.version(status)))
                    files.give_name(scratch, path, create=isinstance(mode, Create), claim=self._claim(key))
                placed = regular_status(path)
                if placed is not None and files.identity(placed) == files.identity(status):
                    self._record(key, etag, placed)  # the new name has changed the file's ctime
            finally:
                there = self.head(key)
                self._sidecars.forget(key, keep=there.etag if there else "")
        return etag

    def copy(
        self, source: ObjectStore, found: ObjectInfo, key: str, *, mode: PutMode, **headers: Unpack[Headers]
    ) -> str:
        """Copy an object under a condition, and return the etag of the copy."""
        body = read_source(source, found)
        # Reading a local file has hashed it.
        etag = found.etag if isinstance(source, LocalObjects) else files.etag_of(body)
        return self._put(key, body, etag, mode, checked_metadata(headers["metadata"]))

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """List the regular files.

        In the public area, only names that this store wrote or that a sitemap could have are listed. A file without a sidecar
        is not read: its etag is made from inode, time and size, while ``head`` returns that of its content.
        """
        checked_prefix(prefix)
        with explained("list", self.root):
            recorded = self._sidecars.hashes()
            keys = sorted((k for k in self._keys(prefix, recorded) if k.startswith(prefix)), key=str.encode)
        for key in keys:
            if info := self._listed(key, key_hash(key) in recorded):
                yield ObjectInfo(key=key, etag=info.etag, byte_size=info.byte_size, modified_at=info.modified_at)

    def delete(self, key: str, *, etag: str | None = None) -> None:
        """Delete an object, which need not exist."""
        path = self._path(key)
        with explained("delete", path), self._lock(key):
            there = self.head(key) if etag is not None else None
            if there is not None and there.etag != etag:
                return
            path.unlink(missing_ok=True)
            self._sidecars.forget(key)
            with suppress(OSError):  # folders that are empty now; the first that is not ends it
                for folder in path.relative_to(self.root).parents[:-1]:
                    (self.root / folder).rmdir()

    @property
    def _sidecars(self) -> Sidecars:
        return Sidecars(self.books / "metadata" / self.area)

    def _claim(self, key: str) -> Path:
        return self.books / "claims" / f"{self.area}-{key_hash(key)}"

    def _is_claimed(self, key: str, path: Path, status: os.stat_result) -> bool:
        """Return whether a file is only a claim of its name. An empty object has a sidecar."""
        return (
            status.st_size == 0
            and all(sidecar.stat[:3] != files.identity(status) for sidecar in self._sidecars.of(key))
            and files.is_claimed(path, self._claim(key))
        )

    def _path(self, key: str) -> Path:
        """Return the path of a key. Raises ConfigurationError if it is outside of the folder."""
        path = self.root / checked_key(key)
        if f"{path}/".startswith(f"{self.books}/") or path.name.startswith(SCRATCH):
            raise ConfigurationError(f"the key {key!r} is reserved by the local store; rename it")
        with explained("inspect", path):
            is_linked = any(map(os.path.islink, accumulate(path.parts, os.path.join)))
            leads_out = is_linked and (path.is_symlink() or not path.parent.resolve().is_relative_to(self.root))
        if leads_out:
            raise ConfigurationError(
                f"{path} leads out of {self.root} by a symlink: nothing is read or written through it. Remove the link, "
                "then run again: the run puts the file"
            )
        return path

    @contextmanager
    def _lock(self, key: str) -> Iterator[None]:
        """Hold the lock of a key (shared by a 256th of all keys) against other threads and processes."""
        folder = make_folders(self.books / "locks", UMASK)
        handle = os.open(folder / f"{self.area}-{key_hash(key)[:2]}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
            except OSError as e:
                if e.errno not in NO_LOCKS:
                    raise
                if self.needs_locks:
                    raise ConfigurationError(
                        f"{folder}: this file system has no file locks ({e.strerror}), so two concurrent runs could "
                        "overwrite each other's files. Set state_dir= to a folder on a file system that has them, or, if no other process "
                        "ever publishes here, set single_writer=True"
                    ) from e
            yield
        finally:
            os.close(handle)  # releases the lock

    def _check_condition(self, key: str, mode: PutMode) -> None:
        """Raise PutOutcomeError if a condition fails, ConfigurationError if the name is no file's; the lock is held."""
        path = self._path(key)
        if path.exists() and not path.is_file():
            kind = "a folder" if path.is_dir() else "no regular file"
            raise ConfigurationError(
                f"{path} is {kind}, and a file is to be written there: another program made it. Remove or rename it, then "
                "run again: the run puts the file"
            )
        if not isinstance(mode, Overwrite) and (refused := refusal(mode, self.head(key))):
            raise PutOutcomeError(f"put {self.url(key)}: {refused}", definite=True)

    def _recorded(self, key: str, status: os.stat_result) -> ObjectInfo | None:
        """Return the info of a file from its sidecar, if the file has not changed since."""
        for sidecar in self._sidecars.of(key):
            if sidecar.stat == files.version(status) and not (sidecar.is_due and self.area == "public"):
                return _object_info(key, sidecar.etag, status, sidecar.metadata)
        return None

    def _record(self, key: str, etag: str, status: os.stat_result) -> None:
        """Record the etag of bytes read after ``status`` (a later change has another ctime); remove others of it."""
        with suppress(OSError):  # this user may only read
            for sidecar in self._sidecars.of(key):
                if sidecar.etag == etag and (sidecar.is_due or sidecar.stat != files.version(status)):
                    self._sidecars.write(key, replace(sidecar, stat=files.version(status)), durable=False)
                elif sidecar.etag != etag and sidecar.stat == files.version(status):
                    self._sidecars.remove(key, sidecar.etag)

    def _info(self, key: str, status: os.stat_result, etag: str, handle: int) -> ObjectInfo:
        """Return the info of an open file whose content has been read."""
        metadata = next((s.metadata for s in self._sidecars.of(key) if s.etag == etag), None)
        if metadata is None:
            metadata = files.read_attribute(handle, etag) if self.area == "public" else {}
        return _object_info(key, etag, status, metadata)

    def _listed(self, key: str, is_recorded: bool) -> ObjectInfo | None:
        with explained("list", self.root / key):
            try:
                status = regular_status(self.root / key)
            except PermissionError:
                return None
            if status is None or self._is_claimed(key, self.root / key, status):
                return None
            if is_recorded:
                if info := self._recorded(key, status):
                    return info
                with suppress(ConfigurationError):  # another user replaced it and lets no one read it
                    return self.head(key)
        return _object_info(key, "unread-{}-{}-{}".format(*files.identity(status)), status, {})

    def _keys(self, prefix: str, recorded: frozenset[str]) -> Iterator[str]:
        """Yield every name below the root that is a key and, in the public area, could be the name of a sitemap."""
        for folder, folders, names in os.walk(self.root / prefix.rpartition("/")[0], onerror=self._unlisted):
            if Path(folder) == self.books.parent and self.books.name in folders:
                folders.remove(self.books.name)
            above = Path(folder).relative_to(self.root).as_posix()
            for name in names:
                key = name if above == "." else f"{above}/{name}"
                if name.startswith(SCRATCH) or not is_key(key):
                    continue
                if self.area == "state" or key.endswith(SITEMAP_SUFFIXES) or key_hash(key) in recorded:
                    yield key

    def _unlisted(self, e: OSError) -> None:
        """Raise the error of a folder that could not be listed, unless it is gone, or is a public one that may not be read."""
        if e.errno not in NOT_A_FILE and (self.area == "state" or not isinstance(e, PermissionError)):
            raise e


def _object_info(key: str, etag: str, status: os.stat_result, metadata: Mapping[str, str]) -> ObjectInfo:
    changed = datetime.fromtimestamp(status.st_mtime, timezone.utc)
    return ObjectInfo(key=key, etag=etag, byte_size=status.st_size, metadata=metadata, modified_at=changed)
