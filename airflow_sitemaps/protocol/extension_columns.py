"""Columns of JSON: ``images``, ``videos``, ``news``, ``alternates``, read row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from airflow_sitemaps.protocol import lastmod
from airflow_sitemaps.protocol.arrow import decoded, texts_of
from airflow_sitemaps.protocol.extensions import DropRow, fragment
from airflow_sitemaps.protocol.lastmod_column import Lastmods, value_of
from airflow_sitemaps.protocol.news import WINDOW, publication_date
from airflow_sitemaps.protocol.rules import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date, datetime

    from airflow_sitemaps.protocol.entry import Judge
    from airflow_sitemaps.protocol.rules import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragments:
    """The XML of each row's extensions (empty text: none). ``dropped`` marks rows to drop; None: no row."""

    values: pa.StringArray
    dropped: pa.BooleanArray | None = None


def clean_extensions(columns: Mapping[str, pa.Array], locs: pa.StringArray, judge: Judge, tally: Tally) -> Fragments:
    """The fragments of the columns, one after the other in the order given, and their faults counted.

    Raises:
        RuleError: a rule set to ``fail`` is broken.
    """
    texts = {kind: texts_of(decoded(column)) for kind, column in columns.items()}
    values: list[str] = []
    dropped: list[bool] = []
    for row in zip(locs.to_pylist(), *texts.values(), strict=True):
        loc, given = row[0], row[1:]
        try:
            parts = [
                fragment(kind, text, judge=judge, tally=tally, where=loc)[0]
                for kind, text in zip(texts, given, strict=True)
                if text
            ]
        except DropRow:
            values.append("")
            dropped.append(True)
        else:
            values.append("".join(parts))
            dropped.append(False)
    mask = pa.array(dropped, pa.bool_()) if any(dropped) else None
    return Fragments(values=pa.array(values, pa.string()), dropped=mask)


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """Which articles are too old for a news sitemap (None: no row), and when the next one will be."""

    old: pa.BooleanArray | None
    recheck_at: datetime | None


def judge_news(
    news: pa.Array | None, lastmods: Lastmods | None, locs: pa.StringArray, judge: Judge, tally: Tally
) -> Freshness:
    """Articles older than two days, by their publication date, or their lastmod where they have none."""
    marks: list[bool] = []
    leaves: list[datetime] = []
    old_locs: list[str] = []
    published = [None] * len(locs) if news is None else texts_of(decoded(news))
    modified = _moments(lastmods, len(locs))
    for loc, text, changed in zip(locs.to_pylist(), published, modified, strict=True):
        moment = _moment(text, changed, judge)
        marks.append(moment is not None and moment + WINDOW <= judge.now)
        if marks[-1]:
            old_locs.append(loc)
        elif moment is not None:
            leaves.append(moment + WINDOW)
    tally.count("news-age", judge.rulebook["news-age"], old_locs, where=judge.section)
    if judge.rulebook["news-age"] is Verdict.KEEP:
        return Freshness(old=None, recheck_at=None)
    return Freshness(old=pa.array(marks, pa.bool_()) if old_locs else None, recheck_at=min(leaves, default=None))


def _moments(lastmods: Lastmods | None, length: int) -> list[date | datetime | None]:
    if lastmods is None:
        return [None] * length
    seconds = [None] * length if lastmods.second is None else lastmods.second.to_pylist()
    pairs = zip(lastmods.day.to_pylist(), seconds, strict=True)
    return [None if day is None else value_of(day, second) for day, second in pairs]


def _moment(news_json: str | None, changed: date | datetime | None, judge: Judge) -> datetime | None:
    """When an article was published, as far as anything tells."""
    given = publication_date(news_json) if news_json else None
    value = None
    try:
        value = None if given is None else lastmod.parse(given, judge.timezone)
    except lastmod.LastmodError:
        value = None
    value = value if value is not None else changed
    return None if value is None else lastmod.begins(value, judge.timezone)


def prefixes_of(fragments: pa.StringArray, prefixes: tuple[str, ...]) -> frozenset[str]:
    """Which of the namespace prefixes the fragments use. Text is escaped, so a prefix in it is none."""
    return frozenset(p for p in prefixes if pc.any(pc.match_substring(fragments, f"<{p}:")).as_py())
