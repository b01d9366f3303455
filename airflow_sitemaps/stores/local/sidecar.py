"""Metadata of local files, stored in the state folder and never beside a public file.

A sidecar belongs to one content of one key. If a process crashes after it wrote the sidecar and before it moved the file
into place, the old file keeps its old metadata. The sidecar also records inode, times and size of the file. While these
are unchanged, the etag need not be computed from the bytes again, for at most a day: a disk damages files silently.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

FORMAT = 1
"""Version of the persisted format."""

LIFETIME_S: Final = 86_400
"""Age in seconds from which an etag is computed from the bytes again."""


def key_hash(key: str) -> str:
    """Return a file name for a key of any length."""
    return hashlib.sha256(key.encode()).hexdigest()[:40]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """The recorded facts about one content of one key.

    Attributes:
        etag: Hash of the content, in hexadecimal.
        metadata: The user metadata of the object.
        stat: Inode, time of the last change and ctime in nanoseconds, and size in bytes of the file (``version``).
        is_due: Whether the etag was computed so long ago that the file is to be read again. Default: False.
    """

    etag: str
    metadata: Mapping[str, str]
    stat: tuple[int, int, int, int]
    is_due: bool = False


@dataclass(frozen=True, slots=True)
class Sidecars:
    """The sidecars of one area: one subfolder for each key, one file for each content.

    Attributes:
        folder: Folder of the sidecars.
    """

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
        """Store a sidecar, completely or not at all.

        Args:
            durable: Whether to wait until the disk holds it. Default: True.

        Raises:
            OSError: The file system failed.
        """
        folder = self.folder / key_hash(key)
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(
            {
                "version": FORMAT,
                "key": key,
                "etag": sidecar.etag,
                "metadata": dict(sidecar.metadata),
                "stat": sidecar.stat,
            }
        )
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
        """Remove the sidecars of a key.

        Args:
            keep: Etag of the content whose sidecar stays. Empty: all are removed.
        """
        folder = self.folder / key_hash(key)
        with suppress(FileNotFoundError, NotADirectoryError):
            for file in folder.iterdir():
                if file.name != f"{keep}.json":
                    file.unlink(missing_ok=True)
        if not keep:
            with suppress(OSError):
                folder.rmdir()
