"""Simulated DAG runs: tasks with retries, mapped writes, zombies, cleared tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.errors import ConfigurationError, ConflictError, RefusedError, SitemapError
from airflow_sitemaps.pipeline import stages
from airflow_sitemaps.pipeline.publish.rollback import rollback
from tests.simulation.oracle import Intention
from tests.simulation.skewed_clock import SkewedClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from airflow_sitemaps.pipeline.report import Report
    from airflow_sitemaps.pipeline.request import RunRequest
    from airflow_sitemaps.ports import Clock
    from tests.simulation.environment import Environment
    from tests.simulation.scheduler import Scheduler

TRIES: Final = 3
FINAL: Final = (ConfigurationError, RefusedError, ConflictError)
"""Errors after which Airflow does not retry a task."""


class TaskFailedError(Exception):
    """A task has no retry left, so its run fails."""


class LeakedError(AssertionError):
    """A stage raised an error that is not in this package's error tree."""


@dataclass(slots=True)
class SimulatedAirflow:
    """Starts runs.

    Attributes:
        scheduler: Schedules the tasks.
        random: Random numbers of the seed.
        environment: The current DAG file, and the oracle that records the intentions of runs.
        temper: Fraction (0 to 1) of tasks that become zombies, are cleared, or whose run is marked failed.
        skew: Largest difference of a worker's clock from the accurate clock. Zero: all clocks agree.
        leaked: Errors that are not in this package's error tree.
        ended: Number of runs by their result.
    """

    scheduler: Scheduler
    random: Random
    environment: Environment
    temper: float = 0.0
    skew: timedelta = timedelta(0)
    leaked: list[Exception] = field(default_factory=list)
    ended: dict[str, int] = field(default_factory=dict)

    def run(self, name: str, request: RunRequest) -> None:
        """Play one run of the DAG."""
        try:
            self._run(name, request)
            self._count("succeeded")
        except TaskFailedError as failed:
            self.scheduler.record(f"run failed: {failed}")
            self._count(f"failed: {type(failed.__cause__).__name__}" if failed.__cause__ else "failed: no try left")

    def _run(self, name: str, request: RunRequest) -> None:
        planned = self.task(f"{name}.plan", lambda: self._planned(request))
        key, batches = planned.key, [batch.number for batch in planned.plan.batches]

        def write(number: int) -> str:
            written = self.task(
                f"{name}.write{number}",
                lambda: stages.write(self.environment.sitemap(), key, number, clock=self._clock()),
            )
            return str(written.receipt_key)

        mapped = [self.scheduler.add(f"{name}.map{number}", partial(write, number)) for number in batches]
        if mapped:
            self.scheduler.wait(mapped)
        self._marked_failed()
        if not self.environment.features.partly and any(task.error is not None for task in mapped):
            raise TaskFailedError("upstream failed") from next(task.error for task in mapped if task.error).__cause__
        receipts = [task.result if task.error is None else "" for task in mapped]
        self._publish(name, planned, receipts)
        while self._so():
            if batches and self._so(0.5):
                again = self.random.choice(range(len(batches)))
                receipts[again] = write(batches[again])
            self._publish(f"{name}.cleared", planned, receipts)

    def _planned(self, request: RunRequest) -> stages.Planned:
        """Play the plan operator: recover, then plan."""
        environment, started, clock = self.environment, self.scheduler.turn, self._clock()
        moment = environment.clock.now()
        sitemap, code = environment.sitemap(), environment.dagfile
        stages.recover(sitemap, clock=clock)
        planned = stages.plan(sitemap, request, clock=clock)
        failed, ended = {failure.section for failure in planned.plan.failures}, self.scheduler.turn
        sections = tuple(name for name in request.sections or code.sections if name not in failed)
        rebases = planned.plan.rebases
        intention = Intention(
            code,
            sections,
            started,
            planned=ended,
            whole=not request.sections,
            rebases=rebases,
            moment=moment,
            base=planned.plan.base_generation,
        )
        environment.oracle.planned(planned.plan.run, intention)
        return planned

    def _publish(self, name: str, planned: stages.Planned, receipts: list[str]) -> None:
        """The publish operator. An empty receipt stands for a batch that could not be written."""
        given = tuple(receipt for receipt in receipts if receipt)
        key, batches = planned.key, planned.plan.batches
        assert key is not None
        missing = [batch for batch, receipt in zip(batches, receipts, strict=True) if not receipt]
        self.environment.oracle.left_out(planned.plan.run, {batch.section for batch in missing})
        self.task(f"{name}.publish", lambda: self._published(key, given, partly=bool(missing)))

    def _published(self, key: str, receipts: tuple[str, ...], *, partly: bool = False) -> Report:
        unwritten: dict[int, str] | None = {} if partly else None
        report = stages.publish(self.environment.sitemap(), key, receipts, unwritten=unwritten, clock=self._clock())
        self.environment.ended(report)
        return report

    def build(self, request: RunRequest) -> Report:
        """Play a whole run in one process, as the command line does."""
        planned = self._planned(request)
        assert planned.key is not None
        key, clock = planned.key, self._clock()
        receipts = [
            stages.write(self.environment.sitemap(), key, batch.number, clock=clock).receipt_key
            for batch in planned.plan.batches
        ]
        return self._published(key, tuple(receipts))

    def _clock(self) -> Clock:
        """Return the clock of the worker that runs a task."""
        if not self.skew:
            return self.environment.clock
        return SkewedClock(self.environment.clock, self.skew * self.random.choice((-1, 0, 1)))

    def rollback(self, name: str, generation: int) -> None:
        """Play the rollback operator."""
        try:
            self.task(f"{name}.rollback", lambda: rollback(self.environment.sitemap(), generation, clock=self._clock()))
            self._count("rolled back")
        except TaskFailedError:
            self._count("rollback failed")

    def task(self, name: str, work: Callable[[], Any]) -> Any:
        """Play a task with its retries. A zombie continues while its next try runs."""
        last: Exception | None = None
        for attempt in range(1, TRIES + 1):
            actor = self.scheduler.add(f"{name}#{attempt}", lambda: self._judged(work))
            patience = self.random.randint(1, 60) if self._so() else None
            if not self.scheduler.wait([actor], patience):
                self.scheduler.record(f"{actor.name} is taken for dead")
                continue
            if actor.error is None and not actor.dead:
                return actor.result
            last = actor.error
            if isinstance(last, FINAL):
                break
        raise TaskFailedError(name) from last

    def _judged(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except SitemapError:
            raise
        except Exception as error:
            self.leaked.append(error)
            raise

    def _marked_failed(self) -> None:
        if self._so(0.5):
            raise TaskFailedError("marked failed by hand")

    def _so(self, part: float = 1.0) -> bool:
        return self.random.random() < self.temper * part

    def _count(self, how: str) -> None:
        self.ended[how] = self.ended.get(how, 0) + 1

    def raise_leaked(self) -> None:
        """Raise an error if a stage raised one outside the error tree."""
        if self.leaked:
            raise LeakedError(f"a stage raised {self.leaked[0]!r}") from self.leaked[0]
