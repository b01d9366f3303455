"""A published sitemap in a folder, whose state objects a test can change."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_sitemaps.ports import Overwrite

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow_sitemaps import Sitemap


@dataclass
class Area:
    """``folder`` holds the public and the state folder; nothing else may appear in it."""

    folder: Path
    sitemap: Sitemap
    rows: list[dict[str, Any]] = field(default_factory=list)

    def read(self, key: str) -> bytes:
        """The bytes of a state object."""
        found = self.sitemap.store.open().state.get(key)
        assert found is not None
        return found.body

    def write(self, key: str, body: bytes) -> None:
        """Put a state object in place of another, as anyone with write access to the bucket could."""
        state = self.sitemap.store.open().state
        state.put(key, body, mode=Overwrite(), metadata={}, content_type="application/gzip")

    def change(self, key: str, change: Callable[[dict[str, Any]], None]) -> None:
        """Change the JSON of a state object."""
        value = json.loads(gzip.decompress(self.read(key)))
        change(value)
        self.write(key, gzip.compress(json.dumps(value).encode()))

    def files(self) -> set[str]:
        """Every file there is, but for the probe's and the store's own book-keeping."""
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file()}
