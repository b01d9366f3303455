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
import pyarrow as pa
import pyarrow.compute as pc

from airflow_sitemaps.protocol.columnar import value_bytes, value_view
from airflow_sitemaps.protocol.columnar.lastmod import DAY_S, Lastmods, value_of
from airflow_sitemaps.protocol.lastmod import day_number
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """Valid, normalised entries as columns, in the order of their rows. A column that the section lacks is None.

    ``changefreq`` and ``priority`` are texts, with null in the dictionary for no hint. ``numbers`` are their rows in the batch; None: every row became an entry. ``extensions`` is XML. ``recheck_at`` is
    the earliest time at which the same rows would give other entries; None: never. ``moved`` masks the entries that this
    run dates; None: it dates none.
    """

    loc: pa.StringArray
    numbers: pa.Array | None = None
    lastmods: Lastmods | None = None
    changefreq: pa.DictionaryArray | None = None
    priority: pa.DictionaryArray | None = None
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
    lastmods = cleaned.lastmods
    changed = [_NO_DAY] if lastmods is None else [_day_texts(lastmods.day), _time_texts(lastmods)]
    if cleaned.extensions is None:
        rest = _hint_texts(cleaned, closing)
    else:
        rest = [*_hint_texts(cleaned, ""), cleaned.extensions, closing]
    return pc.binary_join_element_wise("<url><loc>", loc, *changed, *rest, "")


# ---------------------------------------------------------------- hints


def _hint_texts(cleaned: Cleaned, closing: str) -> list[pa.StringArray | str]:
    """Return ``changefreq``, ``priority`` and the closing tag of each entry."""
    changefreq, priority = cleaned.changefreq, cleaned.priority
    changefreqs, priorities = (
        (None,) if column is None else tuple(column.dictionary.to_pylist()) for column in (changefreq, priority)
    )
    if changefreq is None:
        return [closing] if priority is None else [_hint_table((None,), priorities, closing).take(priority.indices)]
    if priority is None:
        return [_hint_table(changefreqs, (None,), closing).take(changefreq.indices)]
    if len(changefreqs) * len(priorities) > _LARGEST_TABLE:
        first = _hint_table(changefreqs, (None,), "").take(changefreq.indices)
        return [first, _hint_table((None,), priorities, closing).take(priority.indices)]
    pairs = pc.add(pc.multiply(changefreq.indices, len(priorities)), priority.indices)
    return [_hint_table(changefreqs, priorities, closing).take(pairs)]


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


def lastmod_texts(lastmods: Lastmods) -> pa.StringArray:
    """Return each lastmod as it is listed; null where there is none."""
    dates = lastmods.day.cast(pa.date32()).cast(pa.string())
    if lastmods.second is None:
        return dates
    return pc.binary_join_element_wise(dates, _times("").take(pc.fill_null(lastmods.second, _DATE_ONLY)), "")


def _day_texts(day: pa.Int32Array) -> pa.StringArray:
    """Return ``</loc><lastmod>YYYY-MM-DD`` for each row, or ``</loc>`` without a lastmod."""
    extremes = pc.min_max(day).as_py()
    if extremes["min"] is not None:
        first, last = (value_of(extremes[name], None).year // 10 * 10 for name in ("min", "max"))
        if last - first < _WIDEST_YEARS:
            start, texts = _days(max(1, first), min(9999, last + 9))
            return texts.take(pc.fill_null(pc.subtract(day, start), len(texts) - 1))
    encoded = day.dictionary_encode()
    written = [f"{_NO_DAY}<lastmod>{value_of(number, None).isoformat()}" for number in encoded.dictionary.to_pylist()]
    return pa.array([*written, _NO_DAY], pa.string()).take(pc.fill_null(encoded.indices, len(written)))


@lru_cache(maxsize=16)
def _days(first_year: int, last_year: int) -> tuple[int, pa.StringArray]:
    """Return the first day of some years, in days since 1970-01-01, and the texts of all their days, then that of no day."""
    first, last = date(first_year, 1, 1), date(last_year, 12, 31)
    texts = [f"{_NO_DAY}<lastmod>{(first + timedelta(days=n)).isoformat()}" for n in range((last - first).days + 1)]
    return day_number(first), pa.array([*texts, _NO_DAY], pa.string())


def _time_texts(lastmods: Lastmods) -> pa.StringArray | str:
    """Return ``Thh:mm:ssZ</lastmod>`` for each row, ``</lastmod>`` for a date, and nothing without a lastmod."""
    day, second = lastmods.day, lastmods.second
    if second is None:
        return _END if not day.null_count else pc.if_else(pc.is_valid(day), _END, "")
    if second.null_count:
        second = pc.fill_null(second, _DATE_ONLY)
    if day.null_count:
        second = pc.if_else(pc.is_valid(day), second, _NO_TIME)
    return _times(_END).take(second)


@lru_cache(maxsize=2)
def _times(end: str) -> pa.StringArray:
    """Return the texts of all seconds of a day with an end, then those of ``_NO_TIME`` and ``_DATE_ONLY``."""
    minutes = pa.array([f"T{n // 60:02d}:{n % 60:02d}:" for n in range(DAY_S // 60)])
    seconds = pa.array([f"{n:02d}Z{end}" for n in range(60)])
    numbers = np.arange(DAY_S)
    texts = pc.binary_join_element_wise(minutes.take(pa.array(numbers // 60)), seconds.take(pa.array(numbers % 60)), "")
    return pa.concat_arrays([texts, pa.array(["", end])])
