"""Spans of adjoining key ranges, and the SQL that finds a row's range within a span."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.shards.key import Key, KeyRange

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_sitemaps.sources.columns import Column
    from airflow_sitemaps.sources.dialects.base import Dialect
    from airflow_sitemaps.sources.statements.binds import Binds

GAP: Final = -1
"""The place of a bucket that was not requested, between two ranges that do not adjoin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySpan:
    """A contiguous part of the keys, cut into buckets.

    Attributes:
        within: The keys of the span.
        cuts: The keys at which buckets begin: bucket ``n`` begins at ``cuts[n - 1]``.
        places: The position of the requested range of each bucket, or ``GAP``. There is one more than cuts.
    """

    within: KeyRange
    cuts: tuple[Key, ...]
    places: tuple[int, ...]

    def split(self, dialect: Dialect) -> Iterator[KeySpan]:
        """Yield spans that each fit into one statement of a database: its binds, its bytes, its nested CASE."""
        start = 0
        size = 0
        for number, key in enumerate(self.cuts):
            size += sum(len(str(part).encode()) + STATEMENT_BYTES for part in key)
            many = (
                number - start >= dialect.max_case
                or (number - start + 4) * 2 * len(key) + USERS_BINDS > dialect.max_binds
            )
            if many or size > dialect.max_statement_bytes:
                yield self._part(start, number)
                start, size = number + 1, 0
        yield self._part(start, len(self.cuts))

    def _part(self, start: int, end: int) -> KeySpan:
        """Return the span of the buckets ``start`` to ``end``, both included."""
        lower = self.within.lower if start == 0 else self.cuts[start - 1]
        upper = self.within.upper if end == len(self.cuts) else self.cuts[end]
        return KeySpan(within=KeyRange(lower, upper), cuts=self.cuts[start:end], places=self.places[start : end + 1])


USERS_BINDS: Final = 20
"""The number of binds reserved for the values of a user's query."""

STATEMENT_BYTES: Final = 60
"""The approximate number of bytes that comparing with a boundary adds per key column, besides the value."""


def spans(ranges: Sequence[KeyRange], *, at_most: int | None = None) -> list[KeySpan]:
    """Join adjoining ranges into spans.

    Args:
        ranges: The ranges, disjoint and in key order.
        at_most: The largest number of spans. If there are more, all ranges become one span with gaps. Default: None,
            for no limit.
    """
    groups: list[list[int]] = []
    for place, within in enumerate(ranges):
        if place and within.lower is not None and within.lower == ranges[place - 1].upper:
            groups[-1].append(place)
        else:
            groups.append([place])
    if at_most is not None and len(groups) > at_most:
        return [_bridged(ranges)]
    return [
        KeySpan(
            within=KeyRange(ranges[places[0]].lower, ranges[places[-1]].upper),
            cuts=tuple(_lower(ranges[place]) for place in places[1:]),
            places=tuple(places),
        )
        for places in groups
    ]


def _bridged(ranges: Sequence[KeyRange]) -> KeySpan:
    cuts: list[Key] = []
    places = [0]
    for place in range(1, len(ranges)):
        upper, lower = ranges[place - 1].upper, _lower(ranges[place])
        if upper is not None and upper != lower:
            cuts.append(upper)
            places.append(GAP)
        cuts.append(lower)
        places.append(place)
    return KeySpan(within=KeyRange(ranges[0].lower, ranges[-1].upper), cuts=tuple(cuts), places=tuple(places))


def _lower(within: KeyRange) -> Key:
    if within.lower is None:
        raise ValueError(f"the range {within} is open at its lower end but is not the first: give ranges in key order")
    return within.lower


def condition(dialect: Dialect, key: Sequence[Column], within: KeyRange, binds: Binds) -> str:
    """Return a condition for the rows of a range of keys. Rows with a NULL in the key are in no range.

    Args:
        dialect: The database's SQL.
        key: The key's columns.
        within: The keys.
        binds: The statement's values, to which this function adds those of ``within``.
    """
    terms = [f"{dialect.column(column)} IS NOT NULL" for column in key]
    if within.lower is not None:
        terms.append(dialect.compare(key, ">=", within.lower, binds))
    if within.upper is not None:
        terms.append(dialect.compare(key, "<", within.upper, binds))
    return " AND ".join(terms)


def nested_case(dialect: Dialect, key: Sequence[Column], cuts: Sequence[Key], binds: Binds) -> str:
    """Return SQL for the number of cuts at or below a row's key, found by binary search.

    Args:
        dialect: The database's SQL.
        key: The key's columns.
        cuts: The keys, in order.
        binds: The statement's values, to which this function adds those of ``cuts``.
    """

    def between(low: int, high: int) -> str:
        if low == high:
            return str(low)
        middle = (low + high) // 2
        below = dialect.compare(key, "<", cuts[middle], binds)
        return f"CASE WHEN {below} THEN {between(low, middle)} ELSE {between(middle + 1, high)} END"

    return between(0, len(cuts))
