"""Times that are stored as numbers: seconds, milliseconds or microseconds since 1970."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from decimal import Decimal, InvalidOperation
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

MICROS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}
"""The number of microseconds in each unit."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
FIRST: Final = int((datetime(1, 1, 1, tzinfo=timezone.utc) - EPOCH).total_seconds()) * 1_000_000
LAST: Final = int((datetime(9999, 12, 31, tzinfo=timezone.utc) - EPOCH).total_seconds()) * 1_000_000


def moments_of_numbers(texts: pa.Array, unit: str) -> pa.Array:
    """Convert numbers to moments.

    Returns:
        ``timestamp[us, UTC]`` if every text is a number in the years 1 to 9999. Otherwise texts: ISO 8601 for such numbers,
        and the others unchanged, so that the lastmod rules count them.
    """
    try:
        ticks = pc.multiply_checked(texts.cast(pa.int64()), MICROS[unit])
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
        micros = Decimal(text) * MICROS[unit]
        if FIRST <= micros < LAST:
            return EPOCH + timedelta(microseconds=int(micros))
    except (InvalidOperation, ValueError):
        pass
    return text


def number_of(moment: datetime, unit: str) -> int:
    """Return a moment as a whole number of units since 1970, rounded down."""
    return (moment - EPOCH) // timedelta(microseconds=1) // MICROS[unit]


def newest_text(text: str, unit: str) -> str:
    """Return a number as ISO 8601 if it is a moment, otherwise unchanged."""
    value = _moment(text, unit)
    return value.isoformat() if isinstance(value, datetime) else value
