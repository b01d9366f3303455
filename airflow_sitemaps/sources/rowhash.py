"""The row hash for engines without one (SQLite, memory): xxh3_64 over an unambiguous encoding.

Each column becomes a text with a marked end. NULL is ``-``. Any other value is the number of its bytes, ``:``, and the
bytes. NULL and the empty text therefore hash differently, as do texts that differ only in where one column ends
and the next begins.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh3_64_intdigest

if TYPE_CHECKING:
    from collections.abc import Sequence

KIND: Final = "xxh3_64/1"
"""The name and version of this hash, which is part of ``digest_kind``."""


def row_hashes(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the 64-bit hash of every row of equally long columns, as uint64."""
    joined = encoded(columns)
    if not len(joined):
        return pa.array([], pa.uint64())
    offsets, values = slices(joined)
    return pa.array([xxh3_64_intdigest(values[start:end]) for start, end in pairwise(offsets)], pa.uint64())


def encoded(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the rows as large_binary, in the encoding that the module describes."""
    parts: list[Any] = []
    for column in columns:
        data = as_binary(column)
        length = pc.cast(pc.cast(pc.binary_length(data), pa.string()), pa.large_binary())
        marked = pc.binary_join_element_wise(length, data, pa.scalar(b":", pa.large_binary()))
        parts.append(pc.fill_null(marked, pa.scalar(b"-", pa.large_binary())))
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()))


def as_binary(column: pa.Array) -> pa.Array:
    """Return a column as large_binary: texts as their UTF-8 bytes, other values as Arrow writes them."""
    if not (pa.types.is_large_binary(column.type) or pa.types.is_binary(column.type)):
        column = pc.cast(column, pa.large_string())
    return pc.cast(column, pa.large_binary())


def slices(joined: pa.Array) -> tuple[memoryview, memoryview]:
    """Return the offsets (one more than rows) and the bytes of a large_binary array without NULLs."""
    buffers = joined.buffers()
    offsets = memoryview(buffers[1]).cast("B").cast("q")[joined.offset : joined.offset + len(joined) + 1]
    return offsets, memoryview(buffers[2]).cast("B") if buffers[2] is not None else memoryview(b"")
