"""The files that are no shards: a small sitemap of the newest entries, feeds of them, a stylesheet, and the indexes.

Recent entries are read from the private bodies of the shards whose newest lastmod is recent. They are therefore all
published. The shards do not change.
"""

from __future__ import annotations

import hashlib
import html
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from airflow_sitemaps.pipeline.state.conditional_put import ObjectHeaders, put_verified
from airflow_sitemaps.pipeline.state.repository import GZIP, run_directory
from airflow_sitemaps.ports import Create
from airflow_sitemaps.protocol import feeds, gzip, markup
from airflow_sitemaps.shards.index_layout import index_contents
from airflow_sitemaps.shards.manifest import PublicFile, later, restore, succeed
from airflow_sitemaps.shards.shard_names import FEED_NAMES, RECENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime, timedelta

    from airflow_sitemaps.pipeline.state.repository import StateRepository
    from airflow_sitemaps.ports import Clock
    from airflow_sitemaps.shards.manifest import Manifest
    from airflow_sitemaps.shards.receipt import Receipt
    from airflow_sitemaps.shards.section_commit import CommitFacts
    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)


def due(sitemap: Sitemap, manifest: Manifest | None, now: datetime) -> bool:
    """Return whether extra files change even if no shard does: an entry becomes too old, or settings changed."""
    if manifest is None:
        return False
    if manifest.recheck_at is not None and manifest.recheck_at <= now:
        return True
    have = {file.name for file in manifest.extras}
    want = sitemap.extra_names
    without_entries = manifest.recheck_at is None
    optional = {RECENT} if without_entries else set()  # there is no such file without entries
    if have - want or want - have - optional:
        return True
    timeless = {markup.STYLESHEET_NAME}
    if not want - timeless:
        return False
    if manifest.recent_window not in (None, _seconds(sitemap.recent_window)):
        return True
    return without_entries and not have - timeless


def attach(
    sitemap: Sitemap,
    state: StateRepository,
    old: Manifest | None,
    new: Manifest,
    *,
    facts: CommitFacts,
    clock: Clock,
    receipts: Sequence[Receipt] = (),
) -> Manifest:
    """Render the extra files and the indexes, store their bodies in the private area, and add them to a manifest."""
    bodies = _Bodies(state, old, new, facts, sitemap.compression, clock)
    if sitemap.extra_names:
        new = _with_extras(sitemap, state, old, new, bodies, receipts)
    contents = index_contents(new, facts.index)
    return replace(new, indexes=tuple(bodies.file(name, xml, listed=False) for name, xml in contents.items()))


def _with_extras(
    sitemap: Sitemap,
    state: StateRepository,
    old: Manifest | None,
    new: Manifest,
    bodies: _Bodies,
    receipts: Sequence[Receipt],
) -> Manifest:
    window = sitemap.recent_window
    entries: list[feeds.RecentEntry] = []
    if sitemap.recent is not None or sitemap.feeds:
        since = bodies.clock.now() - window
        entries = feeds.newest(_recent(state, new, since), sitemap.index_limits, sitemap.index_limits.max_urls)
    files = [
        bodies.file(name, content, listed=name == RECENT)
        for name, content in _contents(sitemap, entries, _texts(sitemap, state, old, receipts))
    ]
    log.info(
        "%d entries changed within the last %s; they are listed in %s",
        len(entries),
        window,
        ", ".join(file.name for file in files),
    )
    return replace(
        new, extras=tuple(files), recheck_at=feeds.leaves_at(entries, window), recent_window=_seconds(window)
    )


def _recent(state: StateRepository, manifest: Manifest, since: datetime) -> Iterator[feeds.RecentEntry]:
    """Yield the recent entries of every shard that may hold one."""
    first = since.strftime("%Y-%m-%d")
    for name, section in manifest.sections.items():
        for shard in section.shards:
            if shard.file is None or shard.newest_lastmod is None or shard.newest_lastmod[:10] < first:
                continue
            stored = state.objects.get(shard.file.body)
            if stored is None:
                log.warning("%s does not exist; the recent files omit its entries", state.objects.url(shard.file.body))
                continue
            yield from feeds.pick(gzip.decompress(stored.body, max_byte_size=shard.file.xml_byte_size), since, name)


