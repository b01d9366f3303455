"""Announcements: what a service knows of a sitemap; for IndexNow, the changes since the last announcement, once."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.pipeline.changes import MOST, Changes, TooManyChangesError, changes
from airflow_sitemaps.pipeline.state.announcements import last_announced, record_announced
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.quantities import counted
from airflow_sitemaps.search_engines.indexnow import Submission, require_key_files

if TYPE_CHECKING:
    from airflow_sitemaps.http.client import HttpClient
    from airflow_sitemaps.search_engines.indexnow import IndexNow
    from airflow_sitemaps.sitemap import Sitemap
    from airflow_sitemaps.web_services import Sender

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeScope:
    """The changes to announce.

    Attributes:
        generation: Generation whose changes are announced, regardless of earlier announcements. Default: None, all
            changes since the last announcement.
        backfill: Whether the first announcement sends every URL. Default: False.
        max_urls: Largest number of changes to send. More changes are skipped with a warning. Default: 100,000.
    """

    generation: int | None = None
    backfill: bool = False
    max_urls: int = MOST

    def __post_init__(self) -> None:
        if self.max_urls < 1:
            raise ConfigurationError(f"max_urls={self.max_urls}: give a number of URLs, 1 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """The result of an announcement. All counts default to 0.

    Attributes:
        generation: The generation whose URLs are current.
        since: The generation that it was compared with.
        added: Number of URLs that were added.
        changed: Number of URLs whose entry changed.
        removed: Number of URLs that were removed.
        outside: Number of changed URLs that the IndexNow key does not cover. They are not sent.
        too_many: Whether there were more changes than ``max_urls``. Nothing is sent in this case. Default: False.
        urls: Number of URLs that were sent.
        requests: Number of requests that were accepted.
        unchecked: Number of requests that were accepted before the key was checked (status 202).
    """

    generation: int
    since: int
    added: int = 0
    changed: int = 0
    removed: int = 0
    outside: int = 0
    too_many: bool = False
    urls: int = 0
    requests: int = 0
    unchecked: int = 0

    def __str__(self) -> str:
        if self.too_many:
            return f"generation {self.generation}: too many changes, none sent"
        outside = f", {self.outside:,} outside the key's folder" if self.outside else ""
        return (
            f"generation {self.generation}: {counted(self.urls, 'URL')} sent in {counted(self.requests, 'request')} "
            f"({self.added:,} added, {self.changed:,} changed, {self.removed:,} removed{outside})"
        )


def announce(
    sitemap: Sitemap,
    site: IndexNow,
    scope: ChangeScope | None = None,
    sender: Sender | None = None,
    key_reader: HttpClient | None = None,
) -> Announcement:
    """Send the URLs that were added, changed or removed since the last announcement.

    The first announcement sends the changes of the current generation, and nothing for the first generation:
    IndexNow wants no backfill of old pages. A run without changes and a repeated task send nothing twice. If a task
    fails, the next task sends the remaining changes. Too many changes at once are skipped with a warning: their cause
    is a new template or host, and crawlers find them through the sitemap.

    Args:
        scope: The changes to announce. Default: all since the last announcement.
        sender: Sends the requests. Default: a client that reaches only the endpoints of IndexNow.
        key_reader: Requests the key files before URLs are sent. Default: None, which checks none.

    Raises:
        ConfigurationError: Nothing is published yet, the key, its location or a URL is wrong, or a host does not serve
            the key file.
        TransientError: The endpoint or the store is unreachable or busy.
    """
    scope = scope or ChangeScope()
    objects = sitemap.store.open().state
    service = service_of(site)
    since = (
        None
        if scope.generation is not None
        else _baseline(StateRepository(objects), last_announced(objects, service), scope.backfill)
    )
    too_many = False
    try:
        difference = changes(sitemap, scope.generation, since=since, backfill=scope.backfill, most=scope.max_urls)
    except TooManyChangesError as error:
        log.warning("%s: no URL is sent to IndexNow; raise max_urls to send as many", error)
        difference, too_many = Changes(generation=error.generation, since=error.since), True
    covered = [url for url in difference.urls if site.folder is None or url.startswith(site.folder)]
    if covered and key_reader is not None:
        require_key_files(site, covered, key_reader)
    submission = site.submit(covered, sender) if covered else Submission()
    if scope.generation is None:
        record_announced(objects, service, difference.generation)
    return Announcement(
        generation=difference.generation,
        since=difference.since,
        added=len(difference.added),
        changed=len(difference.changed),
        removed=len(difference.removed),
        outside=len(difference.urls) - len(covered),
        too_many=too_many,
        urls=submission.urls,
        requests=submission.requests,
        unchecked=submission.unchecked,
    )


def service_of(site: IndexNow) -> str:
    """Return the name under which announcements to an endpoint are recorded."""
    return f"indexnow-{urlsplit(site.endpoint).hostname}"


def _baseline(state: StateRepository, last: int | None, backfill: bool) -> int | None:
    """Return the generation to compare the current one with, or None for the previous one."""
    manifest = state.manifest()
    if manifest is None or last is None:
        return 0 if backfill else None
    current = manifest.generation
    if last == current:
        return last
    if last > current or state.generation(last) is None:
        log.warning(
            "generation %d, the last one announced, is no longer kept; only the changes of the last run are sent", last
        )
        return None
    return last


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """The published generation, and whether a service knows it.

    Attributes:
        generation: Number of the published generation.
        index_urls: Addresses of its index files.
        is_known: Whether the service was informed of this generation.
    """

    generation: int
    index_urls: tuple[str, ...]
    is_known: bool


def announced(sitemap: Sitemap, service: str) -> Announced:
    """Return the published generation, and whether a service was informed of it.

    Args:
        service: Name of the service: lowercase letters, digits, dots and hyphens.

    Raises:
        ConfigurationError: Nothing is published yet.
    """
    state = StateRepository(sitemap.store.open().state)
    manifest = state.manifest()
    if manifest is None:
        raise ConfigurationError(f"{sitemap.store.describe()}: nothing is published yet. Build the sitemap first")
    return Announced(
        generation=manifest.generation,
        index_urls=tuple(manifest.base_url + index.name for index in manifest.indexes),
        is_known=last_announced(state.objects, service) == manifest.generation,
    )


def mark_announced(sitemap: Sitemap, service: str, generation: int) -> None:
    """Record that a service was informed of a generation.

    Args:
        generation: The generation that was published before the first request. A later one that is published during
            the requests must still be announced.
    """
    record_announced(sitemap.store.open().state, service, generation)
