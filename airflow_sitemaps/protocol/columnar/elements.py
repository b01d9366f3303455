"""Cleaned entries as columns, and their ``<url>`` elements, without a Python object per row.

Lookup tables hold the text of every day, of every second of a day, and of every pair of hints. The last one or two rows of
a table stand for missing values, so that no row is a special case.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_sitemaps.protocol.columnar import value_bytes, value_view
from airflow_sitemaps.protocol.columnar.lastmod import DAY_S, Lastmods, value_of
from airflow_sitemaps.protocol.markup import EXTENSION_MARKS, NAMESPACES

_LARGEST_TABLE: Final = 4_096
_CHUNK_BYTE_SIZE: Final = 64 * 1024
_LONGEST_ESCAPE: Final = len("&apos;")

_WIDEST_YEARS: Final = 60
"""Number of years for which a table of all days is kept. For more years, only the days that occur are written."""

_NO_DAY: Final = "</loc>"
_NO_TIME: Final = DAY_S
_DATE_ONLY: Final = DAY_S + 1
_END: Final = "</lastmod>"
_DAY: Final = f"S{len(_NO_DAY) + len('<lastmod>2000-01-01')}"
_MINUTES: Final = np.array([f"T{n // 60:02d}:{n % 60:02d}:" for n in range(DAY_S // 60)], "S")
_SECONDS: Final = np.array([f"{n:02d}Z{_END}" for n in range(60)], "S")
_RECORD: Final = np.dtype([("day", _DAY), ("minute", _MINUTES.dtype), ("second", _SECONDS.dtype)])
"""The bytes of a lastmod with date and time, from the end of its loc on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """One hint for each row: its position in the different texts (None: no hint), and a mask of rows to drop."""

    codes: pa.Int32Array
    texts: tuple[str | None, ...]
    dropped: pa.BooleanArray | None = None

    def filter(self, mask: pa.BooleanArray) -> Hints:
        """Keep the rows of the mask."""
        return replace(self, codes=self.codes.filter(mask))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """Valid, normalised entries as columns, in the order of their rows. A column that the section lacks is None.

    ``numbers`` are their rows in the batch; None: every row became an entry. ``extensions`` is XML. ``recheck_at`` is
    the earliest time at which the same rows would give other entries; None: never. ``moved`` masks the entries that this
    run dates; None: it dates none.
    """

    loc: pa.StringArray
    numbers: pa.Array | None = None
    lastmods: Lastmods | None = None
    changefreq: Hints | None = None
    priority: Hints | None = None
    extensions: pa.StringArray | None = None
    recheck_at: datetime | None = None
    moved: pa.BooleanArray | None = None

    def __len__(self) -> int:
        return len(self.loc)

    def filter(self, mask: pa.BooleanArray) -> Cleaned:
        """Keep the entries of the mask."""
        names = ("loc", "lastmods", "changefreq", "priority", "extensions", "moved")
        columns = {name: column.filter(mask) for name in names if (column := getattr(self, name)) is not None}
        numbers = pc.indices_nonzero(mask) if self.numbers is None else self.numbers.filter(mask)
        return replace(self, numbers=numbers, **columns)

    def articles(self) -> int:
        """Number of entries with an article (``news:news``)."""
        if self.extensions is None:
            return 0
        return int(pc.match_substring(self.extensions, EXTENSION_MARKS["news"]).true_count)

    def extension_counts(self) -> dict[str, int]:
        """How many images, videos, articles and alternates the entries have; kinds without any are left out."""
        if self.extensions is None:
            return {}
        data = value_bytes(self.extensions)
        counts = {name: data.count(mark.encode()) for name, mark in EXTENSION_MARKS.items()}
        return {name: number for name, number in counts.items() if number}

    def prefixes(self) -> frozenset[str]:
        """Namespace prefixes that the entries use. Text is escaped, so it cannot be mistaken for a tag."""
        data = b"" if self.extensions is None else value_bytes(self.extensions)
        return frozenset(prefix for prefix in NAMESPACES if f"<{prefix}:".encode() in data)


