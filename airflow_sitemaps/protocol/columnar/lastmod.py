"""A column of ``lastmod`` as days and seconds of the day, checked for all rows at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_sitemaps.protocol import lastmod
from airflow_sitemaps.protocol.columnar import RowKeys, as_texts, count_rows, row_mask, texts_of
from airflow_sitemaps.protocol.rules import Tally, Verdict

if TYPE_CHECKING:
    from airflow_sitemaps.protocol import RowContext

PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
DAY_S: Final = 86_400
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=lastmod.UTC)
_FIRST_DAY: Final = lastmod.day_number(lastmod.FIRST_DAY)
_LAST_DAY: Final = lastmod.day_number(lastmod.LAST_DAY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lastmods:
    """One lastmod for each row.

    ``day`` is in days since 1970-01-01 in UTC; null: no lastmod. ``second`` is of the day; null: only a date; None: all
    rows have only a date. ``recheck_at`` is the earliest time at which a lastmod omitted as future is in the past.
    """

    day: pa.Int32Array
    second: pa.Int32Array | None = None
    recheck_at: datetime | None = None
    dropped: pa.BooleanArray | None = None

    def filter(self, mask: pa.BooleanArray) -> Lastmods:
        """Keep the rows of the mask."""
        second = None if self.second is None else self.second.filter(mask)
        return replace(self, day=self.day.filter(mask), second=second)

    def take(self, places: pa.Int32Array) -> Lastmods:
        """Return the lastmods at some places, none where the place is null."""
        second = None if self.second is None else self.second.take(places)
        return replace(self, day=self.day.take(places), second=second)

    def extreme(self, extreme: Callable[[pa.Array], pa.Scalar]) -> str | None:
        """Return the newest (``pc.max``) or oldest (``pc.min``) as W3C Datetime. On its day, a date-time goes before a date."""
        day = extreme(self.day).as_py()
        if day is None:
            return None
        second = None if self.second is None else extreme(self.second.filter(pc.equal(self.day, day))).as_py()
        return lastmod.render(value_of(day, second))

    def values(self) -> list[date | datetime | None]:
        """Return the lastmods as Python values."""
        seconds = [None] * len(self.day) if self.second is None else self.second.to_pylist()
        pairs = zip(self.day.to_pylist(), seconds, strict=True)
        return [None if day is None else value_of(day, second) for day, second in pairs]


def value_of(day: int, second: int | None) -> date | datetime:
    """Return a lastmod as a Python value, from a day since 1970-01-01 and a second of that day (None: a date)."""
    moment = _EPOCH + timedelta(days=day, seconds=second or 0)
    return moment.date() if second is None else moment


def listed_lastmods(texts: pa.StringArray) -> Lastmods:
    """Return lastmods from the texts that a file lists: a date, or a date-time in UTC to the second."""
    day = pc.utf8_slice_codeunits(texts, 0, 10).cast(pa.date32()).cast(pa.int32())
    timed = pc.if_else(pc.greater(pc.binary_length(texts), 10), texts, None).cast(pa.timestamp("s", "UTC"))
    second = pc.subtract(timed.view(pa.int64()), pc.multiply(day.cast(pa.int64()), DAY_S))
    return Lastmods(day=day, second=second.cast(pa.int32()))


def clean_lastmods(values: pa.Array, rows: RowKeys, context: RowContext, tally: Tally) -> Lastmods:
    """Parse a column of timestamps, dates or text, and count its faults."""
    kind = values.type
    if pa.types.is_date32(kind):
        lastmods = Lastmods(day=values.view(pa.int32()))
    elif pa.types.is_timestamp(kind):
        lastmods = _from_timestamps(values, context)
    else:
        texts = as_texts(values)
        lastmods = _from_texts(texts, context) or _from_rows(texts, rows, context, tally)
    lastmods = _check_range(lastmods, values, rows, context, tally)
    return lastmods if context.observed else _check_future(lastmods, values, rows, context, tally)


# ---------------------------------------------------------------- reading


def _from_timestamps(values: pa.TimestampArray, context: RowContext) -> Lastmods:
    if values.type.tz is None:
        values = to_utc(values, context.timezone)
    ticks = values.view(pa.int64())
    seconds = floor_divide(ticks, PER_SECOND[values.type.unit])
    days = floor_divide(seconds, DAY_S)
    return Lastmods(day=_clipped(days), second=pc.subtract(seconds, pc.multiply(days, DAY_S)).cast(pa.int32()))


def _clipped(days: pa.Int64Array) -> pa.Int32Array:
    """Return days as int32. Days beyond it become its extremes, which ``lastmod-range`` catches."""
    bounded = pc.max_element_wise(
        pc.min_element_wise(days, (1 << 31) - 1, skip_nulls=False), -(1 << 31), skip_nulls=False
    )
    return bounded.cast(pa.int32())


def _from_texts(texts: pa.StringArray, context: RowContext) -> Lastmods | None:
    """Parse all rows at once if they have one form: a date, or a date-time to the second, in UTC or without a zone."""
    lengths = pc.min_max(pc.binary_length(texts)).as_py()
    length = lengths["min"]
    if length is None:
        return Lastmods(day=pa.nulls(len(texts), pa.int32()))
    if length != lengths["max"] or length not in (10, 19, 20):
        return None
    try:
        if length == 10:
            return Lastmods(day=texts.cast(pa.date32()).cast(pa.int32()))
        return _from_timestamps(texts.cast(pa.timestamp("s", "UTC" if length == 20 else None)), context)
    except pa.ArrowInvalid:
        return None


def _from_rows(texts: pa.StringArray, rows: RowKeys, context: RowContext, tally: Tally) -> Lastmods:
    days: list[int | None] = []
    seconds: list[int | None] = []
    faults: dict[str, list[int]] = {}
    for number, text in enumerate(texts_of(texts)):
        try:
            read = None if text is None else lastmod.parse(text, context.timezone)
            if read is not None and not lastmod.is_in_range(read):
                raise lastmod.LastmodError("lastmod-range")
        except lastmod.LastmodError as error:
            faults.setdefault(error.rule, []).append(number)
            read = None
        days.append(None if read is None else lastmod.day_number(read))  # a date-time is in UTC
        seconds.append((read - _EPOCH).seconds if isinstance(read, datetime) else None)
    lastmods = Lastmods(day=pa.array(days, pa.int32()), second=pa.array(seconds, pa.int32()))
    for rule, numbers in faults.items():
        lastmods = _apply(lastmods, rule, row_mask(numbers, len(days)), texts, rows, context, tally)
    return lastmods


# ---------------------------------------------------------------- checking


def _check_range(lastmods: Lastmods, values: pa.Array, rows: RowKeys, context: RowContext, tally: Tally) -> Lastmods:
    extremes = pc.min_max(lastmods.day).as_py()
    if extremes["min"] is None or (extremes["min"] > _FIRST_DAY and extremes["max"] < _LAST_DAY):
        return lastmods
    bad = pc.or_(pc.less_equal(lastmods.day, _FIRST_DAY), pc.greater_equal(lastmods.day, _LAST_DAY))
    return _apply(lastmods, "lastmod-range", pc.fill_null(bad, False), values, rows, context, tally)


def _check_future(lastmods: Lastmods, values: pa.Array, rows: RowKeys, context: RowContext, tally: Tally) -> Lastmods:
    today = (context.now - _EPOCH).days
    latest = pc.max(lastmods.day).as_py()
    if latest is None or latest < today - 1:
        return lastmods
    last_date = lastmod.day_number(context.now.astimezone(lastmod.zone(context.timezone)).date())
    future = pc.greater(lastmods.day, last_date)
    if lastmods.second is not None:
        second = (context.now - _EPOCH).seconds
        later = pc.or_(
            pc.greater(lastmods.day, today), pc.and_(pc.equal(lastmods.day, today), pc.greater(lastmods.second, second))
        )
        future = pc.if_else(pc.is_null(lastmods.second), future, later)
    future = pc.fill_null(future, False)
    if not future.true_count:
        return lastmods
    checked = _apply(lastmods, "lastmod-future", future, values, rows, context, tally)
    if context.rulebook["lastmod-future"] is Verdict.KEEP:
        return checked
    return replace(checked, recheck_at=_earliest(lastmods.filter(future), context))


def _earliest(future: Lastmods, context: RowContext) -> datetime:
    """Return the time at which the first of these lastmods is in the past."""
    dates = future.day if future.second is None else future.day.filter(pc.is_null(future.second))
    moments = [] if not len(dates) else [lastmod.begins(value_of(pc.min(dates).as_py(), None), context.timezone)]
    if future.second is not None:
        seconds = pc.min(pc.add(pc.multiply(future.day.cast(pa.int64()), DAY_S), future.second)).as_py()
        if seconds is not None:
            moments.append(_EPOCH + timedelta(seconds=seconds))
    return min(moments)


def _apply(
    lastmods: Lastmods,
    rule: str,
    bad: pa.BooleanArray,
    values: pa.Array,
    rows: RowKeys,
    context: RowContext,
    tally: Tally,
) -> Lastmods:
    """Count the bad rows, and apply the rule's verdict to them. Rows that are already dropped are not counted."""
    bad = bad if lastmods.dropped is None else pc.and_not(bad, lastmods.dropped)
    verdict = count_rows(rule, bad, values, rows, context, tally)
    if verdict is Verdict.KEEP:
        return lastmods
    lastmods = replace(lastmods, day=pc.if_else(bad, None, lastmods.day))
    if verdict is Verdict.DROP_ROW:
        lastmods = replace(lastmods, dropped=bad if lastmods.dropped is None else pc.or_(lastmods.dropped, bad))
    return lastmods


# ---------------------------------------------------------------- zones


def to_utc(values: pa.TimestampArray, zone: str) -> pa.TimestampArray:
    """Convert local times without a zone to UTC, in the same unit, with the results of ``zoneinfo``.

    Arrow's own conversion uses only the clock changes that a time zone file lists one by one, and not the rule at the end
    of the file. With the usual files it is an hour off in the summers from 2038 on. With "slim" files, whose list ends at
    the last change of law, it is wrong today. The offsets here come from ``zoneinfo``, with one look-up per day.

    Of an hour that clocks repeat, the first is used. An hour that they skip is read with the offset before the change, as
    ``datetime`` does with ``fold=0``. Times outside the years 1 to 9999 count as UTC.
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
    """Return how far clocks are ahead of UTC on a day, in seconds, or None if that changes within the day."""
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
