"""What a test of a sitemap needs: rows and a store in memory, a clock, and a reader of what is published.

::

    rows = [{"id": 1, "loc": "https://www.example.com/about"}]
    store = MemoryStore(base_url="https://www.example.com/")
    build(Sitemap(store, [Section("pages", MemorySourceConfig(rows))]))
    assert crawl(store.open()).locs() == {"https://www.example.com/about"}
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from itertools import count

from airflow_sitemaps.ports import Store
from airflow_sitemaps.protocol.reader import ReadEntry, read
from airflow_sitemaps.sources.memory_source import MemorySource, MemorySourceConfig
from airflow_sitemaps.stores.memory import MemoryStore

__all__ = ["BrokenSitemapError", "Crawl", "FakeClock", "MemorySource", "MemorySourceConfig", "MemoryStore", "crawl"]


@dataclass(slots=True)
class FakeClock:
    """A clock that stands still until a test moves it. Its tokens are consecutive numbers."""

    moment: datetime = datetime(2026, 1, 15, 12, 0, 0, tzinfo=timezone.utc)
    _tokens: Iterator[int] = field(default_factory=lambda: count(1))

    def now(self) -> datetime:
        """Return the time that was set."""
        return self.moment

    def token(self) -> str:
        """Return the next number as 16 hexadecimal digits."""
        return f"{next(self._tokens):016x}"

    def advance(self, step: timedelta) -> None:
        """Move the clock forward, or backward by a negative duration."""
        self.moment += step


class BrokenSitemapError(AssertionError):
    """The crawler found a file that is missing, damaged, or listed twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crawl:
    """The files that a crawler read.

    Attributes:
        files: The entries of each file, in order, by its public name.
        lastmods: The lastmod that the index gives for each file, by its public name.
    """

    files: dict[str, tuple[ReadEntry, ...]]
    lastmods: dict[str, str | None]

    def entries(self) -> dict[str, list[tuple[str | None, str | None, str | None, str]]]:
        """Return the lastmod, changefreq, priority and extensions of every listed entry, by loc."""
        listed: dict[str, list[tuple[str | None, str | None, str | None, str]]] = {}
        for entries in self.files.values():
            for e in entries:
                facts = (e.lastmod, e.changefreq, e.priority, repr(sorted(e.extensions.items())))
                listed.setdefault(e.loc, []).append(facts)
        return listed

    def locs(self) -> set[str]:
        """Every listed URL."""
        return {entry.loc for entries in self.files.values() for entry in entries}


def crawl(store: Store, index: str | None = None, *, folders: dict[str, str] | None = None) -> Crawl:
    """Read the index and every file that it lists.

    Args:
        store: The store.
        index: Name of the index. Default: the name in the store.
        folders: Public folders by their base URL, for sections with a base URL of their own. Default: none.

    Raises:
        BrokenSitemapError: A listed file is missing, damaged or empty, or is listed twice.
    """
    name = index or store.index_name
    files: dict[str, tuple[ReadEntry, ...]] = {}
    lastmods: dict[str, str | None] = {}
    for child in _entries(store, name, "sitemapindex"):
        path = _path(store, child.loc, folders or {})
        if path in files:
            raise BrokenSitemapError(f"{name} lists {path} twice")
        files[path] = _entries(store, path, "")
        lastmods[path] = child.lastmod
    return Crawl(files=files, lastmods=lastmods)


def _path(store: Store, loc: str, folders: dict[str, str]) -> str:
    for base, folder in folders.items():
        if loc.startswith(base):
            return folder + loc[len(base) :]
    if not loc.startswith(store.base_url):
        raise BrokenSitemapError(f"the index lists {loc}, which is not below {store.base_url}")
    return loc[len(store.base_url) :]


def _entries(store: Store, name: str, kind: str) -> tuple[ReadEntry, ...]:
    stored = store.public.get(name)
    if stored is None:
        raise BrokenSitemapError(f"{name} is listed but does not exist")
    urlset = read(stored.body)
    if urlset.problems or (kind and urlset.kind != kind) or urlset.kind == "unknown":
        raise BrokenSitemapError(
            f"{name} is damaged: its kind is {urlset.kind!r}, expected {kind or 'any'!r}; problems: {urlset.problems}"
        )
    if not urlset.entries:
        raise BrokenSitemapError(f"{name} lists nothing")
    return urlset.entries
