"""Rows as columns: a record batch, validated and normalised.

``clean`` and ``elements.render`` give the same bytes as the path for one row: ``loc.read_loc``, ``lastmod.parse`` and so on.
The columns recognise rows that are clean and hand the others to that path. They are fastest for ``SLICE_ROWS`` rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_sitemaps.protocol import EXTENSIONS, RowContext, lastmod, read_changefreq, read_priority
from airflow_sitemaps.protocol.columnar import RowKeys, as_texts, count_rows, row_mask, texts_of, value_view
from airflow_sitemaps.protocol.columnar.elements import Cleaned, elements
from airflow_sitemaps.protocol.columnar.lastmod import Lastmods, clean_lastmods
from airflow_sitemaps.protocol.columnar.loc import clean_locs
from airflow_sitemaps.protocol.extensions import DropRow, fragment
from airflow_sitemaps.protocol.extensions.languages import NEWS_WINDOW, publication_date
from airflow_sitemaps.protocol.feeds import FEED_ENTRIES, FeedText, feed_text
from airflow_sitemaps.protocol.markup import EXTENSION_MARKS, FOOTER, NAMESPACES, header
from airflow_sitemaps.protocol.rules import SAMPLES_PER_RULE, Tally, Verdict

SLICE_ROWS: Final = 16_384
"""Number of rows processed at a time. Larger slices cause page faults, smaller ones need more calls."""

_ENTRY_OVERHEAD: Final = 1_000


def clean(batch: pa.RecordBatch, context: RowContext, tally: Tally) -> Cleaned:
    """Validate and normalise the rows of a batch. Each faulty row or field is counted and handled as the rulebook says.

    ``ports.Source.read`` defines the columns. Raises RuleError if a rule set to ``fail`` is broken.
    """
    work = _Work(batch)
    locs = clean_locs(batch.column("loc"), context, tally, RowKeys(keys=work.keys))
    work.cleaned = Cleaned(loc=locs)
    if context.template:
        _count_slashes(locs, work.keys, context, tally)
    if locs.null_count:
        work.drop(pc.is_null(locs))
    if context.format == "text":
        return work.cleaned
    if "lastmod" in work.columns:
        lastmods = clean_lastmods(work.columns["lastmod"], work.rows(), context, tally)
        work.cleaned = replace(work.cleaned, lastmods=lastmods)
        work.recheck(lastmods.recheck_at)
        work.drop(lastmods.dropped)
    if "changefreq" in work.columns:
        hints, dropped = _clean_hints("changefreq", read_changefreq, work, context, tally)
        work.cleaned = replace(work.cleaned, changefreq=hints)
        work.drop(dropped)
    if "priority" in work.columns:
        hints, dropped = _clean_hints("priority", read_priority, work, context, tally)
        work.cleaned = replace(work.cleaned, priority=hints)
        work.drop(dropped)
    _clean_extensions(work, context, tally)
    _drop_too_large(work, context, tally)
    return work.cleaned


class _Work:
    """The columns that are not cleaned yet, and the entries so far. Dropped rows are removed from both."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        wanted = ("lastmod", "changefreq", "priority", *EXTENSIONS)
        self.columns = {name: batch.column(name) for name in wanted if name in batch.schema.names}
        self.keys = batch.column("key") if "key" in batch.schema.names else None
        self.cleaned = Cleaned(loc=pa.array([], pa.string()))

    def rows(self) -> RowKeys:
        """Keys and URLs of the remaining rows."""
        return RowKeys(keys=self.keys, numbers=self.cleaned.numbers, locs=self.cleaned.loc)

    def drop(self, mask: pa.BooleanArray | None) -> None:
        """Drop the rows of the mask."""
        if mask is None or not mask.true_count:
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
    slashes = pc.fill_null(pc.greater(pc.count_substring(locs, "%2F"), context.template.count("%2F")), False)
    if slashes.true_count:
        count_rows("loc-slash", slashes, locs, RowKeys(keys=keys), context, tally)


def _clean_hints(
    rule: str, read: Callable[[str], str | None], work: _Work, context: RowContext, tally: Tally
) -> tuple[pa.DictionaryArray, pa.BooleanArray | None]:
    """Parse a column of hints and count its faults. It has few different values, so each value is parsed once.

    Return the texts to write, and a mask of rows to drop, or None for no row. ``read`` returns the text to write for a
    value, or None for no value. It raises ValueError for a fault.
    """
    values = work.columns[rule]
    encoded = values.dictionary_encode()
    different = encoded.dictionary
    texts: list[str | None] = []
    faulty: list[int] = []
    for number, value in enumerate(
        texts_of(different) if pa.types.is_string(different.type) else different.to_pylist()
    ):
        try:
            texts.append(read(str(value)))
        except ValueError:
            texts.append(None)
            faulty.append(number)
    indices = encoded.indices
    # Computed numbers are written with few digits, so there are far fewer texts than values.
    written = pa.array([*texts, None], pa.string()).dictionary_encode(null_encoding="encode")
    hints = written.take(pc.fill_null(indices, len(texts)))
    bad = pc.fill_null(pc.is_in(indices, pa.array(faulty, indices.type)), False) if faulty else None
    if bad is None or not bad.true_count:
        return hints, None
    verdict = count_rows(rule, bad, values, work.rows(), context, tally)
    return hints, bad if verdict is Verdict.DROP_ROW else None


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
    cleaned = work.cleaned
    room = context.limits.max_byte_size - len(header(NAMESPACES)) - len(FOOTER)
    longest = 6 * (pc.max(pc.binary_length(cleaned.loc)).as_py() or 0)
    if cleaned.extensions is not None:
        longest += pc.max(pc.binary_length(cleaned.extensions)).as_py() or 0
    if longest + _ENTRY_OVERHEAD <= room or not len(cleaned):
        return
    sizes = pc.binary_length(elements(cleaned, escape_loc=True))
    large = pc.greater(sizes, room)
    if not large.true_count:
        return
    rows = work.rows()
    samples = [
        rows.sample(f"{sizes[row].as_py():,} bytes (limit {context.limits.max_byte_size:,})", row)
        for row in pc.indices_nonzero(large).slice(0, SAMPLES_PER_RULE).to_pylist()
    ]
    verdict = context.rulebook["entry-too-large"]
    tally.count("entry-too-large", verdict, samples, large.true_count, where=context.section)
    work.drop(large)


