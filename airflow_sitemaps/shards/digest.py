"""What the warehouse says a key range holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

MODULUS: Final = 1 << 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """Rows, newest lastmod and checksum of one key range, over all emitted columns.

    ``rows`` counts source rows, valid or not, that have a key in the range. ``newest`` is the greatest lastmod as the
    source writes it (ISO 8601, UTC), or None. ``checksum`` is the sum of the rows' 64-bit hashes modulo 2**64, an
    unsigned integer: it does not depend on order, and a row that comes twice counts twice.
    """

    rows: int = 0
    newest: str | None = None
    checksum: int = 0

    def __add__(self, other: Digest) -> Digest:
        newest = max((n for n in (self.newest, other.newest) if n is not None), default=None)
        return Digest(rows=self.rows + other.rows, newest=newest, checksum=(self.checksum + other.checksum) % MODULUS)

    def same_rows(self, other: Digest) -> bool:
        """Whether both speak of the same rows. ``newest`` is for people; the checksum covers the column itself."""
        return self.rows == other.rows and self.checksum == other.checksum


EMPTY: Final = Digest()


def total(digests: Iterable[Digest]) -> Digest:
    """The digest of the union of disjoint ranges."""
    result = EMPTY
    for digest in digests:
        result = result + digest
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The digests of a list of ranges, in the order asked, and the rows that no range can hold.

    ``null_keys`` counts rows whose key has a NULL; ``null_key_samples`` shows up to five of them as text.
    """

    digests: tuple[Digest, ...]
    null_keys: int = 0
    null_key_samples: tuple[str, ...] = field(default=())
