"""The state of a table that all queries of one run read, by the time travel of the database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

from airflow_sitemaps.errors import SourceConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedState:
    """A state of a table in the past.

    Attributes:
        moment: The database's time when the state was chosen.
        version: The number of the table's version, where the database numbers them. Default: None.
    """

    moment: datetime
    version: int | None = None

    def __str__(self) -> str:
        """Return the text that a plan keeps, which ``parse`` reads back."""
        return self.moment.isoformat() + ("" if self.version is None else f" {self.version}")

    @classmethod
    def parse(cls, text: str) -> PinnedState:
        """Read the text of a plan. It becomes part of statements, so only a moment and a number are taken.

        Raises:
            SourceConfigurationError: The text is another.
        """
        moment, _, version = text.partition(" ")
        try:
            state = cls(moment=datetime.fromisoformat(moment), version=int(version) if version else None)
        except ValueError:
            state = None
        if state is None or state.moment.tzinfo is None or (state.version or 0) < 0:
            raise SourceConfigurationError(f"the plan's state of the table, {text!r}, cannot be read: plan again")
        return state

    def literal(self) -> str:
        """Return the moment in UTC as the text of a SQL literal: ``2026-01-31 10:00:00.000000+00:00``."""
        return self.moment.astimezone(timezone.utc).isoformat(" ", "microseconds")
