"""A slow crawler: the index now, its children over a long while (I4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_sitemaps.testing.simulation.dagfile import GRACE
from airflow_sitemaps.testing.simulation.witness import BrokenInvariantError

if TYPE_CHECKING:
    from random import Random

    from airflow_sitemaps.testing.clock import FakeClock
    from airflow_sitemaps.testing.simulation.actors import Stage
    from airflow_sitemaps.testing.simulation.witness import Witness


@dataclass(frozen=True, slots=True)
class SlowCrawler:
    """Crawls some times. It does not die of what it sees: the witness says it at its next look."""

    random: Random
    stage: Stage
    clock: FakeClock
    witness: Witness

    def crawl(self) -> None:
        """Read indexes, and for each, in its own time, the files it listed."""
        for _ in range(self.random.randint(1, 4)):
            self._pause(200)
            if self.witness.promoted is not None and not self.witness.tampered:
                self._follow(self.witness.listed())

    def _follow(self, names: list[str]) -> None:
        begun = self.clock.now()
        for name in names:
            self._pause(20)
            if self.witness.tampered or self.clock.now() - begun > GRACE:
                return
            if self.witness.content(name) is None:
                text = f"{name}, listed by the index read at {begun:%m-%d %H:%M}, is gone"
                self.witness.report(BrokenInvariantError("I4", text))

    def _pause(self, most: int) -> None:
        for _ in range(self.random.randint(1, most)):
            self.stage.pause()
