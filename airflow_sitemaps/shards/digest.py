"""Digests of key ranges, as the database computes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

MODULUS: Final = 1 << 64

NEWEST_CHARACTERS: Final = 64
"""Characters that are kept of a newest lastmod: in a column of text it may be of any length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """Number of rows, newest lastmod and checksum of one key range.

    Attributes:
        rows: Number of source rows, valid or not, with a key in the range. Default: 0.
        newest: Greatest lastmod as the source writes it (ISO 8601, UTC). Default: None.
        checksum: Sum of the 64-bit hashes of the rows over all emitted columns, modulo 2**64, unsigned. It does not
            depend on the order of rows, and a repeated row counts twice. Default: 0.
    """

    rows: int = 0
    newest: str | None = None
    checksum: int = 0

    def __add__(self, other: Digest) -> Digest:
        newest = max((n for n in (self.newest, other.newest) if n is not None), default=None)
        return Digest(rows=self.rows + other.rows, newest=newest, checksum=(self.checksum + other.checksum) % MODULUS)

    def same_rows(self, other: Digest) -> bool:
        """Return whether two digests are of equal rows. ``newest`` does not count: the checksum covers lastmod."""
        return self.rows == other.rows and self.checksum == other.checksum


EMPTY: Final = Digest()


def total(digests: Iterable[Digest]) -> Digest:
    """Return the digest of the union of disjoint ranges."""
    result = EMPTY
    for digest in digests:
        result = result + digest
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Digests of a list of ranges, and the rows that no range can hold.

    Attributes:
        digests: Digests in the order of the ranges.
        null_keys: Number of rows whose key has a NULL. Default: 0.
        null_key_samples: Up to five of these rows, as text. Default: none.
    """

    digests: tuple[Digest, ...]
    null_keys: int = 0
    null_key_samples: tuple[str, ...] = field(default=())
