"""Extensions of an entry: from the JSON of a column to the XML elements that follow an entry's own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.protocol import alternates, images, news, videos
from airflow_sitemaps.protocol.address import Addresses
from airflow_sitemaps.protocol.record import Notes, Record
from airflow_sitemaps.protocol.rules import SAMPLE_CHARACTERS, Verdict
from airflow_sitemaps.protocol.urlset import NAMESPACES as NAMESPACES  # noqa: PLC0414 - also reached from here

if TYPE_CHECKING:
    from airflow_sitemaps.protocol.entry import Judge
    from airflow_sitemaps.protocol.rules import Tally

_PREFIX: Final = {"images": "image", "videos": "video", "news": "news", "alternates": "xhtml"}
RULE_OF: Final = {"images": "image", "videos": "video", "news": "news", "alternates": "alternate"}
"""The rule that a fault of each kind breaks."""
_decode: Final = json.JSONDecoder().decode
_QUICK: Final = {"images": images.quick, "alternates": alternates.quick}
_NOTHING: Final[tuple[str, frozenset[str]]] = ("", frozenset())
_USES: Final = {kind: frozenset((prefix,)) for kind, prefix in _PREFIX.items()}


class DropRow(Exception):  # noqa: N818 - not an error: the caller leaves the row out, it is counted already
    """A rule with the verdict ``drop_row`` met a fault in an extension; the row is counted under it."""


def fragment(kind: str, record_json: str, *, judge: Judge, tally: Tally, where: str) -> tuple[str, frozenset[str]]:
    """The XML of one row's column, and the namespace prefixes it uses.

    Args:
        kind: ``images``, ``videos``, ``news`` or ``alternates``.
        record_json: a list of objects, one object, or a bare URL for an image, as JSON; ``""`` and ``null`` are none.
            Alternates as ``{"group": [...]}`` are pages of the section themselves, held to the rules of its URLs.
        judge: whose rulebook decides what becomes of a fault.
        tally: where faults are counted: once a row and rule, with a sample that names the fields.
        where: the URL of the page, normalised; for samples, and a video's own URLs must differ from it.

    Returns:
        The elements in the XSD's order, and the prefixes; ``""`` and none where nothing usable is given.

    Raises:
        DropRow: the verdict of a rule that was broken is ``drop_row``; counted already.
        RuleError: the verdict of a rule that was broken is ``fail``.
    """
    try:
        found = _decode(record_json) if record_json else None
    except (ValueError, RecursionError) as error:
        _settle("extension-json", [f"{kind}: {error}: {record_json[:80]!r}"], judge, tally, where)
        return _NOTHING
    if found in (None, "", [], {}):
        return _NOTHING
    listed = found if isinstance(found, list) else [found]
    if kind == "alternates" and isinstance(found, dict) and isinstance(found.get("group"), list):
        listed = _listed_members(found["group"], judge, tally, where)
    if kind in _QUICK and (quick := _QUICK[kind](listed)):
        return quick, _USES[kind]
    notes, addresses = Notes(), Addresses(judge)
    records = _records(kind, listed, notes, addresses)
    xml = _render(kind, records, notes, judge, where)
    for rule in dict.fromkeys(addresses.mended):
        _settle(rule, [f"{kind}: a URL is mended"], judge, tally, where)
    if notes.faults:
        _settle(RULE_OF[kind], notes.faults, judge, tally, where)
    if notes.ignored:
        _settle("ignored-field", [", ".join(notes.ignored)], judge, tally, where)
    return (xml, _USES[kind]) if xml else _NOTHING


def faults(kind: str, found: list[dict[str, Any]], *, judge: Judge, page: str) -> tuple[list[str], list[str]]:
    """What is wrong with the records of one page, in words that name the field; for reading published files back.

    And the ``loc-…`` rules that their URLs break in ways that writing would mend.
    """
    if kind in _QUICK and _QUICK[kind](found):
        return [], []
    notes, addresses = Notes(), Addresses(judge)
    _render(kind, _records(kind, found, notes, addresses), notes, judge, page)
    return notes.faults, list(dict.fromkeys(addresses.mended))


def _listed_members(group: list[Any], judge: Judge, tally: Tally, where: str) -> list[Any]:
    """The versions whose URLs are not dropped from the section; none where the page would be alone among them."""
    hrefs = [member.get("href") if isinstance(member, dict) else None for member in group]
    dropped = {href for href in hrefs if isinstance(href, str) and alternates.is_dropped(href, judge)}
    if not dropped:
        return group
    _settle("alternate-dropped", [f"{href} is not listed" for href in sorted(dropped)], judge, tally, where)
    if judge.rulebook["alternate-dropped"] is Verdict.KEEP:
        return group
    left = [member for member, href in zip(group, hrefs, strict=True) if href not in dropped]
    return left if len({href for href in hrefs if href not in dropped}) > 1 else []


def _render(kind: str, records: list[Record], notes: Notes, judge: Judge, page: str) -> str:
    if kind == "images":
        return images.render(records, notes)
    if kind == "videos":
        keep = judge.rulebook["video-title"] is Verdict.KEEP
        return videos.render(records, notes, page=page, max_title=None if keep else videos.MAX_TITLE)
    if kind == "news":
        return news.render(records, notes)
    return alternates.render(records, notes)


def _records(kind: str, found: list[Any], notes: Notes, addresses: Addresses) -> list[Record]:
    write_ignored = addresses.judge.rulebook["ignored-field"] is Verdict.KEEP
    records: list[Record] = []
    for number, values in enumerate(found, 1):
        name = RULE_OF[kind] if len(found) == 1 else f"{RULE_OF[kind]} {number}"
        if isinstance(values, dict):
            records.append(Record(name, values, notes, addresses, write_ignored))
        elif isinstance(values, str) and kind == "images":
            records.append(Record(name, {"loc": values}, notes, addresses, write_ignored))
        else:
            notes.fault(f"{name} left out: it is {json.dumps(values)[:60]}, not an object")
    return records


def _settle(rule: str, found: list[str], judge: Judge, tally: Tally, where: str) -> None:
    verdict = judge.rulebook[rule]
    what = "; ".join(found[:5])
    sample = f"{what[: SAMPLE_CHARACTERS * 3 // 4]} ({where})"
    tally.count(rule, verdict, [sample[:SAMPLE_CHARACTERS]], 1, where=judge.section or where)
    if verdict is Verdict.DROP_ROW:
        raise DropRow(rule)