def clean_extensions(
    columns: Mapping[str, pa.Array], rows: RowKeys, context: RowContext, tally: Tally
) -> tuple[pa.StringArray, pa.BooleanArray | None]:
    """Return the XML of each row, its columns in the given order; and a mask of rows to drop, None for no row."""
    assert rows.locs is not None
    texts = {kind: texts_of(as_texts(column)) for kind, column in columns.items()}
    values: list[str] = []
    dropped: list[int] = []
    for number, (loc, *given) in enumerate(zip(rows.locs.to_pylist(), *texts.values(), strict=True)):
        sample = partial(rows.sample, row=number)
        try:
            parts = [
                fragment(kind, text, context=context, tally=tally, where=loc, sample=sample)
                for kind, text in zip(texts, given, strict=True)
                if text
            ]
        except DropRow:
            dropped.append(number)
            parts = []
        values.append("".join(parts))
    return pa.array(values, pa.string()), row_mask(dropped, len(values)) if dropped else None


# ---------------------------------------------------------------- news sections


def expired_articles(
    news: pa.Array | None, lastmods: Lastmods | None, rows: RowKeys, context: RowContext, tally: Tally
) -> tuple[pa.BooleanArray | None, datetime | None]:
    """Count articles older than two days, by their publication date or else their lastmod.

    Return a mask of rows to omit, or None for no row; and the time at which the next article is too old, if any will be.
    """
    assert rows.locs is not None
    length = len(rows.locs)
    old: list[int] = []
    leaves: list[datetime] = []
    published = [None] * length if news is None else texts_of(as_texts(news))
    changes = [None] * length if lastmods is None else lastmods.values()
    for number, (text, changed) in enumerate(zip(published, changes, strict=True)):
        given = publication_date(text) if text else None
        value = lastmod.parse_or_none(given, context.timezone) or changed
        if value is None:
            continue
        begins = lastmod.begins(value, context.timezone)
        if begins <= context.now - NEWS_WINDOW:
            old.append(number)
        elif begins.year < lastmod.LAST_DAY.year:  # no time is two days after the days that mean "never"
            leaves.append(begins + NEWS_WINDOW)
    mask = row_mask(old, length) if old else None
    if mask is not None:
        count_rows("news-age", mask, rows.locs, rows, context, tally)
    keeps = context.rulebook["news-age"] is Verdict.KEEP
    return (None, None) if keeps else (mask, min(leaves, default=None))


def rows_without_article(
    news: pa.Array | None, cleaned: Cleaned, rows: RowKeys, context: RowContext, tally: Tally
) -> pa.BooleanArray | None:
    """Find entries of a news section that have no article and would never expire, and count them.

    Without ``news`` only lastmods date its entries. Return a mask of the rows to omit; None: no row.
    """
    length = len(cleaned)
    if news is not None and cleaned.extensions is not None:
        missing = pc.invert(pc.match_substring(cleaned.extensions, EXTENSION_MARKS["news"]))
        shown = as_texts(news)
    else:
        dated = None if cleaned.lastmods is None else pc.is_valid(cleaned.lastmods.day)
        missing = row_mask(range(length), length) if dated is None else pc.invert(dated)
        shown = pa.array(["no lastmod"] * length, pa.string())
    if not missing.true_count:
        return None
    verdict = count_rows("news-missing", missing, shown, rows, context, tally)
    return missing if verdict is Verdict.DROP_ROW else None


# ---------------------------------------------------------------- feeds


def recent_texts(rows: pa.RecordBatch, cleaned: Cleaned, since: datetime) -> list[FeedText]:
    """Return the titles and descriptions of at most ``FEED_ENTRIES`` newest entries, in any order.

    Entries without texts are included, because a text may have been removed.
    """
    names = [name for name in ("title", "description") if name in rows.schema.names]
    lastmods = cleaned.lastmods
    if not names or lastmods is None or not len(cleaned):
        return []
    second = pa.nulls(len(cleaned), pa.int32()) if lastmods.second is None else lastmods.second
    first_day = lastmod.day_number(since)
    recent = pc.indices_nonzero(pc.fill_null(pc.greater_equal(lastmods.day, first_day), False))
    if len(recent) > FEED_ENTRIES:
        moments = pa.table({"day": lastmods.day.take(recent), "second": pc.fill_null(second.take(recent), 0)})
        newest = pc.sort_indices(moments, sort_keys=[("day", "descending"), ("second", "descending")])
        recent = recent.take(newest.slice(0, FEED_ENTRIES))
    numbers = recent if cleaned.numbers is None else cleaned.numbers.take(recent)
    none = [None] * len(recent)
    texts = {name: texts_of(as_texts(rows.column(name)).take(numbers)) for name in names}
    changes = replace(lastmods, day=lastmods.day.take(recent), second=second.take(recent)).values()
    columns = (cleaned.loc.take(recent).to_pylist(), changes, texts.get("title", none), texts.get("description", none))
    return [
        feed_text(loc=loc, lastmod=changed, title=title, description=description)
        for loc, changed, title, description in zip(*columns, strict=True)
        if changed is not None
    ]
