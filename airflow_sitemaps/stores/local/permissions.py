"""Folders, modes and groups, independent of the umask of the process, and the errors of the operating system.

Airflow's daemons run with ``daemon_umask`` 077, so only the owner can read a new file. But the web server, which runs as
another user, must read the public folder. The modes therefore come from settings or from the folder itself.
"""

from __future__ import annotations

import errno
import grp
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_sitemaps.errors import ConfigurationError, StoreError
from airflow_sitemaps.ports import PutOutcomeError
from airflow_sitemaps.waits import waiting

NEW_FOLDER: Final = 0o755
"""Mode of a public folder that did not exist before."""
OTHERS_WRITE: Final = stat.S_IWOTH
"""Permission bit that is never granted: everyone could change a published file."""
NO_FOLDER_SYNC: Final = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF, errno.EACCES})
"""Errors of ``fsync`` of a folder on file systems that do not support it."""
NO_MODES: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS})
"""Errors of ``chmod`` of an own file or folder on file systems that have no modes."""
MKDIR: Final = "import os, sys; os.mkdir(sys.argv[1], int(sys.argv[2], 8))"
NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
UNUSABLE_NAME: Final = frozenset({errno.ENAMETOOLONG, errno.EISDIR, errno.ENOTDIR, errno.EILSEQ, errno.EEXIST})
NOT_PERMITTED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """Modes and group of new files and folders; None: by umask and system (a setgid folder passes on its own group).

    With ``widen``, a new file also gets the permission bits that a user added to the file that it replaces.
    """

    file_mode: int | None = None
    dir_mode: int | None = None
    gid: int | None = None
    widen: bool = False

    def apply(self, handle: int, replaced: Path) -> None:
        """Set the group and mode of an open file that is going to replace another one, if that exists."""
        self.give_group(handle, replaced)
        if self.file_mode is not None:
            try:
                os.fchmod(handle, self.file_mode | (_permission_bits(replaced) if self.widen else 0))
            except OSError as e:
                if e.errno not in NO_MODES:
                    raise
                if not self.widen:
                    raise ConfigurationError(
                        f"write {replaced}: file_mode={self.file_mode:#o} cannot be set ({e.strerror}). Leave file_mode= out"
                    ) from e

    def give_group(self, opened: int | Path, path: Path) -> None:
        """Set the group of a folder, or of an open file that is going to get this path."""
        try:
            if self.gid is not None:
                os.chown(opened, -1, self.gid)
        except PermissionError as e:
            raise ConfigurationError(
                f"{path}: group={self.gid} cannot be set ({e.strerror}). Add user id {os.getuid()} to that group, or leave "
                "group= out, as where the file system has no groups"
            ) from e


UMASK: Final = Permissions()


def inherited(folder: Path, *, file_mode: int | None, dir_mode: int | None, gid: int | None) -> Permissions:
    """Derive permissions below a folder: who may enter it may read files, a group that may write may replace them."""
    own = stat.S_IMODE(folder.stat().st_mode)
    folders = (own & 0o2777 & ~OTHERS_WRITE) | 0o700 if dir_mode is None else dir_mode
    files = file_mode
    if files is None:
        files = 0o600
        files |= 0o040 if folders & 0o010 else 0
        files |= 0o020 if folders & 0o030 == 0o030 else 0
        files |= 0o004 if folders & 0o001 else 0
    return Permissions(file_mode=files, dir_mode=folders, gid=gid, widen=file_mode is None)


def make_folders(folder: Path, permissions: Permissions) -> Path:
    """Create a folder and its missing parents durably, and return it. Existing folders keep their permissions."""
    with explained("make", folder):
        add_folders(folder, permissions)
    return folder


