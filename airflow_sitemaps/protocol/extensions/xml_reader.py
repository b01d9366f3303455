"""Conversion of extension elements to records in the form of the JSON columns, so one set of rules checks both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.protocol.urlset import NAMESPACES

if TYPE_CHECKING:
    from collections.abc import Callable

_VIDEO: Final = f"{{{NAMESPACES['video']}}}"
_NEWS: Final = f"{{{NAMESPACES['news']}}}"
_LISTS: Final = {"tag": "tags", "price": "prices", "id": "id", "content_segment_loc": "content_segment_loc"}
_INLINE: Final = {"player_loc": ("allow_embed", "autoplay"), "gallery_loc": ("title",), "uploader": ("info",)}
_RELATIONS: Final = {"restriction": "countries", "platform": "platforms"}


def read_extension(element: Any) -> dict[str, Any]:
    """Return the record of one ``image:image``, ``video:video``, ``news:news`` or ``xhtml:link`` element."""
    return _READERS[element.tag](element)


def _image(element: Any) -> dict[str, Any]:
    return {_local(child): _text(child) for child in element}


def _link(element: Any) -> dict[str, Any]:
    record = dict(element.attrib)
    if record.pop("rel", "") != "alternate":
        record["rel"] = element.get("rel") or "not given"
    return record


def _news(element: Any) -> dict[str, Any]:
    record: dict[str, Any] = {_local(child): _text(child) for child in element}
    publication = element.find(f"{_NEWS}publication")
    if publication is not None:
        record["publication"] = {_local(child): _text(child) for child in publication}
    return record


def _video(element: Any) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for child in element:
        name, value = _local(child), _text(child)
        if name == "tag":
            record.setdefault("tags", []).append(value)
        elif name in _LISTS:
            own = {"price": "price", "content_segment_loc": "loc"}.get(name, "value")
            record.setdefault(_LISTS[name], []).append({own: value, **child.attrib})
        elif name in _RELATIONS:
            record[name] = {_RELATIONS[name]: value.split(), **child.attrib}
        elif name == "tvshow":
            record[name] = {_local(part): _text(part) for part in child}
        else:
            record[name] = value
            for attribute in _INLINE.get(name, ()):
                if attribute in child.attrib:
                    record[f"{name}_{attribute}"] = child.attrib[attribute]
    return record


def order_fault(element: Any) -> str | None:
    """Return the first child that is too late for the XSD's sequence, or None; Google's own sample has such a child."""
    order, latest = _ORDERS.get(element.tag, ()), 0
    for child in element:
        name = _local(child)
        place = order.index(name) if name in order else latest
        if place < latest:
            return name
        latest = place
        if len(child) and (early := order_fault(child)):
            return early
    return None


def _local(element: Any) -> str:
    return str(element.tag).rpartition("}")[2]


def _text(element: Any) -> str:
    return (element.text or "").strip()


_READERS: Final[dict[str, Callable[[Any], dict[str, Any]]]] = {
    f"{{{NAMESPACES['image']}}}image": _image,
    f"{_VIDEO}video": _video,
    f"{_NEWS}news": _news,
    f"{{{NAMESPACES['xhtml']}}}link": _link,
}
EXTENSIONS: Final = dict(zip(_READERS, ("images", "videos", "news", "alternates"), strict=True))
"""Kind of extension by the name of each element that a ``<url>`` may contain."""

_ORDERS: Final = {
    f"{{{NAMESPACES['image']}}}image": ("loc", "caption", "geo_location", "title", "license"),
    f"{_NEWS}publication": ("name", "language"),
    f"{_VIDEO}tvshow": (
        "show_title", "video_type", "episode_title", "season_number", "episode_number", "premier_date",
    ),
    f"{_NEWS}news": ("publication", "access", "genres", "publication_date", "title", "keywords", "stock_tickers"),
    f"{_VIDEO}video": (
        "thumbnail_loc", "title", "description", "content_loc", "player_loc", "duration", "expiration_date", "rating",
        "content_segment_loc", "view_count", "publication_date", "tag", "category", "family_friendly", "restriction",
        "gallery_loc", "price", "requires_subscription", "uploader", "tvshow", "platform", "live", "id",
    ),
}  # fmt: skip
