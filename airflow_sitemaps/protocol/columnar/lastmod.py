"""A column of ``lastmod`` as days and seconds of the day, checked for all rows at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_sitemaps.protocol import lastmod
from airflow_sitemaps.protocol.columnar.arrow import any_true, as_texts, decoded, row_mask, texts_of
from airflow_sitemaps.protocol.columnar.row_keys import count_rows
from airflow_sitemaps.protocol.columnar.timezones import DAY_S, PER_SECOND, floor_divide, to_utc
from airflow_sitemaps.protocol.rules import Verdict

if TYPE_CHECKING:
    from airflow_sitemaps.protocol.columnar.row_keys import RowKeys
    from airflow_sitemaps.protocol.entry import RowContext
    from airflow_sitemaps.protocol.rules import Tally

FIRST_DAY: Final = (lastmod.FIRST_DAY - date(1970, 1, 1)).days
LAST_DAY: Final = (lastmod.LAST_DAY - date(1970, 1, 1)).days
"""Bounds of a lastmod in days since 1970-01-01, both exclusive."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lastmods:
    """One lastmod for each row.

    Attributes:
        day: Days since 1970-01-01 in UTC, int32. Null: no lastmod.
        second: Seconds of the day, int32. Null: only a date. None: all rows have only a date.
        recheck_at: Earliest time at which a lastmod that was omitted as future is in the past.
        dropped: Mask of rows to drop. None: no row.
    """

    day: pa.Int32Array
    second: pa.Int32Array | None = None
    recheck_at: datetime | None = None
    dropped: pa.BooleanArray | None = None

    def filter(self, mask: pa.BooleanArray) -> Lastmods:
        """Keep the rows of the mask."""
        second = None if self.second is None else self.second.filter(mask)
        return replace(self, day=self.day.filter(mask), second=second)

    def newest(self) -> str | None:
        """Return the newest as W3C Datetime. On one day, a date-time is newer than a date."""
        day = pc.max(self.day).as_py()
        if day is None:
            return None
        second = None if self.second is None else pc.max(self.second.filter(pc.equal(self.day, day))).as_py()
        return lastmod.render(value_of(day, second))


def value_of(day: int, second: int | None) -> date | datetime:
    """Return a lastmod as a Python value, from a day since 1970-01-01 and a second of that day (None: a date)."""
    moment = _EPOCH + timedelta(days=day, seconds=second or 0)
    return moment.date() if second is None else moment


def clean_lastmods(column: pa.Array, rows: RowKeys, context: RowContext, tally: Tally) -> Lastmods:
    """Parse a column of timestamps, dates or text, and count its faults.

    Args:
        column: The values. Other types are read as their text.

    Raises:
        RuleError: A rule set to ``fail`` is broken.
    """
    values = decoded(column)
    kind = values.type
    if pa.types.is_date32(kind):
        lastmods = Lastmods(day=values.view(pa.int32()))
    elif pa.types.is_date64(kind):  # Arrow casts only values that are midnight
        lastmods = Lastmods(day=_clipped(floor_divide(values.view(pa.int64()), DAY_S * PER_SECOND["ms"])))
    elif pa.types.is_timestamp(kind):
        lastmods = _from_timestamps(values, context)
    else:
        texts = as_texts(values)
        lastmods = _from_texts(texts, context) or _from_rows(texts, rows, context, tally)
    lastmods = _check_range(lastmods, values, rows, context, tally)
    return _check_future(lastmods, values, rows, context, tally)


# ---------------------------------------------------------------- reading


def _from_timestamps(values: pa.TimestampArray, context: RowContext) -> Lastmods:
    if values.type.tz is None:
        values = to_utc(values, context.timezone)
    ticks = values.view(pa.int64())
    seconds = floor_divide(ticks, PER_SECOND[values.type.unit])
    days = floor_divide(seconds, DAY_S)
    return Lastmods(
        day=_clipped(days),
        second=pc.subtract(seconds, pc.multiply(days, DAY_S)).cast(pa.int32()),
    )


def _clipped(days: pa.Int64Array) -> pa.Int32Array:
    """Return days as int32. Days beyond it become its extremes, which ``lastmod-range`` catches."""
    extremes = pc.min_max(days).as_py()
    if (extremes["min"] or 0) > -(1 << 31) and (extremes["max"] or 0) < 1 << 31:
        return days.cast(pa.int32(), safe=False)
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
        if length == 20:
            return _from_timestamps(texts.cast(pa.timestamp("s", "UTC")), context)
        return _from_timestamps(texts.cast(pa.timestamp("s")), context)
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
        days.append(None if read is None else (read - _EPOCH).days if isinstance(read, datetime) else _day(read))
        seconds.append((read - _EPOCH).seconds if isinstance(read, datetime) else None)
    lastmods = Lastmods(day=pa.array(days, pa.int32()), second=pa.array(seconds, pa.int32()))
    for rule, numbers in faults.items():
        lastmods = _apply(lastmods, rule, row_mask(numbers, len(days)), texts, rows, context, tally)
    return lastmods


def _day(value: date) -> int:
    return value.toordinal() - 719_163


# ---------------------------------------------------------------- checking


def _check_range(lastmods: Lastmods, values: pa.Array, rows: RowKeys, context: RowContext, tally: Tally) -> Lastmods:
    extremes = pc.min_max(lastmods.day).as_py()
    if extremes["min"] is None or (extremes["min"] > FIRST_DAY and extremes["max"] < LAST_DAY):
        return lastmods
    bad = pc.or_(pc.less_equal(lastmods.day, FIRST_DAY), pc.greater_equal(lastmods.day, LAST_DAY))
    return _apply(lastmods, "lastmod-range", pc.fill_null(bad, False), values, rows, context, tally)


def _check_future(lastmods: Lastmods, values: pa.Array, rows: RowKeys, context: RowContext, tally: Tally) -> Lastmods:
    today = (context.now - _EPOCH).days
    latest = pc.max(lastmods.day).as_py()
    if latest is None or latest < today - 1:
        return lastmods
    last_date = _day(context.now.astimezone(lastmod.zone(context.timezone)).date())
    future = pc.greater(lastmods.day, last_date)
    if lastmods.second is not None:
        second = (context.now - _EPOCH).seconds
        later = pc.or_(
            pc.greater(lastmods.day, today), pc.and_(pc.equal(lastmods.day, today), pc.greater(lastmods.second, second))
        )
        future = pc.if_else(pc.is_null(lastmods.second), future, later)
    future = pc.fill_null(future, False)
    if not any_true(future):
        return lastmods
    recheck_at = (
        _earliest(lastmods.filter(future), context) if context.rulebook["lastmod-future"] is not Verdict.KEEP else None
    )
    return replace(_apply(lastmods, "lastmod-future", future, values, rows, context, tally), recheck_at=recheck_at)


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
    verdict = context.rulebook[rule]
    bad = bad if lastmods.dropped is None else pc.and_not(bad, lastmods.dropped)
    count_rows(tally, rule, verdict, rows, bad, values, where=context.section)
    if verdict is Verdict.KEEP:
        return lastmods
    lastmods = replace(lastmods, day=pc.if_else(bad, None, lastmods.day))
    if verdict is Verdict.DROP_ROW:
        lastmods = replace(lastmods, dropped=bad if lastmods.dropped is None else pc.or_(lastmods.dropped, bad))
    return lastmods
