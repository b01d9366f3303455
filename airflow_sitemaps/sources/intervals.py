"""Runs of adjoining key ranges, and the SQL that tells the ranges of one run apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.shards.key import Key, KeyRange

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_sitemaps.sources.columns import Column
    from airflow_sitemaps.sources.dialects.base import Dialect
    from airflow_sitemaps.sources.statement import Binds

GAP: Final = -1
"""The place of a bucket that nobody asked for: between two ranges that do not adjoin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One stretch of keys, ``within``, cut into buckets: bucket ``n`` begins at ``cuts[n - 1]``.

    ``places`` has one number per bucket (one more than cuts): the range asked for, or ``GAP``.
    """

    within: KeyRange
    cuts: tuple[Key, ...]
    places: tuple[int, ...]

    def split(self, dialect: Dialect) -> Iterator[Run]:
        """Runs that each fit into one statement of a database: its binds, its bytes, its nested CASE."""
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

    def _part(self, start: int, end: int) -> Run:
        """Buckets ``start`` to ``end``, both included."""
        lower = self.within.lower if start == 0 else self.cuts[start - 1]
        upper = self.within.upper if end == len(self.cuts) else self.cuts[end]
        return Run(within=KeyRange(lower, upper), cuts=self.cuts[start:end], places=self.places[start : end + 1])


USERS_BINDS: Final = 20
"""Room for the values that a user's query binds."""

STATEMENT_BYTES: Final = 60
"""About what one boundary's comparison adds to a statement beside its value, per key column."""


def runs(ranges: Sequence[KeyRange], *, at_most: int | None = None) -> list[Run]:
    """The ranges, disjoint and in key order, as runs; as one run with gaps when there would be more than ``at_most``."""
    found: list[list[int]] = []
    for place, within in enumerate(ranges):
        if place and within.lower is not None and within.lower == ranges[place - 1].upper:
            found[-1].append(place)
        else:
            found.append([place])
    if at_most is not None and len(found) > at_most:
        return [_bridged(ranges)]
    return [
        Run(
            within=KeyRange(ranges[places[0]].lower, ranges[places[-1]].upper),
            cuts=tuple(_lower(ranges[place]) for place in places[1:]),
            places=tuple(places),
        )
        for places in found
    ]


def _bridged(ranges: Sequence[KeyRange]) -> Run:
    cuts: list[Key] = []
    places = [0]
    for place in range(1, len(ranges)):
        upper, lower = ranges[place - 1].upper, _lower(ranges[place])
        if upper is not None and upper != lower:
            cuts.append(upper)
            places.append(GAP)
        cuts.append(lower)
        places.append(place)
    return Run(within=KeyRange(ranges[0].lower, ranges[-1].upper), cuts=tuple(cuts), places=tuple(places))


def _lower(within: KeyRange) -> Key:
    if within.lower is None:
        raise ValueError(f"the range {within} is open at its lower end but is not the first: give ranges in key order")
    return within.lower


def condition(dialect: Dialect, key: Sequence[Column], within: KeyRange, binds: Binds) -> str:
    """The rows of a stretch of keys, for WHERE; rows with a NULL in the key are in none."""
    terms = [f"{dialect.column(column)} IS NOT NULL" for column in key]
    if within.lower is not None:
        terms.append(dialect.compare(key, ">=", within.lower, binds))
    if within.upper is not None:
        terms.append(dialect.compare(key, "<", within.upper, binds))
    return " AND ".join(terms)


def nested_case(dialect: Dialect, key: Sequence[Column], cuts: Sequence[Key], binds: Binds) -> str:
    """The number of cuts at or below a row's key, found by halving."""

    def between(low: int, high: int) -> str:
        if low == high:
            return str(low)
        middle = (low + high) // 2
        below = dialect.compare(key, "<", cuts[middle], binds)
        return f"CASE WHEN {below} THEN {between(low, middle)} ELSE {between(middle + 1, high)} END"

    return between(0, len(cuts))
