"""Crawlers that fetch files slowly (I4), and crawlers behind a cache that fetch only changed files."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from tests.simulation.dagfile import GRACE, MAX_SKEW
from tests.simulation.invariants import BrokenInvariantError
from tests.simulation.shared_cache import CachedCrawler, SharedCache

if TYPE_CHECKING:
    from random import Random

    from airflow_sitemaps.testing import FakeClock
    from tests.simulation.invariants import InvariantChecker
    from tests.simulation.scheduler import Scheduler

LONGEST = timedelta(days=1)
"""Longer than a copy stays fresh, even if the clock was set back in between."""


@dataclass(frozen=True, slots=True)
class SlowCrawler:
    """Crawls a few times. It reports a broken invariant to the checker, which raises it at its next check."""

    random: Random
    scheduler: Scheduler
    clock: FakeClock
    checker: InvariantChecker

    def crawl(self) -> None:
        """Read indexes, and slowly fetch the files that each of them listed."""
        for _ in range(self.random.randint(1, 4)):
            self._pause(200)
            if self.checker.promoted is not None and not self.checker.tampered:
                self._follow(self.checker.listed())

    def _follow(self, names: list[str]) -> None:
        begun = self.clock.now()
        for name in names:
            self._pause(20)
            if self.checker.tampered or self.clock.now() - begun > GRACE - MAX_SKEW * 2:
                return
            if self.checker.content(name) is None:
                text = f"{name}, listed by the index read at {begun:%m-%d %H:%M}, is gone"
                self.checker.report(BrokenInvariantError("I4", text))

    def _pause(self, most: int) -> None:
        for _ in range(self.random.randint(1, most)):
            self.scheduler.pause()


@dataclass(slots=True)
class LaggingCrawler:
    """A crawler behind a shared cache that reads a file again only when its ``lastmod`` in the index changes.

    Attributes:
        random: Decides by the seed.
        scheduler: Selects the next actor.
        clock: The true time.
        checker: Knows the public area.
    """

    random: Random
    scheduler: Scheduler
    clock: FakeClock
    checker: InvariantChecker
    _crawler: CachedCrawler = field(init=False)

    def __post_init__(self) -> None:
        self._crawler = CachedCrawler(SharedCache(self.checker.store.public, self.clock.now))

    def crawl(self) -> None:
        """Visit a few times while runs publish."""
        for _ in range(self.random.randint(3, 12)):
            for _ in range(self.random.randint(1, 60)):
                self.scheduler.pause()
            if self.checker.promoted is not None:
                self._crawler.visit()

    def _indexes(self) -> set[str]:
        """Return the names of the indexes that are public now. The crawler knows only ``sitemap.xml``."""
        promoted = self.checker.promoted
        return {index.name for index in promoted.indexes} if promoted is not None else set()

    def check(self) -> None:
        """Visit again after every cached copy has expired. The crawler must then know the current content of all files.

        Raises:
            BrokenInvariantError: The crawler knows an old version of a listed file.
        """
        for _ in range(2):
            self.clock.advance(LONGEST)
            self._crawler.visit()
        if self.checker.tampered:
            return
        index = self.checker.content("sitemap.xml")
        for loc in index.locs if index is not None and "sitemap.xml" in self._indexes() else ():
            name = loc.removeprefix(self.checker.store.base_url)
            content = self.checker.content(name)
            read_before = self._crawler.urls.get(name)
            if read_before is not None and content is not None and read_before != frozenset(content.locs):
                raise BrokenInvariantError("caches", f"a crawler behind a cache knows only an old version of {name}")
