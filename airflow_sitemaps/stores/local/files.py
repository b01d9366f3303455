"""Files of a local store: written completely or not at all, opened without blocking, with their metadata attached.

A file is written under a hidden name in the folder of its target, so that it takes the group and file system of that
folder. Then it gets its name: by ``rename`` to replace a file, by ``link`` to create one. If the file system has no hard
links (FUSE, some network mounts), a new name is first claimed with ``O_EXCL`` and then replaced. The claim is recorded
first. After a crash, an empty file is therefore recognised as a claim, and never treated as an object.

Only regular files are objects: no FIFO, socket, folder or link.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

from blake3 import blake3

from airflow_sitemaps.ports import PutOutcomeError
from airflow_sitemaps.stores.local.permissions import UMASK, Permissions, add_folders, explained, sync_folder

SCRATCH: Final = ".airflow-sitemaps-"
"""Prefix of the name of a file that is being written."""
SCRATCH_AGE_S: Final = 86_400
"""Age in seconds from which a scratch file counts as left by a crash."""
NO_LINKS: Final = frozenset(
    {errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV, errno.EINVAL}
)
"""Errors of ``link`` on file systems without hard links."""
RACES: Final = 10
"""Number of attempts to write into a folder that another process removes because it is empty."""
NOT_A_FILE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENXIO})
"""Errors when a name that is not a regular file is opened. ``ENXIO`` is that of a socket."""
READ_ONLY: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""Flags for opening a file. Without ``O_NONBLOCK``, opening a FIFO waits for a writer."""
ETAG_DIGITS: Final = 32
HASH_BYTES: Final = 1 << 20
SIDECAR_FORMAT: Final = 1
LIFETIME_S: Final = 82_800
"""Age in seconds from which an etag is computed from the bytes again, so that each daily run does."""
ATTRIBUTE: Final = "user.airflow-sitemaps"
"""Extended attribute of a public file with its metadata, which a pipeline with another state folder can read.

The state folder of one pipeline holds the sidecar; the attribute shows all others who owns the file. Once a program
overwrites the file in place, it is no longer valid. On file systems without extended attributes, other pipelines see no
metadata. Without privileges only attributes in ``user.`` can be set.
"""


@contextmanager
def scratch_file(
    path: Path, body: bytes, ledger: Path, permissions: Permissions, prepare: Callable[[int], None]
) -> Iterator[Path]:
    """Write bytes durably to a scratch file beside ``path``, and remove it at the end if it still exists.

    The ``ledger`` records it for ``sweep_scratch``. ``prepare`` gets the descriptor of the new, empty file. Nothing
    remains of a file that could not be written.
    """
    token = uuid4().hex
    entry, scratch = ledger / token, path.parent / f"{SCRATCH}{token}"
    try:
        with explained("write", entry):
            add_folders(ledger, UMASK)
            entry.write_bytes(os.fsencode(scratch))
        for attempt in range(1, RACES + 1):
            try:
                add_folders(path.parent, permissions)
                with scratch.open("xb") as f:
                    permissions.apply(f.fileno(), path)
                    prepare(f.fileno())
                    f.write(body)
                    f.flush()
                    os.fsync(f.fileno())
                break
            except FileNotFoundError:  # another process removed the folder, which was empty
                if attempt == RACES:
                    raise
        yield scratch
    finally:
        scratch.unlink(missing_ok=True)
        entry.unlink(missing_ok=True)


def give_name(scratch: Path, path: Path, *, create: bool, claim: Path) -> None:
    """Give a scratch file its final name, durably. The caller holds the lock of the key.

    The ``claim`` records that a name without content is taken. A PutOutcomeError is definite if the name is in use, and
    not definite if the name may not survive a crash.
    """
    if create and not is_claimed(path, claim):
        _create(scratch, path, claim)
    else:
        scratch.replace(path)
        claim.unlink(missing_ok=True)
    try:
        sync_folder(path.parent)
    except OSError as e:
        raise PutOutcomeError(
            f"write {path}: the file is written, but its folder could not be synced ({e}); a crash may lose the file",
            definite=False,
        ) from e


def is_claimed(path: Path, claim: Path) -> bool:
    """Return whether a file only claims its name: it is empty, because its content was not written (yet)."""
    status = regular_status(path)
    return status is not None and status.st_size == 0 and claim.exists()


def sweep_scratch(ledger: Path, roots: Sequence[Path]) -> None:
    """Remove scratch files below the roots, and half-written sidecars, that a crash left more than a day ago."""
    with suppress(OSError):
        for entry in (*ledger.iterdir(), *ledger.parent.glob("metadata/*/*.half")):
            with suppress(OSError, ValueError):
                if time.time() - entry.stat().st_mtime <= SCRATCH_AGE_S:
                    continue
                scratch = Path(os.fsdecode(entry.read_bytes()))
                if scratch.name.startswith(SCRATCH) and any(scratch.is_relative_to(root) for root in roots):
                    scratch.unlink(missing_ok=True)
                entry.unlink(missing_ok=True)


def _create(scratch: Path, path: Path, claim: Path) -> None:
    """Give a file its name only if the name is free. The kernel ensures this, even against writers without locks."""
    try:
        os.link(scratch, path, follow_symlinks=False)
    except FileExistsError as e:
        raise _in_use(path) from e
    except OSError as e:
        if e.errno not in NO_LINKS:
            raise
        _create_without_links(scratch, path, claim)


def _create_without_links(scratch: Path, path: Path, claim: Path) -> None:
    add_folders(claim.parent, UMASK)
    claim.touch()
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except FileExistsError as e:
        claim.unlink(missing_ok=True)
        raise _in_use(path) from e
    try:
        scratch.replace(path)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        claim.unlink(missing_ok=True)


