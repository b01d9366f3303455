"""A column of ``lastmod``: days and seconds of the day, judged on the whole piece."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_sitemaps.protocol import lastmod
from airflow_sitemaps.protocol.arrow import any_true, decoded, texts_of
from airflow_sitemaps.protocol.rules import SAMPLES_PER_RULE, Verdict
from airflow_sitemaps.protocol.zones import DAY_S, PER_SECOND, floor_divide, to_utc

if TYPE_CHECKING:
    from airflow_sitemaps.protocol.entry import Judge
    from airflow_sitemaps.protocol.rules import Tally

FIRST_DAY: Final = (date(1, 1, 1) - date(1970, 1, 1)).days
LAST_DAY: Final = (date(9999, 12, 31) - date(1970, 1, 1)).days
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lastmods:
    """One lastmod a row.

    ``day`` (int32, days since 1970-01-01, UTC) is null where there is none. ``second`` (int32, of the day) is null
    where only a date is known, and None where that is so for all rows. ``recheck_at`` is the earliest moment at which
    a lastmod that was left out as future is not so any more. ``dropped`` marks rows to drop; None: no row.
    """

    day: pa.Int32Array
    second: pa.Int32Array | None = None
    recheck_at: datetime | None = None
    dropped: pa.BooleanArray | None = None

    def filter(self, mask: pa.BooleanArray) -> Lastmods:
        """The rows of the mask."""
        second = None if self.second is None else self.second.filter(mask)
        return replace(self, day=self.day.filter(mask), second=second)

    def newest(self) -> str | None:
        """The newest as W3C Datetime; of one day, a date-time is newer than the date alone."""
        day = pc.max(self.day).as_py()
        if day is None:
            return None
        second = None if self.second is None else pc.max(self.second.filter(pc.equal(self.day, day))).as_py()
        return lastmod.render(value_of(day, second))


def value_of(day: int, second: int | None) -> date | datetime:
    """A lastmod as Python has it, from a day since 1970-01-01 and a second of that day (None: a date)."""
    moment = _EPOCH + timedelta(days=day, seconds=second or 0)
    return moment.date() if second is None else moment


def clean_lastmods(column: pa.Array, locs: pa.StringArray, judge: Judge, tally: Tally) -> Lastmods:
    """Read a column of timestamps, dates or text and count its faults. ``locs`` are for the samples.

    Raises:
        RuleError: a rule set to ``fail`` is broken.
    """
    values = decoded(column)
    kind = values.type
    if pa.types.is_date(kind):
        found = Lastmods(day=values.cast(pa.date32()).cast(pa.int32()))
    elif pa.types.is_timestamp(kind):
        found = _from_timestamps(values, judge)
    else:
        texts = values if pa.types.is_string(kind) else values.cast(pa.string())
        found = _from_texts(texts, judge) or _from_rows(texts, locs, judge, tally)
    found = _judge_range(found, values, locs, judge, tally)
    return _judge_future(found, values, locs, judge, tally)


# ---------------------------------------------------------------- reading


def _from_timestamps(values: pa.TimestampArray, judge: Judge) -> Lastmods:
    if values.type.tz is None:
        values = to_utc(values, judge.timezone)
    ticks = values.view(pa.int64())
    seconds = floor_divide(ticks, PER_SECOND[values.type.unit])
    days = floor_divide(seconds, DAY_S)
    return Lastmods(
        day=days.cast(pa.int32(), safe=False) if _fits(days) else _clipped(days),
        second=pc.subtract(seconds, pc.multiply(days, DAY_S)).cast(pa.int32()),
    )


def _fits(days: pa.Int64Array) -> bool:
    extremes = pc.min_max(days).as_py()
    return (extremes["min"] or 0) > -(1 << 31) and (extremes["max"] or 0) < 1 << 31


def _clipped(days: pa.Int64Array) -> pa.Int32Array:
    bounded = pc.max_element_wise(
        pc.min_element_wise(days, (1 << 31) - 1, skip_nulls=False), -(1 << 31), skip_nulls=False
    )
    return bounded.cast(pa.int32())


def _from_texts(texts: pa.StringArray, judge: Judge) -> Lastmods | None:
    """All rows at once where all have one form: a date, or a date-time to the second, in UTC or naive in UTC."""
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
            return _from_timestamps(texts.cast(pa.timestamp("s", "UTC")), judge)
        return _from_timestamps(texts.cast(pa.timestamp("s")), judge)
    except pa.ArrowInvalid:
        return None


def _from_rows(texts: pa.StringArray, locs: pa.StringArray, judge: Judge, tally: Tally) -> Lastmods:
    days: list[int | None] = []
    seconds: list[int | None] = []
    faults: dict[str, list[int]] = {}
    for number, text in enumerate(texts_of(texts)):
        try:
            read = None if text is None else lastmod.parse(text, judge.timezone)
        except lastmod.LastmodError as error:
            faults.setdefault(error.rule, []).append(number)
            read = None
        days.append(None if read is None else (read - _EPOCH).days if isinstance(read, datetime) else _day(read))
        seconds.append((read - _EPOCH).seconds if isinstance(read, datetime) else None)
    found = Lastmods(day=pa.array(days, pa.int32()), second=pa.array(seconds, pa.int32()))
    for rule, numbers in faults.items():
        found = _apply(found, rule, _mask(numbers, len(days)), texts, locs, judge, tally)
    return found


def _day(value: date) -> int:
    return value.toordinal() - 719_163


def _mask(numbers: list[int], length: int) -> pa.BooleanArray:
    marks = [False] * length
    for number in numbers:
        marks[number] = True
    return pa.array(marks, pa.bool_())


# ---------------------------------------------------------------- judging


def _judge_range(found: Lastmods, values: pa.Array, locs: pa.StringArray, judge: Judge, tally: Tally) -> Lastmods:
    extremes = pc.min_max(found.day).as_py()
    if extremes["min"] is None or (extremes["min"] >= FIRST_DAY and extremes["max"] <= LAST_DAY):
        return found
    bad = pc.or_(pc.less(found.day, FIRST_DAY), pc.greater(found.day, LAST_DAY))
    return _apply(found, "lastmod-range", pc.fill_null(bad, False), values, locs, judge, tally)


def _judge_future(found: Lastmods, values: pa.Array, locs: pa.StringArray, judge: Judge, tally: Tally) -> Lastmods:
    today = (judge.now - _EPOCH).days
    latest = pc.max(found.day).as_py()
    if latest is None or latest < today - 1:
        return found
    last_date = _day(judge.now.astimezone(lastmod.zone(judge.timezone)).date())
    future = pc.greater(found.day, last_date)
    if found.second is not None:
        second = (judge.now - _EPOCH).seconds
        later = pc.or_(
            pc.greater(found.day, today), pc.and_(pc.equal(found.day, today), pc.greater(found.second, second))
        )
        future = pc.if_else(pc.is_null(found.second), future, later)
    future = pc.fill_null(future, False)
    if not any_true(future):
        return found
    recheck_at = (
        _earliest(found.filter(future), judge) if judge.rulebook["lastmod-future"] is not Verdict.KEEP else None
    )
    return replace(_apply(found, "lastmod-future", future, values, locs, judge, tally), recheck_at=recheck_at)


def _earliest(future: Lastmods, judge: Judge) -> datetime:
    """When the first of these lastmods has come."""
    dates = future.day if future.second is None else future.day.filter(pc.is_null(future.second))
    moments = [] if not len(dates) else [lastmod.begins(value_of(pc.min(dates).as_py(), None), judge.timezone)]
    if future.second is not None:
        seconds = pc.min(pc.add(pc.multiply(future.day.cast(pa.int64()), DAY_S), future.second)).as_py()
        if seconds is not None:
            moments.append(_EPOCH + timedelta(seconds=seconds))
    return min(moments)


def _apply(
    found: Lastmods,
    rule: str,
    bad: pa.BooleanArray,
    values: pa.Array,
    locs: pa.StringArray,
    judge: Judge,
    tally: Tally,
) -> Lastmods:
    """What a rule's verdict makes of the bad rows: counted, left out or dropped. Rows dropped before are not counted."""
    verdict = judge.rulebook[rule]
    bad = bad if found.dropped is None else pc.and_not(bad, found.dropped)
    first = pc.indices_nonzero(bad).slice(0, SAMPLES_PER_RULE)
    pairs = zip(texts_of(values.take(first).cast(pa.string())), locs.take(first).to_pylist(), strict=True)
    tally.count(rule, verdict, [f"{value} ({loc})" for value, loc in pairs], bad.true_count, where=judge.section)
    if verdict is Verdict.KEEP:
        return found
    found = replace(found, day=pc.if_else(bad, None, found.day))
    if verdict is Verdict.DROP_ROW:
        found = replace(found, dropped=bad if found.dropped is None else pc.or_(found.dropped, bad))
    return found