# ---------------------------------------------------------------- rendering


@dataclass(frozen=True, slots=True)
class Rendered:
    """The bytes of some entries, not copied yet: one text each. ``is_raw``: the URLs in them must still be escaped."""

    elements: pa.StringArray
    is_raw: bool

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes in small chunks, because large temporary buffers cost more page faults than work."""
        view = value_view(self.elements)
        for start in range(0, len(view), _CHUNK_BYTE_SIZE):
            chunk = bytes(view[start : start + _CHUNK_BYTE_SIZE])
            yield chunk.replace(b"&", b"&amp;").replace(b"'", b"&apos;") if self.is_raw else chunk

    def fits(self, byte_size: int) -> bool:
        """Return whether there are at most ``byte_size`` bytes."""
        raw = len(value_view(self.elements))
        if not self.is_raw or raw > byte_size or raw * _LONGEST_ESCAPE <= byte_size:
            return raw <= byte_size
        return sum(map(len, self.chunks())) <= byte_size


def render(cleaned: Cleaned) -> Rendered:
    """Return the ``<url>`` elements of the entries, one per line."""
    is_raw = cleaned.extensions is None
    return Rendered(elements(cleaned, escape_loc=not is_raw) if len(cleaned) else cleaned.loc, is_raw)


def render_lines(cleaned: Cleaned) -> Rendered:
    """Return the URLs of the entries, one per line: the body of a text sitemap."""
    return Rendered(pc.binary_join_element_wise(cleaned.loc, "\n", ""), is_raw=False)


def elements(cleaned: Cleaned, *, escape_loc: bool) -> pa.StringArray:
    """Return one XML string for each entry. A normal URL contains only ``&`` and ``'`` to escape."""
    loc = cleaned.loc
    if escape_loc:
        loc = pc.replace_substring(pc.replace_substring(loc, "&", "&amp;"), "'", "&apos;")
    closing = "</url>\n"
    changed = ["</loc>"] if cleaned.lastmods is None else _lastmod_texts(cleaned.lastmods)
    if cleaned.extensions is None:
        rest = _hint_texts(cleaned, closing)
    else:
        rest = [*_hint_texts(cleaned, ""), cleaned.extensions, closing]
    return pc.binary_join_element_wise("<url><loc>", loc, *changed, *rest, "")


# ---------------------------------------------------------------- hints


def _hint_texts(cleaned: Cleaned, closing: str) -> list[pa.StringArray | str]:
    """Return ``changefreq``, ``priority`` and the closing tag of each entry."""
    changefreq, priority = cleaned.changefreq, cleaned.priority
    if changefreq is None:
        return [closing] if priority is None else [_hint_table((None,), priority.texts, closing).take(priority.codes)]
    if priority is None:
        return [_hint_table(changefreq.texts, (None,), closing).take(changefreq.codes)]
    if len(changefreq.texts) * len(priority.texts) > _LARGEST_TABLE:
        first = _hint_table(changefreq.texts, (None,), "").take(changefreq.codes)
        return [first, _hint_table((None,), priority.texts, closing).take(priority.codes)]
    pairs = pc.add(pc.multiply(changefreq.codes, len(priority.texts)), priority.codes)
    return [_hint_table(changefreq.texts, priority.texts, closing).take(pairs)]


@lru_cache(maxsize=64)
def _hint_table(
    changefreqs: tuple[str | None, ...], priorities: tuple[str | None, ...], closing: str
) -> pa.StringArray:
    """Return the XML of every pair of changefreq and priority, the pair (c, p) at ``c * len(priorities) + p``."""
    texts = [
        ("" if changefreq is None else f"<changefreq>{changefreq}</changefreq>")
        + ("" if priority is None else f"<priority>{priority}</priority>")
        + closing
        for changefreq in changefreqs
        for priority in priorities
    ]
    return pa.array(texts, pa.string())


