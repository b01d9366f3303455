"""A change log in memory."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from airflow_sitemaps.ports import ChangeReading
from airflow_sitemaps.shards.ranges import Key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_sitemaps.shards.ranges import KeyRange

Change = tuple[int, Key | None]
"""A position and the key of a changed row; None for any row."""


def reading(
    log: Sequence[Change], ranges: Sequence[KeyRange], since: str | None, order: Callable[[Key], Any]
) -> ChangeReading:
    """Return what a log says, as ``ports.Source.changes`` defines it.

    Args:
        log: The changes, in the order of their positions.
        ranges: A partition of the keys, in key order.
        since: The position of an earlier reading, or None.
        order: Maps a key to its sort key.
    """
    position = str(log[-1][0]) if log else ""
    if since is None:
        return ChangeReading(position=position, ranges=None)
    if not since.isdigit() or int(since) not in {place for place, _key in log}:
        cause = f"its change log is truncated: it does not hold position {since}"
        return ChangeReading(position=position, ranges=None, cause=cause, is_gap=bool(since))
    keys = [key for place, key in log if place > int(since)]
    if None in keys:
        cause = "changes of its change log have a NULL key"
        return ChangeReading(position=position, ranges=None, changes=len(keys), cause=cause, is_gap=True)
    lowers = [order(within.lower) for within in ranges if within.lower is not None]
    changed = {bisect_right(lowers, order(key)) for key in keys if key is not None}
    return ChangeReading(position=position, ranges=tuple(sorted(changed)), changes=len(keys))
