"""Conversion of columns of local times to UTC, with the results of ``zoneinfo``.

Arrow's own conversion uses only the clock changes that a time zone file lists one by one, and not the rule at the end of
the file. With the usual files it is an hour off in the summers from 2038 on. With "slim" files, whose list ends at the
last change of law, it is wrong today. The offsets here come from ``zoneinfo``, with one look-up per day.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_sitemaps.protocol import lastmod

PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
DAY_S: Final = 86_400
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=lastmod.UTC)
_FIRST_DAY: Final = (date(1, 1, 1) - date(1970, 1, 1)).days
_LAST_DAY: Final = (date(9999, 12, 31) - date(1970, 1, 1)).days


def to_utc(values: pa.TimestampArray, zone: str) -> pa.TimestampArray:
    """Convert local times without a zone to UTC, in the same unit.

    Of an hour that clocks repeat, the first is used. An hour that they skip is read with the offset before the change, as
    ``datetime`` does with ``fold=0``. Times outside the years 1 to 9999 count as UTC.

    Raises:
        ConfigurationError: There is no such zone.
    """
    utc = pa.timestamp(values.type.unit, "UTC")
    info = lastmod.zone(zone)
    if info is lastmod.UTC:
        return values.cast(utc)
    per_second = PER_SECOND[values.type.unit]
    ticks = values.view(pa.int64())
    days = floor_divide(ticks, DAY_S * per_second).dictionary_encode()
    by_day = pa.array([_offset_of_day(zone, day) for day in days.dictionary.to_pylist()], pa.int64())
    offsets = by_day.take(days.indices)
    changing = pc.and_(pc.is_null(offsets), pc.is_valid(ticks))
    if changing.true_count:
        seconds = floor_divide(ticks.filter(changing), per_second).to_pylist()
        changes = [_seconds(datetime.utcoffset((_EPOCH + timedelta(seconds=s)).replace(tzinfo=info))) for s in seconds]
        offsets = pc.replace_with_mask(offsets, changing, pa.array(changes, pa.int64()))
    return pc.subtract(ticks, pc.multiply(offsets, per_second)).view(utc)


def floor_divide(values: pa.Int64Array, divisor: int) -> pa.Int64Array:
    """Divide and round down, while Arrow rounds towards zero."""
    if divisor == 1:
        return values
    quotient = pc.divide(values, divisor)
    if (pc.min(values).as_py() or 0) >= 0:
        return quotient
    too_great = pc.greater(pc.multiply(quotient, divisor), values)
    return pc.subtract(quotient, too_great.cast(pa.int64()))


@lru_cache(maxsize=100_000)
def _offset_of_day(zone: str, day: int | None) -> int | None:
    """Return how far clocks are ahead of UTC on a day since 1970-01-01, in seconds.

    Return None if the offset changes within the day.
    """
    if day is None:
        return None
    if not _FIRST_DAY <= day <= _LAST_DAY:
        return 0
    if day == _LAST_DAY:
        return None
    midnight = (_EPOCH + timedelta(days=day)).replace(tzinfo=lastmod.zone(zone))
    ahead = midnight.utcoffset()
    return _seconds(ahead) if ahead == (midnight + timedelta(days=1)).utcoffset() else None


def _seconds(ahead: timedelta | None) -> int:
    return 0 if ahead is None else ahead.days * DAY_S + ahead.seconds
