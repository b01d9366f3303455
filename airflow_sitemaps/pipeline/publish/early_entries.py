"""Entries that are listed early: the files of recent entries name a changed row although its shard waits to be rewritten.

A plan reads the rows that changed since the last one before it surveys their ranges. An entry of a range that waits is then one
of a URL that the range's file lists, because a waiting range has the same URLs as its file. The entry is kept in a private
object until the range is written, so the file of recent entries lists no URL for longer than its shard.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from airflow_sitemaps.pipeline.request import SectionContext, row_context_of
from airflow_sitemaps.pipeline.state.repository import GZIP, put_verified, run_directory
from airflow_sitemaps.ports import Create, ObjectStore
from airflow_sitemaps.protocol import CURRENT, feeds
from airflow_sitemaps.protocol.rules import Tally
from airflow_sitemaps.quantities import counted
from airflow_sitemaps.shards import checksum_of, codec
from airflow_sitemaps.shards.layout import FEED_NAMES, RECENT
from airflow_sitemaps.shards.manifest import EarlyRecord, SectionManifest
from airflow_sitemaps.shards.plan import RangeAction
from airflow_sitemaps.shards.ranges import EarlyEntries, EarlyEntry

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_sitemaps.shards.ranges import Key

log = logging.getLogger(__name__)

MOST_EARLY: Final = CURRENT.max_urls
"""Maximum number of entries that are listed early: those of one file, the newest."""


def changed_entries(
    context: SectionContext, touched: Sequence[int], since: datetime | None = None
) -> tuple[EarlyEntry, ...]:
    """Read the rows with a lastmod of ``since`` or later in the ranges at some positions, if changes may wait there.

    Only the newest are read, and none if the sitemap has no file of recent entries or feed. ``since`` None: it is not known
    when changes were last read. Then, and if none could be listed yet, all recent rows are read.
    """
    sitemap, section, before = context.sitemap, context.section, context.before
    if before is None or not context.lists_early:
        return ()
    first = context.now - sitemap.recent_window
    if since is None or (_is_new(context) and any(shard.dirty_since for shard in before.shards)):
        touched, since = range(len(before.shards)), first
    if not touched:
        return ()
    ranges, since = [before.shards[position].range for position in touched], max(since, first)
    batches, lowers = context.source.newest(ranges, since, MOST_EARLY), [piece.lower for piece in ranges]
    entries = [entry for batch in batches for entry in _rendered(context, batch, lowers)]
    log.info("section %s: %s modified since %s may be listed early", section.name, counted(len(entries), "row"), since)
    return tuple(entries)


def _is_new(context: SectionContext) -> bool:
    """Return whether the published sitemap has no file or feed of recent entries, or one of a shorter time."""
    assert context.manifest is not None
    window, names = context.manifest.recent_window, {file.name for file in context.manifest.extras}
    longer = window is None or window < context.sitemap.recent_window.total_seconds()
    return longer or names.isdisjoint({RECENT, *FEED_NAMES.values()})


def next_early(
    context: SectionContext, actions: Sequence[RangeAction], changed: Sequence[EarlyEntry]
) -> EarlyRecord | None:
    """Store the entries of ranges that wait, ``changed`` ones and earlier ones; return the record of them, or None.

    A dry run stores nothing. If the entries are those of the record before, and it is not lost, it stays.
    """
    before, objects = context.before, context.store.state
    if before is None:
        return None
    lowers = {
        before.shards[a.carries].range.lower: a.range.lower for a in actions if a.dirty_since and a.carries is not None
    }
    since, listed = context.now - context.sitemap.recent_window, dict[feeds.RecentEntry, EarlyEntry]()
    earlier = early_entries(objects, before)
    for entry in (*changed, *earlier):
        if entry.lower in lowers:
            here = replace(entry, lower=lowers[entry.lower])
            for one in picked(before.name, here, since, context.section.source.timezone):
                listed.setdefault(one, here)
    newest = feeds.newest(listed, context.sitemap.index_limits, MOST_EARLY)
    if not newest:
        return None
    entries = tuple(listed[one] for one in newest)
    if entries == earlier:
        return before.early
    body = codec.encode(EarlyEntries(entries=entries))
    key = f"{run_directory(context.run)}bodies/{context.clock.token()}.json.gz"
    if not context.request.dry_run:
        put_verified(objects, key, body, mode=Create(), write_id=key, content_type=GZIP)
    return EarlyRecord(body=key, checksum=checksum_of(body), urls=len(entries))


def early_entries(objects: ObjectStore, section: SectionManifest) -> tuple[EarlyEntry, ...]:
    """Return the entries of a section's shards that wait; none, with a line in the log, if the record is lost."""
    if section.early is None:
        return ()
    url, stored = objects.url(section.early.body), objects.get(section.early.body)
    if stored is None or checksum_of(stored.body) != section.early.checksum:
        what = "that are listed early, is missing or damaged. They are listed when their shards are written"
        log.warning("section %s: %s, the record of entries %s", section.name, url, what)
        return ()
    waiting = {shard.range.lower for shard in section.shards if shard.dirty_since is not None}
    return tuple(entry for entry in codec.decode_early(stored.body, url).entries if entry.lower in waiting)


def picked(section: str, entry: EarlyEntry, since: datetime, timezone: str) -> Iterator[feeds.RecentEntry]:
    """Yield the recent entry that an early one stands for, if its lastmod is ``since`` or later."""
    return feeds.pick(entry.element.encode(), since, section, entry.lower, timezone)


def _rendered(context: SectionContext, rows: pa.RecordBatch, lowers: Sequence[Key | None]) -> Iterator[EarlyEntry]:
    """Yield the entries of rows as a shard would list them, each with the lower end of its range and its texts for feeds."""
    from airflow_sitemaps.protocol.columnar import texts_of  # noqa: PLC0415 - pyarrow is loaded where work is done
    from airflow_sitemaps.protocol.columnar.batch import clean, recent_texts  # noqa: PLC0415
    from airflow_sitemaps.protocol.columnar.elements import elements  # noqa: PLC0415

    settings = row_context_of(context.sitemap, context.section, context.clock)
    cleaned = clean(rows, settings, Tally())
    if cleaned.lastmods is None or not len(cleaned):
        return
    texts = (
        {} if settings.feeds_since is None else {t.loc: t for t in recent_texts(rows, cleaned, settings.feeds_since)}
    )
    places = rows["range"] if cleaned.numbers is None else rows["range"].take(cleaned.numbers)
    columns = (places.to_pylist(), texts_of(elements(cleaned, escape_loc=True)), cleaned.loc.to_pylist())
    for place, element, loc in zip(*columns, strict=True):
        yield EarlyEntry(lower=lowers[place], element=str(element), text=texts.get(loc))
