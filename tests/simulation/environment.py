"""Events outside the runs: rows change, time passes, delayed puts take effect, code is deployed, files are edited."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_sitemaps.ports import Overwrite
from tests.simulation.dagfile import OBSERVED
from tests.simulation.faults import FaultyStore
from tests.simulation.features import Features
from tests.simulation.warehouse import RecentChanges
from tests.support.simulated_source import SimulatedSourceConfig

if TYPE_CHECKING:
    from datetime import datetime
    from random import Random

    from airflow_sitemaps.pipeline.report import Report
    from airflow_sitemaps.ports import SourceConfig, StoreConfig
    from airflow_sitemaps.sitemap import Sitemap
    from airflow_sitemaps.testing import FakeClock
    from tests.simulation.dagfile import DagFile
    from tests.simulation.fault_injector import FaultInjector
    from tests.simulation.faults import Faults
    from tests.simulation.invariants import InvariantChecker
    from tests.simulation.oracle import Oracle
    from tests.simulation.profile import Profile
    from tests.simulation.scheduler import Scheduler
    from tests.simulation.warehouse import Table


@dataclass(slots=True, kw_only=True)
class Environment:
    """Everything except the runs of the DAG.

    Attributes:
        random: Random numbers of the seed.
        scheduler: Schedules the actors.
        clock: The accurate clock.
        store: The store without faults: in memory, or a folder and its copy in memory.
        injector: Decides which operations fail.
        faults: The faults of the store that runs see.
        checker: Checks the public area after every turn.
        oracle: Knows which URLs must be listed.
        tables: The tables by section.
        dagfile: The current DAG file.
        profile: The fixed part of the history.
        foreign: Whether another program sometimes writes to the public area.
        wild_clock: Whether the clock jumps by days, or back by hours.
        features: The rare features of the history.
        ledger: Random numbers of what happens to the ledger.
        earlier: The DAG file before the last deployment.
        latest: The latest time that the clock has shown.
    """

    random: Random
    scheduler: Scheduler
    clock: FakeClock
    store: Any
    injector: FaultInjector
    faults: Faults
    checker: InvariantChecker
    oracle: Oracle
    tables: dict[str, Table]
    dagfile: DagFile
    profile: Profile
    ledger: Random
    foreign: bool = False
    wild_clock: bool = False
    features: Features = field(default_factory=Features)
    earlier: DagFile | None = None
    latest: datetime = field(init=False)

    def __post_init__(self) -> None:
        self.latest = self.clock.now()

    def sitemap(self, store: StoreConfig | None = None) -> Sitemap:
        """Return the sitemap of the current DAG file, over the store with faults or another one."""
        ledger = self.checker.ledger

        def before(operation: str) -> None:
            if store is not None:
                return
            self.injector.source(operation)
            if operation == "read" and ledger is not None and ledger.dates is not None and not self.injector.calm:
                ledger.dates.before_a_read()

        changefreq = "changefreq" if self.dagfile.changefreq else None

        def version(name: str) -> str | None:
            return str(self.tables[name].changes) if self.features.versions else None

        def change_log(name: str) -> RecentChanges | None:
            has_log = self.features.change_logs and self.dagfile.detection == "digest"
            return RecentChanges(self.tables[name], self.dagfile.key) if has_log else None

        def source(name: str) -> SourceConfig:
            return SimulatedSourceConfig(
                self.tables[name].rows, key=self.dagfile.key, lastmod=self.dagfile.lastmod_of(name), priority="priority", clock=self.clock.now,
                changefreq=changefreq, before=before, version=partial(version, name), change_log=change_log(name),
                news="news" if self.dagfile.kind_of(name) == "news" else None,
            )  # fmt: skip

        return self.dagfile.sitemap(store or FaultyStore(self.store, self.faults), source)

    @property
    def must_adopt(self) -> bool:
        """Whether another program's sitemap is at the address, so that only a run that adopts it may publish."""
        return self.features.adopts and self.checker.manifest is None

    def move(self) -> None:
        """Let some events happen, with pauses between them."""
        for _ in range(self.random.randint(3, 25)):
            self.scheduler.wait([], None)
            for _ in range(self.random.choice((1, 1, 5, 40))):
                self.scheduler.pause()
            self._event()

    def ended(self, report: Report) -> None:
        """Check a run that reported no change. One that kept the files of other runs says so in its warnings."""
        manifest = self.checker.manifest
        settled = manifest is not None and manifest is self.checker.promoted
        rebased = any("published meanwhile" in warning for warning in report.warnings)
        if report.result == "unchanged" and settled and not rebased and not self.checker.tampered:
            self.checker.unchanged(report.run)

    def land(self) -> None:
        """Let the oldest delayed request take effect."""
        if self.faults.on_the_way:
            landed = self.faults.land(1)
            self.scheduler.record(
                f"landed late: {[f'{call.verb} {call.key}' for call in landed] or 'nothing: refused'}"
            )

    def _event(self) -> None:
        if self.checker.ledger is not None and self.ledger.random() < 0.04 and not self.features.local:
            self._lose_part()
        drawn = self.random.random()
        if self.random.random() < (self.profile.deploys - 1) / 10:
            self._deploy()
            return
        table = self.random.choice(list(self.tables.values()))
        if self.profile.restless and drawn < 0.5:
            self.scheduler.record(table.flip())
        elif drawn < 0.62:
            self.scheduler.record(table.change())
        elif drawn < (0.80 if self.profile.restless else 0.68):
            table.reload(self.scheduler.pause)
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
        self.latest = max(self.latest, self.clock.now(), self.clock.now() + step)
        self.clock.advance(step)
        self.scheduler.record(f"the clock moves by {step} to {self.clock.now():%m-%d %H:%M:%S}")

    def _lose_part(self) -> None:
        """A part is removed or damaged. The URLs that it lists keep their dates, and their age is not known any more."""
        objects, oracle = self.store.state.objects, self.checker.ledger
        parts = sorted(key for key in objects if key.endswith(".parquet"))
        if oracle is None or not parts:
            return
        key = self.ledger.choice(parts)
        oracle.lost.add(key)
        if self.ledger.random() < 0.5:
            objects.pop(key)
        else:
            objects[key] = replace(objects[key], body=objects[key].body[:-1] + b"?")
        self.scheduler.record(f"the part {key} is lost")

    def _deploy(self) -> None:
        before = self.dagfile
        if self.earlier is not None and self.random.random() < 0.5:
            self.dagfile, self.earlier = self.earlier, None
            self.scheduler.record(f"deployed again: {self.dagfile}")
            return
        self.earlier = before
        self.dagfile = before.next(self.random)
        if self.checker.ledger is not None and self.ledger.random() < 0.15:
            self.dagfile = replace(self.dagfile, ledger=not self.dagfile.ledger)
        if self.checker.gone is not None and self.ledger.random() < 0.15:
            self.dagfile = replace(self.dagfile, gone=not self.dagfile.gone)
        if self.checker.ledger is not None and self.checker.ledger.dates is not None and self.ledger.random() < 0.4:
            observed = self.ledger.choice((*OBSERVED, ()))
            self.dagfile = replace(self.dagfile, observed=observed, initial=self.ledger.random() < 0.5)
        if self.dagfile.waits and self.ledger.random() < 0.15:
            self.dagfile = replace(self.dagfile, waits=False)
        if self.features.stranger:  # one index, which a second pipeline would replace
            self.dagfile = replace(self.dagfile, index="one")
        self.scheduler.record(f"deployed: {self.dagfile}")

    def _meddle(self) -> None:
        names = list(self.store.public.objects)
        if not names:
            return
        self.checker.tampered = True
        name = self.random.choice(names)
        if self.random.random() < 0.5:
            self.store.public.delete(name)
        else:
            self.store.public.put(name, b"x", mode=Overwrite(), metadata={}, content_type="text/plain")
        self.scheduler.record(f"another program changed {name}")
