"""Values of rows as Arrow columns: as drivers return them, keys as JSON, row hashes, moments that are numbers, and URLs.

A key is stored with its row as a JSON array, and read back as a value to bind.

The row hash here is for engines without one (SQLite, memory): xxh3_64 over an unambiguous encoding. Each column becomes
a text with a marked end: NULL is ``-``, any other value the number of its bytes, ``:``, and the bytes. NULL and the
empty text hash differently, as do texts that differ only in where one column ends and the next begins.
"""

from __future__ import annotations

import codecs
import gc
import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime, timedelta, timezone
from decimal import Decimal, InvalidOperation
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh3_64_intdigest

from airflow_sitemaps.protocol.url_template import Template

if TYPE_CHECKING:
    from airflow_sitemaps.shards.ranges import Key
    from airflow_sitemaps.sources.columns import Output
    from airflow_sitemaps.sources.driver import Rows

# ---------------------------------------------------------------- keys


def key_text(key: Key) -> str:
    """Return a key as JSON."""
    return json.dumps(list(key), ensure_ascii=False, separators=(",", ":"))


def key_column(parts: Sequence[pa.Array]) -> pa.Array:
    """Return the ``key`` column from one int64 or string array per key column: JSON, or a single integer unchanged."""
    if len(parts) == 1 and pa.types.is_int64(parts[0].type):
        return parts[0]
    texts = [_json_part(part) for part in parts]
    inner = texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, pa.scalar(","))
    return pc.binary_join_element_wise(pa.scalar("["), inner, pa.scalar("]"), pa.scalar(""))


def _json_part(part: pa.Array) -> pa.Array:
    if pa.types.is_integer(part.type) or pa.types.is_decimal(part.type):
        return pc.cast(part, pa.string())
    part = pc.cast(part, pa.string())
    if pc.any(pc.match_substring_regex(part, r"[\x00-\x1f]")).as_py():
        return pa.array([json.dumps(text, ensure_ascii=False) for text in part.to_pylist()], pa.string())
    part = pc.replace_substring(part, "\\", "\\\\")
    part = pc.replace_substring(part, '"', '\\"')
    return pc.binary_join_element_wise(pa.scalar('"'), part, pa.scalar('"'), pa.scalar(""))


# ---------------------------------------------------------------- what drivers return


def batches_of(
    stream: Generator[pa.RecordBatch | Rows, None, None], outputs: Sequence[Output]
) -> Generator[pa.RecordBatch, None, None]:
    """Yield rows as batches of the outputs' types, a few thousand rows at a time. The stream is closed at the end."""
    with closing(stream) as parts:
        while (batch := _next_batch(parts, outputs)) is not None:
            yield batch


def _next_batch(parts: Iterator[pa.RecordBatch | Rows], outputs: Sequence[Output]) -> pa.RecordBatch | None:
    with _uncollected():
        rows = next(parts, None)
        if rows is None:
            return None
        if isinstance(rows, pa.RecordBatch):
            return fitted(rows, outputs)
        # Columns after the outputs only order the rows.
        columns = [
            array_of(values, output.type) for values, output in zip(zip(*rows, strict=True), outputs, strict=False)
        ]
        return pa.RecordBatch.from_arrays(columns, names=[output.name for output in outputs])


@contextmanager
def _uncollected() -> Iterator[None]:
    """Pause garbage collection for the block, some tens of milliseconds.

    Rows are tuples, made by the thousand, without cycles and soon freed. The collector still scans them repeatedly,
    which takes twice the time of reading and converting them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Convert a column: drivers return Decimal for integers, bytes for texts, microseconds since 1970 for times."""
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


MARK: Final = "\x1a"
"""The character before a byte that is not UTF-8."""
BAD_BYTES: Final = "airflow_sitemaps_bad_bytes"


def _marked(error: UnicodeError) -> tuple[str, int]:
    """Write each byte that is not UTF-8 as U+001A (SUBSTITUTE) and its two hexadecimal digits.

    No URL, date or word contains that character, so the rules drop and count the value. The sample shows the bytes, and
    different values stay different.
    """
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "".join(f"{MARK}{byte:02X}" for byte in error.object[error.start : error.end]), error.end


codecs.register_error(BAD_BYTES, _marked)


def _text(value: Any) -> str:
    """Return a text that UTF-8 can encode, with every byte that is not UTF-8 marked."""
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
    """Return a driver's own batch with the outputs' types: drivers return enums, large texts and views."""
    if not batch.num_rows:  # an empty result may have no columns
        return pa.RecordBatch.from_arrays([pa.array([], o.type) for o in outputs], names=[o.name for o in outputs])
    columns = []
    for column, output in zip(batch.columns, outputs, strict=True):
        columns.append(column if column.type == output.type else _cast(column, output.type))
    return pa.RecordBatch.from_arrays(columns, names=[output.name for output in outputs])


