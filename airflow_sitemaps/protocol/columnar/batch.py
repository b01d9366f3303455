"""Entries as columns: a record batch of rows, validated and written as ``<url>`` elements.

``clean`` and ``emit`` give the same bytes as the path for one row: ``loc.read_loc``, ``lastmod.parse`` and so on, then
``urlset.render_entry``. They are fastest for batches of about ``SLICE_ROWS`` rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_sitemaps.protocol.columnar.arrow import any_true, filterable, value_bytes, value_view
from airflow_sitemaps.protocol.columnar.extensions import (
    ARTICLE,
    check_freshness,
    clean_extensions,
    prefixes_of,
    rows_without_article,
)
from airflow_sitemaps.protocol.columnar.hints import Hints, clean_hints
from airflow_sitemaps.protocol.columnar.lastmod import Lastmods, clean_lastmods
from airflow_sitemaps.protocol.columnar.loc import clean_locs
from airflow_sitemaps.protocol.columnar.lookup_tables import hint_table, lastmod_texts
from airflow_sitemaps.protocol.columnar.row_keys import RowKeys, count_rows
from airflow_sitemaps.protocol.entry import EXTENSIONS
from airflow_sitemaps.protocol.hints import read_changefreq, read_priority
from airflow_sitemaps.protocol.rules import SAMPLES_PER_RULE
from airflow_sitemaps.protocol.urlset import EXTENSION_MARKS, FOOTER, NAMESPACES, header

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from airflow_sitemaps.protocol.entry import RowContext
    from airflow_sitemaps.protocol.rules import Tally

_SLASH: Final = re.compile(b"%2F")

SLICE_ROWS: Final = 16_384
"""Number of rows processed at a time. Larger slices cause page faults, smaller ones need more calls."""

_OPENING: Final = "<url><loc>"
_CLOSING: Final = "</url>\n"
_LARGEST_TABLE: Final = 4_096
_ENTRY_OVERHEAD: Final = 1_000
_CHUNK_BYTE_SIZE: Final = 64 * 1024
_LONGEST_ESCAPE: Final = len("&apos;")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """Valid, normalised entries as columns, in the order of their rows.

    Attributes:
        loc: The URLs.
        numbers: Row numbers of the entries in the batch. None: every row became an entry.
        lastmods: None if the section has none.
        changefreq: None if the section has none.
        priority: None if the section has none.
        extensions: XML of each entry's extensions. None if the section has none.
        recheck_at: Earliest time at which the same rows would give other entries. None: never.
    """

    loc: pa.StringArray
    numbers: pa.Array | None = None
    lastmods: Lastmods | None = None
    changefreq: Hints | None = None
    priority: Hints | None = None
    extensions: pa.StringArray | None = None
    recheck_at: datetime | None = None

    def __len__(self) -> int:
        return len(self.loc)

    def filter(self, mask: pa.BooleanArray) -> Cleaned:
        """Keep the entries of the mask."""
        return replace(
            self,
            loc=self.loc.filter(mask),
            numbers=pc.indices_nonzero(mask) if self.numbers is None else self.numbers.filter(mask),
            lastmods=None if self.lastmods is None else self.lastmods.filter(mask),
            changefreq=None if self.changefreq is None else self.changefreq.filter(mask),
            priority=None if self.priority is None else self.priority.filter(mask),
            extensions=None if self.extensions is None else self.extensions.filter(mask),
        )

    def articles(self) -> int:
        """Number of entries with an article (``news:news``)."""
        if self.extensions is None:
            return 0
        return int(pc.match_substring(self.extensions, ARTICLE).true_count)

    def extension_counts(self) -> dict[str, int]:
        """How many images, videos, articles and alternates the entries have; kinds without any are left out."""
        if self.extensions is None:
            return {}
        data = value_bytes(self.extensions)  # text is escaped, so a mark neither occurs in it nor spans two rows
        counts = {name: data.count(mark.encode()) for name, mark in EXTENSION_MARKS.items()}
        return {name: number for name, number in counts.items() if number}

    def prefixes(self) -> frozenset[str]:
        """Namespace prefixes that the entries use."""
        return frozenset() if self.extensions is None else prefixes_of(self.extensions, tuple(NAMESPACES))


# ---------------------------------------------------------------- clean


def clean(batch: pa.RecordBatch, context: RowContext, tally: Tally) -> Cleaned:
    """Validate and normalise the rows of a batch. Each faulty row or field is counted and handled as the rulebook says.

    Args:
        batch: Rows with the columns that ``ports.Source.read`` defines.

    Returns:
        The entries of the rows.

    Raises:
        RuleError: A rule set to ``fail`` is broken.
    """
    work = _Work(batch)
    locs = clean_locs(batch.column("loc"), context, tally, RowKeys(keys=work.keys))
    work.cleaned = Cleaned(loc=locs.values)
    if context.from_template:
        _count_slashes(locs.values, work.keys, context, tally)
    if locs.has_dropped:
        work.drop(pc.is_null(locs.values))
    if context.format == "text":
        return work.cleaned
    _clean_fields(work, context, tally)
    _clean_extensions(work, context, tally)
    _drop_too_large(work, context, tally)
    return work.cleaned


def _count_slashes(locs: pa.StringArray, keys: pa.Array | None, context: RowContext, tally: Tally) -> None:
    """Count URLs in which a slash of a value became ``%2F``.

    The bytes are searched first, because most batches contain no ``%2F``.
    """
    if _SLASH.search(value_view(locs)) is None:
        return
    slashes = pc.fill_null(pc.match_substring(locs, "%2F"), False)
    if any_true(slashes):
        verdict = context.rulebook["loc-slash"]
        count_rows(tally, "loc-slash", verdict, RowKeys(keys=keys), slashes, locs, where=context.section)


class _Work:
    """The columns that are not cleaned yet, and the entries so far. Dropped rows are removed from both."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        wanted = ("lastmod", "changefreq", "priority", *EXTENSIONS)
        self.columns = {name: filterable(batch.column(name)) for name in wanted if name in batch.schema.names}
        self.keys = batch.column("key") if "key" in batch.schema.names else None
        self.cleaned = _NOTHING

    def rows(self) -> RowKeys:
        """Keys and URLs of the remaining rows."""
        return RowKeys(keys=self.keys, numbers=self.cleaned.numbers, locs=self.cleaned.loc)

    def drop(self, mask: pa.BooleanArray | None) -> None:
        """Drop the rows of the mask."""
        if mask is None or not any_true(mask):
            return
        keep = pc.invert(mask)
        self.columns = {name: column.filter(keep) for name, column in self.columns.items()}
        self.cleaned = self.cleaned.filter(keep)

    def recheck(self, moment: datetime | None) -> None:
        """Record a time at which the entries change."""
        earliest = self.cleaned.recheck_at
        if moment is not None and (earliest is None or moment < earliest):
            self.cleaned = replace(self.cleaned, recheck_at=moment)


