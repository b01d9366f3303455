"""Entries as columns: a record batch of rows, validated, and written as the bytes of its ``<url>`` elements.

``clean`` then ``emit`` give, byte for byte, what reading each row with ``loc.read_loc``, ``lastmod.parse`` and so on and
writing it with ``urlset.render_entry`` gives. Pieces of about ``PIECE_ROWS`` rows are the fastest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_sitemaps.protocol.arrow import any_true, value_view
from airflow_sitemaps.protocol.entry import EXTENSIONS
from airflow_sitemaps.protocol.extension_columns import clean_extensions, judge_news, prefixes_of
from airflow_sitemaps.protocol.hint_columns import Hints, clean_hints
from airflow_sitemaps.protocol.hints import read_changefreq, read_priority
from airflow_sitemaps.protocol.lastmod_column import Lastmods, clean_lastmods
from airflow_sitemaps.protocol.loc_column import clean_locs
from airflow_sitemaps.protocol.tables import hint_table, lastmod_texts
from airflow_sitemaps.protocol.urlset import FOOTER, NAMESPACES, header

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from airflow_sitemaps.protocol.entry import Judge
    from airflow_sitemaps.protocol.rules import Tally

PIECE_ROWS: Final = 16_384
"""Rows worked on at a time: larger pieces make temporaries that page-fault, smaller ones cost calls."""

_OPENING: Final = "<url><loc>"
_CLOSING: Final = "</url>\n"
_LARGEST_TABLE: Final = 4_096
_ENTRY_OVERHEAD: Final = 1_000
_CHUNK_BYTE_SIZE: Final = 64 * 1024
_LONGEST_ESCAPE: Final = len("&apos;")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """Valid, normalised entries as columns, in the order of their rows.

    ``numbers`` are the entries' row numbers in the batch; None: every row became an entry. ``extensions`` holds XML.
    ``recheck_at`` is the earliest moment at which the same rows would give other entries.
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
        """The entries of the mask."""
        return replace(
            self,
            loc=self.loc.filter(mask),
            numbers=pc.indices_nonzero(mask) if self.numbers is None else self.numbers.filter(mask),
            lastmods=None if self.lastmods is None else self.lastmods.filter(mask),
            changefreq=None if self.changefreq is None else self.changefreq.filter(mask),
            priority=None if self.priority is None else self.priority.filter(mask),
            extensions=None if self.extensions is None else self.extensions.filter(mask),
        )

    def prefixes(self) -> frozenset[str]:
        """The namespace prefixes that the entries use."""
        return frozenset() if self.extensions is None else prefixes_of(self.extensions, tuple(NAMESPACES))


# ---------------------------------------------------------------- clean


def clean(batch: pa.RecordBatch, judge: Judge, tally: Tally) -> Cleaned:
    """Validate and normalise the rows of a batch, with columns as ``ports.Source.read`` gives them.

    Faulty rows and fields are mended, left out or dropped as the judge's rulebook says, and counted.

    Raises:
        RuleError: a rule set to ``fail`` is broken.
    """
    work = _Work(batch)
    locs = clean_locs(batch.column("loc"), judge, tally)
    work.cleaned = Cleaned(loc=locs.values)
    if locs.has_dropped:
        work.drop(pc.is_null(locs.values))
    if judge.format == "text":
        return work.cleaned
    _clean_fields(work, judge, tally)
    _clean_extensions(work, judge, tally)
    _drop_too_large(work, judge, tally)
    return work.cleaned


