"""Extensions of an entry: from the JSON of a column to the XML elements after those of the entry itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.protocol.extensions import alternates, images, news, videos
from airflow_sitemaps.protocol.extensions.fields import FieldProblems, FieldReader
from airflow_sitemaps.protocol.extensions.json_value import JsonFault, check_depth, parse, shown
from airflow_sitemaps.protocol.extensions.values import Addresses
from airflow_sitemaps.protocol.rules import Verdict, sample_text
from airflow_sitemaps.protocol.urlset import NAMESPACES as NAMESPACES  # noqa: PLC0414 - also reached from here

if TYPE_CHECKING:
    from airflow_sitemaps.protocol.entry import RowContext
    from airflow_sitemaps.protocol.rules import Tally

_PREFIX: Final = {"images": "image", "videos": "video", "news": "news", "alternates": "xhtml"}
RULE_OF: Final = {"images": "image", "videos": "video", "news": "news", "alternates": "alternate"}
"""The rule that a fault of each kind breaks."""
_QUICK: Final = {"images": images.quick, "alternates": alternates.quick}
_NOTHING: Final[tuple[str, frozenset[str]]] = ("", frozenset())
_USES: Final = {kind: frozenset((prefix,)) for kind, prefix in _PREFIX.items()}


Sampler = Callable[[str], str]
"""Returns the sample of a row, given the description of a fault."""


class DropRow(Exception):  # noqa: N818 - not an error: the row is counted, and the caller leaves it out
    """A rule with the verdict ``drop_row`` met a fault in an extension. The row is already counted."""


def fragment(
    kind: str, record_json: str, *, context: RowContext, tally: Tally, where: str, sample: Sampler | None = None
) -> tuple[str, frozenset[str]]:
    """Return the XML of one row's column, and the namespace prefixes that it uses.

    Args:
        kind: ``images``, ``videos``, ``news`` or ``alternates``.
        record_json: A list of objects, one object, or a bare URL for an image, as JSON. ``""`` and ``null`` are empty.
            Alternates as ``{"group": [...]}`` are pages of the section, to whose URLs the URL rules apply.
            ``{"group": [], "fault": "..."}`` says why a row of a group has no alternates.
        context: Settings of the section. Its rulebook decides about faulty parts.
        tally: Counts the faults, once per row and rule, with a sample that names the fields.
        where: Normalised URL of the page, for samples. The URLs of a video must differ from it.
        sample: Returns the sample of a row, given the description of a fault. Default: a sample with the page's URL.

    Returns:
        The elements in the order of the XSD, and the prefixes. Both are empty if nothing is usable.

    Raises:
        DropRow: The verdict of a broken rule is ``drop_row``. The row is already counted.
        RuleError: The verdict of a broken rule is ``fail``.
    """
    settle = partial(_settle, context=context, tally=tally, sample=sample or partial(sample_text, loc=where))
    try:
        value = parse(record_json) if record_json else None
        if value in (None, "", [], {}):
            return _NOTHING
        listed = value if isinstance(value, list) else [value]
        if kind == "alternates" and isinstance(value, dict) and isinstance(value.get("group"), list):
            listed = _members(value, context, settle)
        if kind in _QUICK and (quick := _QUICK[kind](listed)):
            return quick, _USES[kind]
        check_depth(listed)
    except JsonFault as fault:
        settle("extension-json", [f"{kind}: {fault}: {record_json[:80]!r}"])
        return _NOTHING
    notes, addresses = FieldProblems(), Addresses(context)
    records = _records(kind, listed, notes, addresses)
    xml = _render(kind, records, notes, context, where)
    for rule in dict.fromkeys(addresses.fixed):
        settle(rule, [f"{kind}: a URL is fixed"])
    if notes.faults:
        settle(RULE_OF[kind], notes.faults)
    if notes.ignored:
        settle("ignored-field", [", ".join(notes.ignored)])
    return (xml, _USES[kind]) if xml else _NOTHING


def faults(kind: str, given: list[dict[str, Any]], *, context: RowContext, page: str) -> tuple[list[str], list[str]]:
    """Check the records of one page of a published file.

    Args:
        kind: ``images``, ``videos``, ``news`` or ``alternates``.
        given: The records, in the form of the JSON columns.

    Returns:
        Descriptions of the faults, with the names of the fields; and the ``loc-…`` rules that URLs break in ways that a
        build repairs.
    """
    if kind in _QUICK and _QUICK[kind](given):
        return [], []
    notes, addresses = FieldProblems(), Addresses(context)
    _render(kind, _records(kind, given, notes, addresses), notes, context, page)
    return notes.faults, list(dict.fromkeys(addresses.fixed))


def _members(value: dict[str, Any], context: RowContext, settle: Callable[[str, list[str]], None]) -> list[Any]:
    """Return the versions of a group whose URLs are not dropped, or none if the page would be alone."""
    group: list[Any] = value["group"]
    fault = value.get("fault")
    if isinstance(fault, str):
        settle("alternate", [fault])
    hrefs = [_href(member) for member in group]
    dropped = {href for href in hrefs if href is not None and alternates.is_dropped(href, context)}
    if not dropped:
        return group
    settle("alternate-dropped", [f"{href} is not listed" for href in sorted(dropped)])
    if context.rulebook["alternate-dropped"] is Verdict.KEEP:
        return group
    left = [member for member, href in zip(group, hrefs, strict=True) if href not in dropped]
    return left if len({href for href in hrefs if href not in dropped}) > 1 else []


def _href(member: Any) -> str | None:
    href = member.get("href") if isinstance(member, dict) else None
    return href if isinstance(href, str) else None


def _render(kind: str, records: list[FieldReader], notes: FieldProblems, context: RowContext, page: str) -> str:
    if kind == "images":
        return images.render(records, notes)
    if kind == "videos":
        keep = context.rulebook["video-title"] is Verdict.KEEP
        return videos.render(records, notes, page=page, max_title=None if keep else videos.MAX_TITLE)
    if kind == "news":
        return news.render(records, notes)
    return alternates.render(records, notes)


def _records(kind: str, given: list[Any], notes: FieldProblems, addresses: Addresses) -> list[FieldReader]:
    write_ignored = addresses.context.rulebook["ignored-field"] is Verdict.KEEP
    records: list[FieldReader] = []
    for number, values in enumerate(given, 1):
        name = RULE_OF[kind] if len(given) == 1 else f"{RULE_OF[kind]} {number}"
        if isinstance(values, dict):
            records.append(FieldReader(name, values, notes, addresses, write_ignored))
        elif isinstance(values, str) and kind == "images":
            records.append(FieldReader(name, {"loc": values}, notes, addresses, write_ignored))
        else:
            notes.fault(f"{name} left out: it is {shown(values)}, not an object")
    return records


def _settle(rule: str, faults: list[str], *, context: RowContext, tally: Tally, sample: Sampler) -> None:
    """Count the faults of a row under a rule.

    Raises:
        DropRow: The verdict of the rule is ``drop_row``.
        RuleError: The verdict of the rule is ``fail``.
    """
    verdict = context.rulebook[rule]
    tally.count(rule, verdict, [sample("; ".join(faults[:5]))], where=context.section)
    if verdict is Verdict.DROP_ROW:
        raise DropRow(rule)
