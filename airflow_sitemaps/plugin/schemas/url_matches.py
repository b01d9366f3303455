"""Responses of the search for a URL."""

from __future__ import annotations

from airflow_sitemaps.plugin.schemas.strict_model import StrictModel


class UrlMatch(StrictModel):
    """A shard that lists the URL, with the fields of its entry."""

    section: str
    shard: str
    file_url: str | None
    lower: str | None
    upper: str | None
    written_in: int
    fields: dict[str, str]


class UrlSearch(StrictModel):
    """Whether a sitemap lists a URL. ``complete``: whether every shard that could contain it was read."""

    url: str
    asset: str
    generation: int
    listed: bool
    complete: bool
    matches: list[UrlMatch]
    shards_read: int
    shards_total: int
    note: str


class UrlSearches(StrictModel):
    """The results for every sitemap that serves the URL's host."""

    results: list[UrlSearch]
    note: str
