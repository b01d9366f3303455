"""JSON columns, read row by row; the age of articles; and the texts of recent entries for feeds."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from airflow_sitemaps.protocol import lastmod
from airflow_sitemaps.protocol.columnar.arrow import any_true, as_texts, count_rows, row_mask, texts_of
from airflow_sitemaps.protocol.extensions.languages import NEWS_WINDOW, publication_date
from airflow_sitemaps.protocol.extensions.registry import DropRow, fragment
from airflow_sitemaps.protocol.feeds import FEED_ENTRIES, FeedText, feed_text
from airflow_sitemaps.protocol.markup import EXTENSION_MARKS
from airflow_sitemaps.protocol.rules import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date, datetime

    from airflow_sitemaps.protocol.columnar.arrow import RowKeys
    from airflow_sitemaps.protocol.columnar.elements import Cleaned
    from airflow_sitemaps.protocol.columnar.lastmod import Lastmods
    from airflow_sitemaps.protocol.entry import RowContext
    from airflow_sitemaps.protocol.rules import Tally


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

    Returns:
        A mask of rows to omit, or None for no row; and the time at which the next article will be too old, if any will be.
    """
    assert rows.locs is not None
    length = len(rows.locs)
    old: list[int] = []
    leaves: list[datetime] = []
    published = [None] * length if news is None else texts_of(as_texts(news))
    changes = [None] * length if lastmods is None else lastmods.values()
    for number, (text, changed) in enumerate(zip(published, changes, strict=True)):
        value = _publication(text, context) or changed
        if value is None:
            continue
        end = lastmod.begins(value, context.timezone) + NEWS_WINDOW
        if end <= context.now:
            old.append(number)
        else:
            leaves.append(end)
    mask = row_mask(old, length) if old else None
    if mask is not None:
        count_rows("news-age", mask, rows.locs, rows, context, tally)
    keeps = context.rulebook["news-age"] is Verdict.KEEP
    return (None, None) if keeps else (mask, min(leaves, default=None))


def _publication(news_json: str | None, context: RowContext) -> date | datetime | None:
    given = publication_date(news_json) if news_json else None
    try:
        return None if given is None else lastmod.parse(given, context.timezone)
    except lastmod.LastmodError:
        return None


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
    if not any_true(missing):
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
