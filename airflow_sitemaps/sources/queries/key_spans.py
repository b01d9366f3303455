"""Spans of adjoining key ranges, and the SQL that finds a row's range within a span."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.shards.ranges import Key, KeyRange

if TYPE_CHECKING:
    from airflow_sitemaps.sources.columns import Column
    from airflow_sitemaps.sources.dialects.base import Dialect
    from airflow_sitemaps.sources.driver import Binds

GAP: Final = -1
"""The place of a bucket that was not requested, between two ranges that do not adjoin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySpan:
    """A contiguous part of the keys, cut into buckets.

    Bucket ``n`` begins at ``cuts[n - 1]``. ``places`` has the position of the requested range of each bucket, or
    ``GAP``; there is one more than cuts.
    """

    within: KeyRange
    cuts: tuple[Key, ...]
    places: tuple[int, ...]

    def split(self, dialect: Dialect, *, listed: bool = False) -> Iterator[KeySpan]:
        """Yield spans that fit into one statement: its binds, bytes and nested CASE, or if ``listed`` its bytes."""
        start = 0
        size = 0
        for number, key in enumerate(self.cuts):
            size += sum(len(str(part).encode()) + (LISTED_BYTES if listed else STATEMENT_BYTES) for part in key)
            bound = 0 if dialect.writes_integers and all(isinstance(part, int) for part in key) else len(key)
            many = not listed and (
                number - start >= dialect.max_case or (number - start + 4) * 2 * bound + USERS_BINDS > dialect.max_binds
            )
            if many or size > dialect.max_statement_bytes:
                yield self._part(start, number)
                start, size = number + 1, 0
        yield self._part(start, len(self.cuts))

    def wanted(self) -> tuple[KeyRange, ...]:
        """Return the contiguous parts of the span that were requested: those between its gaps."""
        ends = (self.within.lower, *self.cuts, self.within.upper)
        parts: list[KeyRange] = []
        for number, place in enumerate(self.places):
            if place == GAP:
                continue
            if number and self.places[number - 1] != GAP:
                parts[-1] = KeyRange(parts[-1].lower, ends[number + 1])
            else:
                parts.append(KeyRange(ends[number], ends[number + 1]))
        return tuple(parts)

    def _part(self, start: int, end: int) -> KeySpan:
        """Return the span of the buckets ``start`` to ``end``, both included."""
        lower = self.within.lower if start == 0 else self.cuts[start - 1]
        upper = self.within.upper if end == len(self.cuts) else self.cuts[end]
        return KeySpan(within=KeyRange(lower, upper), cuts=self.cuts[start:end], places=self.places[start : end + 1])


USERS_BINDS: Final = 20
"""The number of binds reserved for the values of a user's query."""

STATEMENT_BYTES: Final = 60
"""The approximate number of bytes that comparing with a boundary adds per key column, besides the value."""

LISTED_BYTES: Final = 8
"""The approximate number of bytes that a boundary in a list adds per key column, besides the value."""

RANGES_AT_ONCE: Final = 50
"""The largest number of ranges that do not adjoin in the condition of one statement."""

SPANS_AT_MOST: Final = 8
"""The largest number of spans that are read separately. More are read as few with gaps."""


def spans(ranges: Sequence[KeyRange], *, at_most: int | None = None) -> list[KeySpan]:
    """Join adjoining ranges into spans, or all ranges into one span with gaps if there are more than ``at_most``."""
    groups = _adjoining(ranges)
    if at_most is not None and len(groups) > at_most:
        return [_span(ranges, range(len(ranges)))]
    return [_span(ranges, places) for places in groups]


def spans_with_gaps(ranges: Sequence[KeyRange]) -> list[KeySpan]:
    """Join ranges into spans. The ranges of a span need not adjoin: ``span_condition`` excludes the gaps."""
    groups = _adjoining(ranges)
    starts = range(0, len(groups), RANGES_AT_ONCE)
    return [_span(ranges, [place for group in groups[at : at + RANGES_AT_ONCE] for place in group]) for at in starts]


def _adjoining(ranges: Sequence[KeyRange]) -> list[list[int]]:
    """Return the positions of the ranges, those that adjoin in one list."""
    groups: list[list[int]] = []
    for place, within in enumerate(ranges):
        if place and within.lower is not None and within.lower == ranges[place - 1].upper:
            groups[-1].append(place)
        else:
            groups.append([place])
    return groups


def _span(ranges: Sequence[KeyRange], wanted: Sequence[int]) -> KeySpan:
    """Return the span of the ranges at some positions, with gaps between those that do not adjoin."""
    cuts: list[Key] = []
    places = [wanted[0]]
    for before, place in pairwise(wanted):
        upper, lower = ranges[before].upper, ranges[place].lower
        assert lower is not None, "ranges are in key order"
        if upper is not None and upper != lower:
            cuts.append(upper)
            places.append(GAP)
        cuts.append(lower)
        places.append(place)
    within = KeyRange(ranges[wanted[0]].lower, ranges[wanted[-1]].upper)
    return KeySpan(within=within, cuts=tuple(cuts), places=tuple(places))


def condition(dialect: Dialect, key: Sequence[Column], within: KeyRange, binds: Binds) -> str:
    """Return a condition for the rows of a range of keys. Rows with a NULL in the key are in no range."""
    terms = [f"{dialect.column(column)} IS NOT NULL" for column in key]
    if within.lower is not None:
        terms.append(dialect.compare(key, ">=", within.lower, binds))
    if within.upper is not None:
        terms.append(dialect.compare(key, "<", within.upper, binds))
    return " AND ".join(terms)


def span_condition(dialect: Dialect, key: Sequence[Column], span: KeySpan, binds: Binds) -> str:
    """Return a condition for the rows of a span, without its gaps if it has at most ``RANGES_AT_ONCE`` ranges."""
    wanted = span.wanted()
    if len(wanted) < 2 or len(wanted) > RANGES_AT_ONCE:
        return condition(dialect, key, wanted[0] if len(wanted) == 1 else span.within, binds)
    return "(" + " OR ".join(f"({condition(dialect, key, within, binds)})" for within in wanted) + ")"


def nested_case(dialect: Dialect, key: Sequence[Column], cuts: Sequence[Key], binds: Binds) -> str:
    """Return SQL for the number of cuts at or below a row's key, found by binary search."""

    def between(low: int, high: int) -> str:
        if low == high:
            return str(low)
        middle = (low + high) // 2
        below = dialect.compare(key, "<", cuts[middle], binds)
        return f"CASE WHEN {below} THEN {between(low, middle)} ELSE {between(middle + 1, high)} END"

    return between(0, len(cuts))


def bucket_number(dialect: Dialect, key: Sequence[Column], span: KeySpan, binds: Binds) -> str:
    """Return SQL for the number of a row's bucket within a span."""
    if not span.cuts:
        return "0"
    return dialect.buckets(key, span.cuts, binds) or nested_case(dialect, key, span.cuts, binds)
