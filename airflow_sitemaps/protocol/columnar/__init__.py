"""Arrow arrays in the form of the columnar path: plain strings, their bytes, masks without nulls, samples of rows, distinct texts."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_sitemaps.protocol.rules import SAMPLES_PER_RULE, Tally, Verdict, sample_text

if TYPE_CHECKING:
    import numpy.typing as npt

    from airflow_sitemaps.protocol import RowContext

    Numbers = npt.NDArray[np.uint64]


def as_texts(column: pa.Array) -> pa.StringArray:
    """Return a column as text, as Arrow casts it. ``ports.Source.read`` names the types that a column may have."""
    return column if pa.types.is_string(column.type) else column.cast(pa.string())


def value_view(values: pa.StringArray) -> memoryview:
    """Return all values of a string array, one after another, without a copy."""
    data = values.buffers()[2]
    if data is None or not len(values):
        return memoryview(b"")
    offsets = offsets_of(values).cast("i")
    return memoryview(data)[offsets[0] : offsets[-1]]


def offsets_of(values: pa.StringArray) -> memoryview:
    """Return the int32 offsets of a string array, one more than rows. The first need not be 0."""
    return memoryview(values.buffers()[1])[4 * values.offset : 4 * (values.offset + len(values) + 1)]


def value_bytes(values: pa.StringArray) -> bytes:
    """Return all values of a string array, one after another."""
    return bytes(value_view(values))


def rows_at(places: Iterable[int], values: pa.StringArray) -> pa.BooleanArray:
    """Return a mask of the rows that contain these byte positions of ``value_view``."""
    offsets = offsets_of(values).cast("i")
    bits = bytearray((len(values) + 7) // 8)
    for place in places:
        row = bisect_right(offsets, offsets[0] + place) - 1
        bits[row >> 3] |= 1 << (row & 7)
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(bits)])


def texts_of(values: pa.StringArray) -> list[str | None]:
    """Return the values as Python texts. In invalid UTF-8, surrogate pairs are joined and the rest becomes U+FFFD."""
    try:
        return [*values.to_pylist()]
    except UnicodeDecodeError:
        return [None if value is None else _text(value) for value in values.cast(pa.binary()).to_pylist()]


def _text(value: bytes) -> str:
    try:
        units = value.decode("utf-8", "surrogatepass").encode("utf-16-le", "surrogatepass")
        return units.decode("utf-16-le", "surrogatepass")
    except UnicodeDecodeError:
        return value.decode("utf-8", "replace")


def row_mask(numbers: Iterable[int], length: int) -> pa.BooleanArray:
    """Return a mask with this number of rows, true for these row numbers."""
    marks = [False] * length
    for number in numbers:
        marks[number] = True
    return pa.array(marks, pa.bool_())


def or_masks(masks: Sequence[pa.BooleanArray]) -> pa.BooleanArray | None:
    """Return the union of masks, or None if it has no row."""
    if not masks:
        return None
    both = reduce(pc.or_, masks)
    return both if both.true_count else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowKeys:
    """Keys and URLs of rows, which are looked up only for a sample. None: not known.

    ``keys`` is the column of the whole batch. ``numbers`` are the rows' places in it; None if they are all its rows.
    """

    keys: pa.Array | None = None
    numbers: pa.Array | None = None
    locs: pa.StringArray | None = None

    def sample(self, value: str, row: int) -> str:
        """Describe a row by a value, its URL and its key. ``row`` is its position among these rows, not in the batch."""
        loc = None if self.locs is None else self.locs[row].as_py()
        key = None
        if self.keys is not None:
            key = key_text(self.keys, row if self.numbers is None else self.numbers[row].as_py())
        return sample_text(value, loc=loc, key=key)


def count_rows(
    rule: str, mask: pa.BooleanArray, values: pa.Array, rows: RowKeys, context: RowContext, tally: Tally
) -> Verdict:
    """Count the rows of a mask (without nulls) under a rule, with samples of the first; return the rule's verdict."""
    verdict = context.rulebook[rule]
    first = pc.indices_nonzero(mask).slice(0, SAMPLES_PER_RULE)
    shown = texts_of(as_texts(values.take(first)))
    samples = [
        rows.sample("NULL" if value is None else value, row)
        for value, row in zip(shown, first.to_pylist(), strict=True)
    ]
    tally.count(rule, verdict, samples, mask.true_count, where=context.section)
    return verdict


def key_text(keys: pa.Array, number: int) -> str:
    """Return the key of a row as a JSON array."""
    if pa.types.is_integer(keys.type):
        return f"[{keys[number].as_py()}]"
    return str(texts_of(keys.slice(number, 1))[0])


WORD: Final = 8
"""Bytes of a text that are read at once."""
_AT_END: Final = (8, 16, 24)
_AT_START: Final = (24,)
_MIX: Final = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5)


def spread_of(texts: pa.StringArray) -> Numbers:
    """Return 64 bits of each text (none is null), computed from its length and a few of its words.

    Equal texts of at least ``WORD`` bytes have equal bits. For a shorter text the bits depend on its neighbours too.
    """
    view = value_view(texts)
    offsets = np.frombuffer(offsets_of(texts), np.int32).astype(np.intp)
    starts, ends = offsets[:-1] - offsets[0], offsets[1:] - offsets[0]
    if len(view) < WORD:
        return np.zeros(len(texts), np.uint64)
    words: Numbers = np.ndarray((len(view) - WORD + 1,), np.uint64, view, 0, (1,))
    last = np.minimum(np.maximum(ends - WORD, starts), len(words) - 1)
    spread: Numbers = (ends - starts).astype(np.uint64)
    places = [np.minimum(np.maximum(ends - back, starts), last) for back in _AT_END]
    places += [np.minimum(starts + forward, last) for forward in _AT_START]
    for place, mix in zip(places, _MIX, strict=True):
        spread ^= words[place]
        spread *= np.uint64(mix)
        spread ^= spread >> np.uint64(29)
    return spread


def all_distinct(columns: Sequence[pa.StringArray], spreads: Sequence[Numbers]) -> bool:
    """Return whether all texts in these columns, which hold no nulls, are different.

    Texts with different spreads are different. The texts themselves are compared only if two spreads are equal or a
    text is shorter than a word. That takes fifteen times as long.
    """
    if all(
        not len(texts) or int(np.diff(np.frombuffer(offsets_of(texts), np.int32)).min()) >= WORD for texts in columns
    ):
        filled = [spread for spread in spreads if len(spread)]
        ordered = np.sort(np.concatenate(filled)) if filled else np.zeros(0, np.uint64)
        if not (ordered[1:] == ordered[:-1]).any():
            return True
    texts = pa.chunked_array(list(columns), pa.string())
    return len(pc.unique(texts)) == len(texts)
