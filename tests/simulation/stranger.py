"""A second pipeline with another state area that is configured with the same public address by mistake."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_sitemaps.errors import SitemapError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.sitemap import Section, Sitemap
from airflow_sitemaps.stores.memory import MemoryStore
from airflow_sitemaps.testing import MemorySourceConfig
from tests.simulation.dagfile import FREE
from tests.simulation.faults import FaultyStore
from tests.simulation.invariants import BrokenInvariantError
from tests.simulation.warehouse import BASE

if TYPE_CHECKING:
    from random import Random

    from tests.simulation.environment import Environment


@dataclass(frozen=True, slots=True)
class Stranger:
    """The second pipeline. It must be refused wherever a sitemap is published.

    Attributes:
        random: Decides by the seed.
        environment: The public area and the clock that it shares.
    """

    random: Random
    environment: Environment

    def meddle(self) -> None:
        """Try to publish a few times."""
        environment = self.environment
        rows = [{"id": number, "loc": f"{BASE}strangers/{number}"} for number in range(7)]
        own = MemoryStore(base_url=BASE, now=environment.clock.now)
        section = Section("strangers", MemorySourceConfig(rows))
        if self.random.random() < 0.5:  # it published elsewhere before
            build(Sitemap(own, [section], guards=FREE, owner="stranger"), clock=environment.clock)
            rows.append({"id": 8, "loc": f"{BASE}strangers/8"})
        own.public = environment.store.public
        sitemap = Sitemap(FaultyStore(own, environment.faults), [section], guards=FREE, owner="stranger")
        for _ in range(self.random.randint(1, 3)):
            for _ in range(self.random.randint(1, 80)):
                environment.scheduler.pause()
            if environment.checker.promoted is None:
                continue
            try:
                build(sitemap, clock=environment.clock)
            except SitemapError as refused:
                environment.scheduler.record(f"refused: {type(refused).__name__}")
            else:
                text = "a second pipeline published to the address of the first"
                environment.checker.report(BrokenInvariantError("ownership", text))
