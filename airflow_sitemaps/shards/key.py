"""Keys and the half-open ranges between them.

A key is compared by the database and by nobody else: its collation, its types. Here a key is a tuple of canonical
values that can be stored as JSON, bound again, and tested for equality.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

KeyPart = int | str
"""One column of a key: integers as they are, everything else (UUID, timestamp, decimal, text) as canonical text."""

Key = tuple[KeyPart, ...]
"""One value per key column, in order."""

UNKNOWN: Final = " unknown"
"""How the kind of a key column ends that a source does not know."""

INTEGER: Final = " integer"
"""How the kind of a key column ends whose values are integers of at most 64 bits."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """A half-open range of keys.

    Attributes:
        lower: Lower end, inclusive. Default: None, from the first key.
        upper: Upper end, exclusive. Default: None, up to the last key.
    """

    lower: Key | None = None
    upper: Key | None = None

    def __str__(self) -> str:
        return f"[{show(self.lower)} … {show(self.upper)})"


def show(key: Key | None) -> str:
    """A key for people: ``42``, ``de/berlin``, or ``·`` for an open end."""
    return "·" if key is None else "/".join(str(part) for part in key)


def cut(within: KeyRange, boundaries: Sequence[Key]) -> tuple[KeyRange, ...]:
    """Cut a range at boundaries that lie inside it, given in key order."""
    edges: list[Key | None] = [within.lower, *boundaries, within.upper]
    return tuple(KeyRange(lower, upper) for lower, upper in itertools.pairwise(edges))


def same_kinds(before: Sequence[str], now: Sequence[str]) -> bool:
    """Whether boundaries that were cut under the key kinds ``before`` hold under ``now``.

    The kind of a column that a source does not know (``id unknown``, an empty table) is taken as unchanged.
    """
    return len(before) == len(now) and all(map(_same_kind, before, now))


def _same_kind(before: str, now: str) -> bool:
    for left, right in ((before, now), (now, before)):
        if left.endswith(UNKNOWN):
            return right.startswith(left.removesuffix(UNKNOWN) + " ")
    return before == now


def fits_kinds(boundaries: Iterable[Key], kinds: Sequence[str]) -> bool:
    """Whether boundaries whose kinds were not recorded can be keys of these kinds: as many columns, texts or integers."""
    return all(len(key) == len(kinds) and all(map(_fits_kind, key, kinds)) for key in boundaries)


def _fits_kind(part: KeyPart, kind: str) -> bool:
    if isinstance(part, int):
        return " text" not in kind
    return not kind.endswith(INTEGER)


def is_partition(ranges: Sequence[KeyRange]) -> bool:
    """Whether the ranges, in this order, cover every key exactly once (each upper end is the next lower end)."""
    if not ranges or ranges[0].lower is not None or ranges[-1].upper is not None:
        return False
    pairs = itertools.pairwise(ranges)
    return all(left.upper is not None and left.upper == right.lower for left, right in pairs)
