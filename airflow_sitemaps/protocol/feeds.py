"""Recent changes: their extraction from shards, and the feeds RSS 2.0, Media RSS and Atom 1.0.

Crawlers read the link and the modification date of an entry. Equal entries give equal bytes: the date of a feed is that of
its newest entry, never the time of writing.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from email.utils import format_datetime
from functools import lru_cache
from typing import Any, Final, Literal

from airflow_sitemaps.protocol import Limits
from airflow_sitemaps.protocol import lastmod as lastmods
from airflow_sitemaps.protocol.extensions import ELEMENT_KINDS, read_extension
from airflow_sitemaps.protocol.extensions.languages import MAX_NEWS
from airflow_sitemaps.protocol.markup import FOOTER, FORBIDDEN, NAMESPACES, attributes, element, escape, header

Format = Literal["rss", "mrss", "atom"]
Lower = tuple[int | str, ...] | None

ATOM_NAMESPACE: Final = "http://www.w3.org/2005/Atom"
"""RFC 4287."""

MEDIA_NAMESPACE: Final = "http://search.yahoo.com/mrss/"
"""Media RSS 1.5.1. The slash at the end is part of the namespace."""

CONTENT_TYPES: Final = {"rss": "application/rss+xml", "mrss": "application/rss+xml", "atom": "application/atom+xml"}

EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
"""``updated`` of an Atom entry without a known lastmod. RFC 4287 requires a value, and a recent one would be false."""

FEED_ENTRIES: Final = 1_000
"""Maximum number of entries in a feed. Readers fetch it completely and often; the sitemap has up to 50,000."""

MAX_TITLE: Final = 300
MAX_DESCRIPTION: Final = 1_000
"""Maximum number of characters of a text from a column. A longer text ends in an ellipsis."""

_ABOUT: Final = "Pages that changed lately"
_ENTRY: Final = re.compile(rb"<url><loc>([^<]*)</loc><lastmod>([^<]*)</lastmod>.*?</url>\n", re.DOTALL)


# ---------------------------------------------------------------- recent entries of shards


@dataclass(frozen=True, slots=True)
class RecentEntry:
    """One ``<url>`` element with its line end, as its shard contains it, the escaped URL, and its shard's lower end.

    ``moment`` is its lastmod in UTC to the second, without its zone. A date begins at midnight in its section's zone.
    """

    moment: bytes
    loc: bytes
    element: bytes
    section: str = ""
    lower: Lower = None


def pick(
    urlset: bytes, since: datetime, section: str = "", lower: Lower = None, timezone: str = "UTC"
) -> Iterator[RecentEntry]:
    """Find the entries of a urlset that changed lately. This package wrote it, so it need not be parsed completely."""
    first = since.astimezone(lastmods.UTC).strftime("%Y-%m-%dT%H:%M:%S").encode()
    for match in _ENTRY.finditer(urlset):
        moment = match[2][:19] if len(match[2]) > 10 else _midnight(match[2], timezone)
        if moment >= first:
            yield RecentEntry(moment, match[1], match[0], section, lower)


@lru_cache(maxsize=4_096)
def _midnight(day: bytes, timezone: str) -> bytes:
    return lastmods.begins(date.fromisoformat(day.decode()), timezone).isoformat()[:19].encode()


def newest(entries: Iterable[RecentEntry], limits: Limits, most: int) -> list[RecentEntry]:
    """At most ``most`` entries, newest first, equal moments by URL, that fit into one file; one of each URL.

    A file holds at most 1,000 news articles: see Google's documentation of news sitemaps.
    """
    ordered = sorted(entries, key=lambda entry: entry.loc)
    ordered.sort(key=lambda entry: entry.moment, reverse=True)
    room = limits.max_byte_size - len(header(NAMESPACES)) - len(FOOTER)
    kept: dict[bytes, RecentEntry] = {}
    articles = 0
    for entry in ordered:
        if len(kept) == min(most, limits.max_urls):
            break
        articles += (is_article := entry.loc not in kept and b"<news:news>" in entry.element)
        if entry.loc in kept or (is_article and articles > MAX_NEWS):
            continue
        room -= len(entry.element)
        if room < 0:
            break
        kept[entry.loc] = entry
    return list(kept.values())


def leaves_at(entries: Iterable[RecentEntry], window: timedelta) -> datetime | None:
    """Return the time at which the first of these entries is no longer recent, or None if there is none."""
    oldest = min((entry.moment for entry in entries), default=None)
    if oldest is None or oldest >= b"9999":  # no time is a window after the days that mean "never"
        return None
    changed = datetime.strptime(oldest.decode(), "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
    return changed + window + timedelta(seconds=1)


def recent_urlset(entries: Iterable[RecentEntry]) -> bytes:
    """A urlset of these entries, in their order, with the namespaces they use."""
    body = b"".join(entry.element for entry in entries)
    prefixes = [prefix for prefix in NAMESPACES if f"<{prefix}:".encode() in body]
    return header(prefixes) + body + FOOTER


# ---------------------------------------------------------------- texts from columns


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedText:
    """Texts from the columns of a source, without markup, or empty. ``moment`` (W3C Datetime) selects the newest.

    ``lower`` is the lower end of their shard, as several shards may list one URL.
    """

    loc: str
    moment: str
    title: str = ""
    description: str = ""
    lower: Lower = None


def feed_text(*, loc: str, lastmod: date | datetime, title: str | None, description: str | None) -> FeedText:
    """Return the texts of an entry from its columns, shortened for a feed."""
    moment, about = lastmods.render(lastmod), _cut(description, MAX_DESCRIPTION)
    return FeedText(loc=loc, moment=moment, title=_cut(title, MAX_TITLE), description=about)


def newest_texts(texts: Iterable[FeedText]) -> list[FeedText]:
    """Return the texts of the newest ``FEED_ENTRIES`` URLs, one for each shard. The first of several is kept."""
    first = {(text.loc, text.lower): text for text in reversed(list(texts))}
    ordered = sorted(first.values(), key=lambda text: text.loc)
    ordered.sort(key=lambda text: text.moment, reverse=True)
    kept = set(list(dict.fromkeys(text.loc for text in ordered))[:FEED_ENTRIES])
    return [text for text in ordered if text.loc in kept]


def read_texts(feed: bytes) -> dict[str, FeedText]:
    """Return titles and descriptions by URL from a feed of any format: those of unchanged shards are not read again."""
    from lxml import etree  # noqa: PLC0415

    texts: dict[str, FeedText] = {}
    for item in etree.fromstring(feed).iter("item", f"{{{ATOM_NAMESPACE}}}entry"):
        prefix = "" if item.tag == "item" else f"{{{ATOM_NAMESPACE}}}"
        loc = (item.findtext("guid") if item.tag == "item" else item.findtext(f"{prefix}id")) or ""
        title = item.findtext(f"{prefix}title") or ""
        description = item.findtext("description") or item.findtext(f"{prefix}summary") or ""
        texts[loc] = FeedText(loc=loc, moment="", title="" if title == loc else title, description=description)
    return texts


def _cut(value: str | None, most: int) -> str:
    text = " ".join(FORBIDDEN.sub("\ufffd", (value or "")[: 4 * most]).split())
    return text if len(text) <= most else text[: most - 1] + "…"


# ---------------------------------------------------------------- entries of a feed


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedMedia:
    """An image or a video of an entry, for Media RSS. What it does not have is empty; ``duration`` is in seconds."""

    medium: Literal["image", "video"]
    url: str = ""
    player: str = ""
    thumbnail: str = ""
    title: str = ""
    description: str = ""
    duration: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedEntry:
    """A page that changed. The feed shows its URL if the title is empty. ``media`` is for Media RSS."""

    loc: str
    lastmod: date | datetime | None = None
    title: str = ""
    description: str = ""
    media: tuple[FeedMedia, ...] = ()
    timezone: str = "UTC"

    @property
    def moment(self) -> datetime:
        """Time of the change, at which a date begins in ``timezone``; ``EPOCH`` if it is not known."""
        return EPOCH if self.lastmod is None else lastmods.begins(self.lastmod, self.timezone)


def feed_entry(entry: RecentEntry, texts: FeedText | None = None, timezone: str = "UTC") -> FeedEntry:
    """Convert a recent entry to an entry of a feed, with the texts of its article or video where columns have none."""
    written = html.unescape(entry.element[entry.element.index(b"<lastmod>") + 9 :].split(b"<", 1)[0].decode())
    records = _records(entry.element)
    images, videos = records.get("images", ()), records.get("videos", ())
    titles = (record.get("title") for record in (*records.get("news", ()), *videos))
    descriptions = (video.get("description", "") for video in videos)
    given = texts or FeedText(loc="", moment="")
    return FeedEntry(
        loc=html.unescape(entry.loc.decode()),
        lastmod=lastmods.parse(written),
        timezone=timezone,
        title=given.title or next(filter(None, titles), ""),
        description=given.description or next(descriptions, ""),
        media=(*map(_image, images), *map(_video, videos)),
    )


def _records(element: bytes) -> dict[str, list[dict[str, Any]]]:
    """Return the images, videos and articles of one ``<url>`` element as records."""
    from lxml import etree  # noqa: PLC0415

    if b"<image:" not in element and b"<video:" not in element and b"<news:" not in element:
        return {}
    (url,) = etree.fromstring(header(NAMESPACES) + element + FOOTER)
    records: dict[str, list[dict[str, Any]]] = {}
    for child in url:
        if child.tag in ELEMENT_KINDS:
            records.setdefault(ELEMENT_KINDS[child.tag], []).append(read_extension(child))
    return records


def _image(record: dict[str, Any]) -> FeedMedia:
    title, description = record.get("title", ""), record.get("caption", "")
    return FeedMedia(medium="image", url=record["loc"], title=title, description=description)


def _video(record: dict[str, Any]) -> FeedMedia:
    given = {name: record.get(name, "") for name in ("title", "description", "duration")}
    addresses = {name: record.get(f"{name}_loc", "") for name in ("player", "thumbnail")}
    return FeedMedia(medium="video", url=record.get("content_loc", ""), **addresses, **given)


# ---------------------------------------------------------------- rendering


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """The feed itself: its address, the site whose changes it lists, and its title."""

    address: str
    site: str
    title: str


def render(style: Format, channel: Channel, entries: Iterable[FeedEntry]) -> bytes:
    """Return a whole feed in UTF-8. The newest entry is first; entries of one date are ordered by URL."""
    ordered = sorted(entries, key=lambda entry: entry.loc)
    ordered.sort(key=lambda entry: entry.moment, reverse=True)
    body = _atom(channel, ordered) if style == "atom" else _rss(channel, ordered, media=style == "mrss")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}'.encode()


def _rss(channel: Channel, entries: Sequence[FeedEntry], *, media: bool) -> str:
    namespaces = f' xmlns:atom="{ATOM_NAMESPACE}"' + (f' xmlns:media="{MEDIA_NAMESPACE}"' if media else "")
    head = [_text("title", channel.title), _text("link", channel.site), _text("description", _ABOUT)]
    if entries and entries[0].lastmod is not None:
        head.append(element("lastBuildDate", format_datetime(entries[0].moment.astimezone(timezone.utc))))
    itself = attributes(href=channel.address, rel="self", type=CONTENT_TYPES["rss"])
    items = "".join(f"<item>{_item(entry, media=media)}</item>\n" for entry in entries)
    return f'<rss version="2.0"{namespaces}><channel>{"".join(head)}<atom:link{itself}/>\n{items}</channel></rss>\n'


def _item(entry: FeedEntry, *, media: bool) -> str:
    parts = [_text("title", entry.title or entry.loc), _text("link", entry.loc)]
    if entry.description:
        parts.append(_text("description", entry.description))
    parts.append(_text("guid", entry.loc, attributes(isPermaLink="true")))
    if entry.lastmod is not None:
        parts.append(element("pubDate", format_datetime(entry.moment.astimezone(timezone.utc))))
    if media:
        parts += _media(entry)
    return "".join(parts)


def _media(entry: FeedEntry) -> Iterator[str]:
    """Yield the elements of Media RSS: those of the item, then one ``media:content`` for each image and video.

    The item has the texts of its first medium that has some, because many readers take the first that they find, and else
    the page's. A medium without texts has the page's.
    """
    thumbnail = next((one.thumbnail or one.url for one in entry.media if one.thumbnail or one.medium == "image"), "")
    title = next((one.title for one in entry.media if one.title), entry.title)
    description = next((one.description for one in entry.media if one.description), entry.description)
    yield _media_texts(title, description, thumbnail)
    for one in entry.media:
        attached = attributes(url=one.url or None, medium=one.medium, duration=one.duration or None)
        inner = (f"<media:player{attributes(url=one.player)}/>" if one.player else "") + _media_texts(
            one.title or (entry.title if entry.title != title else ""),
            one.description or (entry.description if entry.description != description else ""),
            one.thumbnail,
        )
        yield element("media:content", inner, attached) if inner else f"<media:content{attached}/>"


def _media_texts(title: str, description: str, thumbnail: str) -> str:
    written = "".join(
        _text(f"media:{name}", value, ' type="plain"')
        for name, value in (("title", title), ("description", description))
        if value
    )
    return written + (f"<media:thumbnail{attributes(url=thumbnail)}/>" if thumbnail else "")


def _atom(channel: Channel, entries: Sequence[FeedEntry]) -> str:
    head = [
        _text("id", channel.address),
        _text("title", channel.title),
        element("updated", lastmods.render(entries[0].moment if entries else EPOCH)),
        f"<link{attributes(rel='self', type=CONTENT_TYPES['atom'], href=channel.address)}/>",
        f"<link{attributes(rel='alternate', href=channel.site)}/>",
        element("author", _text("name", channel.title)),
    ]
    rows = "".join(
        f"<entry>{_text('id', entry.loc)}{_text('title', entry.title or entry.loc)}"
        f"{element('updated', lastmods.render(entry.moment))}<link{attributes(rel='alternate', href=entry.loc)}/>"
        f"{_text('summary', entry.description) if entry.description else ''}</entry>\n"
        for entry in entries
    )
    return f'<feed xmlns="{ATOM_NAMESPACE}">{"".join(head)}\n{rows}</feed>\n'


def _text(name: str, value: str, attributes: str = "") -> str:
    """Return an element with this text, in which U+FFFD stands for characters that XML forbids."""
    return element(name, escape(FORBIDDEN.sub("\ufffd", value)), attributes)
