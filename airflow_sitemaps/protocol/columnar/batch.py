"""Rows as columns: a record batch, validated and normalised.

``clean`` and ``elements.render`` give the same bytes as the path for one row: ``loc.read_loc``, ``lastmod.parse`` and so on.
The columns recognise rows that are clean and hand the others to that path. They are fastest for ``SLICE_ROWS`` rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_sitemaps.protocol.columnar.arrow import (
    RowKeys,
    any_true,
    as_texts,
    count_rows,
    decoded,
    filterable,
    texts_of,
    value_view,
)
from airflow_sitemaps.protocol.columnar.elements import Cleaned, Hints, elements
from airflow_sitemaps.protocol.columnar.extensions import clean_extensions, expired_articles, rows_without_article
from airflow_sitemaps.protocol.columnar.lastmod import clean_lastmods
from airflow_sitemaps.protocol.columnar.loc import clean_locs
from airflow_sitemaps.protocol.entry import EXTENSIONS, read_changefreq, read_priority
from airflow_sitemaps.protocol.markup import FOOTER, NAMESPACES, header
from airflow_sitemaps.protocol.rules import SAMPLES_PER_RULE, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from airflow_sitemaps.protocol.entry import RowContext
    from airflow_sitemaps.protocol.rules import Tally

SLICE_ROWS: Final = 16_384
"""Number of rows processed at a time. Larger slices cause page faults, smaller ones need more calls."""

_ENTRY_OVERHEAD: Final = 1_000


def clean(batch: pa.RecordBatch, context: RowContext, tally: Tally) -> Cleaned:
    """Validate and normalise the rows of a batch. Each faulty row or field is counted and handled as the rulebook says.

    ``ports.Source.read`` defines the columns.

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
    if "lastmod" in work.columns:
        lastmods = clean_lastmods(work.columns["lastmod"], work.rows(), context, tally)
        work.cleaned = replace(work.cleaned, lastmods=lastmods)
        work.recheck(lastmods.recheck_at)
        work.drop(lastmods.dropped)
    if "changefreq" in work.columns:
        hints = _clean_hints("changefreq", read_changefreq, work, context, tally)
        work.cleaned = replace(work.cleaned, changefreq=hints)
        work.drop(hints.dropped)
    if "priority" in work.columns:
        hints = _clean_hints("priority", read_priority, work, context, tally)
        work.cleaned = replace(work.cleaned, priority=hints)
        work.drop(hints.dropped)
    _clean_extensions(work, context, tally)
    _drop_too_large(work, context, tally)
    return work.cleaned


class _Work:
    """The columns that are not cleaned yet, and the entries so far. Dropped rows are removed from both."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        wanted = ("lastmod", "changefreq", "priority", *EXTENSIONS)
        self.columns = {name: filterable(batch.column(name)) for name in wanted if name in batch.schema.names}
        self.keys = batch.column("key") if "key" in batch.schema.names else None
        self.cleaned = Cleaned(loc=pa.array([], pa.string()))

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


def _count_slashes(locs: pa.StringArray, keys: pa.Array | None, context: RowContext, tally: Tally) -> None:
    """Count URLs in which a slash of a value became ``%2F``. Most batches contain none, and their bytes are searched first."""
    if b"%2F" not in bytes(value_view(locs)):
        return
    slashes = pc.fill_null(pc.match_substring(locs, "%2F"), False)
    if any_true(slashes):
        count_rows("loc-slash", slashes, locs, RowKeys(keys=keys), context, tally)


def _clean_hints(rule: str, read: Callable[[str], str | None], work: _Work, context: RowContext, tally: Tally) -> Hints:
    """Parse a column of hints and count its faults. It has few different values, so each value is parsed once.

    ``read`` returns the text to write for a value, or None for no value. It raises ValueError for a fault.
    """
    values = decoded(work.columns[rule])
    kind = values.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal128(kind)):
        values = as_texts(values)
    encoded = values.dictionary_encode()
    different = encoded.dictionary
    texts: list[str | None] = [None]
    codes: list[int] = []
    faulty: list[int] = []
    numbers: dict[str | None, int] = {None: 0}
    for number, value in enumerate(
        texts_of(different) if pa.types.is_string(different.type) else different.to_pylist()
    ):
        text = None
        try:
            text = None if value is None else read(str(value))
        except ValueError:
            faulty.append(number)
        if text not in numbers:
            numbers[text] = len(texts)
            texts.append(text)
        codes.append(numbers[text])
    indices = encoded.indices
    taken = pa.array([*codes, 0], pa.int32()).take(pc.fill_null(indices, len(codes)))
    hints = Hints(codes=taken, texts=tuple(texts))
    bad = pc.fill_null(pc.is_in(indices, pa.array(faulty, indices.type)), False) if faulty else None
    if bad is None or not any_true(bad):
        return hints
    verdict = count_rows(rule, bad, values, work.rows(), context, tally)
    return replace(hints, dropped=bad) if verdict is Verdict.DROP_ROW else hints


def _clean_extensions(work: _Work, context: RowContext, tally: Tally) -> None:
    is_news = context.kind == "news"
    if is_news:
        lastmods = work.cleaned.lastmods
        old, recheck_at = expired_articles(work.columns.get("news"), lastmods, work.rows(), context, tally)
        work.drop(old)
        work.recheck(recheck_at)
    columns: dict[str, pa.Array] = {kind: work.columns[kind] for kind in EXTENSIONS if kind in work.columns}
    if columns:
        fragments, dropped = clean_extensions(columns, work.rows(), context, tally)
        work.cleaned = replace(work.cleaned, extensions=fragments)
        work.drop(dropped)
    if is_news:
        work.drop(rows_without_article(work.columns.get("news"), work.cleaned, work.rows(), context, tally))


def _drop_too_large(work: _Work, context: RowContext, tally: Tally) -> None:
    """Drop entries that are too large for a file of their own."""
    cleaned = work.cleaned
    room = context.limits.max_byte_size - len(header(NAMESPACES)) - len(FOOTER)
    longest = 6 * (pc.max(pc.binary_length(cleaned.loc)).as_py() or 0)
    if cleaned.extensions is not None:
        longest += pc.max(pc.binary_length(cleaned.extensions)).as_py() or 0
    if longest + _ENTRY_OVERHEAD <= room or not len(cleaned):
        return
    sizes = pc.binary_length(elements(cleaned, escape_loc=True))
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
