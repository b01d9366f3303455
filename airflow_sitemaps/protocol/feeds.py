"""Feeds of recent changes: RSS 2.0, Media RSS and Atom 1.0. Crawlers read the link and the modification date.

Equal entries give equal bytes: the date of a feed is that of its newest entry, never the time of writing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Final, Literal

from airflow_sitemaps.protocol.lastmod import begins
from airflow_sitemaps.protocol.lastmod import render as render_lastmod
from airflow_sitemaps.protocol.markup import FORBIDDEN, attributes, element, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Format = Literal["rss", "mrss", "atom"]

ATOM_NAMESPACE: Final = "http://www.w3.org/2005/Atom"
"""RFC 4287."""

MEDIA_NAMESPACE: Final = "http://search.yahoo.com/mrss/"
"""Media RSS 1.5.1. The slash at the end is part of the namespace."""

CONTENT_TYPES: Final = {"rss": "application/rss+xml", "mrss": "application/rss+xml", "atom": "application/atom+xml"}
"""Content-Type header of each feed format."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
"""``updated`` of an Atom entry without a known lastmod. RFC 4287 requires a value, and a recent one would be false."""

FEED_ENTRIES: Final = 1_000
"""Maximum number of entries in a feed. Readers fetch it completely and often; the sitemap has up to 50,000."""

MAX_TITLE: Final = 300
MAX_DESCRIPTION: Final = 1_000
"""Maximum number of characters of a text from a column. A longer text ends in an ellipsis."""

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedText:
    """Texts of an entry from the columns of a source, for people who read a feed.

    Attributes:
        loc: URL of the entry in normal form.
        moment: Its lastmod as W3C Datetime, by which the newest are selected.
        title: Text without markup; empty if there is none.
        description: Text without markup; empty if there is none.
    """

    loc: str
    moment: str
    title: str = ""
    description: str = ""


def feed_text(*, loc: str, lastmod: date | datetime, title: str | None, description: str | None) -> FeedText:
    """Return the texts of an entry from its columns, shortened for a feed."""
    return FeedText(
        loc=loc,
        moment=render_lastmod(lastmod),
        title=_cut(title, MAX_TITLE),
        description=_cut(description, MAX_DESCRIPTION),
    )


def newest_texts(texts: Iterable[FeedText]) -> list[FeedText]:
    """Return the newest ``FEED_ENTRIES`` texts, one for each URL. The first of several is kept."""
    first = {text.loc: text for text in reversed(list(texts))}
    ordered = sorted(first.values(), key=lambda text: text.loc)
    return sorted(ordered, key=lambda text: text.moment, reverse=True)[:FEED_ENTRIES]


def read_texts(feed: bytes) -> dict[str, FeedText]:
    """Return titles and descriptions by URL from a feed that ``render`` wrote in any format.

    The texts of entries in unchanged shards therefore need not be read from the source again.
    """
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
    words = FORBIDDEN.sub("\ufffd", (value or "")[: 4 * most]).split()
    text = " ".join(words)
    return text if len(text) <= most else text[: most - 1] + "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedMedia:
    """An image or a video of an entry, for Media RSS.

    Attributes:
        medium: ``image`` or ``video``.
        url: Address of the file; empty for a video that has only a player.
        player: Address of the player of a video; empty if there is none.
        thumbnail: Address of the thumbnail of a video; empty for an image.
        title: Title; empty if there is none.
        description: Description; empty if there is none.
        duration: Duration of a video in seconds; empty if it is not known.
    """

    medium: Literal["image", "video"]
    url: str = ""
    player: str = ""
    thumbnail: str = ""
    title: str = ""
    description: str = ""
    duration: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedEntry:
    """A page that changed.

    Attributes:
        loc: URL in normal form.
        lastmod: Time of the change. A date stands for its midnight in UTC.
        title: Title. If it is empty, the feed shows the URL.
        description: Description. It is omitted if it is empty.
        images: Addresses of images without a title, for Media RSS.
        media: Images and videos with their texts, for Media RSS.
    """

    loc: str
    lastmod: date | datetime | None = None
    title: str = ""
    description: str = ""
    images: tuple[str, ...] = ()
    media: tuple[FeedMedia, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """Data of the feed itself.

    Attributes:
        address: Address of the feed.
        site: The site whose changes it lists.
        title: Title of the feed.
        description: Description of the feed, for RSS.
        author: Author, for Atom. If it is empty, the title is used.
    """

    address: str
    site: str
    title: str
    description: str = "Pages that changed lately"
    author: str = ""


def render(style: Format, channel: Channel, entries: Iterable[FeedEntry]) -> bytes:
    """Return a whole feed in UTF-8. The newest entry is first; entries of one date are ordered by URL.

    Args:
        entries: The pages. A feed without entries is valid.
    """
    ordered = sorted(entries, key=lambda entry: entry.loc)
    ordered.sort(key=_moment, reverse=True)
    body = _RENDERERS[style](channel, ordered)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}'.encode()


