"""Versions of a page in other languages: ``xhtml:link rel="alternate"`` (Google: localized versions)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from airflow_sitemaps.protocol.extensions.fields import Unusable
from airflow_sitemaps.protocol.extensions.json_value import shown
from airflow_sitemaps.protocol.extensions.languages import X_DEFAULT, hreflang_fault, plain_hreflang
from airflow_sitemaps.protocol.loc import CLEAN, LONGEST_CLEAN, is_clean, read_loc
from airflow_sitemaps.protocol.markup import attribute, attributes
from airflow_sitemaps.protocol.rules import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_sitemaps.protocol.entry import RowContext
    from airflow_sitemaps.protocol.extensions.fields import FieldProblems, FieldReader


def render(records: Sequence[FieldReader], notes: FieldProblems) -> str:
    """Return the links of all usable alternates, in the given order.

    Of two with the same language and medium, the first is kept.
    """
    seen: set[tuple[str, str]] = set()
    return "".join(_link_or_nothing(record, seen) for record in records)


def quick(given: Sequence[Any]) -> str | None:
    """Return the result of ``render`` for plain and clean alternates, about ten times faster, or None for all others."""
    links: dict[str, str] = {}
    matches = CLEAN.fullmatch
    for values in given:
        if type(values) is not dict or len(values) != 2:
            return None
        language, href = values.get("hreflang"), values.get("href")
        if type(language) is not str or type(href) is not str:
            return None
        key = plain_hreflang(language)
        if key is None or key in links or matches(href) is None or len(href) > LONGEST_CLEAN:
            return None
        language = X_DEFAULT if key == X_DEFAULT else language
        written = attribute(href) if "&" in href or "'" in href else href
        links[key] = f'<xhtml:link rel="alternate" hreflang="{language}" href="{written}"/>'
    return "".join(links.values())


def from_group(rows: Iterable[tuple[str, str]]) -> str:
    """Return the alternates of every row of one group, as the JSON of the ``alternates`` column.

    Args:
        rows: The (loc, language) of all rows that share a group, in any order.

    Returns:
        The same JSON list for each row. It contains all rows, including the row itself, because links that are not mutual
        are ignored (developers.google.com, localized versions). It is ordered by language with ``x-default`` last, so equal
        groups give equal bytes. Of two rows with one language, the first in the order of their URLs is kept.
    """
    chosen: dict[str, str] = {}
    for language, loc in sorted((language, loc) for loc, language in rows if loc and language):
        chosen.setdefault(language, loc)
    ordered = sorted(chosen.items(), key=lambda item: (item[0].lower() == X_DEFAULT, item[0]))
    return json.dumps([{"hreflang": language, "href": loc} for language, loc in ordered], ensure_ascii=False)


def is_dropped(loc: str, context: RowContext) -> bool:
    """Return whether the URL rules exclude a page of the section. The other fields of its row are not considered."""
    if is_clean(loc) and loc.startswith(context.base_url):
        return False
    reading = read_loc(loc, context)
    return reading.loc is None or any(context.rulebook[fault] is Verdict.DROP_ROW for fault in reading.faults)


def _link_or_nothing(record: FieldReader, seen: set[tuple[str, str]]) -> str:
    try:
        return _link(record, seen)
    except Unusable:
        return ""


def _link(record: FieldReader, seen: set[tuple[str, str]]) -> str:
    if record.raw("rel") not in (None, "alternate"):
        raise record.unusable(f"its rel is {shown(record.values['rel'])}, not 'alternate'")
    media, language = record.plain("media"), _language(record)
    if language is None and media is None:
        raise record.unusable("it has neither hreflang nor media")
    href = record.url("href")
    if href is None:
        raise record.unusable("it has no usable href")
    key = ((language or "").lower(), media or "")
    if key in seen:
        raise record.unusable(f"hreflang {language!r} is given twice")
    seen.add(key)
    record.finish()
    written = attributes(media=media, hreflang=language, href=href)
    return f'<xhtml:link rel="alternate"{written}/>'


def _language(record: FieldReader) -> str | None:
    given = record.plain("hreflang")
    if given is None:
        return None
    code = given.strip().replace("_", "-")
    if code.lower() == X_DEFAULT:
        code = X_DEFAULT
    fault = hreflang_fault(code)
    if fault:
        raise record.unusable(f"hreflang {shown(given)} {fault}")
    if code.lower() != given.lower():
        record.fault("hreflang", f"{shown(given)} is written as {code!r}")
    return code
