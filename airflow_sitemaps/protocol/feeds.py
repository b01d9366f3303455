"""Feeds of recent changes: RSS 2.0, Media RSS and Atom 1.0, of which crawlers read link and modification date.

Equal entries give equal bytes: a feed's own date is that of its newest entry, never the time of writing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Final, Literal

from airflow_sitemaps.protocol import lastmod
from airflow_sitemaps.protocol.markup import FORBIDDEN, attributes, element, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Format = Literal["rss", "mrss", "atom"]

ATOM_NAMESPACE: Final = "http://www.w3.org/2005/Atom"
"""RFC 4287."""

MEDIA_NAMESPACE: Final = "http://search.yahoo.com/mrss/"
"""Media RSS 1.5.1; the slash at its end belongs to it."""

CONTENT_TYPES: Final = {"rss": "application/rss+xml", "mrss": "application/rss+xml", "atom": "application/atom+xml"}
"""What a feed of each format is served as."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
"""``updated`` of an Atom entry whose lastmod is not known: RFC 4287 wants one, and none may be made up as news."""

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedEntry:
    """A page that changed. ``loc`` is in normal form, ``title`` falls back to it, ``images`` are URLs for Media RSS.

    A ``lastmod`` that is a date stands for its midnight in UTC.
    """

    loc: str
    lastmod: date | datetime | None = None
    title: str = ""
    description: str = ""
    images: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A feed's own data: ``address`` where it is served, ``site`` whose changes it tells, ``author`` for Atom."""

    address: str
    site: str
    title: str
    description: str = "Pages that changed lately"
    author: str = ""


def render(style: Format, channel: Channel, entries: Iterable[FeedEntry]) -> bytes:
    """A whole feed in UTF-8: the newest first, equal dates by URL. Without entries it is an empty, legal feed."""
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
        parts += [f"<media:content{attributes(url=image, medium='image')}/>" for image in entry.images]
    return "".join(parts)


def _atom(channel: Channel, entries: Sequence[FeedEntry]) -> str:
    newest = _moment(entries[0]) if entries else EPOCH
    head = [
        element("id", _clean(channel.address)),
        element("title", _clean(channel.title)),
        element("updated", lastmod.render(newest)),
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
        element("updated", lastmod.render(_moment(entry))),
        f"<link{attributes(rel='alternate', href=entry.loc)}/>",
    ]
    if entry.description:
        parts.append(element("summary", _clean(entry.description)))
    return "".join(parts)


def _moment(entry: FeedEntry) -> datetime:
    return EPOCH if entry.lastmod is None else lastmod.begins(entry.lastmod)


def _rfc_822(moment: datetime) -> str:
    """``Sun, 01 Mar 2026 08:00:00 +0000``: English whatever the locale, four digits of the year (RSS 2.0)."""
    utc = moment.astimezone(timezone.utc)
    day, month = _DAYS[utc.weekday()], _MONTHS[utc.month - 1]
    return f"{day}, {utc.day:02d} {month} {utc.year:04d} {utc.hour:02d}:{utc.minute:02d}:{utc.second:02d} +0000"


def _clean(value: str) -> str:
    """Escaped, what XML forbids replaced by U+FFFD: a feed's title is for people."""
    return text(FORBIDDEN.sub("\ufffd", value))


_RENDERERS: Final[dict[Format, Callable[[Channel, Sequence[FeedEntry]], str]]] = {
    "rss": _rss,
    "mrss": _media_rss,
    "atom": _atom,
}
