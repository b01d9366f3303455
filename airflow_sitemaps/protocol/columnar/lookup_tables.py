"""Lookup tables of the columnar path: the text of every day, every second of a day, every pair of hints.

The last one or two rows of a table stand for missing values, so that no row is a special case.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_sitemaps.protocol.columnar.lastmod import Lastmods, value_of
from airflow_sitemaps.protocol.columnar.timezones import DAY_S

_WIDEST_YEARS: Final = 60
"""Number of years for which a table of all days is kept. For more years, only the days that occur are written."""

_NO_DAY: Final = "</loc>"
_NO_TIME: Final = DAY_S
_DATE_ONLY: Final = DAY_S + 1
_END: Final = "</lastmod>"


@dataclass(frozen=True, slots=True)
class _Days:
    """All days of some years.

    ``first`` is in days since 1970-01-01. The last row of ``texts`` stands for no day.
    """

    first: int
    texts: pa.StringArray
    records: npt.NDArray[np.bytes_]


@lru_cache(maxsize=16)
def _days(first_year: int, last_year: int) -> _Days:
    first, last = date(first_year, 1, 1), date(last_year, 12, 31)
    texts = [f"{_NO_DAY}<lastmod>{(first + timedelta(days=n)).isoformat()}" for n in range((last - first).days + 1)]
    return _Days((first - date(1970, 1, 1)).days, pa.array([*texts, _NO_DAY], pa.string()), np.array(texts, "S"))


def _days_around(day: pa.Int32Array) -> _Days | None:
    """Return the decades that include all these days, or None if there are no days or they are too far apart."""
    extremes = pc.min_max(day).as_py()
    if extremes["min"] is None:
        return None
    first_year, last_year = value_of(extremes["min"], None).year, value_of(extremes["max"], None).year
    if last_year - first_year >= _WIDEST_YEARS:
        return None
    return _days(max(1, first_year - first_year % 10), min(9999, last_year - last_year % 10 + 9))


def lastmod_texts(lastmods: Lastmods) -> list[pa.StringArray | str]:
    """Return ``</loc><lastmod>…</lastmod>`` for each row, or ``</loc>`` without a lastmod: in one part, or in two to join.

    If every row has a date and a time, all texts have the same length and are written as one record per row. One part less
    saves a third of the whole join.
    """
    day, second = lastmods.day, lastmods.second
    days = _days_around(day)
    if second is None or day.null_count or second.null_count or days is None:
        return [_day_texts(day, days), _time_texts(lastmods)]
    seconds = second.to_numpy()
    minutes = seconds // 60
    records = np.empty(len(day), _record())
    records["day"] = days.records[day.to_numpy() - days.first]
    records["minute"] = _minutes()[minutes]
    records["second"] = _seconds()[seconds - minutes * 60]
    ends = np.arange(len(day) + 1, dtype=np.int32) * np.int32(records.dtype.itemsize)
    return [pa.StringArray.from_buffers(len(day), pa.py_buffer(ends), pa.py_buffer(records))]


@lru_cache(maxsize=1)
def _minutes() -> npt.NDArray[np.bytes_]:
    return np.array([f"T{n // 60:02d}:{n % 60:02d}:" for n in range(DAY_S // 60)], "S")


@lru_cache(maxsize=1)
def _seconds() -> npt.NDArray[np.bytes_]:
    return np.array([f"{n:02d}Z{_END}" for n in range(60)], "S")


@lru_cache(maxsize=1)
def _record() -> np.dtype[np.void]:
    day = np.dtype(f"S{len(_NO_DAY) + len('<lastmod>2000-01-01')}")
    return np.dtype([("day", day), ("minute", _minutes().dtype), ("second", _seconds().dtype)])


def _day_texts(day: pa.Int32Array, days: _Days | None) -> pa.StringArray:
    """Return ``</loc><lastmod>YYYY-MM-DD`` for each row, or ``</loc>`` without a lastmod."""
    if days is not None:
        return days.texts.take(pc.fill_null(pc.subtract(day, days.first), len(days.texts) - 1))
    encoded = day.dictionary_encode()
    texts = [f"{_NO_DAY}<lastmod>{value_of(number, None).isoformat()}" for number in encoded.dictionary.to_pylist()]
    return pa.array([*texts, _NO_DAY], pa.string()).take(pc.fill_null(encoded.indices, len(texts)))


@lru_cache(maxsize=1)
def _times() -> pa.StringArray:
    minutes = pa.array(_minutes().astype("U"), pa.string())
    seconds = pa.array(_seconds().astype("U"), pa.string())
    number = pa.array(range(DAY_S), pa.int32())
    minute = pc.divide(number, 60)
    second = pc.subtract(number, pc.multiply(minute, 60))
    texts = pc.binary_join_element_wise(minutes.take(minute), seconds.take(second), "")
    return pa.concat_arrays([texts, pa.array(["", _END], pa.string())])


def _time_texts(lastmods: Lastmods) -> pa.StringArray | str:
    """Return ``Thh:mm:ssZ</lastmod>`` for each row, ``</lastmod>`` for a date, and nothing without a lastmod."""
    day, second = lastmods.day, lastmods.second
    if second is None:
        return _END if not day.null_count else pc.if_else(pc.is_valid(day), _END, "")
    if second.null_count:
        second = pc.fill_null(second, _DATE_ONLY)
    if day.null_count:
        second = pc.if_else(pc.is_valid(day), second, _NO_TIME)
    return _times().take(second)


@lru_cache(maxsize=64)
def hint_table(changefreqs: tuple[str | None, ...], priorities: tuple[str | None, ...], closing: str) -> pa.StringArray:
    """Return the XML of every combination of changefreq and priority, each followed by ``closing``.

    The pair (c, p) is at ``c * len(priorities) + p``.
    """
    texts = [
        ("" if changefreq is None else f"<changefreq>{changefreq}</changefreq>")
        + ("" if priority is None else f"<priority>{priority}</priority>")
        + closing
        for changefreq in changefreqs
        for priority in priorities
    ]
    return pa.array(texts, pa.string())