def _in_use(path: Path) -> Exception:
    if path.is_dir():
        return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return PutOutcomeError(f"put {path}: a file is already there", definite=True)


def open_regular(path: Path) -> int | None:
    """Open a regular file. Return None if there is none."""
    try:
        handle = os.open(path, READ_ONLY)
    except OSError as e:
        if e.errno in NOT_A_FILE:
            return None
        raise
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    return None


def regular_status(path: Path) -> os.stat_result | None:
    """Return the status of a regular file, or None if there is none."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def content_etag(handle: int) -> str:
    """Return the etag of an open file, which is read block by block."""
    digest = blake3()
    while block := os.read(handle, HASH_BYTES):
        digest.update(block)
    return digest.hexdigest()[:ETAG_DIGITS]


def etag_of(body: bytes) -> str:
    """Return the etag of an object with these bytes: a cryptographic hash, so that no other bytes can have it."""
    return blake3(body).hexdigest()[:ETAG_DIGITS]


def identity(status: os.stat_result) -> tuple[int, int, int]:
    """Return inode, time of the last change in nanoseconds, and size in bytes."""
    return status.st_ino, status.st_mtime_ns, status.st_size


def version(status: os.stat_result) -> tuple[int, int, int, int]:
    """Return the identity and the ctime in nanoseconds, which no program can set back as it can the time of a change."""
    return *identity(status), status.st_ctime_ns


def is_same_file(path: Path, status: os.stat_result) -> bool:
    """Return whether a path still refers to the file with this status."""
    try:
        return identity(path.lstat()) == identity(status)
    except FileNotFoundError:
        return False


def write_attribute(handle: int, etag: str, metadata: Mapping[str, str]) -> None:
    """Attach the metadata of a content to an open file, if the file system supports it."""
    if hasattr(os, "setxattr"):  # Linux
        with suppress(OSError):
            os.setxattr(handle, ATTRIBUTE, json.dumps({"etag": etag, "metadata": dict(metadata)}).encode())


def read_attribute(handle: int, etag: str) -> dict[str, str]:
    """Return the metadata that is attached to an open file. It is empty if it belongs to another content."""
    if not hasattr(os, "getxattr"):
        return {}
    try:
        fields = json.loads(os.getxattr(handle, ATTRIBUTE))
        metadata = fields["metadata"] if fields["etag"] == etag else {}
        return {name: value for name, value in metadata.items() if isinstance(name, str) and isinstance(value, str)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def key_hash(key: str) -> str:
    """Return a file name for a key of any length."""
    return hashlib.sha256(key.encode()).hexdigest()[:40]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """The recorded facts about one content of one key, stored in the state folder and never beside a public file.

    If a process crashes after it wrote the sidecar and before it moved the file into place, the old file keeps its old
    metadata. While ``stat`` is the file's ``version``, the etag need not be computed from the bytes again until it
    ``is_due``, after a day: a disk damages files silently.
    """

    etag: str
    metadata: Mapping[str, str]
    stat: tuple[int, int, int, int]
    is_due: bool = False


@dataclass(frozen=True, slots=True)
class Sidecars:
    """The sidecars of one area: one subfolder for each key, one file for each content."""

    folder: Path

    def hashes(self) -> frozenset[str]:
        """Return the hashes of all keys that have a sidecar, by listing one folder."""
        try:
            return frozenset(os.listdir(self.folder))  # noqa: PTH208 - names, not paths, of up to 50,000 entries
        except (FileNotFoundError, NotADirectoryError):
            return frozenset()

    def of(self, key: str) -> Iterator[Sidecar]:
        """Yield every sidecar of a key: one, or two while the file is being replaced."""
        try:
            files = sorted((self.folder / key_hash(key)).iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return
        for file in files:
            with suppress(FileNotFoundError, ValueError, KeyError, TypeError):  # replaced meanwhile, or damaged
                fields = json.loads(file.read_bytes())
                inode, changed_ns, size, ctime_ns = fields["stat"]
                is_due = abs(time.time() - file.stat().st_mtime) > LIFETIME_S
                stat = inode, changed_ns, size, ctime_ns
                yield Sidecar(etag=fields["etag"], metadata=fields["metadata"], stat=stat, is_due=is_due)

    def write(self, key: str, sidecar: Sidecar, *, durable: bool = True) -> None:
        """Store a sidecar, completely or not at all. If it is ``durable``, wait until the disk holds it."""
        folder = self.folder / key_hash(key)
        folder.mkdir(parents=True, exist_ok=True)
        fields = {"version": SIDECAR_FORMAT, "key": key, "etag": sidecar.etag, "metadata": dict(sidecar.metadata)}
        text = json.dumps({**fields, "stat": sidecar.stat})
        scratch = self.folder / f"{key_hash(key)}-{os.getpid()}-{threading.get_ident()}-{sidecar.etag}.half"
        try:
            with scratch.open("wb") as f:
                f.write(text.encode())
                if durable:
                    f.flush()
                    os.fsync(f.fileno())
            scratch.replace(folder / f"{sidecar.etag}.json")
        finally:
            scratch.unlink(missing_ok=True)

    def remove(self, key: str, etag: str) -> None:
        """Remove the sidecar of one content of a key."""
        (self.folder / key_hash(key) / f"{etag}.json").unlink(missing_ok=True)

    def forget(self, key: str, *, keep: str = "") -> None:
        """Remove the sidecars of a key, except that of the content with the etag ``keep``."""
        folder = self.folder / key_hash(key)
        with suppress(FileNotFoundError, NotADirectoryError):
            for file in folder.iterdir():
                if file.name != f"{keep}.json":
                    file.unlink(missing_ok=True)
        if not keep:
            with suppress(OSError):
                folder.rmdir()
