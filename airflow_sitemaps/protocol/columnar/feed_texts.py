"""Titles and descriptions of recently changed entries, read from columns for the feeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from airflow_sitemaps.protocol.columnar.arrow import as_texts, texts_of
from airflow_sitemaps.protocol.columnar.lastmod import value_of
from airflow_sitemaps.protocol.feeds import FEED_ENTRIES, FeedText, feed_text

if TYPE_CHECKING:
    from datetime import datetime

    from airflow_sitemaps.protocol.columnar.batch import Cleaned


def recent_texts(rows: pa.RecordBatch, cleaned: Cleaned, since: datetime) -> list[FeedText]:
    """Return the titles and descriptions of the newest entries.

    Args:
        rows: The batch, with a column ``title`` or ``description`` or both.
        since: Start of the recent time, in UTC.

    Returns:
        At most ``FEED_ENTRIES``, in any order. Entries without texts are included, because a text may have been removed.
    """
    names = [name for name in ("title", "description") if name in rows.schema.names]
    lastmods = cleaned.lastmods
    if not names or lastmods is None or not len(cleaned):
        return []
    second = pa.nulls(len(cleaned), pa.int32()) if lastmods.second is None else lastmods.second
    first_day = (since.date() - value_of(0, None)).days
    recent = pc.indices_nonzero(pc.fill_null(pc.greater_equal(lastmods.day, first_day), False))
    if len(recent) > FEED_ENTRIES:
        moments = pa.table({"day": lastmods.day.take(recent), "second": pc.fill_null(second.take(recent), 0)})
        newest = pc.sort_indices(moments, sort_keys=[("day", "descending"), ("second", "descending")])
        recent = recent.take(newest.slice(0, FEED_ENTRIES))
    numbers = recent if cleaned.numbers is None else cleaned.numbers.take(recent)
    locs = cleaned.loc.take(recent).to_pylist()
    days = zip(lastmods.day.take(recent).to_pylist(), second.take(recent).to_pylist(), strict=True)
    texts = {name: texts_of(as_texts(rows.column(name)).take(numbers)) for name in names}
    return [
        feed_text(
            loc=loc,
            lastmod=value_of(day, second),
            title=texts["title"][number] if "title" in texts else None,
            description=texts["description"][number] if "description" in texts else None,
        )
        for number, (loc, (day, second)) in enumerate(zip(locs, days, strict=True))
    ]