class _Work:
    """The columns still to be cleaned and what is clean already; rows are dropped from both."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        wanted = ("lastmod", "changefreq", "priority", *EXTENSIONS)
        self.columns = {name: batch.column(name) for name in wanted if name in batch.schema.names}
        self.cleaned = _NOTHING

    def drop(self, mask: pa.BooleanArray | None) -> None:
        """Drop the rows of the mask."""
        if mask is None or not any_true(mask):
            return
        keep = pc.invert(mask)
        self.columns = {name: column.filter(keep) for name, column in self.columns.items()}
        self.cleaned = self.cleaned.filter(keep)

    def recheck(self, moment: datetime | None) -> None:
        """Note that the entries change at a moment."""
        known = self.cleaned.recheck_at
        if moment is not None and (known is None or moment < known):
            self.cleaned = replace(self.cleaned, recheck_at=moment)


_NOTHING: Final = Cleaned(loc=pa.array([], pa.string()))


def _clean_fields(work: _Work, judge: Judge, tally: Tally) -> None:
    if "lastmod" in work.columns:
        lastmods = clean_lastmods(work.columns["lastmod"], work.cleaned.loc, judge, tally)
        work.cleaned = replace(work.cleaned, lastmods=lastmods)
        work.recheck(lastmods.recheck_at)
        work.drop(lastmods.dropped)
    if "changefreq" in work.columns:
        column = work.columns["changefreq"]
        hints = clean_hints("changefreq", column, read_changefreq, work.cleaned.loc, judge, tally)
        work.cleaned = replace(work.cleaned, changefreq=hints)
        work.drop(hints.dropped)
    if "priority" in work.columns:
        column = work.columns["priority"]
        hints = clean_hints("priority", column, read_priority, work.cleaned.loc, judge, tally)
        work.cleaned = replace(work.cleaned, priority=hints)
        work.drop(hints.dropped)


def _clean_extensions(work: _Work, judge: Judge, tally: Tally) -> None:
    if judge.kind == "news":
        cleaned = work.cleaned
        freshness = judge_news(work.columns.get("news"), cleaned.lastmods, cleaned.loc, judge, tally)
        work.drop(freshness.old)
        work.recheck(freshness.recheck_at)
    columns: dict[str, pa.Array] = {kind: work.columns[kind] for kind in EXTENSIONS if kind in work.columns}
    if columns:
        fragments = clean_extensions(columns, work.cleaned.loc, judge, tally)
        work.cleaned = replace(work.cleaned, extensions=fragments.values)
        work.drop(fragments.dropped)


def _drop_too_large(work: _Work, judge: Judge, tally: Tally) -> None:
    """Drop entries that no file could hold, not even alone."""
    cleaned = work.cleaned
    room = judge.limits.max_byte_size - len(header(NAMESPACES)) - len(FOOTER)
    longest = 6 * (pc.max(pc.binary_length(cleaned.loc)).as_py() or 0)
    if cleaned.extensions is not None:
        longest += pc.max(pc.binary_length(cleaned.extensions)).as_py() or 0
    if longest + _ENTRY_OVERHEAD <= room or not len(cleaned):
        return
    sizes = pc.binary_length(_elements(cleaned, escape_loc=True))
    large = pc.greater(sizes, room)
    if not any_true(large):
        return
    pairs = zip(cleaned.loc.filter(large).to_pylist(), sizes.filter(large).to_pylist(), strict=True)
    samples = [f"{loc} ({size:,} bytes, limit {judge.limits.max_byte_size:,})" for loc, size in pairs]
    tally.count("entry-too-large", judge.rulebook["entry-too-large"], samples, where=judge.section)
    work.drop(large)


# ---------------------------------------------------------------- emit


@dataclass(frozen=True, slots=True)
class Rendered:
    """The bytes of some entries, not copied yet. With ``is_raw`` the URLs in them are still to be escaped."""

    elements: pa.StringArray
    is_raw: bool

    def chunks(self) -> Iterator[bytes]:
        """The bytes in small pieces: large ones that come and go cost more in page faults than in work."""
        view = value_view(self.elements)
        for start in range(0, len(view), _CHUNK_BYTE_SIZE):
            chunk = bytes(view[start : start + _CHUNK_BYTE_SIZE])
            yield chunk.replace(b"&", b"&amp;").replace(b"'", b"&apos;") if self.is_raw else chunk

    def fits(self, byte_size: int) -> bool:
        """Whether there are at most so many bytes."""
        raw = len(value_view(self.elements))
        if not self.is_raw or raw > byte_size or raw * _LONGEST_ESCAPE <= byte_size:
            return raw <= byte_size
        return sum(map(len, self.chunks())) <= byte_size


def render(cleaned: Cleaned) -> Rendered:
    """The ``<url>`` elements of the entries, one a line."""
    is_raw = cleaned.extensions is None
    return Rendered(_elements(cleaned, escape_loc=not is_raw) if len(cleaned) else cleaned.loc, is_raw)


def render_lines(cleaned: Cleaned) -> Rendered:
    """The URLs of the entries, one a line: the body of a text sitemap."""
    return Rendered(pc.binary_join_element_wise(cleaned.loc, "\n", ""), is_raw=False)


def emit(cleaned: Cleaned) -> bytes:
    """The bytes of ``render``."""
    return b"".join(render(cleaned).chunks())


def emit_lines(cleaned: Cleaned) -> bytes:
    """The bytes of ``render_lines``."""
    return b"".join(render_lines(cleaned).chunks())


def _elements(cleaned: Cleaned, *, escape_loc: bool) -> pa.StringArray:
    """One text an entry. Only ``&`` and ``'`` are left to be escaped in a normal URL; the caller may do it at once."""
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
    """``changefreq``, ``priority`` and ``closing`` of each entry."""
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
