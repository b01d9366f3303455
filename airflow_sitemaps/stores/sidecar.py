"""Metadata of local files, kept in the books of the state folder and never beside a public file.

A sidecar belongs to one content of one key, so that a crash between writing it and moving the file into place leaves
the old file with its old metadata. It also remembers the file's inode, time and size: as long as these are the same
the etag need not be computed from the bytes again.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


def key_hash(key: str) -> str:
    """A file name for a key of any length."""
    return hashlib.sha256(key.encode()).hexdigest()[:40]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """What is known of one content of one key. ``stat`` is inode, time of change in ns, and size in bytes."""

    etag: str
    metadata: Mapping[str, str]
    stat: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Sidecars:
    """The sidecars of one area, in ``folder``: one subfolder a key, one file a content."""

    folder: Path

    def of(self, key: str) -> Iterator[Sidecar]:
        """Every sidecar of a key: one, or two while it is being replaced."""
        try:
            files = sorted((self.folder / key_hash(key)).iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return
        for file in files:
            with suppress(FileNotFoundError, ValueError, KeyError, TypeError):  # replaced meanwhile, or damaged
                found = json.loads(file.read_bytes())
                inode, changed_ns, size = found["stat"]
                yield Sidecar(etag=found["etag"], metadata=found["metadata"], stat=(inode, changed_ns, size))

    def write(self, key: str, sidecar: Sidecar) -> None:
        """Keep a sidecar, whole or not at all."""
        folder = self.folder / key_hash(key)
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(
            {"version": 1, "key": key, "etag": sidecar.etag, "metadata": dict(sidecar.metadata), "stat": sidecar.stat}
        )
        half = self.folder / f"{key_hash(key)}-{os.getpid()}-{sidecar.etag}.half"
        try:
            with half.open("wb") as f:
                f.write(text.encode())
                f.flush()
                os.fsync(f.fileno())
            half.replace(folder / f"{sidecar.etag}.json")
        finally:
            half.unlink(missing_ok=True)

    def forget(self, key: str, *, but: str = "") -> None:
        """Remove the sidecars of a key, except that of the etag ``but``."""
        folder = self.folder / key_hash(key)
        with suppress(FileNotFoundError, NotADirectoryError):
            for file in folder.iterdir():
                if file.name != f"{but}.json":
                    file.unlink(missing_ok=True)
        if not but:
            with suppress(OSError):
                folder.rmdir()
