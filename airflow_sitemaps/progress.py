"""Progress as log lines, for task logs and for a shell whose output is not a terminal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

EVERY_S: Final = 15.0
"""Seconds between two lines of one stage; a shorter stage logs only its end."""


class LogProgress:
    """Logger of the progress of a stage, at most every ``every_s`` seconds, and of its result."""

    def __init__(
        self, log: logging.Logger, *, every_s: float = EVERY_S, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._every_s = every_s
        self._monotonic = monotonic
        self._stage, self._unit = "", ""
        self._total: int | None = None
        self._done = 0
        self._began = self._told = 0.0

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """Begin a stage of ``total`` units (None: not known)."""
        self._stage, self._total, self._unit, self._done = stage, total, unit, 0
        self._began = self._told = self._monotonic()

    def advance(self, number: int) -> None:
        """Add completed units; log at most every ``every_s`` seconds."""
        self._done += number
        now = self._monotonic()
        if now - self._told >= self._every_s:
            self._told = now
            self._log.info("%s: %s", self._stage, self._far(now))

    def finish(self) -> None:
        """End the stage; log a line if it had any units."""
        if self._done:
            self._log.info("%s done: %s", self._stage, self._far(self._monotonic()))

    def _far(self, now: float) -> str:
        took = now - self._began
        of = "" if not self._total else f" of {self._total:,} ({self._done / self._total:.0%})"
        speed = f", {self._done / took:,.0f} {self._unit}/s" if took > 0 and self._done >= took else ""
        return f"{self._done:,}{of} {self._unit} in {took:.1f} s{speed}"
