"""The system clock, and a progress receiver that does nothing."""

from __future__ import annotations

import secrets
from datetime import datetime, timezone
from typing import Final


class SystemClock:
    """Clock of this machine, and source of random tokens."""

    def now(self) -> datetime:
        """Return the current time in UTC."""
        return datetime.now(timezone.utc)

    def token(self) -> str:
        """Return 16 random hexadecimal digits."""
        return secrets.token_hex(8)


class Quiet:
    """Receiver that ignores all progress."""

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """Ignore it."""

    def advance(self, number: int) -> None:
        """Ignore it."""

    def finish(self) -> None:
        """Ignore it."""


SYSTEM_CLOCK: Final = SystemClock()
QUIET: Final = Quiet()
