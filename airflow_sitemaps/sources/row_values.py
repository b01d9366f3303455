"""Values of rows as Arrow columns: keys as JSON, row hashes, moments that are numbers, and URLs from columns.

A key is stored with its row as a JSON array, and read back as a value to bind.

The row hash here is for engines without one (SQLite, memory): xxh3_64 over an unambiguous encoding. Each column becomes
a text with a marked end: NULL is ``-``, any other value the number of its bytes, ``:``, and the bytes. NULL and the
empty text hash differently, as do texts that differ only in where one column ends and the next begins.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
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
    from collections.abc import Mapping, Sequence

    from airflow_sitemaps.shards.ranges import Key


def key_text(key: Key) -> str:
    """Return a key as JSON."""
    return json.dumps(list(key), ensure_ascii=False, separators=(",", ":"))


def key_of_text(text: str | int) -> Key:
    """Return the key that ``key_text`` or ``key_column`` wrote."""
    return (text,) if isinstance(text, int) else tuple(json.loads(text))


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


HASH_KIND: Final = "xxh3_64/1"
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


MARK: Final = "\x1a"
"""The character before a byte that is not UTF-8; see ``connections.record_batches``."""


@dataclass(frozen=True, slots=True)
class LocMapping:
    """The columns of a URL. ``text`` is a column's name, or with braces a template: ``https://host/p/{slug}``."""

    text: str

    @property
    def is_template(self) -> bool:
        """Whether a template builds the URL."""
        return "{" in self.text

    @property
    def columns(self) -> tuple[str, ...]:
        """The source's columns that the URL needs, each once. An invalid template raises ``ConfigurationError``."""
        return tuple(dict.fromkeys(self._template().columns)) if self.is_template else (self.text,)

    def expand(self, columns: Mapping[str, pa.Array]) -> pa.Array:
        """Return the URLs of a batch.

        A value with U+001A, the mark of bytes that are not UTF-8, is not percent-encoded: that would make it valid.
        """
        if not self.is_template:
            return columns[self.text]
        locs = self._template().expand(dict(columns))
        marks = [pc.match_substring(columns[name], MARK) for name in self.columns if _is_text(columns[name])]
        marked = reduce(pc.or_kleene, marks) if marks else None
        if marked is None or not pc.any(marked).as_py():
            return locs
        return pc.if_else(marked, pc.replace_substring(locs, quote(MARK), MARK), locs)

    def _template(self) -> Template:
        return Template.parse(self.text)


def _is_text(column: pa.Array) -> bool:
    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))
