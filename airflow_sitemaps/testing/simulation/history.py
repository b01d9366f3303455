"""One history, from a seed: its world, its runs, its crawlers, and its end."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING
from unittest.mock import patch

from airflow_sitemaps.pipeline import stages, watermark
from airflow_sitemaps.stores.memory import MemoryStore
from airflow_sitemaps.testing.clock import FakeClock
from airflow_sitemaps.testing.simulation.actors import Stage
from airflow_sitemaps.testing.simulation.dagfile import FREE, GRACE, NAMES, STRICT, DagFile
from airflow_sitemaps.testing.simulation.profile import Profile
from airflow_sitemaps.testing.simulation.quiet import EVERYTHING, SLICES, Quiet
from airflow_sitemaps.testing.simulation.runs import Airflow
from airflow_sitemaps.testing.simulation.slow_crawler import SlowCrawler
from airflow_sitemaps.testing.simulation.warehouse import BASE, Table
from airflow_sitemaps.testing.simulation.weather import Weather
from airflow_sitemaps.testing.simulation.witness import Witness
from airflow_sitemaps.testing.simulation.world import World

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one history came to. ``urls``: comparisons of one listed URL with what was committed."""

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
    """A world made from a seed, and its play."""

    seed: int
    profile: Profile = field(default_factory=Profile)
    random: Random = field(init=False)
    stage: Stage = field(init=False)
    world: World = field(init=False)
    airflow: Airflow = field(init=False)
    crawlers: int = field(init=False)

    def __post_init__(self) -> None:
        random = self.random = Random(self.seed)  # noqa: S311 - a history that replays
        self.stage = Stage(random)
        self.world = self._drawn_world()
        self.airflow = Airflow(
            self.stage, random, self.world.sitemap, self.world.clock, temper=random.choice((0.0, 0.0, 0.1, 0.3))
        )
        self.crawlers = random.choice((0, 1, 1, 2))
        self.stage.watch = self._watch
        self._fix()

    def play(self) -> None:
        """Everything until it is quiet, then what must hold in the end."""
        world = self.world
        self.stage.add("scheduler", self._schedule)
        self.stage.add("world", world.move)
        for number in range(self.crawlers):
            crawler = SlowCrawler(self.random, self.stage, world.clock, world.witness)
            self.stage.add(f"crawler{number}", crawler.crawl)
        try:
            self.stage.play()
            Quiet(world, self._watch).settle()
        finally:
            self.stage.end()

    def outcome(self) -> Outcome:
        """The figures."""
        witness, weather = self.world.witness, self.world.weather
        generation = witness.manifest.generation if witness.manifest is not None else 0
        return Outcome(
            self.seed, self.stage.turn, generation, witness.crawls, witness.checked,
            weather.operations, weather.struck, self.airflow.ended, tuple(self.stage.lines),
        )  # fmt: skip

    def _drawn_world(self) -> World:
        random, clock = self.random, FakeClock()
        store = MemoryStore(base_url=BASE, now=clock.now, copies=self.seed % 2 == 1)
        weather = Weather(
            random, self.stage, faults=random.choice((0.0, 0.0, 0.02, 0.06)),
            crashes=random.choice((0.0, 0.005, 0.02, 0.04)), stalls=random.choice((0.0, 0.01, 0.03)),
        )  # fmt: skip
        dagfile = DagFile.drawn(random)
        moved: set[str] = set()
        tables = {name: Table(name, random, clock.now, moved=moved) for name in NAMES}
        for table in tables.values():
            table.fill(random.randint(3, 16))
        guards = STRICT if dagfile.guards is STRICT else None
        return World(
            random=random, stage=self.stage, clock=clock, store=store, weather=weather, faults=weather.over(),
            witness=Witness(store, GRACE.total_seconds(), guards=guards, moved=moved), tables=tables, dagfile=dagfile,
            profile=self.profile, foreign=random.random() < 0.1, wild_clock=random.random() < 0.2,
        )  # fmt: skip

    def _fix(self) -> None:
        """Put what the profile fixes in place of what was drawn."""
        profile, world, weather = self.profile, self.world, self.world.weather
        weather.faults = weather.faults if profile.faults is None else profile.faults
        weather.stalls = weather.stalls if profile.stalls is None else profile.stalls
        weather.crashes = weather.crashes if profile.crashes is None else profile.crashes
        self.airflow.temper = self.airflow.temper if profile.temper is None else profile.temper
        self.crawlers = self.crawlers if profile.crawlers is None else profile.crawlers
        world.wild_clock = world.wild_clock if profile.wild_clock is None else profile.wild_clock
        world.foreign = world.foreign if profile.foreign is None else profile.foreign
        if profile.detection is not None:
            world.dagfile = replace(world.dagfile, detection=profile.detection)
        if profile.guarded is not None:
            world.dagfile = replace(world.dagfile, guards=STRICT if profile.guarded else FREE)
            world.witness.guards = STRICT if profile.guarded else None
        if profile.sections is not None:
            world.dagfile = replace(world.dagfile, sections=NAMES[: profile.sections])

    def _watch(self) -> None:
        self.world.witness.look()
        self.airflow.raise_leaked()

    def _schedule(self) -> None:
        """Start runs, some while others go on."""
        for number in range(self.random.randint(2, 5)):
            run = self.stage.add(f"run{number}", partial(self._run, number))
            if self.random.random() >= self.profile.rivals:
                self.stage.wait([run])
            else:
                self.stage.wait([run], self.random.randint(1, 150))

    def _run(self, number: int) -> None:
        manifest = self.world.witness.manifest
        if manifest is not None and len(manifest.history) > 1 and self.random.random() < 0.12:
            self.airflow.rollback(f"run{number}", self.random.choice(manifest.history[:-1]).generation)
            return
        sections = self.world.dagfile.sections
        request = stages.RunRequest(
            batch_rows=self.random.choice((4, 8, 500)),
            full=self.random.random() < 0.1,
            sections=(self.random.choice(sections),) if self.random.random() < 0.15 else (),
            allow=EVERYTHING if self.random.random() < 0.1 else (),
        )
        self.airflow.run(f"run{number}", request)


def simulate(seed: int, profile: Profile | None = None) -> Outcome:
    """Play the history of a seed; ``profile`` fixes some of what the seed decides else.

    Raises:
        BrokenInvariantError: something was seen that must never be; its ``lines`` are the trace.
    """
    history = History(seed, profile or Profile())
    with _silence(), patch.object(watermark, "SLICES", SLICES):
        try:
            history.play()
        except AssertionError as broken:
            broken.lines = tuple(history.stage.lines)  # type: ignore[attr-defined]
            raise
    return history.outcome()


@contextmanager
def _silence() -> Iterator[None]:
    """The pipeline's log is not read here, and thousands of histories would write gigabytes of it."""
    log = logging.getLogger("airflow_sitemaps")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(level)