_NOTHING: Final = Cleaned(loc=pa.array([], pa.string()))


def _clean_fields(work: _Work, context: RowContext, tally: Tally) -> None:
    if "lastmod" in work.columns:
        lastmods = clean_lastmods(work.columns["lastmod"], work.rows(), context, tally)
        work.cleaned = replace(work.cleaned, lastmods=lastmods)
        work.recheck(lastmods.recheck_at)
        work.drop(lastmods.dropped)
    if "changefreq" in work.columns:
        column = work.columns["changefreq"]
        hints = clean_hints("changefreq", column, read_changefreq, work.rows(), context, tally)
        work.cleaned = replace(work.cleaned, changefreq=hints)
        work.drop(hints.dropped)
    if "priority" in work.columns:
        column = work.columns["priority"]
        hints = clean_hints("priority", column, read_priority, work.rows(), context, tally)
        work.cleaned = replace(work.cleaned, priority=hints)
        work.drop(hints.dropped)


def _clean_extensions(work: _Work, context: RowContext, tally: Tally) -> None:
    if context.kind == "news":
        freshness = check_freshness(work.columns.get("news"), work.cleaned.lastmods, work.rows(), context, tally)
        work.drop(freshness.dropped)
        work.recheck(freshness.recheck_at)
    columns: dict[str, pa.Array] = {kind: work.columns[kind] for kind in EXTENSIONS if kind in work.columns}
    if columns:
        fragments = clean_extensions(columns, work.rows(), context, tally)
        work.cleaned = replace(work.cleaned, extensions=fragments.values)
        work.drop(fragments.dropped)
    if context.kind == "news":
        cleaned, news = work.cleaned, work.columns.get("news")
        work.drop(rows_without_article(news, cleaned.extensions, cleaned.lastmods, work.rows(), context, tally))


