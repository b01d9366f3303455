"""A slow crawler: the index now, its children over a long while (I4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_sitemaps.testing.simulation.dagfile import GRACE, MAX_SKEW
from airflow_sitemaps.testing.simulation.invariants import BrokenInvariantError

if TYPE_CHECKING:
    from random import Random

    from airflow_sitemaps.testing.clock import FakeClock
    from airflow_sitemaps.testing.simulation.invariants import InvariantChecker
    from airflow_sitemaps.testing.simulation.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class SlowCrawler:
    """Crawls some times. It does not die of what it sees: the witness says it at its next look."""

    random: Random
    scheduler: Scheduler
    clock: FakeClock
    checker: InvariantChecker

    def crawl(self) -> None:
        """Read indexes, and for each, in its own time, the files it listed."""
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
