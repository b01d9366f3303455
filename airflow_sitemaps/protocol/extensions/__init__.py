"""Extensions, from JSON to XML elements and back: one set of rules checks a source's rows and published files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from airflow_sitemaps.protocol import RowContext
from airflow_sitemaps.protocol.extensions import fields, languages
from airflow_sitemaps.protocol.extensions.fields import FieldProblems, FieldReader, JsonFault
from airflow_sitemaps.protocol.extensions.media import MAX_TITLE, quick_images, render_images, render_video
from airflow_sitemaps.protocol.markup import NAMESPACES
from airflow_sitemaps.protocol.rules import Tally, Verdict, sample_text

RULE_OF: Final = {"images": "image", "videos": "video", "news": "news", "alternates": "alternate"}
_QUICK: Final = {"images": quick_images, "alternates": languages.quick_alternates}

Sampler = Callable[[str], str]
"""Returns the sample of a row, given the description of a fault."""


class DropRow(Exception):  # noqa: N818 - not an error: the row is counted, and the caller leaves it out
    """A rule with the verdict ``drop_row`` met a fault in an extension. The row is already counted."""


def fragment(
    kind: str, record_json: str, *, context: RowContext, tally: Tally, where: str, sample: Sampler | None = None
) -> str:
    """Return the XML of one row's column: the elements in the order of the XSD, empty if nothing is usable.

    ``record_json`` is a list of objects, one object, or a bare URL for an image, as JSON. ``""`` and ``null`` are empty.
    Alternates as ``{"group": [...]}`` are pages of the section, to whose URLs the URL rules apply.
    ``{"group": [], "fault": "..."}`` says why a row of a group has no alternates.

    The faults are counted once per row and rule, with a sample that names the fields. By the verdict of a broken rule it
    raises DropRow or RuleError. The URLs of a video must differ from ``where``, the normalised URL of the page.
    """
    settle = partial(_settle, context=context, tally=tally, sample=sample or partial(sample_text, loc=where))
    try:
        value = fields.parse(record_json) if record_json else None
        if value in (None, "", [], {}):
            return ""
        listed = value if isinstance(value, list) else [value]
        if kind == "alternates" and isinstance(value, dict) and isinstance(value.get("group"), list):
            listed = _members(value, context, settle)
        if kind in _QUICK and (quick := _QUICK[kind](listed)):
            return quick
        fields.check_depth(listed)
    except JsonFault as fault:
        settle("extension-json", [f"{kind}: {fault}: {record_json[:80]!r}"])
        return ""
    notes = FieldProblems(context)
    xml = _render(kind, listed, notes, where)
    for rule in dict.fromkeys(notes.fixed):
        settle(rule, [f"{kind}: a URL is fixed"])
    if notes.faults:
        settle(RULE_OF[kind], notes.faults)
    if notes.ignored:
        settle("ignored-field", [", ".join(notes.ignored)])
    return xml


def faults(kind: str, given: list[dict[str, Any]], *, context: RowContext, page: str) -> tuple[list[str], list[str]]:
    """Return the faults of a published page's records, and the ``loc-…`` rules broken in ways that a build repairs."""
    if kind in _QUICK and _QUICK[kind](given):
        return [], []
    notes = FieldProblems(context)
    _render(kind, given, notes, page)
    return notes.faults, list(dict.fromkeys(notes.fixed))


def _members(value: dict[str, Any], context: RowContext, settle: Callable[[str, list[str]], None]) -> list[Any]:
    """Return the versions of a group whose URLs are not dropped, or none if the page would be alone."""
    group: list[Any] = value["group"]
    fault = value.get("fault")
    if isinstance(fault, str):
        settle("alternate", [fault])
    given = [member.get("href") if isinstance(member, dict) else None for member in group]
    hrefs = [href if isinstance(href, str) else None for href in given]
    dropped = {href for href in hrefs if href is not None and languages.is_dropped(href, context)}
    if not dropped:
        return group
    settle("alternate-dropped", [f"{href} is not listed" for href in sorted(dropped)])
    if context.rulebook["alternate-dropped"] is Verdict.KEEP:
        return group
    left = [member for member, href in zip(group, hrefs, strict=True) if href not in dropped]
    return left if len({href for href in hrefs if href not in dropped}) > 1 else []


def _render(kind: str, given: list[Any], notes: FieldProblems, page: str) -> str:
    records: list[FieldReader] = []
    for number, values in enumerate(given, 1):
        name = RULE_OF[kind] if len(given) == 1 else f"{RULE_OF[kind]} {number}"
        record = {"loc": values} if isinstance(values, str) and kind == "images" else values
        if isinstance(record, dict):
            records.append(FieldReader(name, record, notes))
        else:
            notes.faults.append(f"{name} left out: it is {fields.shown(values)}, not an object")
    if kind == "images":
        return render_images(records, notes)
    if kind == "videos":
        max_title = None if notes.context.rulebook["video-title"] is Verdict.KEEP else MAX_TITLE
        return "".join(render_video(record, page, max_title) for record in records)
    return languages.render_articles(records, notes) if kind == "news" else languages.render_alternates(records)


