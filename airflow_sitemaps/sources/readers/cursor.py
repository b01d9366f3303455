"""Rows of a cursor as Arrow record batches, and the types that all readers give their columns."""

from __future__ import annotations

import codecs
import gc
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_sitemaps.sources.columns import Output
    from airflow_sitemaps.sources.queries.key_spans import KeySpan
    from airflow_sitemaps.sources.readers.streams import Rows

BATCH_ROWS: Final = 65_536

SpanReader = Callable[["KeySpan"], Generator[pa.RecordBatch, None, None]]
"""A function that yields the rows of a span, with the bucket's number as the first column."""


def from_cursor(
    stream: Generator[Rows, None, None], outputs: Sequence[Output]
) -> Generator[pa.RecordBatch, None, None]:
    """Yield a cursor's rows as record batches. Memory holds a few thousand rows at a time.

    Args:
        stream: Parts of the rows, as a dialect's ``rows`` yields them. It is closed at the end.
    """
    with closing(stream) as parts:
        while (batch := _next_batch(parts, outputs)) is not None:
            yield batch


def _next_batch(parts: Iterator[Rows], outputs: Sequence[Output]) -> pa.RecordBatch | None:
    """Return the rows of the next part as a batch, or None at the end."""
    with _uncollected():
        rows = next(parts, None)
        if rows is None:
            return None
        # Columns after the outputs only order the rows.
        columns = [
            array_of(values, output.type) for values, output in zip(zip(*rows, strict=True), outputs, strict=False)
        ]
        return pa.RecordBatch.from_arrays(columns, names=[output.name for output in outputs])


@contextmanager
def _uncollected() -> Iterator[None]:
    """Pause garbage collection for the block, some tens of milliseconds.

    Rows are tuples, made by the thousand. They hold no cycles and are soon freed. The collector still scans them
    repeatedly, which takes twice the time of reading and converting them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Convert one column of Python objects to an array.

    Drivers return Decimal for integers, bytes for texts, and integers for microseconds since 1970.
    """
    if pa.types.is_string(kind):
        return _texts(values)
    if pa.types.is_timestamp(kind):
        try:
            return pa.array(values, pa.int64()).cast(kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            return _moments(values).cast(kind)
    try:
        return pa.array(values, kind)
    except OverflowError:
        return pa.array([None if value is None else int(value) for value in values], pa.uint64())
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        make = float if pa.types.is_floating(kind) else int
        return pa.array([None if value is None else make(value) for value in values], kind)


def _moments(values: Sequence[Any]) -> pa.Array:
    zoned = any(value.tzinfo is not None for value in values if value is not None)
    moments = pa.array(values, pa.timestamp("us", "UTC" if zoned else None))
    return moments.cast(pa.timestamp("us"))


def _texts(values: Sequence[Any]) -> pa.Array:
    try:
        return pa.array(values, pa.string())
    except (pa.ArrowTypeError, pa.ArrowInvalid, UnicodeEncodeError):
        return pa.array([None if value is None else _text(value) for value in values], pa.string())


BAD_BYTES: Final = "airflow_sitemaps_bad_bytes"
"""The name of the decoding error handler ``_marked``."""


def _marked(error: UnicodeError) -> tuple[str, int]:
    """Write each byte that is not UTF-8 as U+001A (SUBSTITUTE) and its two hexadecimal digits.

    No URL, date or word contains that control character, so the rules drop and count the value. The sample shows the
    bytes, and different values stay different.
    """
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "".join(f"\x1a{byte:02X}" for byte in error.object[error.start : error.end]), error.end


codecs.register_error(BAD_BYTES, _marked)


def _text(value: Any) -> str:
    """Return a text that UTF-8 can encode, in which every byte that is not UTF-8 is marked."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode("utf-8", BAD_BYTES)
    return str(value).encode("utf-8", "surrogatepass").decode("utf-8", BAD_BYTES)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    given = column.type
    if pa.types.is_timestamp(given):
        # Nanoseconds are cut off, as the drivers cut them off in Python's times.
        micros = column if given.unit != "ns" else pc.floor_temporal(column, unit="microsecond")
        return micros.cast(pa.timestamp("us", given.tz and "UTC")).cast(kind)
    if pa.types.is_binary(given) or pa.types.is_large_binary(given) or pa.types.is_binary_view(given):
        try:
            return column.cast(kind)
        except pa.ArrowInvalid:  # a text that is not UTF-8
            return _texts(column.to_pylist())
    if pa.types.is_date(kind) and pa.types.is_integer(given):
        return column.cast(pa.int32()).cast(kind)  # days since 1970
    return column.cast(kind)


def fitted(batch: pa.RecordBatch, outputs: Sequence[Output]) -> pa.RecordBatch:
    """Return a driver's own batch with the types of the outputs.

    Drivers return other types, such as enums, large texts and views.

    Args:
        outputs: The names and types of the columns, in order.
    """
    columns = []
    for column, output in zip(batch.columns, outputs, strict=True):
        columns.append(column if column.type == output.type else _cast(column, output.type))
    return pa.RecordBatch.from_arrays(columns, names=[output.name for output in outputs])
