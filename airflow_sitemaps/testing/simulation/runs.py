"""Runs as Airflow runs them: tasks with retries, mapped writes, zombies, cleared tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.errors import ConfigurationError, ConflictError, RefusedError, SitemapError
from airflow_sitemaps.pipeline import stages
from airflow_sitemaps.pipeline.reverting import rollback

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from airflow_sitemaps.ports import Clock
    from airflow_sitemaps.sitemap import Sitemap
    from airflow_sitemaps.testing.simulation.actors import Stage

TRIES: Final = 3
FINAL: Final = (ConfigurationError, RefusedError, ConflictError)
"""What Airflow does not try again."""


class TaskFailedError(Exception):
    """A task has failed for good, and its run with it."""


class LeakedError(AssertionError):
    """A stage raised something that is none of this package's errors."""


@dataclass(slots=True)
class Airflow:
    """Starts runs. ``code`` gives the sitemap as the DAG file has it at that moment; ``temper`` is the part of tasks
    that become zombies, are cleared, or whose run is marked failed."""

    stage: Stage
    random: Random
    code: Callable[[], Sitemap]
    clock: Clock
    temper: float = 0.0
    leaked: list[Exception] = field(default_factory=list)
    ended: dict[str, int] = field(default_factory=dict)

    def run(self, name: str, request: stages.RunRequest) -> None:
        """One run of the DAG."""
        try:
            self._run(name, request)
            self._count("succeeded")
        except TaskFailedError as failed:
            self.stage.tell(f"run failed: {failed}")
            self._count(f"failed: {type(failed.__cause__).__name__}" if failed.__cause__ else "failed: no try left")

    def _run(self, name: str, request: stages.RunRequest) -> None:
        planned = self.task(f"{name}.plan", lambda: stages.plan(self.code(), request, clock=self.clock))
        key, batches = planned.key, [batch.number for batch in planned.plan.batches]

        def write(number: int) -> str:
            written = self.task(
                f"{name}.write{number}", lambda: stages.write(self.code(), key, number, clock=self.clock)
            )
            return str(written.receipt_key)

        mapped = [self.stage.add(f"{name}.map{number}", partial(write, number)) for number in batches]
        if mapped:
            self.stage.wait(mapped)
        self._marked_failed()
        if any(task.error is not None for task in mapped):
            raise TaskFailedError("upstream failed") from next(task.error for task in mapped if task.error).__cause__
        receipts = [task.result for task in mapped]
        self._publish(name, key, receipts)
        while self._so():
            if batches and self._so(0.5):
                again = self.random.choice(range(len(batches)))
                receipts[again] = write(batches[again])
            self._publish(f"{name}.cleared", key, receipts)

    def _publish(self, name: str, key: str, receipts: list[str]) -> None:
        given = tuple(receipts)
        self.task(f"{name}.publish", lambda: stages.publish(self.code(), key, given, clock=self.clock))

    def rollback(self, name: str, generation: int) -> None:
        """The rollback operator."""
        try:
            self.task(f"{name}.rollback", lambda: rollback(self.code(), generation, clock=self.clock))
            self._count("rolled back")
        except TaskFailedError:
            self._count("rollback failed")

    def task(self, name: str, work: Callable[[], Any]) -> Any:
        """A task with its tries. A zombie goes on while its next try runs."""
        last: Exception | None = None
        for attempt in range(1, TRIES + 1):
            actor = self.stage.add(f"{name}#{attempt}", lambda: self._judged(work))
            patience = self.random.randint(1, 60) if self._so() else None
            if not self.stage.wait([actor], patience):
                self.stage.tell(f"{actor.name} is taken for dead")
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
        """Raise what no stage may raise."""
        if self.leaked:
            raise LeakedError(f"a stage raised {self.leaked[0]!r}") from self.leaked[0]
