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

from airflow_sitemaps.sources.memory_source import MemorySource, MemorySourceConfig
from airflow_sitemaps.stores.memory import MemoryStore
from airflow_sitemaps.testing.crawler import BrokenSitemapError, Crawl, crawl

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
