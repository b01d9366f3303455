"""Readers of published files in a folder or an object store."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from airflow_sitemaps.http import Fetched, FetchError
from airflow_sitemaps.http.page_judge import NOT_FOUND

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from airflow_sitemaps.ports import ObjectStore


@dataclass(frozen=True, slots=True)
class FolderFetcher:
    """Reads public addresses from a folder. It never reads outside the folder, not even through symbolic links.

    ``base_url`` None tries every suffix of a path: ``/a/b/c.xml`` as ``a/b/c.xml``, ``b/c.xml`` and ``c.xml``.
    """

    folder: Path
    base_url: str | None = None
    max_byte_size: int = 256 << 20

    def get(self, url: str) -> Fetched:
        """Return the file, or status 404; raise FetchError if it is unreadable, or larger than ``max_byte_size``."""
        root = self.folder.resolve()
        for key in _candidate_keys(url, self.base_url):
            try:
                path = (root / key).resolve()
                if not path.is_relative_to(root) or not path.is_file():
                    continue
                byte_size = path.stat().st_size
                if byte_size > self.max_byte_size:
                    raise FetchError(f"{path}: {byte_size:,} bytes (limit {self.max_byte_size:,})")
                return Fetched(status=200, body=path.read_bytes(), chain=(url,))
            except RuntimeError:  # a loop of symbolic links, before Python 3.13
                continue
            except OSError as error:
                if error.errno == errno.ENAMETOOLONG:
                    continue
                raise FetchError(f"{key[:200]!r} in {root}: {error.strerror or error}") from error
        return NOT_FOUND


@dataclass(frozen=True, slots=True)
class StoreFetcher:
    """Reads public addresses from an object store. ``base_url`` None tries every suffix of an address's path.

    ``names`` has the keys of files that are served at another address, by that address.
    """

    objects: ObjectStore
    base_url: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)

    def get(self, url: str) -> Fetched:
        """Return the object, or status 404. Raises StoreError."""
        keys = (self.names[url],) if url in self.names else _candidate_keys(url, self.base_url)
        for key in keys:
            stored = self.objects.get(key)
            if stored is not None:
                headers = {name: value for name, value in stored.info.metadata.items() if name.startswith("content-")}
                return Fetched(status=200, body=stored.body, headers=headers, chain=(url,))
        return NOT_FOUND


def _candidate_keys(url: str, base_url: str | None) -> list[str]:
    """Return the keys under which an address may be stored. None of them leads out of the area."""
    if base_url is not None and "://" in url:
        if not url.startswith(base_url):
            return []
        candidates = [unquote(url[len(base_url) :].partition("?")[0])]
    elif "://" in url:
        try:
            parts = unquote(urlsplit(url).path).lstrip("/").split("/")
        except ValueError:
            return []
        candidates = ["/".join(parts[start:]) for start in range(len(parts))]
    else:
        candidates = [url]
    return [key for key in candidates if key and ".." not in key and "\x00" not in key and not key.startswith("/")]