def _texts(
    sitemap: Sitemap, state: StateRepository, old: Manifest | None, receipts: Sequence[Receipt]
) -> Mapping[str, feeds.FeedText]:
    """Return titles and descriptions by URL: those of the last feed, overridden by those that this run read."""
    if not sitemap.feeds or not _titled(sitemap):
        return {}
    texts: dict[str, feeds.FeedText] = {}
    before = next((file for file in (old.extras if old is not None else ()) if file.name in FEED_NAMES.values()), None)
    stored = state.objects.get(before.body) if before is not None else None
    if stored is not None:
        texts.update(feeds.read_texts(stored.body))
    for receipt in receipts:
        texts.update((text.loc, text) for text in receipt.feed_texts)
    return texts


def _titled(sitemap: Sitemap) -> set[str]:
    """Return the names of the sections whose source has a column of titles or descriptions."""
    return {
        section.name
        for section in sitemap.sections
        if getattr(section.source, "title", None) or getattr(section.source, "description", None)
    }


def _contents(
    sitemap: Sitemap, entries: list[feeds.RecentEntry], texts: Mapping[str, feeds.FeedText]
) -> Iterator[tuple[str, bytes]]:
    """Yield the names and the uncompressed contents of the extra files."""
    if sitemap.recent is not None and entries:
        yield RECENT, feeds.recent_urlset(entries)
    titled = _titled(sitemap)
    listed = [
        feeds.feed_entry(entry, texts.get(html.unescape(entry.loc.decode())) if entry.section in titled else None)
        for entry in (entries[: feeds.FEED_ENTRIES] if sitemap.feeds else ())
    ]
    for style in sitemap.feeds:
        name = FEED_NAMES[style]
        base = sitemap.store.base_url
        channel = feeds.Channel(
            address=base + name, site=_site(base), title=f"{_host(base)}: pages that changed lately"
        )
        yield name, feeds.render(style, channel, listed)
    if sitemap.stylesheet:
        yield markup.STYLESHEET_NAME, markup.render_stylesheet()


@dataclass(frozen=True, slots=True)
class _Bodies:
    """The private bodies of a commit's files that are no shards."""

    state: StateRepository
    old: Manifest | None
    new: Manifest
    facts: CommitFacts
    compression: gzip.Preset
    clock: Clock

    def file(self, name: str, content: bytes, *, listed: bool) -> PublicFile:
        """Return a file; the earlier one of the name if its content is the same and its object is in place."""
        earlier = (*self.old.indexes, *self.old.extras) if self.old is not None else ()
        before = next((file for file in earlier if file.name == name), None)
        sha256 = hashlib.sha256(content).hexdigest()
        same = before is not None and before.xml_sha256 == sha256
        drifted = name in self.facts.index_etags
        if before is not None and same and before.etag is not None and not drifted:
            return before
        file = self._stored(name, content, sha256, listed=listed)
        if before is None:
            # If this name returns, a sweep of its earlier object may still be running: a variant makes the bytes differ.
            file = replace(file, variant=self.new.generation - 1)
        elif same:  # the object is missing or changed, and so may be the private body
            file = replace(before, body=file.body, byte_size=file.byte_size, etag=None, replaces=before.etag)
        else:
            file = succeed(before, replace(file, replaces=before.etag))
        if drifted:
            file = restore(file, self.facts.index_etags[name], self.clock.now())
        left = [item.at for item in (self.old.departed if self.old is not None else ()) if item.key == name]
        # A crawler may know the file that an earlier generation had under this name with its ``lastmod``.
        return replace(file, modified_at=later(file.modified_at, left[-1])) if left else file

    def _stored(self, name: str, content: bytes, sha256: str, *, listed: bool) -> PublicFile:
        body = gzip.compress(content, self.compression) if name.endswith(".gz") else content
        ending = "xml.gz" if name.endswith(".gz") else "xml"
        key = f"{run_directory(self.new.run)}bodies/{self.clock.token()}.{ending}"
        headers = ObjectHeaders(content_type=GZIP)
        put_verified(self.state.objects, key, body, mode=Create(), write_id=key, headers=headers)
        return PublicFile(
            name=name,
            body=key,
            xml_sha256=sha256,
            xml_byte_size=len(content),
            byte_size=len(body),
            modified_at=self.new.committed_at,
            listed=listed,
        )


def _seconds(window: timedelta) -> int:
    return int(window.total_seconds())


def _site(base_url: str) -> str:
    scheme, _, rest = base_url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}/"


def _host(base_url: str) -> str:
    return base_url.partition("://")[2].partition("/")[0]
