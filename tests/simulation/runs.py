"""Simulated DAG runs: tasks with retries, mapped writes, zombies, cleared tasks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.errors import ConfigurationError, ConflictError, GuardError, RefusedError, SitemapError
from airflow_sitemaps.pipeline import approvals, stages
from airflow_sitemaps.pipeline.publish.rollback import rollback
from airflow_sitemaps.shards.guards import Refusal
from airflow_sitemaps.shards.plan import failures_of
from tests.simulation.oracle import Intention
from tests.simulation.skewed_clock import SkewedClock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_sitemaps.pipeline.report import Report
    from airflow_sitemaps.pipeline.request import RunRequest
    from airflow_sitemaps.ports import Clock
    from airflow_sitemaps.shards.manifest import Question
    from airflow_sitemaps.shards.plan import Plan, SectionFailure
    from airflow_sitemaps.sitemap import Sitemap
    from tests.simulation.environment import Environment
    from tests.simulation.scheduler import Scheduler

TRIES: Final = 3
FINAL: Final = (ConfigurationError, RefusedError, ConflictError)
"""Errors after which Airflow does not retry a task."""


class TaskFailedError(Exception):
    """A task has no retry left, so its run fails."""


class LeakedError(AssertionError):
    """A stage raised an error that is not in this package's error tree."""


@dataclass(frozen=True, slots=True)
class Look:
    """A try of a run that published sections, or found nothing to change in them.

    Attributes:
        sections: The sections that it refused nothing of.
        began: Turn at which the try began.
        ended: Turn at which it ended.
    """

    sections: frozenset[str]
    began: int
    ended: int


@dataclass(slots=True)
class SimulatedAirflow:
    """Starts runs.

    Attributes:
        scheduler: Schedules the tasks.
        random: Random numbers of the seed.
        environment: The current DAG file, and the oracle that records the intentions of runs.
        temper: Fraction (0 to 1) of tasks that become zombies, are cleared, or whose run is marked failed.
        skew: Largest difference of a worker's clock from the accurate clock. Zero: all clocks agree.
        asking: Random numbers of the answers to questions.
        leaked: Errors that are not in this package's error tree.
        opened: Turn at which each question was open, by its run.
        looks: The tries that close questions.
        ended: Number of runs by their result.
    """

    scheduler: Scheduler
    random: Random
    environment: Environment
    temper: float = 0.0
    skew: timedelta = timedelta(0)
    asking: Random = field(default_factory=partial(Random, 0))
    opened: dict[str, int] = field(default_factory=dict)
    looks: list[Look] = field(default_factory=list)
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
        key, batches = planned.key, [batch.number for batch in planned.batches]

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

    def _planned(self, request: RunRequest) -> Plan:
        """Play the plan operator: recover, then plan."""
        environment, started, clock = self.environment, self.scheduler.turn, self._clock()
        moment = environment.clock.now()
        sitemap, code = environment.sitemap(), environment.dagfile
        stages.recover(sitemap, clock=clock)
        planned = stages.plan(sitemap, request, clock=clock)
        failed, ended = {failure.section for failure in planned.failures}, self.scheduler.turn
        sections = tuple(name for name in request.sections or code.sections if name not in failed)
        rebases = planned.rebases
        intention = Intention(
            code,
            sections,
            started,
            planned=ended,
            whole=not request.sections,
            rebases=rebases,
            moment=moment,
            base=planned.base_generation,
        )
        environment.oracle.planned(planned.run, intention)
        return planned

    def _publish(self, name: str, planned: Plan, receipts: list[str]) -> None:
        """The publish operator. An empty receipt stands for a batch that could not be written."""
        given = tuple(receipt for receipt in receipts if receipt)
        key, batches = planned.key, planned.batches
        assert key is not None
        missing = [batch for batch, receipt in zip(batches, receipts, strict=True) if not receipt]
        self.environment.oracle.left_out(planned.run, {batch.section for batch in missing})
        self.task(f"{name}.publish", lambda: self._published(key, given, partly=bool(missing)))

    def _published(self, key: str, receipts: tuple[str, ...], *, partly: bool = False) -> Report:
        unwritten: dict[int, str] | None = {} if partly else None
        sitemap, clock, began = self.environment.sitemap(), self._clock(), self.scheduler.turn
        try:
            report = stages.publish(sitemap, key, receipts, unwritten=unwritten, clock=clock)
        except GuardError as error:
            own = [refusal for refusal in error.refusals if isinstance(refusal, Refusal)]
            self._ask(sitemap, key, receipts, failures_of(own), clock)
            raise
        intention = self.environment.oracle.intentions[report.run]
        failed = {failure.section for failure in report.failures}
        self.looks.append(Look(frozenset(intention.sections) - failed, began, self.scheduler.turn))
        self.environment.ended(report)
        self._ask(sitemap, key, receipts, report.failures, clock)
        return report

    def _ask(
        self, sitemap: Sitemap, key: str, receipts: Sequence[str], failures: Sequence[SectionFailure], clock: Clock
    ) -> None:
        """Ask about refused changes, as the publish operator does. A person answers sometime, or too late."""
        oracle, timeout = self.environment.oracle, timedelta(hours=self.asking.choice((1, 4, 6)))
        if not self.environment.features.asks:
            return
        for section, question in approvals.ask(sitemap, key, receipts, failures, timeout, clock=clock).items():
            if question.run in self.opened:
                continue
            intention = oracle.whole.get(question.refused) or oracle.intentions[question.refused]
            oracle.planned(question.run, replace(intention, sections=(section,), whole=False, rebases=False))
            self.opened[question.run] = self.scheduler.turn
            self.scheduler.record(f"{question.run} asks about {section} until {question.deadline:%m-%d %H:%M:%S}")
            self.scheduler.add(f"answer{len(self.opened)}", partial(self._answer, section, question))

    def _answer(self, section: str, question: Question) -> None:
        """Play the DAG run of a question.

        Raises:
            AssertionError: An answer published a change whose question was closed before.
        """
        self.scheduler.stall(self.asking.choice((1, 20, 200)))
        is_allowed, began = self.asking.random() < 0.8, self.scheduler.turn
        name = self.scheduler.current.name if self.scheduler.current is not None else ""

        def answer() -> Report | None:
            return approvals.answer(
                self.environment.sitemap(), question.run, is_allowed=is_allowed, by="ada", clock=self._clock()
            )

        try:
            report = self.task(f"{name}.publish", answer)
        except TaskFailedError as failed:
            self._count(f"answer failed: {type(failed.__cause__).__name__}")
            return
        if report is None or report.result != "published":
            self._count("answer: closed" if report is None else f"answer: {report.result}")
            return
        self._count("answer: published")
        opened = self.opened[question.run]
        closing = [look for look in self.looks if section in look.sections and opened < look.began < look.ended < began]
        if closing:
            self.leaked.append(
                AssertionError(f"{question.run} published {section}, but {closing[0]} closed the question")
            )

    def build(self, request: RunRequest) -> Report:
        """Play a whole run in one process, as the command line does."""
        planned = self._planned(request)
        key, clock = planned.key, self._clock()
        receipts = [
            stages.write(self.environment.sitemap(), key, batch.number, clock=clock).receipt_key
            for batch in planned.batches
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
