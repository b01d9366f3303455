"""One history of a seed: its environment, runs, crawlers and final state."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from airflow_sitemaps.pipeline.plan import surveys
from airflow_sitemaps.pipeline.request import RunRequest
from airflow_sitemaps.stores.memory import MemoryStore
from airflow_sitemaps.testing import FakeClock
from tests.simulation import foreign_sitemap
from tests.simulation.cloud_store import CloudStore, Traffic
from tests.simulation.convergence import EVERYTHING, SLICES, Convergence
from tests.simulation.dagfile import FREE, GRACE, MAX_SKEW, NAMES, OBSERVED, STRICT, DagFile
from tests.simulation.date_oracle import DateOracle
from tests.simulation.environment import Environment
from tests.simulation.fault_injector import FaultInjector
from tests.simulation.features import Features
from tests.simulation.gone_oracle import GoneOracle
from tests.simulation.invariants import InvariantChecker
from tests.simulation.ledger_oracle import LedgerOracle
from tests.simulation.mirrored_store import MirroredStore
from tests.simulation.oracle import Oracle
from tests.simulation.profile import Profile
from tests.simulation.runs import SimulatedAirflow
from tests.simulation.scheduler import Scheduler
from tests.simulation.slow_crawler import LaggingCrawler, SlowCrawler
from tests.simulation.stranger import Stranger
from tests.simulation.warehouse import BASE, Table

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator


IN_MEMORY: Final = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where folders of histories are fast."""

SKEWS: Final = (timedelta(0), timedelta(0), MAX_SKEW)
"""Differences between workers' clocks and the accurate clock, used in a third of all histories."""

WITH_GONE: Final = 1 / 2
"""Fraction of the histories with a ledger that have a file of gone URLs."""

WITH_LEDGER: Final = 1 / 3
"""Fraction of the histories whose sections have a ledger, and fraction of these with observed dates."""


WITH_WAITS: Final = 1 / 4
"""Fraction of the histories in which changes of attributes may wait."""

WITH_EARLY: Final = 1 / 3
"""Fraction of these in which a watermark finds the changes, and the file of recent entries lists them early."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Numbers of a played history.

    Attributes:
        seed: The seed.
        turns: Number of turns.
        generations: Number of committed generations.
        crawls: Number of times the public area was read.
        urls: Number of listed URLs that were compared with the committed ones.
        operations: Number of operations of stores and sources.
        struck: Number of faults by kind.
        runs: Number of runs by result.
        lines: The trace. Default: empty.
    """

    seed: int
    turns: int
    generations: int
    crawls: int
    urls: int
    operations: int
    struck: Counter[str]
    runs: dict[str, int]
    lines: tuple[str, ...] = ()