def add_folders(folder: Path, permissions: Permissions) -> None:
    """Create folders as ``make_folders`` does. Raises FileNotFoundError if another process removes one meanwhile."""
    missing = []
    existing = folder
    while not existing.is_dir():
        missing.append(existing)
        existing = existing.parent
    for new in reversed(missing):
        _make(new, permissions)
        sync_folder(new.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, if the file system supports it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as e:
        if e.errno not in NO_FOLDER_SYNC:
            raise
    finally:
        os.close(handle)


def group_id(group: str | int | None, *, where: str) -> int | None:
    """Return the ID of a group, which this machine must have."""
    if group is None or isinstance(group, int):
        return group
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError as e:
        raise ConfigurationError(f"{where}: this machine has no group {group!r}. Give its id, or add the group") from e


def check_mode(name: str, mode: int | None, *, required: int, where: str) -> None:
    """Refuse a mode with which the owner cannot publish, or that lets every user write."""
    if mode is None:
        return
    if not isinstance(mode, int) or isinstance(mode, bool) or mode & ~0o2777:
        raise ConfigurationError(f"{where}: {name}={mode!r} is not a file mode; write it in octal, like 0o644")
    if mode & required != required or mode & OTHERS_WRITE:
        raise ConfigurationError(
            f"{where}: {name}={mode:#o} must include {required:#o} for the owner and must not let all users write"
        )


@contextmanager
def explained(verb: str, path: Path, byte_size: int | None = None) -> Iterator[None]:
    """Translate an ``OSError`` in the block: ConfigurationError if a retry fails in the same way, else StoreError."""
    try:
        with waiting(f"{verb} {path}", "The file system's own time-outs apply"):
            yield
    except (StoreError, PutOutcomeError, ConfigurationError):
        raise
    except OSError as e:
        raise _translated(e, verb, path, byte_size) from e
    except RuntimeError as e:  # of pathlib: a symlink that loops (before Python 3.13), or no home folder
        if type(e) is not RuntimeError:
            raise
        raise ConfigurationError(f"{verb} {path}: {str(e).rstrip('.')}. Correct the path, or the link") from e


def _translated(e: OSError, verb: str, path: Path, byte_size: int | None) -> StoreError | ConfigurationError:
    at = Path(e.filename) if isinstance(e.filename, str) else path
    if e.errno in NO_ROOM:
        size = "" if byte_size is None else f" for {byte_size:,} bytes"
        return StoreError(
            f"{verb} {path}: no room{size} ({e.strerror}). This file was not changed. Free space or inodes (df -i) on the "
            f"file system of {at.parent}, or raise the quota or file size limit, then run again"
        )
    if e.errno in UNUSABLE_NAME:
        return ConfigurationError(
            f"{verb} {path}: the file system cannot hold this name ({e.strerror}): a part is too long, or a file "
            "exists where a folder is needed. Choose another path"
        )
    if e.errno in NOT_PERMITTED:
        advice = f"Give this user access to {at.parent} and to all files below it"
        if e.errno == errno.EROFS:
            advice = "Mount it writable"
        elif verb == "make" and not os.path.exists(at):  # noqa: PTH110 - raises nothing; the parent may be like /srv
            advice = f"Make {at} as another user, and give it to this one"
        return ConfigurationError(f"{verb} {path}: not permitted ({e.strerror}) for user id {os.getuid()}. {advice}")
    return StoreError(f"{verb} {path}: {e.strerror or e}. Check the file system of {at.parent}, then run again")


def _make(folder: Path, permissions: Permissions) -> None:
    try:
        folder.mkdir()
    except FileExistsError:
        if not folder.is_dir():
            raise
        return  # another process was faster
    try:
        permissions.give_group(folder, folder)
    except ConfigurationError:
        with suppress(OSError):  # another process may use it; an existing folder would keep its group
            folder.rmdir()
        raise
    if permissions.dir_mode is None:
        return
    setgid = folder.stat().st_mode & stat.S_ISGID
    try:
        folder.chmod(permissions.dir_mode | setgid)
    except OSError as e:
        if e.errno not in NO_MODES:
            raise
        return  # the file system gives all folders its own mode
    if setgid and not folder.stat().st_mode & stat.S_ISGID:
        # chmod clears the bit when this process is not in the folder's group; mkdir passes it on.
        with suppress(OSError):  # another process wrote into it
            folder.rmdir()
            _make_in_child(folder, permissions.dir_mode & 0o777)


def _make_in_child(folder: Path, mode: int) -> None:
    """Create a folder with umask 0 in a child process, because a umask applies to all threads of a process."""
    arguments = [sys.executable, "-I", "-S", "-c", MKDIR, str(folder), f"{mode:o}"]
    done = subprocess.run(arguments, umask=0, capture_output=True, check=False)  # noqa: S603 - no shell, own arguments
    if done.returncode and not folder.is_dir():
        raise OSError(errno.EIO, f"mkdir failed in a child process: {done.stderr[-200:]!r}")


def _permission_bits(path: Path) -> int:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return 0
    return stat.S_IMODE(status.st_mode) & 0o777 & ~OTHERS_WRITE if stat.S_ISREG(status.st_mode) else 0
