"""Clocks that tests set."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(slots=True)
class FakeClock:
    """Stands still until it is moved; tokens are counted."""

    moment: datetime = datetime(2026, 1, 15, 12, 0, 0, tzinfo=timezone.utc)
    _tokens: Iterator[int] = field(default_factory=lambda: count(1))

    def now(self) -> datetime:
        """The moment it was set to."""
        return self.moment

    def token(self) -> str:
        """The next number, as 16 hexadecimal digits."""
        return f"{next(self._tokens):016x}"

    def advance(self, step: timedelta) -> None:
        """Move on (or back, as clocks do)."""
        self.moment += step


@dataclass(frozen=True, slots=True)
class SkewedClock:
    """Another clock as a worker has it that is fast or slow.

    Attributes:
        true: The clock that is right.
        offset: How far this one is ahead; negative where it is slow.
    """

    true: FakeClock
    offset: timedelta

    def now(self) -> datetime:
        """Return the worker's time."""
        return self.true.now() + self.offset

    def token(self) -> str:
        """Return the next number of the true clock."""
        return self.true.token()