def _rss(channel: Channel, entries: Sequence[FeedEntry], *, media: bool = False) -> str:
    namespaces = f' xmlns:atom="{ATOM_NAMESPACE}"' + (f' xmlns:media="{MEDIA_NAMESPACE}"' if media else "")
    head = [
        element("title", _clean(channel.title)),
        element("link", _clean(channel.site)),
        element("description", _clean(channel.description)),
    ]
    if entries and entries[0].lastmod is not None:
        head.append(element("lastBuildDate", _rfc_822(_moment(entries[0]))))
    itself = attributes(href=channel.address, rel="self", type=CONTENT_TYPES["rss"])
    items = "".join(f"<item>{_item(entry, media=media)}</item>\n" for entry in entries)
    return f'<rss version="2.0"{namespaces}><channel>{"".join(head)}<atom:link{itself}/>\n{items}</channel></rss>\n'


def _media_rss(channel: Channel, entries: Sequence[FeedEntry]) -> str:
    return _rss(channel, entries, media=True)


def _item(entry: FeedEntry, *, media: bool) -> str:
    parts = [element("title", _clean(entry.title or entry.loc)), element("link", _clean(entry.loc))]
    if entry.description:
        parts.append(element("description", _clean(entry.description)))
    parts.append(element("guid", _clean(entry.loc), attributes(isPermaLink="true")))
    if entry.lastmod is not None:
        parts.append(element("pubDate", _rfc_822(_moment(entry))))
    if media:
        parts += _media(entry)
    return "".join(parts)


def _media(entry: FeedEntry) -> list[str]:
    """Return the elements of Media RSS: those of the item, then one ``media:content`` for each image and video.

    The item has the texts of its first medium that has some, because many readers take the first that they find, and else
    the page's. A medium without texts has the page's.
    """
    media = (*(FeedMedia(medium="image", url=image) for image in entry.images), *entry.media)
    thumbnail = next((one.thumbnail or one.url for one in media if one.thumbnail or one.medium == "image"), "")
    title = next((one.title for one in media if one.title), entry.title)
    description = next((one.description for one in media if one.description), entry.description)
    parts = _media_texts(title, description, thumbnail)
    for one in media:
        attached = attributes(url=one.url or None, medium=one.medium, duration=one.duration or None)
        player = f"<media:player{attributes(url=one.player)}/>" if one.player else ""
        inner = player + "".join(
            _media_texts(
                one.title or (entry.title if entry.title != title else ""),
                one.description or (entry.description if entry.description != description else ""),
                one.thumbnail,
            )
        )
        parts.append(element("media:content", inner, attached) if inner else f"<media:content{attached}/>")
    return parts


def _media_texts(title: str, description: str, thumbnail: str) -> list[str]:
    parts = []
    if title:
        parts.append(element("media:title", _clean(title), ' type="plain"'))
    if description:
        parts.append(element("media:description", _clean(description), ' type="plain"'))
    if thumbnail:
        parts.append(f"<media:thumbnail{attributes(url=thumbnail)}/>")
    return parts


def _atom(channel: Channel, entries: Sequence[FeedEntry]) -> str:
    newest = _moment(entries[0]) if entries else EPOCH
    head = [
        element("id", _clean(channel.address)),
        element("title", _clean(channel.title)),
        element("updated", render_lastmod(newest)),
        f"<link{attributes(rel='self', type=CONTENT_TYPES['atom'], href=channel.address)}/>",
        f"<link{attributes(rel='alternate', href=channel.site)}/>",
        element("author", element("name", _clean(channel.author or channel.title))),
    ]
    rows = "".join(f"<entry>{_atom_entry(entry)}</entry>\n" for entry in entries)
    return f'<feed xmlns="{ATOM_NAMESPACE}">{"".join(head)}\n{rows}</feed>\n'


def _atom_entry(entry: FeedEntry) -> str:
    parts = [
        element("id", _clean(entry.loc)),
        element("title", _clean(entry.title or entry.loc)),
        element("updated", render_lastmod(_moment(entry))),
        f"<link{attributes(rel='alternate', href=entry.loc)}/>",
    ]
    if entry.description:
        parts.append(element("summary", _clean(entry.description)))
    return "".join(parts)


def _moment(entry: FeedEntry) -> datetime:
    return EPOCH if entry.lastmod is None else begins(entry.lastmod)


def _rfc_822(moment: datetime) -> str:
    """Return a date as ``Sun, 01 Mar 2026 08:00:00 +0000``: in English, with four digits of the year (RSS 2.0)."""
    utc = moment.astimezone(timezone.utc)
    day, month = _DAYS[utc.weekday()], _MONTHS[utc.month - 1]
    return f"{day}, {utc.day:02d} {month} {utc.year:04d} {utc.hour:02d}:{utc.minute:02d}:{utc.second:02d} +0000"


def _clean(value: str) -> str:
    """Return a text escaped, with characters that XML forbids replaced by U+FFFD."""
    return text(FORBIDDEN.sub("\ufffd", value))


_RENDERERS: Final[dict[Format, Callable[[Channel, Sequence[FeedEntry]], str]]] = {
    "rss": _rss,
    "mrss": _media_rss,
    "atom": _atom,
}
