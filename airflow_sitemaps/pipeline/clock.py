"""The real clock, and a listener that hears nothing."""

from __future__ import annotations

import secrets
from datetime import datetime, timezone
from typing import Final


class SystemClock:
    """Time and identity of this machine."""

    def now(self) -> datetime:
        """The current time in UTC."""
        return datetime.now(timezone.utc)

    def token(self) -> str:
        """16 random hexadecimal digits."""
        return secrets.token_hex(8)


class Quiet:
    """Progress that nobody watches."""

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """Ignore it."""

    def advance(self, number: int) -> None:
        """Ignore it."""

    def finish(self) -> None:
        """Ignore it."""


SYSTEM_CLOCK: Final = SystemClock()
QUIET: Final = Quiet()
