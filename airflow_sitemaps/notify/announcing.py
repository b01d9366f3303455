"""Tell IndexNow of just what changed since it was last told, once."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.notify.indexnow import Submission
from airflow_sitemaps.pipeline.changes import MOST, Changes, TooManyChangesError, changes
from airflow_sitemaps.pipeline.state import State
from airflow_sitemaps.pipeline.told import tell, told

if TYPE_CHECKING:
    from airflow_sitemaps.notify.indexnow import IndexNow, Sender
    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which changes are announced.

    ``generation``: that one's against the one before, whatever was announced; None: what is not announced yet.
    ``backfill``: where nothing was announced yet, every URL. ``max_urls``: more changes than this are passed over.
    """

    generation: int | None = None
    backfill: bool = False
    max_urls: int = MOST


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """What changed from generation ``since`` to ``generation``, in numbers, and what was told of it.

    ``outside``: changed URLs that the key does not cover. ``too_many``: there were more changes than allowed, and
    nothing was told.
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


def announce(sitemap: Sitemap, site: IndexNow, scope: Scope | None = None, sender: Sender | None = None) -> Announced:
    """Tell of the URLs that were added, changed or removed since the generation that was announced last.

    Where nothing was announced yet: those of the last generation, and nothing for the first one, since IndexNow wants
    no backfill of old pages. A run that changed nothing, and a task that is repeated, tell nothing twice; what a task
    that failed left out, the next one tells. Too many changes at once are passed over with a warning: they come of a
    new template or host, and crawlers find them by the sitemap.

    Raises:
        ConfigurationError: nothing was published yet, or the key, its place or a URL is wrong.
        TransientError: the endpoint, or the store, cannot be reached or is busy.
    """
    scope = scope or Scope()
    objects = sitemap.store.open().state
    who = f"indexnow-{urlsplit(site.endpoint).hostname}"
    since = None if scope.generation is not None else _since(State(objects), told(objects, who), scope.backfill)
    too_many = False
    try:
        found = changes(sitemap, scope.generation, since=since, backfill=scope.backfill, most=scope.max_urls)
    except TooManyChangesError as error:
        log.warning("%s: nothing is told to IndexNow; raise max_urls to tell them all the same", error)
        found, too_many = Changes(generation=error.generation, since=error.since), True
    covered = [url for url in found.urls if site.folder is None or url.startswith(site.folder)]
    done = site.submit(covered, sender) if covered else Submission()
    if scope.generation is None:
        tell(objects, who, found.generation)
    return Announced(
        generation=found.generation,
        since=found.since,
        added=len(found.added),
        changed=len(found.changed),
        removed=len(found.removed),
        outside=len(found.urls) - len(covered),
        too_many=too_many,
        urls=done.urls,
        requests=done.requests,
        unchecked=done.unchecked,
    )


def _since(state: State, last: int | None, backfill: bool) -> int | None:
    """The generation to compare the current one with; None: the one before."""
    root = state.root()
    if root is None or last is None:
        return 0 if backfill else None
    current = root.manifest.generation
    if last == current:
        return last
    if last > current or state.generation(last) is None:
        log.warning("generation %d, which was announced last, is not kept; only the last run's changes are told", last)
        return None
    return last


def published_indexes(sitemap: Sitemap) -> tuple[str, ...]:
    """Addresses of the index files that are published.

    Raises:
        ConfigurationError: nothing was published yet.
    """
    root = State(sitemap.store.open().state).root()
    if root is None:
        raise ConfigurationError(f"{sitemap.store.describe()}: nothing was published yet; build the sitemap first")
    return tuple(root.manifest.base_url + index.name for index in root.manifest.indexes)
