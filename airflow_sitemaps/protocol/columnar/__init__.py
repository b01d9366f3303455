"""Arrow arrays in the form of the columnar path: plain strings, their bytes, masks without nulls, samples of rows, distinct texts."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_sitemaps.protocol.rules import SAMPLES_PER_RULE, Tally, Verdict, sample_text

if TYPE_CHECKING:
    import numpy.typing as npt

    from airflow_sitemaps.protocol import RowContext

    Numbers = npt.NDArray[np.uint64]


_BYTES: Final = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)


def decoded(column: pa.Array) -> pa.Array:
    """Return a column without its encoding: dictionaries and runs are looked up, and all text and bytes become ``string``."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return decoded(column.dictionary).take(column.indices)
    if pa.types.is_run_end_encoded(kind):
        rows = np.arange(len(column)) + column.offset
        return decoded(column.values).take(pa.array(np.searchsorted(column.run_ends.to_numpy(), rows, side="right")))
    if pa.types.is_string(kind):
        return column
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) or pa.types.is_null(kind):
        return column.cast(pa.string())
    if any(is_bytes(kind) for is_bytes in _BYTES):
        return column.cast(pa.binary()).view(pa.string())
    return column


def as_texts(column: pa.Array) -> pa.StringArray:
    """Return any column as text: as Arrow casts it, or else value by value.

    A value that Arrow cannot write is written as Python writes it, and does not change the text of another row. Lists
    and structures become JSON. A value that neither can write, such as a time in an unknown zone, becomes its number.
    """
    values = decoded(column)
    if pa.types.is_string(values.type):
        return values
    try:
        return _cast(values)
    except pa.ArrowException:
        return pa.array([_written(values.slice(row, 1)) for row in range(len(values))], pa.string())


def filterable(column: pa.Array) -> pa.Array:
    """Return a column without its encoding; lists and structures as text, because Arrow cannot filter each kind of them."""
    values = decoded(column)
    return as_texts(values) if pa.types.is_nested(values.type) else values


def _cast(values: pa.Array) -> pa.StringArray:
    """Cast to text, or raise ArrowException. Arrow would write an extension type as its storage: the bytes of a UUID."""
    if isinstance(values.type, pa.BaseExtensionType):
        raise pa.ArrowNotImplementedError(str(values.type))
    return values.cast(pa.string())


def _written(one: pa.Array) -> str | None:
    """Return the text of a column's only value."""
    try:
        return texts_of(_cast(decoded(one)))[0]
    except pa.ArrowException:
        value = _python(one[0])
    if value is None:
        return None
    return json.dumps(value, default=str) if isinstance(value, (list, dict)) else str(value)


def _python(scalar: pa.Scalar) -> Any:
    """Return a value as a Python object. Parts that have no Python object become their text or their number."""
    try:
        return scalar.as_py()
    except (ValueError, OverflowError, LookupError, pa.ArrowException):
        pass
    if isinstance(scalar, pa.StructScalar):
        return {name: _python(part) for name, part in scalar.items()}
    if isinstance(scalar, pa.ListScalar):
        return [_python(part) for part in scalar.values]
    if isinstance(getattr(scalar, "value", None), pa.Scalar):
        return _python(scalar.value)
    one = decoded(pa.repeat(scalar, 1))
    try:
        return texts_of(_cast(one))[0]
    except pa.ArrowException:
        return one.view(pa.int64() if one.type.bit_width == 64 else pa.int32())[0].as_py()


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
    return str(texts_of(decoded(keys.slice(number, 1)))[0])


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
