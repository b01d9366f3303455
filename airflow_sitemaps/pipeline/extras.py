"""Files beside the shards: the newest entries in one small sitemap, feeds of the same, a stylesheet of the index.

Entries are taken from the private bodies of the shards whose newest lastmod is recent, so that they list just what is
published; the shards themselves stay as they are.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.pipeline.putting import put_surely
from airflow_sitemaps.pipeline.state import GZIP, run_directory
from airflow_sitemaps.ports import Create
from airflow_sitemaps.protocol import feeds, gzip, recent, stylesheet
from airflow_sitemaps.shards.commit import succeed
from airflow_sitemaps.shards.manifest import PublicFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from airflow_sitemaps.pipeline.state import State
    from airflow_sitemaps.ports import Clock
    from airflow_sitemaps.shards.manifest import Manifest
    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)

RECENT: Final = "recent.xml.gz"
FEED_NAMES: Final = {"atom": "recent.atom", "rss": "recent.rss", "mrss": "recent-media.rss"}
FEED_ENTRIES: Final = 1_000
"""Entries of a feed: readers fetch it whole and often; the sitemap beside it holds up to 50,000."""

DEFAULT_WINDOW: Final = timedelta(days=3)
"""What feeds call recent where the sitemap does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A file's content before compression."""

    name: str
    content: bytes
    listed: bool


def wanted(sitemap: Sitemap) -> set[str]:
    """Names of the extra files that this sitemap may have."""
    names = {FEED_NAMES[style] for style in sitemap.feeds}
    names |= {RECENT} if sitemap.recent is not None else set()
    return names | {stylesheet.FILE_NAME} if sitemap.stylesheet else names


def due(sitemap: Sitemap, manifest: Manifest | None, now: datetime) -> bool:
    """Whether the extra files change though no shard does: an entry is no longer recent, or the code wants others."""
    if manifest is None:
        return False
    if manifest.recheck_at is not None and manifest.recheck_at <= now:
        return True
    have = {file.name for file in manifest.extras}
    optional = {RECENT}
    want = wanted(sitemap)
    if have - want or want - have - optional:
        return True
    timeless = {stylesheet.FILE_NAME}
    return manifest.recheck_at is None and bool(want - timeless) and not have - timeless


def attach(
    sitemap: Sitemap,
    state: State,
    old: Manifest | None,
    new: Manifest,
    *,
    drifted: Mapping[str, str | None],
    clock: Clock,
) -> Manifest:
    """The manifest with its extra files, their bodies stored in private.

    ``drifted``: public names that are not as we left them → etag of what lies there. Raises StoreError.
    """
    if not wanted(sitemap):
        return replace(new, extras=(), recheck_at=None)
    window = sitemap.recent or DEFAULT_WINDOW
    now = clock.now()
    entries: list[recent.RecentEntry] = []
    if sitemap.recent is not None or sitemap.feeds:
        entries = recent.newest(_recent(state, new, now - window), sitemap.index_limits, sitemap.index_limits.max_urls)
    known = {file.name: file for file in (old.extras if old is not None else ())}
    files = [
        _drifted(_file(state, new, made, known.get(made.name), sitemap, clock), drifted)
        for made in _contents(sitemap, entries)
    ]
    log.info("%d entries changed within %s: %s", len(entries), window, ", ".join(file.name for file in files))
    return replace(new, extras=tuple(files), recheck_at=recent.leaves_at(entries, window))


def _recent(state: State, manifest: Manifest, since: datetime) -> Iterator[recent.RecentEntry]:
    """Recent entries of every shard that may hold one."""
    first = since.strftime("%Y-%m-%d")
    for section in manifest.sections.values():
        for shard in section.shards:
            if shard.file is None or shard.newest_lastmod is None or shard.newest_lastmod[:10] < first:
                continue
            found = state.objects.get(shard.file.body)
            if found is None:
                log.warning(
                    "%s is gone; its entries are left out of the recent ones", state.objects.url(shard.file.body)
                )
                continue
            yield from recent.pick(gzip.decompress(found.body, max_byte_size=shard.file.xml_byte_size), since)


def _contents(sitemap: Sitemap, entries: list[recent.RecentEntry]) -> Iterator[Made]:
    if sitemap.recent is not None and entries:
        yield Made(name=RECENT, content=recent.urlset(entries), listed=True)
    told = [recent.feed_entry(entry) for entry in entries[:FEED_ENTRIES]] if sitemap.feeds else []
    for style in sitemap.feeds:
        name = FEED_NAMES[style]
        base = sitemap.store.base_url
        channel = feeds.Channel(
            address=base + name, site=_site(base), title=f"{_host(base)}: pages that changed lately"
        )
        yield Made(name=name, content=feeds.render(style, channel, told), listed=False)
    if sitemap.stylesheet:
        yield Made(name=stylesheet.FILE_NAME, content=stylesheet.render(), listed=False)


def _file(
    state: State, manifest: Manifest, made: Made, before: PublicFile | None, sitemap: Sitemap, clock: Clock
) -> PublicFile:
    digest = hashlib.sha256(made.content).hexdigest()
    if before is not None and before.xml_sha256 == digest:
        return before
    body = gzip.compress(made.content, sitemap.compression) if made.name.endswith(".gz") else made.content
    key = f"{run_directory(manifest.run)}bodies/{clock.token()}-{made.name}"
    put_surely(state.objects, key, body, mode=Create(), write_id=key, content_type=GZIP)
    fresh = PublicFile(
        name=made.name,
        body=key,
        xml_sha256=digest,
        xml_byte_size=len(made.content),
        byte_size=len(body),
        modified_at=manifest.committed_at,
        listed=made.listed,
    )
    if before is None:
        # Where this name comes back, a sweep of what it was may still be on its way: these bytes are others.
        return replace(fresh, variant=manifest.generation - 1)
    return succeed(before, replace(fresh, replaces=before.etag))


def _drifted(file: PublicFile, drifted: Mapping[str, str | None]) -> PublicFile:
    return replace(file, etag=None, replaces=drifted[file.name]) if file.name in drifted else file


def _site(base_url: str) -> str:
    scheme, _, rest = base_url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}/"


def _host(base_url: str) -> str:
    return base_url.partition("://")[2].partition("/")[0]
