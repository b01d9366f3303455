"""Keys, the half-open ranges between them, and the digests of these ranges.

Only the database compares keys, by its own collations and types. Here a key is a tuple of canonical values that can be
stored as JSON, bound in a statement, and tested for equality.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final

import msgspec

from airflow_sitemaps.protocol.feeds import FeedText
from airflow_sitemaps.shards import Count, Moment, Record

KeyPart = int | str
"""One column of a key: an integer unchanged, or the canonical text of any other value (UUID, timestamp, decimal, text)."""

Key = Annotated[tuple[KeyPart, ...], msgspec.Meta(min_length=1)]
"""One value per key column, in order."""

UNKNOWN: Final = " unknown"
"""Ending of the kind of a key column whose type the source does not know."""

INTEGER: Final = " integer"
"""Ending of the kind of a key column with integers of at most 64 bits."""


class KeyRange(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A range of keys: ``lower`` inclusive (None: from the first key), ``upper`` exclusive (None: up to the last).

    It is persisted as a list of its two ends.
    """

    lower: Key | None
    upper: Key | None

    def __str__(self) -> str:
        """Return the range for people: ``all keys``, ``keys before 42``, ``keys from 42``, ``keys from 10 to before 42``."""
        if self.lower is None:
            return "all keys" if self.upper is None else f"keys before {show(self.upper)}"
        end = "" if self.upper is None else f" to before {show(self.upper)}"
        return f"keys from {show(self.lower)}{end}"


def show(key: Key) -> str:
    """Return a key for people: ``42``, or ``de/berlin``."""
    return "/".join(str(part) for part in key)


def cut(within: KeyRange, boundaries: Sequence[Key]) -> tuple[KeyRange, ...]:
    """Cut a range at boundaries inside it. The boundaries are in key order."""
    edges: list[Key | None] = [within.lower, *boundaries, within.upper]
    return tuple(KeyRange(lower, upper) for lower, upper in itertools.pairwise(edges))


def same_kinds(before: Sequence[str], now: Sequence[str]) -> bool:
    """Return whether boundaries that were cut with the key kinds ``before`` are valid with ``now``.

    If a source does not know the kind of a column (``id unknown``, for an empty table), the kind counts as unchanged.
    """
    return len(before) == len(now) and all(map(_same_kind, before, now))


def _same_kind(before: str, now: str) -> bool:
    for left, right in ((before, now), (now, before)):
        if left.endswith(UNKNOWN):
            return right.startswith(left.removesuffix(UNKNOWN) + " ")
    return before == now


def fits_kinds(boundaries: Iterable[Key], kinds: Sequence[str]) -> bool:
    """Return whether boundaries can be keys of these kinds, by the number of columns and by text or integer.

    The planner uses it if the manifest does not record the kinds of the boundaries.
    """
    return all(len(key) == len(kinds) and all(map(_fits_kind, key, kinds)) for key in boundaries)


def _fits_kind(part: KeyPart, kind: str) -> bool:
    if isinstance(part, int):
        return " text" not in kind
    return not kind.endswith(INTEGER)


def is_partition(ranges: Sequence[KeyRange]) -> bool:
    """Return whether the ranges, in this order, cover every key exactly once."""
    if not ranges or ranges[0].lower is not None or ranges[-1].upper is not None:
        return False
    pairs = itertools.pairwise(ranges)
    return all(left.upper is not None and left.upper == right.lower for left, right in pairs)


MODULUS: Final = 1 << 64

NEWEST_CHARACTERS: Final = 64
"""Characters that are kept of a newest lastmod: in a column of text it may be of any length."""


class Digest(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """Number of rows, newest lastmod and checksums of one key range. It is persisted as a list of these.

    Attributes:
        rows: Number of source rows, valid or not, with a key in the range.
        newest: Greatest lastmod as the source writes it (ISO 8601, UTC), or None.
        checksum: Sum of the 64-bit hashes of the rows over all emitted columns, modulo 2**64, unsigned. It does not
            depend on the order of rows, and a repeated row counts twice.
        urgent: The same over the columns whose changes do not wait (see ``PATIENT``). Default: None, it is not known.
    """

    rows: Count
    newest: str | None
    checksum: Annotated[int, msgspec.Meta(ge=0)]
    urgent: Annotated[int, msgspec.Meta(ge=0)] | None = None

    def __post_init__(self) -> None:
        """Refuse a checksum of more than 64 bits, from a damaged object."""
        if max(self.checksum, self.urgent or 0) >= MODULUS:
            raise ValueError(f"a checksum has 64 bits, unlike {self.checksum} or {self.urgent}")

    @classmethod
    def of(cls, rows: int, newest: str | None, checksum: int, urgent: int | None = None) -> Digest:
        """Return a digest. The checksums may be of any size and sign; the digest holds them modulo 2**64."""
        urgent = None if urgent is None else urgent % MODULUS
        return cls(rows=rows, newest=newest, checksum=checksum % MODULUS, urgent=urgent)

    def __add__(self, other: Digest) -> Digest:
        if not self.rows or not other.rows:
            return self if self.rows else other
        newest = max((n for n in (self.newest, other.newest) if n is not None), default=None)
        urgent = None if self.urgent is None or other.urgent is None else self.urgent + other.urgent
        return Digest.of(self.rows + other.rows, newest, self.checksum + other.checksum, urgent)

    def same_rows(self, other: Digest) -> bool:
        """Return whether two digests are of equal rows. ``newest`` does not count: the checksum covers lastmod."""
        return self.rows == other.rows and self.checksum == other.checksum

    def same_urgent(self, other: Digest) -> bool:
        """Return whether two digests are of rows that differ at most in columns whose changes may wait."""
        return self.rows == other.rows and self.urgent is not None and self.urgent == other.urgent


PATIENT: Final = frozenset({"lastmod", "changefreq", "priority"})
"""Fields whose changes may wait with ``ShardPolicy(rewrite_after=…)``: they list no URL and remove none."""

EMPTY: Final = Digest.of(0, None, 0)


def total(digests: Iterable[Digest]) -> Digest:
    """Return the digest of the union of disjoint ranges."""
    return sum(digests, EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Digests of a list of ranges, and the number and up to five samples of the rows that no range can hold."""

    digests: tuple[Digest, ...]
    null_keys: int = 0
    null_key_samples: tuple[str, ...] = field(default=())


class Known(Record, frozen=True, kw_only=True):
    """How far a section's table was read when its digests were taken, so that the next run surveys fewer ranges.

    Attributes:
        version: Version of the table, read before the survey: equal versions mean equal rows. Default: "", it has none.
        position: Position in its change log: a range without a later change has the rows of its digest. Only the source
            reads it. Default: None, the section has no change log.
        watermark: The database's time at the last survey, if a watermark finds the changes. Default: None.
        ages: Number of runs since each range was surveyed, in key order, if a watermark finds the changes; above zero
            also if a task read other rows than the survey. Default: none.
    """

    surveyed_at: Moment
    version: str = ""
    position: str | None = None
    watermark: Moment | None = None
    ages: tuple[Count, ...] = ()


class EarlyEntry(Record, frozen=True, kw_only=True):
    """A changed entry of a range that waits: the range's lower end, the ``<url>`` element, and its texts for feeds, if any."""

    lower: Key | None
    element: str
    text: FeedText | None = None


class EarlyEntries(Record, frozen=True, kw_only=True):
    """The entries that a section lists early, newest first."""

    entries: tuple[EarlyEntry, ...]
