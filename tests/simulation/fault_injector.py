"""Faults of the operations of store and source, drawn from the seed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import SourceError
from tests.simulation.faults import Call, Fault, Faults, SimulatedCrash

if TYPE_CHECKING:
    from random import Random

    from tests.simulation.scheduler import Scheduler

PUT_FAULTS: Final = (
    Fault.LOST_ANSWER, Fault.LOST_ANSWER, Fault.LATE, Fault.LATE, Fault.LOST_REQUEST, Fault.CONFLICT,
    Fault.UNAVAILABLE, Fault.REFUSED_AFTER, Fault.REFUSED,
)  # fmt: skip
DELETE_FAULTS: Final = (Fault.LOST_ANSWER, Fault.LATE, Fault.UNAVAILABLE)
CRASHES: Final = ("before", "after", "late")


@dataclass(slots=True)
class FaultInjector:
    """Decides for each operation of the store and of the source whether it fails.

    Attributes:
        random: Random numbers of the seed.
        scheduler: Schedules the actors.
        faults: Fraction (0 to 1) of operations that fail.
        crashes: Fraction of operations at which the process dies.
        stalls: Fraction of operations at which the process stops for a while.
        calm: Whether faults have ended.
        stale: Fraction of listings that return an earlier answer.
        stale_reads: Fraction of reads of single objects that return an earlier answer.
        rare: Decides which answers are stale. None: no answer is stale.
        struck: Number of faults by kind.
        operations: Number of operations.
    """

    random: Random
    scheduler: Scheduler
    faults: float = 0.0
    crashes: float = 0.0
    stalls: float = 0.0
    calm: bool = False
    stale: float = 0.0
    stale_reads: float = 0.0
    rare: Random | None = None
    struck: Counter[str] = field(default_factory=Counter)
    operations: int = 0

    def over(self) -> Faults:
        """Return a store's faults. Every call takes a turn."""
        return Faults(chooser=self._choose, before=self._before, after=self._after)

    def source(self, operation: str) -> None:
        """Take a turn before an operation of a source, and perhaps fail."""
        self.scheduler.pause(f"source {operation}")
        actor = self.scheduler.current
        if self.calm or actor is None:
            return
        self.operations += 1
        drawn = self.random.random()
        if drawn < self.crashes:
            self.struck["crash in the source"] += 1
            actor.dead = True
            raise SimulatedCrash(operation)
        if drawn < self.crashes + self.faults / 4:
            self.struck["source failed"] += 1
            raise SourceError(f"injected: {operation} failed")

    def _choose(self, call: Call) -> Fault | None:
        actor = self.scheduler.current
        if self.calm or actor is None or actor.dead:
            return None
        self.operations += 1
        if self.random.random() < self.crashes:
            how = self.random.choice(CRASHES)
            self.struck[f"crash {how} {call.verb}"] += 1
            if how == "before":
                return Fault.CRASH_BEFORE
            if how == "after" or call.verb not in ("put", "delete"):
                return Fault.CRASH_AFTER
            actor.doomed = True
            return Fault.LATE
        if self._is_stale(call):
            self.struck[f"{call.verb}: stale"] += 1
            return Fault.STALE
        if self.random.random() >= self.faults:
            return None
        kinds = {"put": PUT_FAULTS, "delete": DELETE_FAULTS}.get(call.verb, (Fault.UNAVAILABLE,))
        fault = self.random.choice(kinds)
        self.struck[f"{call.verb}: {fault.value}"] += 1
        return fault

    def _is_stale(self, call: Call) -> bool:
        share = {"list": self.stale, "get": self.stale_reads, "head": self.stale_reads}.get(call.verb, 0.0)
        return bool(share) and self.rare is not None and self.rare.random() < share

    def _before(self, call: Call) -> None:
        if not self.calm and self.scheduler.current is not None and self.random.random() < self.stalls:
            self.struck["stall"] += 1
            self.scheduler.stall(self.random.randint(20, 300))
        self.scheduler.pause()
        self.scheduler.record(
            f"{call.verb} {call.area} {call.key}" + (f" {_mode(call)}" if call.mode is not None else "")
        )

    def _after(self, call: Call) -> None:
        actor = self.scheduler.current
        if actor is None:
            return
        if actor.doomed:
            actor.dead = True
            raise SimulatedCrash(call.key)


def _mode(call: Call) -> str:
    return str(call.mode).replace("etag=", "")
