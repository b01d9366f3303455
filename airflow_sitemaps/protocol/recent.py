"""Entries that changed lately, picked out of urlsets that this package wrote. Pure bytes, no parsing of all of it."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.protocol import lastmod
from airflow_sitemaps.protocol.feeds import FeedEntry
from airflow_sitemaps.protocol.urlset import FOOTER, NAMESPACES, header

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from airflow_sitemaps.protocol.limits import Limits

_ENTRY: Final = re.compile(rb"<url><loc>([^<]*)</loc><lastmod>([^<]*)</lastmod>.*?</url>\n", re.DOTALL)
_IMAGE: Final = re.compile(rb"<image:loc>([^<]*)</image:loc>")
_MIDNIGHT: Final = b"T00:00:00"


@dataclass(frozen=True, slots=True)
class RecentEntry:
    """One ``<url>`` element as it stands in its shard, its loc and lastmod still escaped."""

    moment: bytes
    """lastmod to the second without its zone, which is UTC; a date stands for its midnight."""
    loc: bytes
    element: bytes


def pick(urlset: bytes, since: datetime) -> Iterator[RecentEntry]:
    """The entries of a urlset whose lastmod is ``since`` (aware) or later."""
    first = since.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S").encode()
    for found in _ENTRY.finditer(urlset):
        moment = (found[2] + _MIDNIGHT)[:19]
        if moment >= first:
            yield RecentEntry(moment, found[1], found[0])


def newest(entries: Iterable[RecentEntry], limits: Limits, most: int) -> list[RecentEntry]:
    """At most ``most`` entries, newest first, equal moments by URL, that fit into one file; one of each URL."""
    ordered = sorted(entries, key=lambda entry: entry.loc)
    ordered.sort(key=lambda entry: entry.moment, reverse=True)
    room = limits.max_byte_size - len(header(NAMESPACES)) - len(FOOTER)
    kept: dict[bytes, RecentEntry] = {}
    for entry in ordered:
        if len(kept) == min(most, limits.max_urls):
            break
        if entry.loc in kept:
            continue
        room -= len(entry.element)
        if room < 0:
            break
        kept[entry.loc] = entry
    return list(kept.values())


def urlset(entries: Iterable[RecentEntry]) -> bytes:
    """A urlset of these entries, in their order, with the namespaces they use."""
    body = b"".join(entry.element for entry in entries)
    prefixes = [prefix for prefix in NAMESPACES if f"<{prefix}:".encode() in body]
    return header(prefixes) + body + FOOTER


def feed_entry(entry: RecentEntry) -> FeedEntry:
    """The same as a feed tells it: the URL is its title, for a sitemap knows no other."""
    text = html.unescape(entry.element[entry.element.index(b"<lastmod>") + 9 :].split(b"<", 1)[0].decode())
    return FeedEntry(
        loc=html.unescape(entry.loc.decode()),
        lastmod=lastmod.parse(text),
        images=tuple(html.unescape(image.decode()) for image in _IMAGE.findall(entry.element)),
    )


def leaves_at(entries: Iterable[RecentEntry], window: timedelta) -> datetime | None:
    """When the first of these entries is no longer recent; None where there is none."""
    moments = [entry.moment for entry in entries]
    if not moments:
        return None
    oldest = datetime.strptime(min(moments).decode(), "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
    return oldest + window + timedelta(seconds=1)
