"""Protocols of a run's environment: its clock and the receiver of its progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from datetime import datetime


class Clock(Protocol):
    """Source of time and of unique tokens, so that tests control both."""

    def now(self) -> datetime:
        """Return the current time in UTC."""
        ...

    def token(self) -> str:
        """Return a new unguessable token of 16 hexadecimal digits."""
        ...


class Progress(Protocol):
    """Receiver of the progress of a long operation."""

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """Begin a stage.

        Args:
            stage: Name of the stage.
            total: Number of units in the stage, or None if it is not known.
            unit: Name of a unit, such as ``rows``.
        """
        ...

    def advance(self, number: int) -> None:
        """Add ``number`` completed units."""
        ...

    def finish(self) -> None:
        """End the stage."""
        ...
