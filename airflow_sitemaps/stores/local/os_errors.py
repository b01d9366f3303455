"""Translation of operating system errors into this package's errors, with the next step."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NoReturn

from airflow_sitemaps.errors import ConfigurationError, StoreError
from airflow_sitemaps.ports import PutOutcomeError
from airflow_sitemaps.waits import waiting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
UNUSABLE_NAME: Final = frozenset({errno.ENAMETOOLONG, errno.EISDIR, errno.ENOTDIR, errno.EILSEQ, errno.EEXIST})
NOT_PERMITTED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


@contextmanager
def explained(verb: str, path: Path, byte_size: int | None = None) -> Iterator[None]:
    """Translate an ``OSError`` in the block. Errors of this package pass unchanged.

    Args:
        verb: The attempted operation, for the message, such as ``"write"``.
        byte_size: Number of bytes to write, for the message about a full disk.

    Raises:
        ConfigurationError: The name or the permissions cannot work. A retry fails in the same way.
        StoreError: The file system failed or is full. A retry may succeed.
    """
    try:
        with waiting(f"{verb} {path}", "The file system's own time-outs apply"):
            yield
    except (StoreError, PutOutcomeError, ConfigurationError):
        raise
    except OSError as e:
        explain(e, verb, path, byte_size)


def explain(e: OSError, verb: str, path: Path, byte_size: int | None = None) -> NoReturn:
    """Raise the error for an ``OSError``. The arguments are those of ``explained``."""
    if e.errno in NO_ROOM:
        size = "" if byte_size is None else f" {byte_size:,} bytes"
        raise StoreError(
            f"{verb} {path}: no room for{size} ({e.strerror}). Nothing was changed. Free space on the file system of "
            f"{path.parent} or raise the quota or file size limit, then run again"
        ) from e
    if e.errno in UNUSABLE_NAME:
        raise ConfigurationError(
            f"{verb} {path}: the file system cannot hold this name ({e.strerror}): a part is too long, or a file "
            "exists where a folder is needed. Choose another path"
        ) from e
    if e.errno in NOT_PERMITTED:
        raise ConfigurationError(
            f"{verb} {path}: not permitted ({e.strerror}) for user id {os.getuid()}. Give it access to {path.parent}"
        ) from e
    raise StoreError(f"{verb} {path}: {e.strerror or e}. Check the file system, then run again") from e
