"""What goes on around the runs: the source changes, time passes, late puts land, code is deployed, a hand meddles."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from airflow_sitemaps.ports import Overwrite
from airflow_sitemaps.testing.faults import FaultyStore
from airflow_sitemaps.testing.source import MemorySourceConfig

if TYPE_CHECKING:
    from datetime import datetime
    from random import Random

    from airflow_sitemaps.ports import SourceConfig, StoreConfig
    from airflow_sitemaps.sitemap import Sitemap
    from airflow_sitemaps.stores.memory import MemoryStore
    from airflow_sitemaps.testing.clock import FakeClock
    from airflow_sitemaps.testing.faults import Faults
    from airflow_sitemaps.testing.simulation.actors import Stage
    from airflow_sitemaps.testing.simulation.dagfile import DagFile
    from airflow_sitemaps.testing.simulation.profile import Profile
    from airflow_sitemaps.testing.simulation.warehouse import Table
    from airflow_sitemaps.testing.simulation.weather import Weather
    from airflow_sitemaps.testing.simulation.witness import Witness


@dataclass(slots=True, kw_only=True)
class World:
    """Everything that is not a run of the DAG. ``foreign``: somebody else writes to the public area at times."""

    random: Random
    stage: Stage
    clock: FakeClock
    store: MemoryStore
    weather: Weather
    faults: Faults
    witness: Witness
    tables: dict[str, Table]
    dagfile: DagFile
    profile: Profile
    foreign: bool = False
    wild_clock: bool = False
    earlier: DagFile | None = None
    latest: datetime = field(init=False)
    """The latest moment that the clock ever showed."""

    def __post_init__(self) -> None:
        self.latest = self.clock.now()

    def sitemap(self, store: StoreConfig | None = None) -> Sitemap:
        """The sitemap as the DAG file has it now, over the store in its weather or over another one."""
        before = self.weather.source if store is None else (lambda _operation: None)
        changefreq = "changefreq" if self.dagfile.changefreq else None

        def source(name: str) -> SourceConfig:
            return MemorySourceConfig(  # type: ignore[return-value]
                self.tables[name].rows, key="id", lastmod="lastmod", priority="priority", clock=self.clock.now,
                changefreq=changefreq, before=before,
            )  # fmt: skip

        return self.dagfile.sitemap(store or FaultyStore(self.store, self.faults), source)

    def move(self) -> None:
        """Some events, with pauses between them."""
        for _ in range(self.random.randint(3, 25)):
            self.stage.wait([], None)
            for _ in range(self.random.choice((1, 1, 5, 40))):
                self.stage.pause()
            self._event()

    def land(self) -> None:
        """Let the oldest request that is on its way arrive."""
        if self.faults.on_the_way:
            landed = self.faults.land(1)
            self.stage.tell(f"landed late: {[f'{call.verb} {call.key}' for call in landed] or 'nothing: refused'}")

    def _event(self) -> None:
        drawn = self.random.random()
        if self.random.random() < (self.profile.deploys - 1) / 10:
            self._deploy()
            return
        table = self.random.choice(list(self.tables.values()))
        if self.profile.restless and drawn < 0.5:
            self.stage.tell(table.flip())
        elif drawn < 0.62:
            self.stage.tell(table.change())
        elif drawn < (0.80 if self.profile.restless else 0.68):
            table.reload(self.stage.pause)
        elif drawn < 0.80:
            self._pass_time()
        elif drawn < 0.88:
            self.land()
        elif drawn < 0.96:
            self._deploy()
        elif self.foreign:
            self._meddle()

    def _pass_time(self) -> None:
        steps = [timedelta(seconds=1), timedelta(minutes=7), timedelta(hours=5), timedelta(hours=5)]
        if self.wild_clock:
            steps += [timedelta(days=3), timedelta(hours=-2), timedelta(days=30)]
        step = self.random.choice(steps)
        self.clock.advance(step)
        self.latest = max(self.latest, self.clock.now())
        self.stage.tell(f"the clock moves by {step} to {self.clock.now():%m-%d %H:%M:%S}")

    def _deploy(self) -> None:
        before = self.dagfile
        if self.earlier is not None and self.random.random() < 0.5:
            self.dagfile, self.earlier = self.earlier, None
            self.stage.tell(f"deployed again: {self.dagfile}")
            return
        self.earlier = before
        self.dagfile = before.next(self.random)
        self.stage.tell(f"deployed: {self.dagfile}")

    def _meddle(self) -> None:
        names = list(self.store.public.objects)
        if not names:
            return
        self.witness.tampered = True
        name = self.random.choice(names)
        if self.random.random() < 0.5:
            self.store.public.delete(name)
        else:
            self.store.public.put(name, b"x", mode=Overwrite(), metadata={}, content_type="text/plain")
        self.stage.tell(f"a foreign hand is laid on {name}")
