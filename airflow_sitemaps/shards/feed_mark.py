"""How far the change feed of a section was read."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_sitemaps.shards.schema import Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedMark:
    """The position in a section's change feed up to which its digests are known to be right.

    Each range without a change after the position has the rows of its recorded digest.

    Attributes:
        position: The position, as the source wrote it; only the source reads it.
        surveyed_at: Time of the last survey of every range.
    """

    position: str
    surveyed_at: Moment
