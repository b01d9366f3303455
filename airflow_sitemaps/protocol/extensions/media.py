"""Images and videos of a page: ``image:image`` and ``video:video``, Google's image and video sitemaps 1.1."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from airflow_sitemaps.protocol.extensions.fields import FieldProblems, FieldReader, Unusable, shown
from airflow_sitemaps.protocol.extensions.languages import COUNTRIES
from airflow_sitemaps.protocol.loc import CLEAN, LONGEST_CLEAN
from airflow_sitemaps.protocol.markup import attributes, element, escape

MAX_IMAGES: Final = 1_000
"""Maximum number of images of one URL (developers.google.com, image sitemaps)."""


def render_images(records: Sequence[FieldReader], notes: FieldProblems) -> str:
    """Return the elements of all usable images, at most 1,000. The fields are in the order of the XSD."""
    if len(records) > MAX_IMAGES:
        notes.faults.append(f"{len(records):,} images (limit {MAX_IMAGES:,}): the first {MAX_IMAGES:,} are kept")
    return "".join(map(_image, records[:MAX_IMAGES]))


def quick_images(given: Sequence[Any]) -> str | None:
    """Return the result of ``render_images`` for plain and clean images, about ten times faster, or None for all others."""
    if len(given) > MAX_IMAGES:
        return None
    addresses: list[str] = []
    matches = CLEAN.fullmatch
    for values in given:
        address = values.get("loc") if type(values) is dict and len(values) == 1 else values
        if type(address) is not str or matches(address) is None or len(address) > LONGEST_CLEAN:
            return None
        addresses.append(escape(address) if "&" in address or "'" in address else address)
    between = "</image:loc></image:image><image:image><image:loc>"
    return f"<image:image><image:loc>{between.join(addresses)}</image:loc></image:image>"


def _image(record: FieldReader) -> str:
    try:
        children = [element("image:loc", escape(record.required("loc", record.url("loc"))))]
    except Unusable:
        return ""
    children += [
        element(f"image:{name}", value)
        for name in ("caption", "geo_location", "title")
        if record.wanted(name, f"image:{name}") and (value := record.text(name))
    ]
    if record.wanted("license", "image:license") and (address := record.url("license")):
        children.append(element("image:license", escape(address)))
    record.finish()
    return element("image:image", "".join(children))


# ---------------------------------------------------------------- videos

# Limits of developers.google.com, video sitemaps, and of sitemap-video.xsd; sizes of texts are in characters.
MAX_TITLE: Final = 100  # the XSD's; the page of Google has no limit any longer: rule ``video-title``
MAX_DESCRIPTION: Final = 2_048
MAX_CATEGORY: Final = 256  # the XSD's
MAX_UPLOADER: Final = 255  # Google's; the XSD has no limit
MAX_DURATION_S: Final = 28_800  # Google's; the least is 1
MAX_RATING: Final = 5  # Google's
MAX_TAGS: Final = 32
ID_TYPES: Final = ("tms:series", "tms:program", "rovi:series", "rovi:program", "freebase", "url")  # the XSD's
SHOW_TYPES: Final = ("full", "preview", "clip", "interview", "news", "other")  # the XSD's ``tvshow/video_type``

_COUNTRIES: Final = re.compile(r"(?:[A-Z]{2}(?: [A-Z]{2})*)?")
_PLATFORMS: Final = re.compile(r"(?:(?:web|mobile|tv)(?: (?:web|mobile|tv))*)?")
_CURRENCY: Final = re.compile(r"[A-Z]{3}")


def render_video(record: FieldReader, page: str, max_title: int | None) -> str:
    """Return the element of a usable video, fields in the XSD's order. Its URLs must not be ``page``."""
    try:
        children = [*_required(record, page, max_title), *_numbers(record), *_audience(record)]
        children += [*_commerce(record), *_rest(record)]
    except Unusable:
        return ""
    record.finish()
    return element("video:video", "".join(children))


def _required(record: FieldReader, page: str, max_title: int | None) -> Iterator[str]:
    thumbnail = record.required("thumbnail_loc", record.url("thumbnail_loc"))
    given = record.text("title", limit=max_title), record.text("description", limit=MAX_DESCRIPTION)
    title, description = record.required("title", given[0]), record.required("description", given[1])
    content, player = _elsewhere(record, "content_loc", page), _elsewhere(record, "player_loc", page)
    if content is None and player is None:
        raise record.unusable("it has neither a usable content_loc nor a player_loc")
    yield element("video:thumbnail_loc", escape(thumbnail))
    yield element("video:title", title)
    yield element("video:description", description)
    if content is not None:
        yield element("video:content_loc", escape(content))
    names = "player_loc_allow_embed", "player_loc_autoplay"
    allowed = record.yes_no(names[0]) if record.wanted(names[0], "video:player_loc@allow_embed") else None
    autoplay = record.plain(names[1]) if record.wanted(names[1], "video:player_loc@autoplay") else None
    if player is not None:
        yield element("video:player_loc", escape(player), attributes(allow_embed=allowed, autoplay=autoplay))


def _elsewhere(record: FieldReader, name: str, page: str) -> str | None:
    address = record.url(name)
    if address is not None and address == page:
        record.fault(name, "is the page's own URL")
        return None
    return address


def _optional(name: str, value: str | None) -> str:
    return "" if value is None else element(f"video:{name}", value)


def _numbers(record: FieldReader) -> Iterator[str]:
    yield _optional("duration", record.integer("duration", least=1, most=MAX_DURATION_S))
    yield _optional("expiration_date", record.date("expiration_date"))
    yield _optional("rating", record.decimal("rating", most=MAX_RATING))
    if record.wanted("content_segment_loc", "video:content_segment_loc"):
        yield from _segments(record)
    yield _optional("view_count", record.integer("view_count"))
    yield _optional("publication_date", record.date("publication_date"))


