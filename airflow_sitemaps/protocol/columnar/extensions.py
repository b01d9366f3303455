"""JSON columns, read row by row: ``images``, ``videos``, ``news``, ``alternates``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_sitemaps.protocol import lastmod
from airflow_sitemaps.protocol.columnar.arrow import any_true, as_texts, row_mask, texts_of, value_bytes
from airflow_sitemaps.protocol.columnar.lastmod import Lastmods, value_of
from airflow_sitemaps.protocol.columnar.row_keys import RowKeys, count_rows
from airflow_sitemaps.protocol.extensions.news import WINDOW, publication_date
from airflow_sitemaps.protocol.extensions.registry import DropRow, fragment
from airflow_sitemaps.protocol.rules import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date, datetime

    from airflow_sitemaps.protocol.entry import RowContext
    from airflow_sitemaps.protocol.rules import Tally

ARTICLE: Final = "<news:news>"
"""Start of an article. Text is escaped, so it cannot occur in a title."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragments:
    """The XML of each row's extensions.

    Attributes:
        values: One text for each row; empty if it has none.
        dropped: Mask of rows to drop. None: no row.
    """

    values: pa.StringArray
    dropped: pa.BooleanArray | None = None


def clean_extensions(columns: Mapping[str, pa.Array], rows: RowKeys, context: RowContext, tally: Tally) -> Fragments:
    """Render the columns of each row in the given order, and count their faults.

    Returns:
        The XML of each row.

    Raises:
        RuleError: A rule set to ``fail`` is broken.
    """
    assert rows.locs is not None
    texts = {kind: texts_of(as_texts(column)) for kind, column in columns.items()}
    values: list[str] = []
    dropped: list[int] = []
    for number, (loc, *given) in enumerate(zip(rows.locs.to_pylist(), *texts.values(), strict=True)):
        sample = partial(rows.sample, row=number)
        try:
            parts = [
                fragment(kind, text, context=context, tally=tally, where=loc, sample=sample)[0]
                for kind, text in zip(texts, given, strict=True)
                if text
            ]
        except DropRow:
            dropped.append(number)
            parts = []
        values.append("".join(parts))
    mask = row_mask(dropped, len(values)) if dropped else None
    return Fragments(values=pa.array(values, pa.string()), dropped=mask)


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """The articles of a news section that are too old.

    Attributes:
        dropped: Mask of rows to omit. None: no row.
        recheck_at: Time at which the next article will be too old. None: no article will be.
    """

    dropped: pa.BooleanArray | None
    recheck_at: datetime | None


def check_freshness(
    news: pa.Array | None, lastmods: Lastmods | None, rows: RowKeys, context: RowContext, tally: Tally
) -> Freshness:
    """Find articles older than two days, by their publication date or else their lastmod.

    Args:
        news: The ``news`` column; None if the section has none.
        lastmods: Lastmods of the rows; None if the section has none.
    """
    assert rows.locs is not None
    length = len(rows.locs)
    old: list[int] = []
    leaves: list[datetime] = []
    published = [None] * length if news is None else texts_of(as_texts(news))
    for number, (text, changed) in enumerate(zip(published, _moments(lastmods, length), strict=True)):
        moment = _moment(text, changed, context)
        if moment is None:
            continue
        if moment + WINDOW <= context.now:
            old.append(number)
        else:
            leaves.append(moment + WINDOW)
    verdict = context.rulebook["news-age"]
    if old:
        mask = row_mask(old, length)
        count_rows(tally, "news-age", verdict, rows, mask, rows.locs, where=context.section)
    if verdict is Verdict.KEEP:
        return Freshness(dropped=None, recheck_at=None)
    return Freshness(dropped=mask if old else None, recheck_at=min(leaves, default=None))


def rows_without_article(
    news: pa.Array | None,
    cleaned_news: pa.StringArray | None,
    lastmods: Lastmods | None,
    rows: RowKeys,
    context: RowContext,
    tally: Tally,
) -> pa.BooleanArray | None:
    """Find entries of a news section that have no article and would never expire, and count them.

    Args:
        news: The ``news`` column. None if the section has none; then only lastmods date its entries.
        cleaned_news: XML of each row's extensions; None if the section has none.
        lastmods: Lastmods of the rows; None if the section has none.

    Returns:
        A mask of the rows to omit. None: no row.
    """
    assert rows.locs is not None
    if news is not None and cleaned_news is not None:
        missing, shown = pc.invert(pc.match_substring(cleaned_news, ARTICLE)), as_texts(news)
    else:
        dated = None if lastmods is None else pc.is_valid(lastmods.day)
        missing = pa.array([True] * len(rows.locs), pa.bool_()) if dated is None else pc.invert(dated)
        shown = pa.array(["no lastmod"] * len(rows.locs), pa.string())
    if not any_true(missing):
        return None
    verdict = context.rulebook["news-missing"]
    count_rows(tally, "news-missing", verdict, rows, missing, shown, where=context.section)
    return missing if verdict is Verdict.DROP_ROW else None


def _moments(lastmods: Lastmods | None, length: int) -> list[date | datetime | None]:
    if lastmods is None:
        return [None] * length
    seconds = [None] * length if lastmods.second is None else lastmods.second.to_pylist()
    pairs = zip(lastmods.day.to_pylist(), seconds, strict=True)
    return [None if day is None else value_of(day, second) for day, second in pairs]


def _moment(news_json: str | None, changed: date | datetime | None, context: RowContext) -> datetime | None:
    """Return the publication date of an article, else its lastmod, or None if it has neither."""
    given = publication_date(news_json) if news_json else None
    value = None
    try:
        value = None if given is None else lastmod.parse(given, context.timezone)
    except lastmod.LastmodError:
        value = None
    value = value if value is not None else changed
    return None if value is None else lastmod.begins(value, context.timezone)


def prefixes_of(fragments: pa.StringArray, prefixes: tuple[str, ...]) -> frozenset[str]:
    """Return the namespace prefixes that the fragments use. Text is escaped, so it cannot be mistaken for a tag."""
    data = value_bytes(fragments)
    return frozenset(prefix for prefix in prefixes if f"<{prefix}:".encode() in data)