def _settle(rule: str, faults: list[str], *, context: RowContext, tally: Tally, sample: Sampler) -> None:
    """Count the faults of a row under a rule, and raise DropRow or RuleError if its verdict says so."""
    verdict = context.rulebook[rule]
    tally.count(rule, verdict, [sample("; ".join(faults[:5]))], where=context.section)
    if verdict is Verdict.DROP_ROW:
        raise DropRow(rule)


# ---------------------------------------------------------------- from elements to records

_IMAGE: Final = f"{{{NAMESPACES['image']}}}image"
_LINK: Final = f"{{{NAMESPACES['xhtml']}}}link"
_VIDEO: Final = f"{{{NAMESPACES['video']}}}"
_NEWS: Final = f"{{{NAMESPACES['news']}}}"
_LISTS: Final = {"price": "prices", "id": "id", "content_segment_loc": "content_segment_loc"}
_INLINE: Final = {"player_loc": ("allow_embed", "autoplay"), "gallery_loc": ("title",), "uploader": ("info",)}
_REPEATED: Final = frozenset({"tag", *_LISTS})
_FILLED: Final = frozenset(
    """
    access duration episode_number expiration_date family_friendly genres live premier_date publication_date rating
    requires_subscription season_number video_type view_count
    """.split()  # noqa: SIM905
)
_RELATIONS: Final = {"restriction": "countries", "platform": "platforms"}

ELEMENT_KINDS: Final = {_IMAGE: "images", f"{_VIDEO}video": "videos", f"{_NEWS}news": "news", _LINK: "alternates"}

_ORDERS: Final = {
    _IMAGE: ("loc", "caption", "geo_location", "title", "license"),
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


def read_extension(element: Any) -> dict[str, Any]:
    """Return the record of one ``image:image``, ``video:video``, ``news:news`` or ``xhtml:link`` element."""
    if element.tag == _LINK:
        # HTML's other attributes, such as type and title, say nothing of the version.
        link = {name: value for name, value in element.items() if name in ("hreflang", "href", "media", "rel")}
        if link.pop("rel", "") != "alternate":
            link["rel"] = element.get("rel") or "not given"
        return link
    if element.tag == f"{_VIDEO}video":
        return _video(element)
    record: dict[str, Any] = _texts(element)
    publication = element.find(f"{_NEWS}publication")
    if publication is not None:
        record["publication"] = _texts(publication)
    return record


def _video(element: Any) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for child in element:
        name, value = local_name(child), (child.text or "").strip()
        if name == "tag":
            record.setdefault("tags", []).append(value)
        elif name in _LISTS:
            own = {"price": "price", "content_segment_loc": "loc"}.get(name, "value")
            record.setdefault(_LISTS[name], []).append({own: value, **child.attrib})
        elif name in _RELATIONS:
            record[name] = {_RELATIONS[name]: value.split(), **child.attrib}
        elif name == "tvshow":
            record[name] = _texts(child)
        else:
            # A field such as tags is no element.
            record[name if name in _ORDERS[element.tag] else f"video:{name}"] = value
            for attribute in _INLINE.get(name, ()):
                if attribute in child.attrib:
                    record[f"{name}_{attribute}"] = child.attrib[attribute]
    return record


def child_faults(element: Any) -> list[tuple[str, str]]:
    """Return the checks that the children of an extension break, each with the first fault."""
    first: dict[str, str] = {}
    for check, fault in _faults_of_children(element) if len(element) > 1 else ():
        first.setdefault(check, fault)
    return sorted(first.items())


def _faults_of_children(element: Any) -> Iterator[tuple[str, str]]:
    """Yield the children that are too late for the XSD's sequence, stand twice, or are empty where it has no text."""
    order, latest = _ORDERS.get(element.tag, ()), 0
    seen: set[str] = set()
    for child in element:
        name = local_name(child)
        place = order.index(name) if name in order else latest
        if place < latest:
            yield "extension-order", f"<{name}> stands too late"  # as in Google's own sample
        if name in seen and name not in _REPEATED:
            yield "structure", f"a second <{name}>"
        elif name in _FILLED and not (child.text or "").strip():
            yield "structure", f"an empty <{name}>"
        latest = max(latest, place)
        seen.add(name)
        yield from _faults_of_children(child)


def local_name(element: Any) -> str:
    """Return the name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]


def _texts(element: Any) -> dict[str, str]:
    return {local_name(child): (child.text or "").strip() for child in element}
