"""The articles of a news section as published, to tell a quiet weekend from a table that is being loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_sitemaps.protocol import lastmod
from airflow_sitemaps.protocol.extensions.news import WINDOW
from airflow_sitemaps.shards.news_guard import AGED, check_articles

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from airflow_sitemaps.ports import Store
    from airflow_sitemaps.protocol.validation.reader import ReadEntry
    from airflow_sitemaps.shards.guards import Guards, Refusal
    from airflow_sitemaps.shards.manifest import SectionManifest
    from airflow_sitemaps.sitemap import Section


def news_refusals(
    guards: Guards,
    store: Store,
    section: Section,
    refusals: Sequence[Refusal],
    before: SectionManifest | None,
    *,
    number: int,
    what: str,
    now: datetime,
) -> tuple[Refusal, ...]:
    """Return the refusals of a news section, of which its articles' age causes none.

    Args:
        refusals: What the guards of a section refuse that does not age.
        before: The section as last committed, or None.
        number: The number of rows or URLs after the run.
        what: The unit in the message: ``rows`` or ``URLs``.
    """
    fresh = 0 if before is None else fresh_articles(store, before, now, section.source.timezone)
    if fresh is None:
        return tuple(refusals)
    others = (refusal for refusal in refusals if refusal.guard not in AGED)
    return (*others, *check_articles(guards, section.name, now=number, fresh=fresh, what=what))


def fresh_articles(store: Store, section: SectionManifest, now: datetime, timezone_name: str) -> int | None:
    """Return the number of published articles that are younger than two days, or None if a file is missing.

    Articles without a time count as younger.
    """
    from airflow_sitemaps.protocol.validation.reader import read  # noqa: PLC0415 - lxml is loaded where it is needed

    fresh = 0
    for file in section.files():
        body = store.state.get(file.body)
        if body is None:
            return None
        moments = (_published(entry, timezone_name) for entry in read(body.body).entries)
        fresh += sum(moment is None or moment + WINDOW > now for moment in moments)
    return fresh


def _published(entry: ReadEntry, timezone_name: str) -> datetime | None:
    """Return the publication date of an article, else its lastmod, or None if it has neither."""
    dates = [article.get("publication_date") for article in entry.extensions.get("news", ())]
    given = next((date for date in (*dates, entry.lastmod) if date), None)
    value = None if given is None else lastmod.parse(given, timezone_name)
    return None if value is None else lastmod.begins(value, timezone_name)
