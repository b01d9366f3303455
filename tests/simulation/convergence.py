"""The end of a history: one run repairs everything, the next changes nothing, and the sitemap equals a rebuild (I5)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.errors import OwnershipError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.pipeline.concurrency import inline
from airflow_sitemaps.pipeline.request import RunRequest
from airflow_sitemaps.pipeline.state.repository import MANIFEST, RUNS
from airflow_sitemaps.shards import codec, layout
from airflow_sitemaps.stores.memory import MemoryStore
from airflow_sitemaps.testing import FakeClock, crawl
from tests.simulation.dagfile import GRACE, REWRITE_AFTER
from tests.simulation.invariants import BrokenInvariantError
from tests.simulation.ledger_oracle import BrokenLawError
from tests.simulation.warehouse import BASE

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_sitemaps.pipeline.report import Report
    from airflow_sitemaps.shards.manifest import Manifest
    from tests.simulation.environment import Environment
    from tests.simulation.runs import SimulatedAirflow

EVERYTHING: Final = (
    "shrink=1",
    "renamed=1",
    "growth=1000000",
    "churn=1",
    "dropped=1",
    "empty",
    "vanished",
    "redated",
)
SLICES: Final = 3
"""Number of runs in which a watermark surveys every range, in simulations. Elsewhere: 24."""

PATIENCE: Final = 40
"""Number of runs after which a watermark must have found every change. Slices move when ranges are cut or joined."""


@dataclass(slots=True)
class Convergence:
    """The end of a history.

    Attributes:
        watch: Called after the store was changed between turns.
    """

    environment: Environment
    airflow: SimulatedAirflow
    watch: Callable[[], None]

    def settle(self) -> None:
        """Run until nothing changes, and check the result.

        Raises:
            BrokenInvariantError: The end is not as it must be.
        """
        environment = self.environment
        environment.injector.calm = True
        # Past the latest time of any clock: what was rendered as past is not rendered again for a clock that was set back.
        now = environment.clock.now()
        environment.clock.advance(max(environment.latest, now) + self.airflow.skew - now)
        self.airflow.skew = timedelta(0)
        late = environment.random.random() < 0.3  # what is on its way arrives when its run was swept, days later
        if not late:
            self._land()
        for name in environment.dagfile.sections:
            environment.tables[name].make_publishable()
        environment.scheduler.record("quiet")
        if environment.dagfile.detection == "watermark":
            self._found_by_watermark()
        self._heal()
        if environment.dagfile.waits:
            environment.clock.advance(REWRITE_AFTER)
            self._heal()
        self._equal()
        if late or environment.random.random() < 0.2:
            for _ in range(2):
                environment.clock.advance(GRACE * 2)
                self._heal()
                self._land()
            self._swept()

    def lose_state(self) -> None:
        """The state area is lost: a run refuses to publish over what is public, until one adopts it."""
        environment = self.environment
        if environment.checker.tampered or environment.foreign:
            return
        self._land()
        environment.checker.state_lost()
        for key in list(environment.store.state.objects):
            environment.store.state.delete(key)
        environment.scheduler.record("the state area is lost")
        before = dict(environment.store.public.objects)
        refused = environment.scheduler.add("healer", lambda: self.airflow.build(RunRequest(allow=EVERYTHING)))
        environment.scheduler.play()
        if not isinstance(refused.error, OwnershipError) or environment.store.public.objects != before:
            raise BrokenInvariantError("ownership", f"without its state a run ended with {refused.error!r}")
        self._build((*EVERYTHING, "adopt=1"), adopt=True)
        environment.checker.crawl()
        self._equal()
        if self._build(()).result != "unchanged":
            raise BrokenInvariantError("I5", "the run after an adoption published something")

    def _land(self) -> None:
        while self.environment.faults.on_the_way:
            self.environment.land()
            self.watch()

    def _found_by_watermark(self) -> None:
        """Check that the next run finds changes with a new lastmod, and that later runs find all others."""
        self._build(EVERYTHING)
        self.environment.checker.tampered = False
        locs = [self.environment.tables[name].arrive() for name in self.environment.dagfile.sections]
        self._build(EVERYTHING)
        published = self.environment.checker.locs()
        missed = [loc for loc in locs if loc not in published]
        if missed:
            raise BrokenInvariantError("I5", f"the next run did not list {missed}, which were added with a new lastmod")
        quiet = 0
        for _ in range(PATIENCE):
            quiet = quiet + 1 if self._build(EVERYTHING).result == "unchanged" else 0
            if quiet == SLICES:
                return
        raise BrokenInvariantError("progress", f"after {PATIENCE} quiet runs a watermark still finds changes")

    def _heal(self) -> None:
        environment = self.environment
        before = environment.checker.manifest
        report = self._build(EVERYTHING)
        environment.scheduler.record(f"a quiet run: {report.result}, generation {report.generation}")
        after = environment.checker.manifest
        if before is not None and after is not None and after is not before:
            self._steady(before, after)
        environment.checker.tampered = False
        environment.checker.crawl()
        if environment.random.random() < 0.6:
            return
        again = self._build(())
        if again.result != "unchanged":
            raise BrokenInvariantError("I5", f"a run published generation {again.generation}, although nothing changed")

    def _build(self, allow: tuple[str, ...], *, adopt: bool = False) -> Report:
        """Build without faults. The run must succeed."""
        environment = self.environment
        if environment.foreign:  # what another program put over the index cannot be counted
            allow = (*allow, "adopt=1")
        request = RunRequest(allow=allow, adopt=adopt or environment.must_adopt)
        healer = environment.scheduler.add("healer", lambda: self.airflow.build(request))
        environment.scheduler.play()
        if healer.error is not None:
            raise BrokenInvariantError(
                "progress", f"when all was quiet, a run failed: {healer.error!r}"
            ) from healer.error
        report: Report = healer.result
        return report

    def _steady(self, before: Manifest, after: Manifest) -> None:
        if not self.environment.foreign:
            self.environment.checker.steady(before, after)

    def _equal(self) -> None:
        """Check that the sitemap equals a rebuild in another store."""
        other = MemoryStore(base_url=BASE)
        with inline():
            build(self.environment.sitemap(other), clock=FakeClock(self.environment.clock.now()), allow=EVERYTHING)
        self._equal_ledger(other)
        here, there = _entries(self.environment.store), _entries(other)
        if self.environment.dagfile.observed:  # a rebuild does not know the dates, nor which URLs are recent
            here, there = ({loc: entries[0][1:] for loc, entries in each.items()} for each in (here, there))
        if here != there:
            lost = sorted(there.keys() - here.keys())[:3]
            alien = sorted(here.keys() - there.keys())[:3]
            other_fields = [key for key in here if key in there and here[key] != there[key]][:3]
            raise BrokenInvariantError(
                "I5", f"not equal to a rebuild: lost {lost}, too much {alien}, different {other_fields}"
            )

    def _equal_ledger(self, other: MemoryStore) -> None:
        store, oracle = self.environment.store, self.environment.checker.ledger
        if oracle is None:
            return
        here, there = (codec.decode_manifest(each.state.objects[MANIFEST].body) for each in (store, other))
        try:
            oracle.equal(here, there, other.state.objects)
        except BrokenLawError as error:
            raise BrokenInvariantError("ledger", str(error)) from error

    def _swept(self) -> None:
        """Check that both areas contain only files that the sitemap needs."""
        environment = self.environment
        manifest = environment.checker.manifest
        assert manifest is not None
        named = {file.name for file in manifest.public_files()}
        named |= {item.key for item in manifest.departed}
        left = sorted(environment.store.public.objects.keys() - named)
        if left and not environment.foreign and not environment.injector.struck:
            raise BrokenInvariantError("sweep", f"{left[:3]} are in the public area, and nothing names them")
        needed = manifest.bodies() | {item.key for item in manifest.departed}
        kept = {note.run for note in manifest.history}
        runs = (key.split("/") for key in environment.store.state.objects if key.startswith(RUNS) and key not in needed)
        over = f"{environment.clock.now() - GRACE * 1.5:%Y%m%dT%H%M%SZ}"
        left = ["/".join(parts) for parts in runs if parts[1] not in kept and parts[1] < over]
        if left:
            raise BrokenInvariantError("sweep", f"{left[:3]} are in the state area, and nothing names them")


def _entries(store: Any) -> dict[str, Any]:
    manifest = codec.decode_manifest(store.state.objects[MANIFEST].body)
    entries: dict[str, Any] = {}
    for index in manifest.indexes:
        crawled = crawl(store.open(), index.name)
        crawled.files.pop(layout.GONE, None)  # a rebuild does not know them
        entries |= crawled.entries()
    return entries
