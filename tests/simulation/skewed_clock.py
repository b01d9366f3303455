"""The clock of a worker that is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from airflow_sitemaps.testing import FakeClock


@dataclass(frozen=True, slots=True)
class SkewedClock:
    """The clock of a worker, which is ahead of or behind another clock.

    Attributes:
        true: The accurate clock.
        offset: How far this clock is ahead of it; negative if it is behind.
    """

    true: FakeClock
    offset: timedelta

    def now(self) -> datetime:
        """Return the worker's time."""
        return self.true.now() + self.offset

    def token(self) -> str:
        """Return the next token of the accurate clock."""
        return self.true.token()
