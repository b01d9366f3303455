"""Arrow arrays in the form of the columnar path: plain strings, their bytes, masks without nulls."""

from __future__ import annotations

import json
import struct
from bisect import bisect_right
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def decoded(column: pa.Array) -> pa.Array:
    """Return a column without its encoding: dictionaries are looked up, and every type of text becomes ``string``."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return decoded(column.dictionary_decode())
    if pa.types.is_string(kind):
        return column
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) or pa.types.is_null(kind):
        return column.cast(pa.string())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return column.cast(pa.binary()).view(pa.string())
    return column


def as_texts(column: pa.Array) -> pa.StringArray:
    """Return any column as text: as Arrow casts it, or else value by value as Python writes it.

    Lists and structures become JSON. A value that neither can write, such as a time in an unknown zone, becomes its number.
    """
    values = decoded(column)
    if pa.types.is_string(values.type):
        return values
    try:
        return values.cast(pa.string())
    except pa.ArrowException:
        return pa.array([_written(value) for value in values], pa.string())


def _written(scalar: pa.Scalar) -> str | None:
    if not scalar.is_valid:
        return None
    try:
        value = scalar.as_py()
        return json.dumps(value, default=str) if isinstance(value, (list, dict)) else str(value)
    except (ValueError, OverflowError, LookupError, pa.ArrowException):
        return str(scalar.cast(pa.int64(), safe=False).as_py())


def value_view(values: pa.StringArray) -> memoryview:
    """Return all values of a string array, one after another, without a copy."""
    _, offsets, data = values.buffers()
    if data is None or offsets is None or not len(values):
        return memoryview(b"")
    (start,) = struct.unpack_from("<i", offsets, 4 * values.offset)
    (end,) = struct.unpack_from("<i", offsets, 4 * (values.offset + len(values)))
    return memoryview(data)[start:end]


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


def any_true(mask: pa.BooleanArray) -> bool:
    """Return whether a mask is true for a row."""
    return bool(mask.true_count)


def or_masks(masks: Sequence[pa.BooleanArray]) -> pa.BooleanArray | None:
    """Return the union of masks, or None if it has no row."""
    if not masks:
        return None
    both = reduce(pc.or_, masks)
    return both if any_true(both) else None