@dataclass(slots=True)
class History:
    """A simulated history, drawn from a seed."""

    seed: int
    profile: Profile = field(default_factory=Profile)
    folder: str = ""
    random: Random = field(init=False)
    rare: Random = field(init=False)
    scheduler: Scheduler = field(init=False)
    environment: Environment = field(init=False)
    airflow: SimulatedAirflow = field(init=False)
    crawlers: int = field(init=False)

    def __post_init__(self) -> None:
        random = self.random = Random(self.seed)
        self.rare = Random(f"rare {self.seed}")
        self.scheduler = Scheduler(random)
        self.environment = self._drawn_environment()
        self.airflow = SimulatedAirflow(
            self.scheduler,
            random,
            self.environment,
            temper=random.choice((0.0, 0.0, 0.1, 0.3)),
            skew=random.choice(SKEWS),
            asking=Random(f"answers {self.seed}"),
        )
        self.crawlers = random.choice((0, 1, 1, 2))
        self.scheduler.watch = self._watch
        self._fix()

    def play(self) -> None:
        """Run all events, and then check the final state."""
        environment = self.environment
        self.scheduler.add("scheduler", self._schedule)
        self.scheduler.add("environment", environment.move)
        for number in range(self.crawlers):
            crawler = SlowCrawler(self.random, self.scheduler, environment.clock, environment.checker)
            self.scheduler.add(f"crawler{number}", crawler.crawl)
        if environment.features.stranger:
            self.scheduler.add("stranger", Stranger(self.rare, environment).meddle)
        lagging = LaggingCrawler(self.rare, self.scheduler, environment.clock, environment.checker)
        if environment.features.cached:
            self.scheduler.add("lagging crawler", lagging.crawl)
        dates = environment.checker.ledger.dates if environment.checker.ledger is not None else None
        if dates is not None:
            self.scheduler.add("crawler of pages", dates.crawl)
        try:
            self.scheduler.play()
            end = Convergence(environment, self.airflow, self._watch)
            end.settle()
            if environment.features.cached:
                lagging.check()
            if environment.features.loses_state:
                end.lose_state()
        finally:
            self.scheduler.end()

    def outcome(self) -> Outcome:
        """Return the numbers of the history."""
        checker, injector = self.environment.checker, self.environment.injector
        generation = checker.manifest.generation if checker.manifest is not None else 0
        return Outcome(
            self.seed, self.scheduler.turn, generation, checker.crawls, checker.checked,
            injector.operations, injector.struck, self.airflow.ended, tuple(self.scheduler.lines),
        )  # fmt: skip

    def _drawn_environment(self) -> Environment:
        random, clock = self.random, FakeClock()
        features = Features.drawn(self.seed) if self.profile.features else Features()
        store = self._store(features, clock)
        injector = FaultInjector(
            random, self.scheduler, faults=random.choice((0.0, 0.0, 0.02, 0.06)),
            crashes=random.choice((0.0, 0.005, 0.02, 0.04)), stalls=random.choice((0.0, 0.01, 0.03)),
            stale=features.stale, stale_reads=features.stale_reads, rare=self.rare,
        )  # fmt: skip
        if isinstance(store, CloudStore):
            store.traffic.injector = injector
        ledger = Random(f"ledger {self.seed}")
        dagfile = replace(DagFile.drawn(random), news=features.news, ledger=ledger.random() < WITH_LEDGER)
        waits = Random(f"waits {self.seed}")
        dagfile = replace(dagfile, waits=waits.random() < WITH_WAITS)
        if dagfile.waits and waits.random() < WITH_EARLY:
            dagfile = replace(dagfile, recent=True, detection="watermark")
        if features.stranger:
            dagfile = replace(dagfile, index="one")
        moved: set[str] = set()
        tables = {name: Table(name, random, clock.now, moved=moved) for name in NAMES}
        for table in tables.values():
            table.fill(random.randint(3, 16))
            if features.asks:
                table.fill(24, first=500)
        if features.asks:
            dagfile = replace(dagfile, guards=STRICT)
        guards = STRICT if dagfile.guards is STRICT else None
        oracle = Oracle(tables, clock.now)
        checker = InvariantChecker(store, GRACE.total_seconds(), guards=guards, moved=moved, oracle=oracle)
        if dagfile.ledger:
            dates = None
            if ledger.random() < WITH_LEDGER and dagfile.detection != "watermark":
                dagfile = replace(
                    dagfile, observed=ledger.choice((*OBSERVED, *OBSERVED, ())), initial=ledger.random() < 0.5
                )
                dates = DateOracle(ledger, self.scheduler, clock, tables, checker.readable)
            checker.ledger = LedgerOracle(store.state.objects, moved, oracle.intentions, dates)
            dagfile = replace(dagfile, gone=Random(f"gone {self.seed}").random() < WITH_GONE)
            if dagfile.gone:
                checker.gone = GoneOracle(store.state.objects, oracle, checker.ledger.lost, checker.locs_in)
        checker.turn = lambda: self.scheduler.turn
        return Environment(
            random=random, scheduler=self.scheduler, clock=clock, store=store, injector=injector, faults=injector.over(),
            checker=checker, oracle=oracle, tables=tables, dagfile=dagfile, profile=self.profile, foreign=random.random() < 0.1 and not features.stranger, wild_clock=random.random() < 0.2,
            features=features, ledger=ledger,
        )  # fmt: skip

    def _store(self, features: Features, clock: FakeClock) -> Any:
        """Make the store: in memory, like S3's or another cloud's, or a local folder.

        It contains the files of another program if the history has them.
        """
        settings: dict[str, Any] = {"base_url": BASE, "now": clock.now, "copies": self.seed % 2 == 1}
        store: Any = MemoryStore(**settings)
        if features.cloud:
            store = CloudStore(Traffic(Random(f"cloud of {self.seed}"), self.scheduler.pause), **settings)
        if features.local and self.folder:
            store = MirroredStore(self.folder, base_url=BASE, now=clock.now)
        if features.adopts:
            foreign_sitemap.leave(store, self.rare)
            store.log.clear()
        return store

    def _fix(self) -> None:
        """Override drawn settings with those that the profile fixes."""
        profile, environment, injector = self.profile, self.environment, self.environment.injector
        injector.faults = injector.faults if profile.faults is None else profile.faults
        injector.stalls = injector.stalls if profile.stalls is None else profile.stalls
        injector.crashes = injector.crashes if profile.crashes is None else profile.crashes
        self.airflow.temper = self.airflow.temper if profile.temper is None else profile.temper
        self.crawlers = self.crawlers if profile.crawlers is None else profile.crawlers
        environment.wild_clock = environment.wild_clock if profile.wild_clock is None else profile.wild_clock
        environment.foreign = environment.foreign if profile.foreign is None else profile.foreign
        if profile.detection is not None:
            environment.dagfile = replace(environment.dagfile, detection=profile.detection)
        if profile.guarded is not None:
            environment.dagfile = replace(environment.dagfile, guards=STRICT if profile.guarded else FREE)
            environment.checker.guards = STRICT if profile.guarded else None
        self.airflow.skew = self.airflow.skew if profile.skew is None else profile.skew
        if profile.sections is not None:
            environment.dagfile = replace(environment.dagfile, sections=NAMES[: profile.sections])

    def _watch(self) -> None:
        for table in self.environment.tables.values():
            table.record()
        self.environment.oracle.observe(self.scheduler.turn)
        ledger = self.environment.checker.ledger
        if ledger is not None and ledger.dates is not None:
            ledger.dates.observe()
        self.environment.checker.check()
        self.airflow.raise_leaked()

    def _schedule(self) -> None:
        """Start runs, some of them at the same time."""
        for number in range(self.random.randint(2, 5) + 4 * self.environment.features.asks):
            run = self.scheduler.add(f"run{number}", partial(self._run, number))
            if self.random.random() >= self.profile.rivals:
                self.scheduler.wait([run])
            else:
                self.scheduler.wait([run], self.random.randint(1, 150))

    def _run(self, number: int) -> None:
        asking, tables = self.airflow.asking, list(self.environment.tables.values())
        if self.environment.features.asks and asking.random() < 0.7:
            self.scheduler.record(asking.choice(tables).lose(asking))
        manifest = self.environment.checker.manifest
        if manifest is not None and len(manifest.history) > 1 and self.random.random() < 0.12:
            self.airflow.rollback(f"run{number}", self.random.choice(manifest.history[:-1]).generation)
            return
        sections = self.environment.dagfile.sections
        share = 0.15 if self.profile.partial is None else self.profile.partial
        request = RunRequest(
            batch_rows=self.random.choice((4, 8, 500)),
            full=self.random.random() < 0.1,
            sections=(self.random.choice(sections),) if self.random.random() < share else (),
            allow=EVERYTHING if self.random.random() < 0.1 else (),
            rebuild=self._rebuilt(),
            adopt=self.environment.must_adopt,
            keep_lastmods=self._kept(),
            asks=self.environment.features.asks,
        )
        self.airflow.run(f"run{number}", request)

    def _kept(self) -> tuple[str, ...]:
        """Return the sections whose changed URLs keep their dates in some runs, and none in the others."""
        dagfile = self.environment.dagfile
        observed = tuple(name for name in dagfile.sections if dagfile.lastmod_of(name) != "lastmod")
        return observed if observed and self.environment.ledger.random() < 0.15 else ()

    def _rebuilt(self) -> tuple[str, ...]:
        """Return shards to write again in some runs, and none in the others."""
        manifest = self.environment.checker.manifest
        if manifest is None or self.rare.random() >= self.environment.features.rebuilds:
            return ()
        names = [file.name for section in manifest.sections.values() for file in section.files()]
        return tuple(self.rare.sample(names, min(2, len(names))))


def simulate(seed: int, profile: Profile | None = None) -> Outcome:
    """Simulate the history that a seed generates.

    Args:
        seed: The seed.
        profile: Settings that are fixed instead of drawn at random. Default: none.

    Raises:
        BrokenInvariantError: An invariant is broken. Its ``lines`` are the trace.
    """
    with _silence(), patch.object(surveys, "SLICES", SLICES), TemporaryDirectory(dir=IN_MEMORY) as folder:
        history = History(seed, profile or Profile(features=True), folder)
        try:
            history.play()
        except AssertionError as broken:
            broken.lines = tuple(history.scheduler.lines)  # type: ignore[attr-defined]
            raise
    return history.outcome()


@contextmanager
def _silence() -> Iterator[None]:
    """Disable the log of the pipeline: thousands of histories would write gigabytes of it."""
    log = logging.getLogger("airflow_sitemaps")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(level)
