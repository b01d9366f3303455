"""The articles of a news section as published, to tell a quiet weekend from a table that is being loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_sitemaps.protocol import lastmod
from airflow_sitemaps.protocol.extensions.news import WINDOW

if TYPE_CHECKING:
    from datetime import datetime

    from airflow_sitemaps.ports import Store
    from airflow_sitemaps.protocol.validation.reader import ReadEntry
    from airflow_sitemaps.shards.manifest import SectionManifest


def has_fresh_article(store: Store, section: SectionManifest | None, now: datetime, timezone_name: str) -> bool:
    """Return whether a published article is younger than two days. An article without a time may be.

    Args:
        store: The opened store.
        section: The section as last committed, or None.
        now: The current time.
        timezone_name: IANA name of the time zone of dates.
    """
    from airflow_sitemaps.protocol.validation.reader import read  # noqa: PLC0415 - lxml is loaded where it is needed

    for file in section.files() if section is not None else ():
        body = store.state.get(file.body)
        if body is None:
            return True
        for entry in read(body.body).entries:
            published = _published(entry, timezone_name)
            if published is None or published + WINDOW > now:
                return True
    return False


def _published(entry: ReadEntry, timezone_name: str) -> datetime | None:
    """Return the publication date of an article, else its lastmod, or None if it has neither."""
    dates = [article.get("publication_date") for article in entry.extensions.get("news", ())]
    given = next((date for date in (*dates, entry.lastmod) if date), None)
    value = None if given is None else lastmod.parse(given, timezone_name)
    return None if value is None else lastmod.begins(value, timezone_name)
