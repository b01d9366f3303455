"""Keys and the half-open ranges between them.

A key is compared by the database and by nobody else: its collation, its types. Here a key is a tuple of canonical
values that can be stored as JSON, bound again, and tested for equality.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

KeyPart = int | str
"""One column of a key: integers as they are, everything else (UUID, timestamp, decimal, text) as canonical text."""

Key = tuple[KeyPart, ...]
"""One value per key column, in order."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The keys from ``lower`` (inclusive; None: from the first) up to ``upper`` (exclusive; None: to the last)."""

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


def is_partition(ranges: Sequence[KeyRange]) -> bool:
    """Whether the ranges, in this order, cover every key exactly once (each upper end is the next lower end)."""
    if not ranges or ranges[0].lower is not None or ranges[-1].upper is not None:
        return False
    pairs = itertools.pairwise(ranges)
    return all(left.upper is not None and left.upper == right.lower for left, right in pairs)
