"""Keys and the half-open ranges between them.

Only the database compares keys, by its own collations and types. Here a key is a tuple of canonical values that can be
stored as JSON, bound in a statement, and tested for equality.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
