"""Actors that take turns. An actor runs until its next operation. A seeded choice then selects the next actor."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from greenlet import GreenletExit, getcurrent, greenlet  # type: ignore[import-untyped, unused-ignore]

from airflow_sitemaps.pipeline.concurrency import inline
from tests.simulation.faults import SimulatedCrash

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random


@dataclass(slots=True, eq=False)
class Actor:
    """A process or a crawler.

    Attributes:
        name: Its name in the trace.
        strand: The greenlet that runs it.
        ready: Returns whether it may continue. None: always.
        ended: Whether it has ended, for any reason.
        doomed: Whether it dies at the end of its current operation.
        dead: Whether it has died.
        result: The value that it returned.
        error: The error that it raised.
        waits_until: Turn at which it stops waiting in any case.
    """

    name: str
    strand: Any = None
    ready: Callable[[], bool] | None = None
    ended: bool = False
    doomed: bool = False
    dead: bool = False
    result: Any = None
    error: Exception | None = None
    waits_until: int | None = None


@dataclass(slots=True)
class Scheduler:
    """Gives turns to actors in an order that the seed decides.

    Attributes:
        random: Random numbers of the seed.
        watch: Called after every turn. An error that it raises ends the history.
        turn: Number of the current turn.
        lines: The trace.
        actors: Actors that have not ended.
    """

    random: Random
    watch: Callable[[], None] = lambda: None
    turn: int = 0
    lines: list[str] = field(default_factory=list)
    actors: list[Actor] = field(default_factory=list)
    _hub: Any = field(default_factory=getcurrent)
    _on: Actor | None = None

    def add(self, name: str, work: Callable[[], Any]) -> Actor:
        """Add an actor. It begins at its first turn."""
        actor = Actor(name)

        def play() -> None:
            try:
                with inline():
                    actor.result = work()
            except SimulatedCrash:
                actor.dead = True
                self.record("† dies")
            except Exception as error:
                actor.error = error
                self.record(f"! {type(error).__name__}: {error}")
            finally:
                actor.ended = True

        actor.strand = greenlet(play, parent=self._hub)
        self.actors.append(actor)
        return actor

    @property
    def current(self) -> Actor | None:
        """The actor that has the turn; None between turns."""
        return self._on

    def record(self, line: str) -> None:
        """Add a line to the trace."""
        self.lines.append(f"{self.turn:5} {self._on.name if self._on is not None else '—':24} {line}")

    def pause(self, about: str = "") -> None:
        """End the turn, and return when the current actor gets its next turn."""
        actor = self._on
        if actor is None or getcurrent() is self._hub:
            return
        if actor.dead:
            raise SimulatedCrash(actor.name)
        self._hub.switch()
        if about:
            self.record(about)

    def wait(self, others: list[Actor], turns: int | None = None) -> bool:
        """Wait until all other actors have ended, or for a number of turns. Return whether they have ended."""
        actor = self._on
        assert actor is not None
        actor.ready = lambda: all(other.ended for other in others)
        actor.waits_until = None if turns is None else self.turn + turns
        self.pause()
        actor.ready = None
        actor.waits_until = None
        return all(other.ended for other in others)

    def stall(self, turns: int) -> None:
        """Stop the current actor for a number of turns, like a slow network or a machine without free memory."""
        actor = self._on
        if actor is None or actor.dead:
            return
        self.record(f"stalls for {turns} turns")
        actor.ready = lambda: False
        actor.waits_until = self.turn + turns
        self.pause()
        actor.ready = None
        actor.waits_until = None

    def play(self) -> None:
        """Give turns until every actor has ended."""
        while self.actors:
            able = [actor for actor in self.actors if self._able(actor)]
            if not able:
                waiting = [actor.waits_until for actor in self.actors if actor.waits_until is not None]
                if not waiting:
                    raise AssertionError(f"no actor can continue: {[actor.name for actor in self.actors]}")
                self.turn = max(self.turn, min(waiting))
                continue
            actor = able[0] if len(able) == 1 else self.random.choice(able)
            self.turn += 1
            self._on = actor
            actor.strand.switch()
            self._on = None
            if actor.ended:
                self.actors.remove(actor)
            self.watch()

    def end(self) -> None:
        """End every actor at once."""
        for actor in self.actors:
            actor.strand.throw(GreenletExit)
        self.actors.clear()

    def _able(self, actor: Actor) -> bool:
        if actor.ready is None or actor.ready():
            return True
        return actor.waits_until is not None and self.turn >= actor.waits_until
