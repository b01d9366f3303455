"""Recently changed entries, extracted from urlsets that this package wrote without parsing them completely."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.protocol import lastmod
from airflow_sitemaps.protocol.extensions.xml_reader import EXTENSIONS, read_extension
from airflow_sitemaps.protocol.feeds import FeedEntry, FeedMedia
from airflow_sitemaps.protocol.urlset import FOOTER, NAMESPACES, header

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from airflow_sitemaps.protocol.feeds import FeedText
    from airflow_sitemaps.protocol.limits import Limits

_ENTRY: Final = re.compile(rb"<url><loc>([^<]*)</loc><lastmod>([^<]*)</lastmod>.*?</url>\n", re.DOTALL)
_MIDNIGHT: Final = b"T00:00:00"


@dataclass(frozen=True, slots=True)
class RecentEntry:
    """One ``<url>`` element, as its shard contains it.

    Attributes:
        moment: Lastmod in UTC to the second, without its zone. A date stands for its midnight.
        loc: The URL, still escaped.
        element: The whole element and its line end.
        section: Name of the section that lists it.
    """

    moment: bytes
    loc: bytes
    element: bytes
    section: str = ""


def pick(urlset: bytes, since: datetime, section: str = "") -> Iterator[RecentEntry]:
    """Find the entries of a urlset that changed lately."""
    first = since.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S").encode()
    for match in _ENTRY.finditer(urlset):
        moment = (match[2] + _MIDNIGHT)[:19]
        if moment >= first:
            yield RecentEntry(moment, match[1], match[0], section)


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


def feed_entry(entry: RecentEntry, texts: FeedText | None = None) -> FeedEntry:
    """Convert a recent entry to an entry of a feed.

    Args:
        texts: Title and description from the columns of the source. If they are empty, the title of the page's article or
            first video and the description of the video are used, and otherwise the URL is the title.
    """
    written = html.unescape(entry.element[entry.element.index(b"<lastmod>") + 9 :].split(b"<", 1)[0].decode())
    records = _records(entry.element)
    media = (*map(_image, records.get("images", ())), *map(_video, records.get("videos", ())))
    titles = [record.get("title", "") for record in (*records.get("news", ()), *records.get("videos", ()))]
    return FeedEntry(
        loc=html.unescape(entry.loc.decode()),
        lastmod=lastmod.parse(written),
        title=(texts.title if texts is not None else "") or next(filter(None, titles), ""),
        description=(texts.description if texts is not None else "")
        or next((one.description for one in media if one.medium == "video"), ""),
        media=media,
    )


def _records(element: bytes) -> dict[str, list[dict[str, Any]]]:
    """Return the images, videos and articles of one ``<url>`` element as records."""
    from lxml import etree  # noqa: PLC0415

    if b"<image:" not in element and b"<video:" not in element and b"<news:" not in element:
        return {}
    (url,) = etree.fromstring(header(NAMESPACES) + element + FOOTER)
    records: dict[str, list[dict[str, Any]]] = {}
    for child in url:
        if child.tag in EXTENSIONS:
            records.setdefault(EXTENSIONS[child.tag], []).append(read_extension(child))
    return records


def _image(record: Mapping[str, Any]) -> FeedMedia:
    return FeedMedia(
        medium="image", url=record["loc"], title=record.get("title", ""), description=record.get("caption", "")
    )


def _video(record: Mapping[str, Any]) -> FeedMedia:
    return FeedMedia(
        medium="video",
        url=record.get("content_loc", ""),
        player=record.get("player_loc", ""),
        thumbnail=record.get("thumbnail_loc", ""),
        title=record.get("title", ""),
        description=record.get("description", ""),
        duration=record.get("duration", ""),
    )


def leaves_at(entries: Iterable[RecentEntry], window: timedelta) -> datetime | None:
    """Return the time at which the first of these entries is no longer recent, or None if there is none."""
    moments = [entry.moment for entry in entries]
    if not moments:
        return None
    oldest = datetime.strptime(min(moments).decode(), "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
    return oldest + window + timedelta(seconds=1)
