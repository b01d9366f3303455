"""Regular files: opened without blocking, identified, hashed. Anything else (FIFO, socket, folder, link) is not an object."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

NOT_A_FILE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENXIO})
"""Errors when a name that is not a regular file is opened. ``ENXIO`` is that of a socket."""
READ_ONLY: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""Flags for opening a file. Without ``O_NONBLOCK``, opening a FIFO waits for a writer."""
ETAG_BYTES: Final = 16
HASH_BYTES: Final = 1 << 20
"""Number of bytes read at a time to compute an etag."""


def open_regular(path: Path) -> int | None:
    """Open a regular file. Return None if there is none.

    Raises:
        OSError: The file cannot be opened.
    """
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
    """Return the status of a regular file, or None if there is none.

    Raises:
        OSError: The file system failed.
    """
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def content_etag(handle: int) -> str:
    """Return the etag of an open file, which is read block by block."""
    digest = hashlib.blake2b(digest_size=ETAG_BYTES)
    while block := os.read(handle, HASH_BYTES):
        digest.update(block)
    return digest.hexdigest()


def etag_of(body: bytes) -> str:
    """Return the etag of an object with these bytes: a cryptographic hash, so that no other bytes can have it."""
    return hashlib.blake2b(body, digest_size=ETAG_BYTES).hexdigest()


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
