"""Digests of key ranges, as the database computes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from airflow_sitemaps.shards.schema import Count, Moment, Record

if TYPE_CHECKING:
    from collections.abc import Iterable

MODULUS: Final = 1 << 64

NEWEST_CHARACTERS: Final = 64
"""Characters that are kept of a newest lastmod: in a column of text it may be of any length."""


class Digest(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """Number of rows, newest lastmod and checksum of one key range. It is persisted as a list of the three.

    Attributes:
        rows: Number of source rows, valid or not, with a key in the range.
        newest: Greatest lastmod as the source writes it (ISO 8601, UTC), or None.
        checksum: Sum of the 64-bit hashes of the rows over all emitted columns, modulo 2**64, unsigned. It does not
            depend on the order of rows, and a repeated row counts twice.
    """

    rows: Count
    newest: str | None
    checksum: Annotated[int, msgspec.Meta(ge=0)]

    def __post_init__(self) -> None:
        """Refuse a checksum of more than 64 bits, from a damaged object."""
        if self.checksum >= MODULUS:
            raise ValueError(f"a checksum has 64 bits, unlike {self.checksum}")

    @classmethod
    def of(cls, rows: int, newest: str | None, checksum: int) -> Digest:
        """Return a digest. The checksum may be of any size and sign; the digest holds it modulo 2**64."""
        return cls(rows=rows, newest=newest, checksum=checksum % MODULUS)

    def __add__(self, other: Digest) -> Digest:
        newest = max((n for n in (self.newest, other.newest) if n is not None), default=None)
        return Digest.of(self.rows + other.rows, newest, self.checksum + other.checksum)

    def same_rows(self, other: Digest) -> bool:
        """Return whether two digests are of equal rows. ``newest`` does not count: the checksum covers lastmod."""
        return self.rows == other.rows and self.checksum == other.checksum


EMPTY: Final = Digest.of(0, None, 0)


def total(digests: Iterable[Digest]) -> Digest:
    """Return the digest of the union of disjoint ranges."""
    result = EMPTY
    for digest in digests:
        result = result + digest
    return result


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
        ages: Number of runs since each range was surveyed, in key order, if a watermark finds the changes. Default:
            none.
    """

    surveyed_at: Moment
    version: str = ""
    position: str | None = None
    watermark: Moment | None = None
    ages: tuple[Count, ...] = ()