def _segments(record: FieldReader) -> Iterator[str]:
    for part in record.parts("content_segment_loc"):
        address = part.url("loc" if "loc" in part.values else "value")
        duration = part.integer("duration", most=MAX_DURATION_S)
        part.finish()
        if address is not None:
            yield element("video:content_segment_loc", escape(address), attributes(duration=duration))


def _audience(record: FieldReader) -> Iterator[str]:
    parts = record.parts("tags")
    tags = [tag for part in parts if (tag := part.text("value")) is not None]
    for part in parts:
        part.finish()
    if len(tags) > MAX_TAGS:
        record.fault("tags", f"are {len(tags)} (limit {MAX_TAGS}): the first {MAX_TAGS} are kept")
    for tag in tags[:MAX_TAGS]:
        yield element("video:tag", tag)
    if record.wanted("category", "video:category") and (category := record.text("category", limit=MAX_CATEGORY)):
        yield element("video:category", category)
    yield _optional("family_friendly", record.yes_no("family_friendly"))
    yield from _relation(record, "restriction", "countries", _COUNTRIES)


def _relation(record: FieldReader, name: str, members: str, pattern: re.Pattern[str]) -> Iterator[str]:
    """Return ``restriction`` or ``platform``. A fault omits the video, which must not be shown too widely."""
    parts = record.parts(name)
    if len(parts) > 1:
        raise record.unusable(f"it has {len(parts)} of {name}, and a video may have one")
    for part in parts:
        relationship = part.raw("relationship")
        listed = part.raw(members)
        value = None if part.values.get(members) is None else _joined(listed)  # an empty list is a value
        if name == "restriction" and value is not None and value.isascii() and value != value.upper():
            part.fault(members, f"{shown(value)} is written in capitals")
            value = value.upper()
        # Countries are from ISO 3166-1: GB, not UK
        is_known = (
            value is not None
            and pattern.fullmatch(value)
            and (name != "restriction" or set(value.split()) <= COUNTRIES)
        )
        if relationship not in ("allow", "deny") or value is None or not is_known:
            given = f"relationship {shown(relationship)}, {members} {shown(listed)}"
            raise record.unusable(
                f"its {name} ({given}) is not valid, and without the {name} the video would be shown more widely"
            )
        part.finish()
        yield element(f"video:{name}", value, attributes(relationship=relationship))


def _joined(listed: Any) -> str | None:
    """Return the words of a text or of a list of texts, separated by single spaces; None for any other value."""
    words = (listed or "").split() if isinstance(listed or "", str) else listed
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        return None
    return " ".join(words)


def _commerce(record: FieldReader) -> Iterator[str]:
    title = record.plain("gallery_loc_title")
    if record.wanted("gallery_loc", "video:gallery_loc") and (gallery := record.url("gallery_loc")):
        yield element("video:gallery_loc", escape(gallery), attributes(title=title))
    if record.wanted("prices", "video:price"):
        yield from filter(None, map(_price, record.parts("prices")))
    yield _optional("requires_subscription", record.yes_no("requires_subscription"))
    info = record.url("uploader_info")
    if (uploader := record.text("uploader", limit=MAX_UPLOADER)) is not None:
        yield element("video:uploader", uploader, attributes(info=info))


def _price(part: FieldReader) -> str | None:
    given = "value" if "value" in part.values and "price" not in part.values else "price"
    amount, currency = part.decimal(given), part.plain("currency")
    kind = part.choice("type", ("purchase", "PURCHASE", "rent", "RENT"))
    resolution = part.choice("resolution", ("sd", "SD", "hd", "HD"))
    part.finish()
    if part.raw(given) is not None and amount is None:
        return None
    if currency is not None and not _CURRENCY.fullmatch(currency):
        part.fault("currency", f"is {shown(currency)}, not three capital letters (ISO 4217): the price is left out")
        return None
    if amount is not None and currency is None:
        part.fault("currency", "is missing: the price is left out")
        return None
    if kind is None and (amount is None or part.raw("type") is not None):
        part.fault("type", "is missing or wrong: the price is left out")
        return None
    return element("video:price", amount or "", attributes(currency=currency, type=kind, resolution=resolution))


def _rest(record: FieldReader) -> Iterator[str]:
    if record.wanted("tvshow", "video:tvshow"):
        yield from map(_show, filter(None, [record.part("tvshow")]))
    yield from _relation(record, "platform", "platforms", _PLATFORMS)
    yield _optional("live", record.yes_no("live"))
    if record.wanted("id", "video:id"):
        for part in record.parts("id"):
            kind, value = part.choice("type", ID_TYPES), part.text("value")
            part.finish()
            if kind is None or value is None:
                part.fault("id", "needs a type and a value: it is left out")
            else:
                yield element("video:id", value, attributes(type=kind))


def _show(part: FieldReader) -> str:
    fields = {
        "show_title": part.text("show_title"),
        "video_type": part.choice("video_type", SHOW_TYPES),
        "episode_title": part.text("episode_title"),
        "season_number": part.integer("season_number", least=1),
        "episode_number": part.integer("episode_number", least=1),
        "premier_date": part.date("premier_date"),
    }
    part.finish()
    if fields["show_title"] is None or fields["video_type"] is None:
        part.fault("tvshow", "needs a show_title and a video_type: it is left out")
        return ""
    return element("video:tvshow", "".join(_optional(name, value) for name, value in fields.items()))
