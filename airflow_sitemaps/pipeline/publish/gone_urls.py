"""Find the URLs that a commit makes gone, and keep them: in a private record, and in a file that the index lists.

The writing tasks name the URLs whose rows left the ranges that they read. The commit reads the ledger parts of the other old
shards: those of emptied ranges, and those that several ranges continue. It searches the URLs that are new in this commit
for URLs that only moved.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import chain

from msgspec.structs import replace

from airflow_sitemaps.errors import ManifestError
from airflow_sitemaps.pipeline.concurrency import mapped
from airflow_sitemaps.pipeline.earlier_parts import read_part
from airflow_sitemaps.pipeline.request import OpenSitemap
from airflow_sitemaps.pipeline.state.repository import GZIP, put_verified, run_directory
from airflow_sitemaps.ports import Create, ObjectStore
from airflow_sitemaps.protocol import Limits, feeds
from airflow_sitemaps.protocol.markup import escape
from airflow_sitemaps.shards import codec
from airflow_sitemaps.shards.codec import Receipt, StagedShard
from airflow_sitemaps.shards.gone import MOST_GONE, GoneUrls, SectionMoves, next_gone
from airflow_sitemaps.shards.manifest import GoneRecord, LedgerPart, Manifest, SectionManifest
from airflow_sitemaps.shards.plan import Plan, SectionPlan

log = logging.getLogger(__name__)

Pieces = dict[int, "tuple[StagedShard, ...]"]
"""What a run wrote of a section, by the position of each range in its plan."""


def with_gone_urls(
    opened: OpenSitemap, old: Manifest | None, new: Manifest, plan: Plan, receipts: Sequence[Receipt]
) -> tuple[Manifest, tuple[str, ...]]:
    """Return a manifest with the record of its gone URLs, which is stored, and warnings, for a sitemap that lists them."""
    window = opened.sitemap.gone
    assert window is not None
    objects, everyone = opened.store.state, [section.name for section in opened.sitemap.sections]
    everyone += [name for name in new.sections if name not in everyone]
    before = gone_urls(objects, old.gone if old is not None else None) or GoneUrls(unsure=tuple(sorted(everyone)))
    pieces: dict[str, Pieces] = {name: {} for name in plan.sections}
    for receipt in receipts:
        pieces[receipt.section].update(receipt.pieces)
    sections = old.sections if old is not None else {}
    left, warnings = _left(objects, sections, new, plan, pieces)
    needed = {*before.urls, *before.words, *chain.from_iterable(left.values())}
    is_partial = not plan.sections.keys() >= {*everyone}
    moves = {}
    for name, own in pieces.items():
        new_urls = sum(piece.fresh for each in own.values() for piece in each)
        listed = _listed(objects, plan.sections[name], own, None if is_partial and new_urls <= MOST_GONE else needed)
        is_whole = not is_partial or new_urls <= MOST_GONE
        moves[name] = SectionMoves(listed=listed, left=left.get(name, ()), is_whole=is_whole)
    gone = next_gone(before, moves, everyone, new.committed_at, window)
    fresh = len(gone.urls.keys() - before.urls.keys())
    if fresh or gone.words:
        text = "gone URLs: %s of this run, %s in all; %s wait for a run of another section"
        log.info(text, f"{fresh:,}", f"{len(gone.urls):,}", f"{len(gone.words):,}")
    if old is not None and old.gone is not None and gone == before:
        return replace(new, gone=old.gone), warnings
    if gone == GoneUrls():
        return new, warnings
    key, body = f"{run_directory(new.run)}bodies/{opened.clock.token()}.json.gz", codec.encode(gone)
    put_verified(objects, key, body, mode=Create(), write_id=key, content_type=GZIP)
    oldest = min(gone.urls.values(), default=None)
    return replace(new, gone=GoneRecord(body=key, urls=len(gone.urls), oldest=oldest, awaits=gone.awaits())), warnings


def gone_urls(objects: ObjectStore, record: GoneRecord | None) -> GoneUrls | None:
    """Read a record; return None, with a line in the log, if it is missing or damaged."""
    if record is None:
        return GoneUrls()
    stored = objects.get(record.body)
    try:
        if stored is not None:
            return codec.decode_gone(stored.body, objects.url(record.body))
        problem = "it is missing"
    except ManifestError as error:
        problem = str(error)
    log.warning("the record of gone URLs %s cannot be used: %s", objects.url(record.body), problem)
    return None


def gone_urlset(gone: GoneUrls, limits: Limits) -> bytes | None:
    """Return the sitemap of gone URLs, newest first, each dated with its removal; None if there are none."""
    entries = []
    for url, at in gone.urls.items():
        loc, moment = escape(url).encode(), f"{at:%Y-%m-%dT%H:%M:%S}".encode()
        element = b"<url><loc>%b</loc><lastmod>%bZ</lastmod></url>\n" % (loc, moment)
        entries.append(feeds.RecentEntry(moment=moment, loc=loc, element=element))
    kept = feeds.newest(entries, limits, MOST_GONE)
    return feeds.recent_urlset(kept) if kept else None


def _left(
    objects: ObjectStore,
    sections: Mapping[str, SectionManifest],
    new: Manifest,
    plan: Plan,
    pieces: Mapping[str, Pieces],
) -> tuple[dict[str, list[str]], tuple[str, ...]]:
    """Return the URLs whose rows left a range of each section; none, with a warning, if there are too many."""
    number, left = 0, {}
    for name, section in plan.sections.items():
        if section.ledger is None or not section.ledger.finds_left or name not in sections:
            continue
        firsts = [own[0] for own in pieces[name].values() if own]
        urls = [url for piece in firsts for url in piece.left or ()]
        number += sum(piece.leaving for piece in firsts)
        for part, own in _unread(sections[name], new.sections[name], section, pieces[name]):
            if number <= MOST_GONE:
                more = _left_of_part(objects, part, own)
                urls, number = urls + more, number + len(more)
        left[name] = urls
    if number <= MOST_GONE and number == sum(map(len, left.values())):
        return left, ()
    text = (
        f"{number:,} URLs or more left the source in one run, and gone.xml.gz takes at most {MOST_GONE:,}: it names none of "
        "them. Search engines find out when they read the pages again"
    )
    return {}, (text,)


def _unread(
    before: SectionManifest, after: SectionManifest, plan: SectionPlan, pieces: Pieces
) -> Iterator[tuple[LedgerPart, list[StagedShard]]]:
    """Yield the parts of old shards that no task judged, each with the pieces of the ranges that continue it."""
    stay = {shard.part.body for shard in after.shards if shard.part is not None}
    continued: dict[str, list[StagedShard]] = {}
    judged: set[str] = set()
    for position, own in pieces.items():
        for shard in plan.actions[position].olds:
            continued.setdefault(shard.body, []).extend(own)
            if own and own[0].left is not None:
                judged.add(shard.body)
    for old in before.shards:
        if old.file is None or old.part is None or old.file.body in judged:
            continue
        if old.file.body in continued or old.part.body not in stay:
            yield old.part, continued.get(old.file.body, [])


def _left_of_part(objects: ObjectStore, part: LedgerPart, pieces: Sequence[StagedShard]) -> list[str]:
    """Return the URLs of an old part that no piece lists and whose rows have left.

    Which rows the rules left out of several ranges is not known here, so then none is returned.
    """
    import pyarrow.compute as pc  # noqa: PLC0415 - pyarrow is loaded where work is done

    if any(piece.dropped or piece.expired for piece in pieces):
        return []
    read = partial(read_part, objects, columns=["loc", "key"])
    old, *own = [read(part), *(read(piece.part) for piece in pieces if piece.part is not None)]
    if old is None or None in own:
        return []
    rows = old
    for now in own:
        same = pc.equal(old["key"].take(pc.index_in(now["loc"], value_set=old["loc"])), now["key"])
        renamed = now.filter(pc.invert(pc.fill_null(same, False)))["key"]
        stay = pc.or_(pc.is_in(rows["loc"], value_set=now["loc"]), pc.is_in(rows["key"], value_set=renamed))
        rows = rows.filter(pc.invert(stay))
    urls: list[str] = rows["loc"].unique().to_pylist()
    return urls


def _listed(objects: ObjectStore, plan: SectionPlan, pieces: Pieces, wanted: Set[str] | None) -> Set[str]:
    """Return the URLs that are new in the ranges of a section: those of ``wanted``, or all if it is None."""
    import pyarrow.compute as pc  # noqa: PLC0415 - pyarrow is loaded where work is done

    parts = [own.part for each in pieces.values() for own in each if own.fresh and own.part is not None]
    listed: set[str] = set()
    if plan.ledger is None or not (parts and (wanted is None or wanted)):
        return listed
    read = partial(read_part, objects, columns=["loc", "first_listed"])
    for rows in mapped(read, parts, "sitemap-gone"):
        if rows is not None:
            urls = rows["loc"].filter(pc.equal(rows["first_listed"], plan.ledger.at)).to_pylist()
            listed.update(urls if wanted is None else wanted & set(urls))
    return listed
