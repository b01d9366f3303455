"""Objects as files of a folder: whole or not there, conditional, across processes."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NoReturn
from uuid import uuid4

from xxhash import xxh3_128_hexdigest

from airflow_sitemaps.errors import ConfigurationError, StoreError
from airflow_sitemaps.ports import Create, ObjectInfo, PutMode, PutOutcomeError, StoredObject, Update
from airflow_sitemaps.stores.address import checked_key, checked_metadata, checked_prefix
from airflow_sitemaps.stores.copies import copied
from airflow_sitemaps.stores.sidecar import Sidecar, Sidecars, key_hash

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow_sitemaps.ports import ObjectStore

HALF: Final = ".airflow-sitemaps-"
"""How the name of a half-written file begins, where it must lie in the folder itself."""
HALF_AGE_S: Final = 86_400
"""A half-written file this old was left by a crash."""
NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
WRONG_NAME: Final = frozenset({errno.ENAMETOOLONG, errno.EISDIR, errno.ENOTDIR, errno.EILSEQ, errno.EEXIST})
NOT_A_FILE: Final = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
REREADS: Final = 10
"""How often a file that is being replaced under the reader is read anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalObjects:
    """One area of a local store; implements ``ports.ObjectStore``. Safe between threads and processes.

    Etags are hashes of the contents (xxh3_128). ``books`` holds metadata, locks and half-written files of both areas.
    """

    area: Literal["public", "state"]
    root: Path
    books: Path

    def url(self, key: str) -> str:
        return str(self.root / key)

    def get(self, key: str) -> StoredObject | None:
        path = self._path(key)
        with _explained("read", path):
            for _ in range(REREADS):
                try:
                    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as f:
                        body, status = f.read(), os.fstat(f.fileno())
                except NOT_A_FILE:
                    return None
                info = self._info(key, status, body)
                if info.metadata or _same_file(path, status):
                    return StoredObject(info=info, body=body)
        raise StoreError(f"read {path}: it is being replaced all the time; run again")

    def head(self, key: str) -> ObjectInfo | None:
        path = self._path(key)
        with _explained("look at", path):
            try:
                status = path.lstat()
            except NOT_A_FILE:
                return None
            if stat.S_ISREG(status.st_mode):
                for sidecar in self._sidecars.of(key):
                    if sidecar.stat == _identity(status):
                        return _object_info(key, sidecar.etag, status, sidecar.metadata)
        found = self.get(key)  # a file that something else put here, or moved: its etag is in its bytes
        return None if found is None else found.info

    def put(
        self,
        key: str,
        body: bytes,
        *,
        mode: PutMode,
        metadata: Mapping[str, str],
        content_type: str,
        cache_control: str | None = None,
    ) -> str:
        """As the port says; ``content_type`` and ``cache_control`` are the web server's to know."""
        path, kept = self._path(key), checked_metadata(metadata)
        etag = xxh3_128_hexdigest(body)
        with _explained("write", path, len(body)), self._lock(key):
            self._refuse(key, mode)
            half = self._written_half(path, body)
            try:
                self._sidecars.write(key, Sidecar(etag=etag, metadata=kept, stat=_identity(half.stat())))
                _moved(half, path, isinstance(mode, Create))
            finally:
                half.unlink(missing_ok=True)
                there = self.head(key)
                self._sidecars.forget(key, but=there.etag if there else "")
        return etag

    def copy(
        self,
        source: ObjectStore,
        found: ObjectInfo,
        key: str,
        *,
        mode: PutMode,
        metadata: Mapping[str, str],
        content_type: str,
        cache_control: str | None = None,
    ) -> str:
        body = copied(source, found)
        return self.put(key, body, mode=mode, metadata=metadata, content_type=content_type, cache_control=cache_control)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """As the port says; symlinks, and what is not a file, are left out."""
        checked_prefix(prefix)
        with _explained("list", self.root):
            keys = sorted((k for k in self._keys(prefix.rpartition("/")[0]) if k.startswith(prefix)), key=str.encode)
        for key in keys:
            info = self.head(key)
            if info is not None:
                yield ObjectInfo(key=key, etag=info.etag, byte_size=info.byte_size, modified_at=info.modified_at)

    def delete(self, key: str, *, etag: str | None = None) -> None:
        path = self._path(key)
        with _explained("delete", path), self._lock(key):
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

    def _path(self, key: str) -> Path:
        """Where a key lies. Raises ConfigurationError if that is outside of the folder."""
        path = self.root / checked_key(key)
        if self.books in path.parents or path == self.books or path.name.startswith(HALF):
            raise ConfigurationError(f"the key {key!r} is a name that the local store keeps for itself; rename it")
        with _explained("look at", path):
            leads_out = path.is_symlink() or not path.parent.resolve().is_relative_to(self.root)
        if leads_out:
            raise ConfigurationError(
                f"{path} leads out of {self.root} by a symlink: nothing is read or written through it. Remove the link"
            )
        return path

    @contextmanager
    def _lock(self, key: str) -> Iterator[None]:
        """Hold the lock of a key (of a 256th of all keys) against other threads and processes."""
        folder = made_folder(self.books / "locks")
        handle = os.open(folder / f"{self.area}-{key_hash(key)[:2]}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)  # and with it the lock

    def _refuse(self, key: str, mode: PutMode) -> None:
        """Raise PutOutcomeError if a condition does not hold; called under the lock."""
        there = self.head(key) if isinstance(mode, Create | Update) else None
        if isinstance(mode, Create) and there is not None:
            raise PutOutcomeError(f"put {self.url(key)}: a file is already there (etag {there.etag})", definite=True)
        if isinstance(mode, Update) and (there is None or there.etag != mode.etag):
            found = "no file is there" if there is None else f"the file has etag {there.etag}"
            raise PutOutcomeError(f"put {self.url(key)}: {found}, not {mode.etag}", definite=True)

    def _written_half(self, path: Path, body: bytes) -> Path:
        """The bytes in a file of the same file system that nobody serves; removed again if it cannot be whole."""
        scratch = made_folder(self.books / "half")
        if scratch.stat().st_dev != self.root.stat().st_dev:
            scratch = self.root
        half = scratch / f"{HALF}{uuid4().hex}"
        try:
            with half.open("xb") as f:
                f.write(body)
                f.flush()
                os.fsync(f.fileno())
        except BaseException:
            half.unlink(missing_ok=True)
            raise
        return half

    def _info(self, key: str, status: os.stat_result, body: bytes) -> ObjectInfo:
        etag = xxh3_128_hexdigest(body)
        metadata = next((s.metadata for s in self._sidecars.of(key) if s.etag == etag), {})
        return _object_info(key, etag, status, metadata)

    def _keys(self, below: str) -> Iterator[str]:
        for folder, folders, files in os.walk(self.root / below, followlinks=False):
            if Path(folder) == self.books.parent and self.books.name in folders:
                folders.remove(self.books.name)
            for name in files:
                path = Path(folder, name)
                if not name.startswith(HALF) and not path.is_symlink():
                    yield path.relative_to(self.root).as_posix()


def made_folder(folder: Path) -> Path:
    """The folder, made if it was missing. Raises StoreError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        _explain(e, "make", folder)
    return folder


def swept_scratch(public: Path, books: Path) -> None:
    """Remove half-written files that a crash left more than a day ago."""
    for half in (*public.glob(f"{HALF}*"), *(books / "half").glob(f"{HALF}*")):
        with suppress(OSError):
            if time.time() - half.stat().st_mtime > HALF_AGE_S:
                half.unlink()


def _moved(half: Path, path: Path, create: bool) -> None:
    """Give a whole file its name, and make that last. The name appears at once or not at all."""
    for _ in range(REREADS):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            if create:
                _linked(half, path)
            else:
                half.replace(path)
            break
        except FileNotFoundError:  # a delete removed the empty folder in between
            if not half.exists():
                raise
    try:
        handle = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as e:
        raise PutOutcomeError(f"write {path}: it is there, but may not outlast a crash ({e})", definite=False) from e


def _linked(half: Path, path: Path) -> None:
    """Name a file only if the name is free: the kernel decides, whoever else writes there."""
    try:
        os.link(half, path, follow_symlinks=False)
    except FileExistsError as e:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)) from e
        raise PutOutcomeError(f"put {path}: a file is already there", definite=True) from e
    except FileNotFoundError:
        raise
    except OSError as e:
        if e.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.EXDEV):
            raise
        half.replace(path)  # no hard links here; our lock, under which nothing was there, must do


def _object_info(key: str, etag: str, status: os.stat_result, metadata: Mapping[str, str]) -> ObjectInfo:
    changed = datetime.fromtimestamp(status.st_mtime, timezone.utc)
    return ObjectInfo(key=key, etag=etag, byte_size=status.st_size, metadata=metadata, modified_at=changed)


def _identity(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_mtime_ns, status.st_size


def _same_file(path: Path, status: os.stat_result) -> bool:
    try:
        return _identity(path.lstat()) == _identity(status)
    except FileNotFoundError:
        return False


@contextmanager
def _explained(verb: str, path: Path, byte_size: int | None = None) -> Iterator[None]:
    """Turn what the system says into what the user can do."""
    try:
        yield
    except (StoreError, PutOutcomeError, ConfigurationError):
        raise
    except OSError as e:
        _explain(e, verb, path, byte_size)


def _explain(e: OSError, verb: str, path: Path, byte_size: int | None = None) -> NoReturn:
    if e.errno in NO_ROOM:
        size = "" if byte_size is None else f" {byte_size:,} bytes"
        raise StoreError(
            f"{verb} {path}: no room for{size} ({e.strerror}). Nothing was changed. Free space on the file system of "
            f"{path.parent} or raise the quota or file size limit, then run again"
        ) from e
    if e.errno in WRONG_NAME:
        raise ConfigurationError(
            f"{verb} {path}: the file system cannot hold this name ({e.strerror}): a part is too long, or a file "
            "stands where a folder is needed. Choose another path"
        ) from e
    if e.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        raise ConfigurationError(
            f"{verb} {path}: not permitted ({e.strerror}) for user id {os.getuid()}. Give it write access to {path.parent}"
        ) from e
    raise StoreError(f"{verb} {path}: {e.strerror or e}. Look at the file system, then run again") from e
