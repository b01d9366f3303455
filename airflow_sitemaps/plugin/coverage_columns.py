"""Coverage in Search Console over the newest submissions, one row for each index.

Tasks write the observations, so every value is checked and limited in size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.plugin.event_payload import counts, integer, items, text, timestamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_sitemaps.search_engines.searchconsole import IndexCoverage, Observation

MAX_OBSERVATIONS: Final = 30
"""Number of newest submissions that are read. Each one is an object of the store."""
MAX_INDEXES: Final = 100
"""Number of indexes that are shown."""


def coverage_columns(observations: Sequence[Observation]) -> dict[str, Any]:
    """Return the newest state of each index, with the numbers of the earlier submissions."""
    if not observations:
        return {"site": "", "at": [], "indexes": [], "left_out": 0}
    newest = observations[-1]
    indexes = items(newest.indexes)
    earlier = [{text(index.url): index for index in items(each.indexes)} for each in observations]
    return {
        "site": text(newest.site),
        "at": [timestamp(each.at) or None for each in observations],
        "indexes": [_row(index, [each.get(text(index.url)) for each in earlier]) for index in indexes[:MAX_INDEXES]],
        "left_out": max(0, len(newest.indexes) - MAX_INDEXES),
    }


def _row(newest: IndexCoverage, history: Sequence[IndexCoverage | None]) -> dict[str, Any]:
    return {
        "url": text(newest.url),
        "section": text(newest.section),
        "listed": integer(newest.listed),
        "pending": newest.pending is True,
        "errors": integer(newest.errors),
        "warnings": integer(newest.warnings),
        "last_read": timestamp(newest.last_downloaded) or None,
        "discovered": counts(newest.discovered),
        "discovered_history": [None if each is None else sum(counts(each.discovered).values()) for each in history],
    }
