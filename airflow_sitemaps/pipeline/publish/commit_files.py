"""What a commit needs besides shards: the state of the public area, the indexes, the extra files, and the new bodies.

The extra files are a small sitemap of the newest entries, feeds of them, one of gone URLs, and a stylesheet. Recent entries are read from
the private bodies of the shards whose newest lastmod is recent. They are therefore all published.
"""

from __future__ import annotations

import html
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from blake3 import blake3
from msgspec.structs import replace

from airflow_sitemaps.errors import IncompleteError, InvalidSitemapError
from airflow_sitemaps.pipeline.concurrency import mapped
from airflow_sitemaps.pipeline.publish.early_entries import early_entries, picked
from airflow_sitemaps.pipeline.publish.gone_urls import gone_urls, gone_urlset
from airflow_sitemaps.pipeline.state.identity import STATE_ID, check_stamp, is_body
from airflow_sitemaps.pipeline.state.repository import GZIP, bounded_time, put_verified, run_directory
from airflow_sitemaps.ports import Create, ObjectInfo, Store
from airflow_sitemaps.protocol import MAX_INDEXES, feeds, gzip, markup
from airflow_sitemaps.protocol.loc import origin_of
from airflow_sitemaps.quantities import counted, duration
from airflow_sitemaps.shards.layout import (
    FEED_NAMES,
    GONE,
    RECENT,
    index_contents,
    index_entries,
    with_part,
)
from airflow_sitemaps.shards.manifest import IndexRecord, Manifest, PublicFile, later, restore, succeed
from airflow_sitemaps.shards.section_commit import CommitFacts, SectionFacts

if TYPE_CHECKING:
    from airflow_sitemaps.pipeline.request import OpenSitemap
    from airflow_sitemaps.shards.codec import Receipt
    from airflow_sitemaps.shards.plan import SectionPlan
    from airflow_sitemaps.sitemap import Sitemap

FEW: Final = 8
"""Maximum number of bodies that are checked one by one; for more, the folder is listed first."""


def commit_facts(
    opened: OpenSitemap, old: Manifest | None, adopted: Sequence[str] = (), stored_at: datetime | None = None
) -> CommitFacts:
    """Collect the input of the reducer. The commit's time is the store's if the clock is ahead of it.

    ``stored_at`` is the store's time at which the run's plan was stored, if there is one.
    """
    sitemap, store, clock = opened.sitemap, opened.store, opened.clock
    wanted = (*index_names(sitemap), *sorted(sitemap.extra_names))
    return CommitFacts(
        owner=sitemap.owner,
        sections={
            s.name: SectionFacts(path=s.path, base_url=sitemap.base_url_of(s), format=s.format, member=s.member)
            for s in sitemap.sections
        },
        base_url=sitemap.store.base_url,
        index=index_settings(sitemap),
        history=sitemap.history,
        now=bounded_time(store.state, clock, stored_at),
        write_id=clock.token(),
        index_etags=_index_etags(store, old, (sitemap.store.index_name, *wanted), adopted),
        adopted=tuple(adopted),
        state_id=(old.state_id if old is not None else "") or clock.token(),
    )


def _index_etags(
    store: Store, old: Manifest | None, wanted: Sequence[str], adopted: Sequence[str]
) -> dict[str, str | None]:
    """Return the etags of adopted files, and of changed indexes and extra files. Another pipeline's must be adopted."""
    names: dict[str, str | None] = {}
    departed: set[tuple[str, str | None]] = set()
    if old is not None:
        names = {file.name: file.etag for file in (*old.indexes, *old.extras)}
        departed = {(item.key, item.etag) for item in old.departed if item.area == "public"}
    drifted: dict[str, str | None] = {}
    every = list(dict.fromkeys((*names, *wanted, *adopted)))
    for name, info in zip(every, mapped(store.public.head, every, "sitemap-heads"), strict=True):
        etag = None if info is None else info.etag
        if (name in names and etag != names[name]) or (name not in names and etag is not None):
            drifted[name] = etag
            if info is not None and name not in adopted and (name, etag) not in departed:
                check_stamp(store.public.url(name), info, old)
    return drifted


def index_settings(sitemap: Sitemap) -> IndexRecord:
    """Return the index settings of the code."""
    extras, limits = tuple(sorted(sitemap.extra_names)), sitemap.index_limits.name
    return IndexRecord(name=sitemap.store.index_name, mode=sitemap.index, limits=limits, extras=extras)


