"""Where published files are read from: the port that verifying needs, and its readers of folders and stores."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote, urlsplit

from airflow_sitemaps.errors import TransientError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from airflow_sitemaps.ports import ObjectStore


class FetchError(TransientError):
    """An address could not be read: no answer, too slow, too large, or refused by the reader's own rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """An answer. ``headers`` have lower-case names; ``chain`` holds every address asked, the last one answered."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    chain: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """The address that answered, behind all redirects; empty where the reader knows none."""
        return self.chain[-1] if self.chain else ""


class Fetcher(Protocol):
    """Reads an address."""

    def get(self, url: str) -> Fetched:
        """The answer, whatever its status; redirects are followed. Raises FetchError."""
        ...


NOT_FOUND = Fetched(status=404, body=b"")


@dataclass(frozen=True, slots=True)
class FolderFetcher:
    """Reads public addresses from a folder that is published at ``base_url``.

    Where ``base_url`` is None an address is looked for under every tail of its path: ``/a/b/c.xml`` as ``a/b/c.xml``,
    ``b/c.xml``, ``c.xml``. Nothing outside the folder is ever read, symbolic links included.
    """

    folder: Path
    base_url: str | None = None
    max_byte_size: int = 256 << 20

    def get(self, url: str) -> Fetched:
        """The file, or 404. Raises FetchError when it cannot be read or is larger than ``max_byte_size``."""
        root = self.folder.resolve()
        for tail in _tails(url, self.base_url):
            try:
                path = (root / tail).resolve()
                if not path.is_relative_to(root) or not path.is_file():
                    continue
                byte_size = path.stat().st_size
                if byte_size > self.max_byte_size:
                    raise FetchError(f"{path}: {byte_size:,} bytes (limit {self.max_byte_size:,})")
                return Fetched(status=200, body=path.read_bytes(), chain=(url,))
            except RuntimeError:  # links in a circle, before Python 3.13
                continue
            except OSError as error:
                if error.errno == errno.ENAMETOOLONG:
                    continue
                raise FetchError(f"{tail[:200]!r} in {root}: {error.strerror or error}") from error
        return NOT_FOUND


@dataclass(frozen=True, slots=True)
class StoreFetcher:
    """Reads public addresses from the store that is served at ``base_url``; ``names``: keys of those served elsewhere."""

    objects: ObjectStore
    base_url: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)

    def get(self, url: str) -> Fetched:
        """The object, or 404. Raises StoreError."""
        for tail in (self.names[url],) if url in self.names else _tails(url, self.base_url):
            found = self.objects.get(tail)
            if found is not None:
                headers = {name: value for name, value in found.info.metadata.items() if name.startswith("content-")}
                return Fetched(status=200, body=found.body, headers=headers, chain=(url,))
        return NOT_FOUND


def _tails(url: str, base_url: str | None) -> list[str]:
    """The keys under which an address may lie; none that leads out of the area."""
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