def _drop_too_large(work: _Work, context: RowContext, tally: Tally) -> None:
    """Drop entries that are too large for a file of their own."""
    cleaned = work.cleaned
    room = context.limits.max_byte_size - len(header(NAMESPACES)) - len(FOOTER)
    longest = 6 * (pc.max(pc.binary_length(cleaned.loc)).as_py() or 0)
    if cleaned.extensions is not None:
        longest += pc.max(pc.binary_length(cleaned.extensions)).as_py() or 0
    if longest + _ENTRY_OVERHEAD <= room or not len(cleaned):
        return
    sizes = pc.binary_length(_elements(cleaned, escape_loc=True))
    large = pc.greater(sizes, room)
    if not any_true(large):
        return
    rows = work.rows()
    samples = [
        rows.sample(f"{sizes[row].as_py():,} bytes (limit {context.limits.max_byte_size:,})", row)
        for row in pc.indices_nonzero(large).slice(0, SAMPLES_PER_RULE).to_pylist()
    ]
    verdict = context.rulebook["entry-too-large"]
    tally.count("entry-too-large", verdict, samples, large.true_count, where=context.section)
    work.drop(large)


# ---------------------------------------------------------------- emit


@dataclass(frozen=True, slots=True)
class Rendered:
    """The bytes of some entries, not copied yet.

    Attributes:
        elements: One text for each entry.
        is_raw: Whether the URLs in them must still be escaped.
    """

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
    return Rendered(_elements(cleaned, escape_loc=not is_raw) if len(cleaned) else cleaned.loc, is_raw)


def render_lines(cleaned: Cleaned) -> Rendered:
    """Return the URLs of the entries, one per line: the body of a text sitemap."""
    return Rendered(pc.binary_join_element_wise(cleaned.loc, "\n", ""), is_raw=False)


def emit(cleaned: Cleaned) -> bytes:
    """Return the bytes of ``render``."""
    return b"".join(render(cleaned).chunks())


def _elements(cleaned: Cleaned, *, escape_loc: bool) -> pa.StringArray:
    """Return one XML string for each entry.

    Only ``&`` and ``'`` need escaping in a normal URL. Pass ``escape_loc=False`` if
    the URLs are escaped already.
    """
    loc = cleaned.loc
    if escape_loc:
        loc = pc.replace_substring(pc.replace_substring(loc, "&", "&amp;"), "'", "&apos;")
    parts: list[pa.StringArray | str] = [_OPENING, loc]
    if cleaned.lastmods is None:
        parts.append("</loc>")
    else:
        parts += lastmod_texts(cleaned.lastmods)
    if cleaned.extensions is None:
        parts += _hints(cleaned, _CLOSING)
    else:
        parts += [*_hints(cleaned, ""), cleaned.extensions, _CLOSING]
    return pc.binary_join_element_wise(*parts, "")


def _hints(cleaned: Cleaned, closing: str) -> list[pa.StringArray | str]:
    """Return ``changefreq``, ``priority`` and the closing tag of each entry."""
    changefreq, priority = cleaned.changefreq, cleaned.priority
    if changefreq is None:
        return [closing] if priority is None else [hint_table((None,), priority.texts, closing).take(priority.codes)]
    if priority is None:
        return [hint_table(changefreq.texts, (None,), closing).take(changefreq.codes)]
    if len(changefreq.texts) * len(priority.texts) > _LARGEST_TABLE:
        first = hint_table(changefreq.texts, (None,), "").take(changefreq.codes)
        return [first, hint_table((None,), priority.texts, closing).take(priority.codes)]
    pairs = pc.add(pc.multiply(changefreq.codes, len(priority.texts)), priority.codes)
    return [hint_table(changefreq.texts, priority.texts, closing).take(pairs)]