# ---------------------------------------------------------------- lastmod


@dataclass(frozen=True, slots=True)
class _Days:
    """All days of some years, the first in days since 1970-01-01. The last row of ``texts`` stands for no day."""

    first: int
    texts: pa.StringArray
    records: npt.NDArray[np.bytes_]


def _lastmod_texts(lastmods: Lastmods) -> list[pa.StringArray | str]:
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
    records = np.empty(len(day), _RECORD)
    records["day"] = days.records[day.to_numpy() - days.first]
    records["minute"] = _MINUTES[minutes]
    records["second"] = _SECONDS[seconds - minutes * 60]
    ends = np.arange(len(day) + 1, dtype=np.int32) * np.int32(records.dtype.itemsize)
    return [pa.StringArray.from_buffers(len(day), pa.py_buffer(ends), pa.py_buffer(records))]


def lastmod_texts(lastmods: Lastmods) -> pa.StringArray:
    """Return each lastmod as it is listed; null where there is none."""
    texts = _lastmod_texts(lastmods)
    start, end = len(_NO_DAY) + len("<lastmod>"), len(_END)
    if len(texts) == 1 and not isinstance(texts[0], str):
        length = _RECORD.itemsize - start - end
        data = np.frombuffer(texts[0].buffers()[2], np.uint8).reshape(len(lastmods.day), -1)
        ends = np.arange(len(data) + 1, dtype=np.int32) * np.int32(length)
        listed = np.ascontiguousarray(data[:, start:-end])
        return pa.StringArray.from_buffers(len(data), pa.py_buffer(ends), pa.py_buffer(listed))
    listed = pc.utf8_slice_codeunits(pc.binary_join_element_wise(*texts, ""), start, -end)
    return pc.if_else(pc.is_valid(lastmods.day), listed, None)


def _days_around(day: pa.Int32Array) -> _Days | None:
    """Return the decades that include all these days, or None if there are no days or they are too far apart."""
    extremes = pc.min_max(day).as_py()
    if extremes["min"] is None:
        return None
    first_year, last_year = value_of(extremes["min"], None).year, value_of(extremes["max"], None).year
    if last_year - first_year >= _WIDEST_YEARS:
        return None
    return _days(max(1, first_year - first_year % 10), min(9999, last_year - last_year % 10 + 9))


@lru_cache(maxsize=16)
def _days(first_year: int, last_year: int) -> _Days:
    first, last = date(first_year, 1, 1), date(last_year, 12, 31)
    texts = [f"{_NO_DAY}<lastmod>{(first + timedelta(days=n)).isoformat()}" for n in range((last - first).days + 1)]
    return _Days((first - date(1970, 1, 1)).days, pa.array([*texts, _NO_DAY], pa.string()), np.array(texts, "S"))


def _day_texts(day: pa.Int32Array, days: _Days | None) -> pa.StringArray:
    """Return ``</loc><lastmod>YYYY-MM-DD`` for each row, or ``</loc>`` without a lastmod."""
    if days is not None:
        return days.texts.take(pc.fill_null(pc.subtract(day, days.first), len(days.texts) - 1))
    encoded = day.dictionary_encode()
    texts = [f"{_NO_DAY}<lastmod>{value_of(number, None).isoformat()}" for number in encoded.dictionary.to_pylist()]
    return pa.array([*texts, _NO_DAY], pa.string()).take(pc.fill_null(encoded.indices, len(texts)))


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


@lru_cache(maxsize=1)
def _times() -> pa.StringArray:
    minutes = pa.array(_MINUTES.astype("U"), pa.string())
    seconds = pa.array(_SECONDS.astype("U"), pa.string())
    numbers = np.arange(DAY_S)
    texts = pc.binary_join_element_wise(minutes.take(pa.array(numbers // 60)), seconds.take(pa.array(numbers % 60)), "")
    return pa.concat_arrays([texts, pa.array(["", _END], pa.string())])
