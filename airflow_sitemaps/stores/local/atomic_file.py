"""Files that appear under their name only when they are complete.

A file is written under a hidden name in the folder of its target, so that it takes the group and file system of that
folder. Then it gets its name: by ``rename`` to replace a file, by ``link`` to create one. If the file system has no hard
links (FUSE, some network mounts), a new name is first claimed with ``O_EXCL`` and then replaced. The claim is recorded
first. After a crash, an empty file is therefore recognised as a claim, and never treated as an object.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from airflow_sitemaps.ports import PutOutcomeError
from airflow_sitemaps.stores.local.permissions import UMASK, add_folders, make_folders, sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from airflow_sitemaps.stores.local.permissions import Permissions

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


@contextmanager
def scratch_file(
    path: Path, body: bytes, ledger: Path, permissions: Permissions, prepare: Callable[[int], None]
) -> Iterator[Path]:
    """Write bytes to a scratch file beside ``path``, and remove it at the end if it still exists.

    Args:
        ledger: Folder of the state area that records scratch files, for ``sweep_scratch``.
        permissions: Modes and group of the file and of missing folders.
        prepare: Called with the descriptor of the new, empty file.

    Yields:
        The scratch file, durable, with its permissions.

    Raises:
        OSError: The file could not be written. Nothing of it remains.
    """
    token = uuid4().hex
    entry, scratch = ledger / token, path.parent / f"{SCRATCH}{token}"
    make_folders(ledger, UMASK)
    try:
        entry.write_bytes(os.fsencode(scratch))
        for attempt in range(1, RACES + 1):
            try:
                add_folders(path.parent, permissions)
                _write(scratch, body, path, permissions, prepare)
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

    Args:
        scratch: The file, in the folder of ``path``.
        create: Whether the name must be free.
        claim: Path of the record that a name without content is claimed.

    Raises:
        PutOutcomeError: The name is in use (definite), or may not survive a crash (not definite).
        OSError: The file system failed.
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
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size == 0 and claim.exists()


def sweep_scratch(ledger: Path, roots: Sequence[Path]) -> None:
    """Remove scratch files that a crash left more than a day ago.

    Args:
        roots: The folders that may contain scratch files. Nothing outside of them is removed.
    """
    with suppress(OSError):
        for entry in ledger.iterdir():
            with suppress(OSError, ValueError):
                if time.time() - entry.stat().st_mtime <= SCRATCH_AGE_S:
                    continue
                scratch = Path(os.fsdecode(entry.read_bytes()))
                if scratch.name.startswith(SCRATCH) and any(scratch.is_relative_to(root) for root in roots):
                    scratch.unlink(missing_ok=True)
                entry.unlink(missing_ok=True)


def _write(scratch: Path, body: bytes, path: Path, permissions: Permissions, prepare: Callable[[int], None]) -> None:
    with scratch.open("xb") as f:
        permissions.apply(f.fileno(), path)
        prepare(f.fileno())
        f.write(body)
        f.flush()
        os.fsync(f.fileno())


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
    make_folders(claim.parent, UMASK)
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