# ---------------------------------------------------------------- row hashes

HASH_KIND: Final = "xxh3_64/1"
"""The name and version of this hash, which is part of ``digest_kind``."""


def row_hashes(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the 64-bit hash of every row of equally long columns of texts or times, as uint64."""
    joined = encoded(columns)
    if not len(joined):
        return pa.array([], pa.uint64())
    offsets, values = slices(joined)
    return pa.array([xxh3_64_intdigest(values[start:end]) for start, end in pairwise(offsets)], pa.uint64())


def encoded(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the rows as large_binary, in the encoding that the module describes."""
    parts: list[Any] = []
    for column in columns:
        data = pc.cast(pc.cast(column, pa.large_string()), pa.large_binary())
        length = pc.cast(pc.cast(pc.binary_length(data), pa.string()), pa.large_binary())
        marked = pc.binary_join_element_wise(length, data, pa.scalar(b":", pa.large_binary()))
        parts.append(pc.fill_null(marked, pa.scalar(b"-", pa.large_binary())))
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()))


def slices(joined: pa.Array) -> tuple[memoryview, memoryview]:
    """Return the offsets (one more than rows) and the bytes of a large_binary array without NULLs."""
    buffers = joined.buffers()
    offsets = memoryview(buffers[1]).cast("B").cast("q")[joined.offset : joined.offset + len(joined) + 1]
    return offsets, memoryview(buffers[2]).cast("B") if buffers[2] is not None else memoryview(b"")


# ---------------------------------------------------------------- moments that are numbers

TICKS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}
EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
FIRST: Final = int((datetime(1, 1, 1, tzinfo=timezone.utc) - EPOCH).total_seconds()) * 1_000_000
LAST: Final = int((datetime(9999, 12, 31, tzinfo=timezone.utc) - EPOCH).total_seconds()) * 1_000_000


def moments_of_numbers(texts: pa.Array, unit: str) -> pa.Array:
    """Convert numbers to moments: ``timestamp[us, UTC]`` if every text is a number in the years 1 to 9999.

    Otherwise to texts: ISO 8601 for such numbers, and the others unchanged, so that the lastmod rules count them.
    """
    try:
        ticks = pc.multiply_checked(texts.cast(pa.int64()), TICKS[unit])
        extremes = pc.min_max(ticks).as_py()
        if extremes["min"] is None or (extremes["min"] >= FIRST and extremes["max"] < LAST):
            return ticks.cast(pa.timestamp("us", "UTC"))
    except pa.ArrowInvalid:
        pass
    values = [None if text is None else _moment(text, unit) for text in texts.to_pylist()]
    if all(value is None or isinstance(value, datetime) for value in values):
        return pa.array(values, pa.timestamp("us", "UTC"))
    written = [value.isoformat() if isinstance(value, datetime) else value for value in values]
    return pa.array(written, pa.string())


def _moment(text: str, unit: str) -> datetime | str:
    try:
        micros = Decimal(text) * TICKS[unit]
        if FIRST <= micros < LAST:
            return EPOCH + timedelta(microseconds=int(micros))
    except (InvalidOperation, ValueError):
        pass
    return text


def number_of(moment: datetime, unit: str) -> int:
    """Return a moment as a whole number of units since 1970, rounded down."""
    return (moment - EPOCH) // timedelta(microseconds=1) // TICKS[unit]


def newest_text(text: str, unit: str) -> str:
    """Return a number as ISO 8601 if it is a moment, otherwise unchanged."""
    value = _moment(text, unit)
    return value.isoformat() if isinstance(value, datetime) else value


# ---------------------------------------------------------------- URLs


def urls_of(loc: str, columns: Mapping[str, pa.Array]) -> pa.Array:
    """Return the URLs of a batch from the columns that ``loc_columns`` names.

    A value with U+001A, the mark of bytes that are not UTF-8, is not percent-encoded: that would make it valid.
    """
    if "{" not in loc:
        return columns[loc]
    urls = Template.parse(loc).expand(columns)
    texts = [column for column in columns.values() if column.type in (pa.string(), pa.large_string())]
    marks = [pc.match_substring(column, MARK) for column in texts]
    marked = reduce(pc.or_kleene, marks) if marks else None
    if marked is None or not pc.any(marked).as_py():
        return urls
    return pc.if_else(marked, pc.replace_substring(urls, quote(MARK), MARK), urls)