def index_names(sitemap: Sitemap) -> tuple[str, ...]:
    """Return the names that the first index of each section, or of all sections, may have."""
    name = sitemap.store.index_name
    if sitemap.index == "one":
        return (name,)
    recent = () if sitemap.recent is None and sitemap.gone is None else ("recent",)
    return tuple(with_part(name, part) for part in (*recent, *(section.name for section in sitemap.sections)))


def are_to_change(sitemap: Sitemap, manifest: Manifest | None) -> bool:
    """Return whether the code requires index files with other names than the published ones."""
    if manifest is None:
        return False
    wanted = set(index_entries(manifest, index_settings(sitemap)))
    return wanted != {index.name for index in manifest.indexes}


def too_many(sitemap: Sitemap, plans: Mapping[str, SectionPlan], manifest: Manifest | None) -> tuple[str, ...]:
    """Return a warning if a plan leads to more index files than Google reads for one site, or none."""
    most = sitemap.index_limits.max_sitemaps
    published = manifest.sections if manifest is not None else {}
    shards = {name: sum(s.file is not None for s in was.shards) for name, was in published.items()}
    shards |= {name: sum(action.digest.rows > 0 for action in plan.actions) for name, plan in plans.items()}
    of_present = [shards.get(section.name, 0) for section in sitemap.sections]
    recent = int(sitemap.recent is not None) + int(sitemap.gone is not None)
    of_indexes = [sum(of_present) + recent] if sitemap.index == "one" else [*of_present, recent]
    count = sum(-(-number // most) for number in of_indexes)
    if count <= MAX_INDEXES:
        return ()
    elsewhere = "give sections to a sitemap of their own on another host."
    if sitemap.index == "per_section":
        advice = f"Leave index='per_section' away, so that one index lists many sections, or {elsewhere}"
    else:
        advice = f"Make shards larger (ShardPolicy(max_urls=)), or {elsewhere}"
    where = f"this comes to {count:,} index files at {sitemap.store.base_url}"
    return (f"{where}: Google reads at most {MAX_INDEXES} of one site. {advice}",)


def check_bodies(store: Store, old: Manifest | None, new: Manifest) -> Mapping[str, ObjectInfo]:
    """Check that every body that a generation newly needs exists and is complete, unless the old manifest has it.

    The same holds for the ledger parts of the run itself. An earlier part that was lost counts like none, so a rollback
    does not need it. The returned infos, by key, may cover more bodies of the same folders. Raises IncompleteError.
    """
    kept = old.bodies() if old is not None else set()
    sizes = {file.body: (file.byte_size, f"the body of {file.name}") for file in new.public_files()}
    folder = run_directory(new.run)
    own = ((key, part) for key, part in new.parts().items() if key.startswith(folder))
    sizes |= {key: (part.byte_size, "a ledger part") for key, part in own}
    needed = {key: size for key, size in sizes.items() if key not in kept}
    present = _bodies(store, list(needed))
    for key, (byte_size, role) in needed.items():
        info = present.get(key)
        if info is None or info.byte_size != byte_size:
            what = "is not there" if info is None else f"has {info.byte_size:,} bytes, not {byte_size:,}"
            raise IncompleteError(
                f"{store.state.url(key)}, {role}, {what}. Nothing was published; run again to plan these files again. If "
                "that run changes nothing, rebuild the file (`airflow-sitemaps build --rebuild`)."
            )
    return present


def _bodies(store: Store, keys: Sequence[str]) -> dict[str, ObjectInfo]:
    """Return the info of the bodies that exist: many are listed by folder, and each that is not listed (yet) is checked."""
    folders = sorted({key.rpartition("/")[0] + "/" for key in keys}) if len(keys) > FEW else ()
    present = {info.key: info for folder in folders for info in store.state.list(folder)}
    left = [key for key in keys if key not in present]
    infos = mapped(lambda key: (key, store.state.head(key)), left, "sitemap-check")
    return present | {key: info for key, info in infos if info is not None}


log = logging.getLogger(__name__)


def due(sitemap: Sitemap, manifest: Manifest | None, now: datetime, sections: Collection[str] = ()) -> bool:
    """Return whether extra files change even if no shard does: an entry becomes too old, or settings changed.

    A run of ``sections`` may also change which URLs are gone.
    """
    if manifest is None:
        return False
    gone, window = manifest.gone, sitemap.gone
    if gone is not None and (
        window is None
        or (gone.oldest is not None and gone.oldest + window <= now)
        or not {*gone.awaits}.isdisjoint(sections)
    ):
        return True
    if manifest.recheck_at is not None and manifest.recheck_at <= now:
        return True
    have = {file.name for file in manifest.extras}
    want = sitemap.extra_names
    without_entries = manifest.recheck_at is None
    optional = {RECENT} if without_entries else set()  # there is no such file without entries
    optional |= set() if gone is not None and gone.urls else {GONE}
    if have - want or want - have - optional:
        return True
    timeless = {markup.STYLESHEET_NAME, GONE}
    if not want - timeless:
        return False
    if manifest.recent_window not in (None, _seconds(sitemap.recent_window)):
        return True
    return without_entries and not have - timeless


def attach(
    opened: OpenSitemap,
    old: Manifest | None,
    new: Manifest,
    facts: CommitFacts,
    receipts: Sequence[Receipt] = (),
    *,
    texts_of: Manifest | None = None,
) -> Manifest:
    """Render the extra files and the indexes, store their bodies in the state area, and add them to a manifest.

    Feeds keep the texts of entries that no task read from the feed of ``texts_of``. Default: None, of ``old``.
    """
    file = partial(_file, opened, old, new, facts)
    if opened.sitemap.extra_names:
        new = _with_extras(opened, texts_of or old, new, file, receipts)
    contents = index_contents(new, facts.index)
    return replace(new, indexes=tuple(file(name, xml, listed=False) for name, xml in contents.items()))


def _with_extras(
    opened: OpenSitemap,
    old: Manifest | None,
    new: Manifest,
    file: Callable[..., PublicFile],
    receipts: Sequence[Receipt],
) -> Manifest:
    sitemap, window = opened.sitemap, opened.sitemap.recent_window
    entries: list[feeds.RecentEntry] = []
    early: list[tuple[str, feeds.Lower, feeds.FeedText]] = []
    if sitemap.recent is not None or sitemap.feeds:
        since = new.committed_at - window
        newest = partial(feeds.newest, limits=sitemap.index_limits, most=sitemap.index_limits.max_urls)
        for name, own in new.sections.items():  # the entries of one section at a time are in memory
            listed = early_entries(opened.store.state, own)
            early += [(name, entry.lower, entry.text) for entry in listed if entry.text is not None]
            zone = sitemap.timezone_of(name)
            entries = newest([*entries, *(one for entry in listed for one in picked(name, entry, since, zone))])
        entries = newest(chain(entries, _recent(opened.store, new, since, sitemap.timezone_of)))
    contents = _contents(sitemap, entries, _texts(opened, old, receipts, early, entries))
    files = tuple(file(name, content, listed=name == RECENT) for name, content in contents)
    if names := ", ".join(each.name for each in files if each.name != markup.STYLESHEET_NAME):
        log.info("%s of the last %s: %s", names, duration(window.total_seconds()), counted(len(entries), "URL"))
    gone = gone_urls(opened.store.state, new.gone) if sitemap.gone is not None else None
    if gone is not None and (urlset := gone_urlset(gone, sitemap.index_limits)) is not None:
        files = (*files, file(GONE, urlset, listed=True))
    return replace(new, extras=files, recheck_at=feeds.leaves_at(entries, window), recent_window=_seconds(window))


def _recent(
    store: Store, manifest: Manifest, since: datetime, timezone_of: Callable[[str], str]
) -> Iterator[feeds.RecentEntry]:
    """Yield the recent entries of every shard that may hold one. A lost private body is read from the public file."""
    first = since.strftime("%Y-%m-%d")
    for name, section in manifest.sections.items():
        for shard in section.shards:
            if shard.file is None or shard.newest_lastmod is None or shard.newest_lastmod[:10] < first:
                continue
            stored = store.state.get(shard.file.body)
            if stored is None and (public := store.public.get(shard.file.name)) and is_body(shard.file, public.body):
                stored = public
            try:
                urlset = gzip.decompress(stored.body if stored else b"", max_byte_size=shard.file.xml_byte_size)
            except InvalidSitemapError:
                where = store.state.url(shard.file.body)
                log.warning("%s is missing or damaged; the recent files omit its entries", where)
                continue
            yield from feeds.pick(urlset, since, name, shard.range.lower, timezone_of(name))


def _texts(
    opened: OpenSitemap,
    old: Manifest | None,
    receipts: Sequence[Receipt],
    early: Sequence[tuple[str, feeds.Lower, feeds.FeedText]],
    entries: Sequence[feeds.RecentEntry],
) -> Mapping[str, feeds.FeedText]:
    """Return texts by URL: those of the last feed, overridden by those that were read from the entry's own shard since."""
    if not opened.sitemap.feeds or not _titled(opened.sitemap):
        return {}
    before = next((file for file in (old.extras if old is not None else ()) if file.name in FEED_NAMES.values()), None)
    stored = opened.state.objects.get(before.body) if before is not None else None
    texts: dict[str, feeds.FeedText] = {}
    if before is not None and stored is not None and is_body(before, stored.body):
        texts = feeds.read_texts(stored.body)
    elif before is not None:
        log.warning("%s is missing or damaged; feeds omit its texts", opened.state.objects.url(before.body))
    shards = {html.unescape(entry.loc.decode()): (entry.section, entry.lower) for entry in entries}
    for receipt in receipts:
        texts.update((t.loc, t) for t in receipt.feed_texts if shards.get(t.loc) == (receipt.section, t.lower))
    texts.update((t.loc, t) for section, lower, t in early if shards.get(t.loc) == (section, lower))
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
        feeds.feed_entry(
            entry,
            texts.get(html.unescape(entry.loc.decode())) if entry.section in titled else None,
            sitemap.timezone_of(entry.section),
        )
        for entry in (entries[: feeds.FEED_ENTRIES] if sitemap.feeds else ())
    ]
    for style in sitemap.feeds:
        name, base = FEED_NAMES[style], sitemap.store.base_url
        site = origin_of(base)
        title = f"{site.partition('://')[2]}: pages that changed lately"
        channel = feeds.Channel(address=base + name, site=site + "/", title=title)
        yield name, feeds.render(style, channel, listed)
    if sitemap.stylesheet:
        yield markup.STYLESHEET_NAME, markup.render_stylesheet()


def _file(
    opened: OpenSitemap,
    old: Manifest | None,
    new: Manifest,
    facts: CommitFacts,
    name: str,
    content: bytes,
    *,
    listed: bool,
) -> PublicFile:
    """Return a file that is no shard; the earlier one of the name if its content is the same and its object is in place."""
    earlier = (*old.indexes, *old.extras) if old is not None else ()
    before = next((file for file in earlier if file.name == name), None)
    xml_hash = blake3(content).hexdigest()
    same = before is not None and before.xml_hash == xml_hash
    drifted = name in facts.index_etags
    if before is not None and same and before.etag is not None and not drifted:
        return before
    body = gzip.compress(content, opened.sitemap.compression) if name.endswith(".gz") else content
    ending = "xml.gz" if name.endswith(".gz") else "xml"
    key = f"{run_directory(new.run)}bodies/{opened.clock.token()}.{ending}"
    put_verified(opened.store.state, key, body, mode=Create(), write_id=key, content_type=GZIP)
    dated = (section.dated_at for section in new.sections.values() if section.dated_at is not None)
    file = PublicFile(
        name=name,
        body=key,
        xml_hash=xml_hash,
        xml_byte_size=len(content),
        byte_size=len(body),
        modified_at=max([new.committed_at, *dated]),
        listed=listed,
    )
    if before is None:
        # If this name returns, a sweep of its earlier object may still be running: a variant makes the bytes differ.
        file = replace(file, variant=new.generation - 1)
    elif same:  # the object is missing or changed, and so may be the private body
        file = replace(before, body=file.body, byte_size=file.byte_size, etag=None, replaces=before.etag)
    else:
        file = succeed(before, replace(file, replaces=before.etag))
    if drifted and before is None and name not in facts.adopted:
        there = opened.store.public.head(name)
        if there is not None and STATE_ID not in there.metadata:
            log.warning("%s was written by another program; overwriting it", opened.store.public.url(name))
    if drifted:
        file = restore(file, facts.index_etags[name], facts.now)
    left = [item.at for item in (old.departed if old is not None else ()) if item.key == name]
    # A crawler may know the file that an earlier generation had under this name with its ``lastmod``.
    return replace(file, modified_at=later(file.modified_at, left[-1])) if left else file


def _seconds(window: timedelta) -> int:
    return int(window.total_seconds())
