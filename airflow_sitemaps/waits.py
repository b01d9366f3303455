"""Calls of other machines: long waits, which the log names, the end of a task in which nothing moves, and retries.

One thread for each process watches all waits, so that a wait itself costs microseconds.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

if TYPE_CHECKING:
    from logging import Logger

    T = TypeVar("T")

log = logging.getLogger(__name__)

FIRST_S: Final = 10.0
"""Seconds after which a wait is named in the log; then again whenever its duration has doubled, and every five minutes."""
LONGEST_SILENCE_S: Final = 300.0
STALL_S: Final = 1_800.0
"""Seconds without a finished request or a batch of rows after which a task is ended."""
STALLED: Final = 75
"""Exit status of a process that ended itself: EX_TEMPFAIL of sysexits.h. Airflow retries the task."""


@dataclass(slots=True, eq=False, kw_only=True)
class Wait:
    """One wait that has not ended; the next line in the log is ``due``, and ``is_named`` says whether there was one."""

    what: str
    bound: str
    started: float
    due: float
    is_named: bool = False


@dataclass(slots=True, eq=False, kw_only=True)
class _Task:
    """A task that is ended if nothing moves."""

    name: str
    limit_s: float
    moved: float
    end: Callable[[], None]


@dataclass(slots=True)
class Watch:
    """The waits of this process. Thread-safe. A wait is named after ``first_s``, which tests shorten."""

    first_s: float = FIRST_S
    _waits: set[Wait] = field(default_factory=set)
    _tasks: set[_Task] = field(default_factory=set)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _is_watched: bool = False

    def begin(self, what: str, bound: str) -> Wait:
        """Begin a wait, which ``end`` ends."""
        now = time.monotonic()
        wait = Wait(what=what, bound=bound, started=now, due=now + self.first_s)
        with self._changed:
            self._waits.add(wait)
            self._watch()
        return wait

    def end(self, wait: Wait) -> None:
        """End a wait, whatever its result: the tasks of this process have moved."""
        now = time.monotonic()
        with self._changed:
            self._waits.discard(wait)
            for task in self._tasks:
                task.moved = now
        if wait.is_named:
            log.info("%s: ended after %.0f s", wait.what, now - wait.started)

    @contextmanager
    def moving(self, name: str, limit_s: float, end_task: Callable[[], None]) -> Iterator[None]:
        """Call ``end_task`` if no wait ends for a time while the block runs."""
        task = _Task(name=name, limit_s=limit_s, moved=time.monotonic(), end=end_task)
        with self._changed:
            self._tasks.add(task)
            self._watch()
        try:
            yield
        finally:
            with self._changed:
                self._tasks.discard(task)

    def _watch(self) -> None:
        """Start the thread that watches, unless it runs. The caller holds the lock."""
        if not self._is_watched:
            self._is_watched = True
            threading.Thread(target=self._run, name="sitemap-waits", daemon=True).start()

    def _run(self) -> None:
        """Look at all waits and tasks, several times in the shortest of their times, until there are none."""
        idle_since = time.monotonic()
        while True:
            time.sleep(self.first_s / 10)
            now = time.monotonic()
            with self._changed:
                if self._waits or self._tasks:
                    idle_since = now
                elif now - idle_since > self.first_s:
                    self._is_watched = False
                    return
                late = [wait for wait in self._waits if now >= wait.due]
                stalled = [task for task in self._tasks if now - task.moved >= task.limit_s]
                waits = sorted(self._waits, key=lambda wait: wait.started)
                self._tasks.difference_update(stalled)
            for wait in late:
                self._name(wait, now)
            for task in stalled:
                _report(task, waits, now)
                task.end()

    def _name(self, wait: Wait, now: float) -> None:
        seconds = now - wait.started
        wait.due = now + min(max(seconds, self.first_s), LONGEST_SILENCE_S)
        wait.is_named = True
        log.info("waiting for %.0f s: %s. %s", seconds, wait.what, wait.bound)


def _report(task: _Task, waits: list[Wait], now: float) -> None:
    names = "; ".join(f"{wait.what} (for {now - wait.started:.0f} s)" for wait in waits) or "no request"
    log.error(
        "%s: no request ended and no row arrived for %.0f s, so the task ends itself. It waits for: %s. Nothing needs to be "
        "cleaned up: a retry continues. Check the health of what it waits for",
        task.name, task.limit_s, names,
    )  # fmt: skip


def _end_process() -> None:
    """End the process. An exception could not reach a thread that waits in a driver's own code."""
    logging.shutdown()
    os._exit(STALLED)


watch = Watch()


def _forked() -> None:
    """Begin with no wait: the thread that watches does not run in a child process, and the lock may be held."""
    global watch  # noqa: PLW0603 - one for each process
    watch = Watch()


os.register_at_fork(after_in_child=_forked)


@contextmanager
def waiting(what: str, bound: str) -> Iterator[None]:
    """Name a wait, without secrets, in the log if the block takes long; ``bound`` says when it ends at the latest."""
    wait = watch.begin(what, bound)
    try:
        yield
    finally:
        watch.end(wait)


def arriving(items: Iterable[T], what: str, bound: str) -> Iterator[T]:
    """Yield items, and name the wait for each of them that takes long. The arguments are those of ``waiting``."""
    iterator = iter(items)
    while True:
        with waiting(what, bound):
            try:
                item = next(iterator)
            except StopIteration:
                return
        yield item


def ended_if_stalled(name: str) -> AbstractContextManager[None]:
    """End this process if no request ends and no row arrives for ``STALL_S`` seconds while the block runs."""
    return watch.moving(name, STALL_S, _end_process)


def repeated(
    *errors: type[BaseException],
    attempts: int,
    pause_s: float,
    longest_pause_s: float,
    log: Logger,
    requested_s: Callable[[BaseException], float | None] = lambda error: None,
    sleep: Callable[[float], None] = time.sleep,
) -> Retrying:
    """Return a retrier: ``repeated(...)(function, argument)`` calls a function again while it raises one of the errors.

    All other errors, and the last one, are raised. Each pause in seconds is random, so that many workers do not call at
    once; its bound doubles from ``pause_s`` to ``longest_pause_s``. An error that requests a longer one
    (``requested_s``) is raised at once.
    """
    growing = wait_random_exponential(multiplier=pause_s, max=longest_pause_s)

    def is_repeated(error: BaseException) -> bool:
        return isinstance(error, errors) and (requested_s(error) or 0.0) <= longest_pause_s

    def pause(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        requested = requested_s(error) if error is not None else None
        return growing(state) if requested is None else requested

    def announce(state: RetryCallState) -> None:
        # Tenacity's own line names the function with its arguments, and a request's headers contain a token.
        error = state.outcome.exception() if state.outcome is not None else None
        pause_s = state.next_action.sleep if state.next_action is not None else 0.0
        log.info("attempt %d of %d failed: %s. Next in %.1f s", state.attempt_number, attempts, error, pause_s)

    return Retrying(
        stop=stop_after_attempt(attempts),
        wait=pause,
        retry=retry_if_exception(is_repeated),
        before_sleep=announce,
        sleep=sleep,
        reraise=True,
    )
