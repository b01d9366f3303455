"""A shared cache in front of the public area, and crawlers that read a file again when its lastmod changes.

The cache answers from a copy for as long as RFC 9111 allows. A crawler records the ``lastmod`` that the index gives for
a file when it reads the file. If the cache then answers with an older copy, the crawler never learns of the newer one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.pipeline import build
from airflow_sitemaps.pipeline.concurrency import inline
from airflow_sitemaps.protocol.reader import read
from airflow_sitemaps.shards.guards import Guards
from airflow_sitemaps.shards.layout import ShardPolicy
from airflow_sitemaps.sitemap import Section, Sitemap
from airflow_sitemaps.stores.memory import MemoryObjects, MemoryStore
from airflow_sitemaps.testing import FakeClock, MemorySourceConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BASE_URL: Final = "https://www.example.com/"
LONGEST_LIFETIME: Final = timedelta(hours=1)
"""Upper bound of the time for which a copy in the model stays fresh."""
SKEWS: Final = (timedelta(0), timedelta(0), timedelta(minutes=-5), timedelta(seconds=40), timedelta(minutes=5))
"""Differences between workers' clocks and the accurate clock."""


def lifetime(cache_control: str) -> timedelta:
    """Return how long a shared cache may use a copy without asking the origin (RFC 9111, 4.2.1 and 5.2.2)."""
    header = cache_control.lower()
    if re.search(r"\b(no-cache|no-store|private)\b", header):
        return timedelta(0)
    for directive in ("s-maxage", "max-age"):
        match = re.search(rf"{directive}=(\d+)", header)
        if match:
            return timedelta(seconds=int(match[1]))
    return timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A response in a cache.

    Attributes:
        body: The bytes of the file.
        fresh_until: Time until which the copy is used without asking the origin.
    """

    body: bytes
    fresh_until: datetime


@dataclass(slots=True)
class SharedCache:
    """A cache in front of the public area.

    Attributes:
        origin: The public area.
        now: Returns the accurate time.
        copies: The cached copies by public name.
    """

    origin: MemoryObjects
    now: Callable[[], datetime]
    copies: dict[str, Copy] = field(default_factory=dict)

    def get(self, name: str) -> bytes | None:
        """Return a file: the cached copy while it is fresh, otherwise the file of the origin."""
        copy = self.copies.get(name)
        if copy is not None and self.now() < copy.fresh_until:
            return copy.body
        there = self.origin.objects.get(name)
        if there is None:
            self.copies.pop(name, None)
            return None
        fresh_until = self.now() + lifetime(there.cache_control or "")
        self.copies[name] = Copy(body=there.body, fresh_until=fresh_until)
        return there.body

    def purge(self, addresses: Sequence[str]) -> None:
        """Remove copies by their addresses. This is a purge hook for a store."""
        for address in addresses:
            self.copies.pop(address.removeprefix(BASE_URL), None)


@dataclass(slots=True)
class CachedCrawler:
    """Reads the index, and each file whose ``lastmod`` differs from the recorded one.

    Attributes:
        cache: The cache that it reads through.
        lastmods: The ``lastmod`` of each file when it was last read.
        urls: The URLs of each file when it was last read.
    """

    cache: SharedCache
    lastmods: dict[str, str | None] = field(default_factory=dict)
    urls: dict[str, frozenset[str]] = field(default_factory=dict)

    def visit(self) -> None:
        """Crawl once."""
        index = self.cache.get("sitemap.xml")
        for entry in read(index).entries if index is not None else ():
            name = entry.loc.removeprefix(BASE_URL)
            if self.lastmods.get(name) == entry.lastmod:
                continue
            body = self.cache.get(name)
            if body is not None:
                self.lastmods[name] = entry.lastmod
                self.urls[name] = frozenset(e.loc for e in read(body).entries)

    def known(self) -> set[str]:
        """Return every URL that the crawler has read."""
        return {url for urls in self.urls.values() for url in urls}


@dataclass(slots=True)
class BusyPublicArea(MemoryObjects):
    """A public area that is read while it is written.

    Attributes:
        after_put: Called after each put.
    """

    after_put: Callable[[], None] = field(default=lambda: None, kw_only=True)

    def put(self, key: str, body: bytes, **settings: Any) -> str:
        """Store the object in memory, then call ``after_put``."""
        etag = MemoryObjects.put(self, key, body, **settings)
        self.after_put()
        return etag


@dataclass(slots=True)
class CacheHistory:
    """Some runs over changing rows, while two crawlers and other visitors read through one cache.

    Attributes:
        seed: Seed of the random generator, which determines all events.
        cache_control: Header of indexes. None: the default of the store.
        shard_cache_control: Header of shards, perhaps an unsafe one. None: the default of the store.
        purge: Whether the store has a purge hook.
    """

    seed: int
    cache_control: str | None = None
    shard_cache_control: str | None = None
    purge: bool = False

    def missed(self) -> set[str]:
        """Play the history, and return the published URLs that a crawler never learns of."""
        with inline():  # every operation in one order, which the seed decides
            return self._missed()

    def _missed(self) -> set[str]:
        random, clock, worker = Random(self.seed), FakeClock(), FakeClock()
        store = MemoryStore(base_url=BASE_URL, now=clock.now)
        public = store.public
        busy = BusyPublicArea("public", public.log, public.lock, public.now, public.objects)
        store.public = busy
        cache = SharedCache(busy, clock.now)
        self._configure(store, cache)
        crawlers = [CachedCrawler(cache), CachedCrawler(cache)]
        rows = [_row(number) for number in range(random.randint(8, 20))]
        # A frozen dataclass has no settable fields, which the protocol declares.
        source = MemorySourceConfig(rows, key="id", clock=clock.now)
        section = Section("pages", source)
        sitemap = Sitemap(store, [section], shards=ShardPolicy(max_urls=5), guards=Guards.disabled())

        def act() -> None:
            clock.advance(timedelta(seconds=random.choice((0, 0, 1, 30))))
            if random.random() < 0.5:
                random.choice(crawlers).visit()
            elif busy.objects:
                cache.get(random.choice(sorted(busy.objects)))

        def run() -> None:
            worker.moment = clock.now() + random.choice(SKEWS)
            build(sitemap, clock=worker)

        busy.after_put = act
        for _ in range(random.randint(2, 4)):
            run()
            for _ in range(random.randint(0, 3)):
                clock.advance(timedelta(seconds=random.choice((0, 1, 60, 200, 400))))
                act()
            _change(rows, random)
        run()
        for crawler in crawlers * 2:
            clock.advance(LONGEST_LIFETIME)
            crawler.visit()
        published = {row["loc"] for row in rows}
        return {url for crawler in crawlers for url in published - crawler.known()}

    def _configure(self, store: MemoryStore, cache: SharedCache) -> None:
        """Set headers without the store's checks. The simulation shows which faults the checks prevent."""
        store.purge = cache.purge if self.purge else None
        store.cache_control = self.cache_control or store.cache_control
        store.shard_cache_control = self.shard_cache_control or store.shard_cache_control


def _row(number: int, version: int = 0) -> dict[str, Any]:
    return {"id": number, "loc": f"{BASE_URL}p/{number}-{version}"}


def _change(rows: list[dict[str, Any]], random: Random) -> None:
    """Insert a row, or give some rows new URLs."""
    if random.random() < 0.4:
        rows.append(_row(len(rows)))
    for _ in range(random.randint(1, 2)):
        place = random.randrange(len(rows))
        rows[place] = _row(place, random.randint(1, 10**9))
