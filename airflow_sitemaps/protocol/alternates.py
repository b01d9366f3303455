"""Versions of a page in other languages: ``xhtml:link rel="alternate"``, Google's localized versions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from airflow_sitemaps.protocol.address import CLEAN, is_clean
from airflow_sitemaps.protocol.languages import X_DEFAULT, hreflang_fault, plain_hreflang
from airflow_sitemaps.protocol.limits import MAX_LOC_CHARACTERS
from airflow_sitemaps.protocol.loc import read_loc
from airflow_sitemaps.protocol.markup import attribute, attributes
from airflow_sitemaps.protocol.record import Unusable
from airflow_sitemaps.protocol.rules import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_sitemaps.protocol.entry import Judge
    from airflow_sitemaps.protocol.record import Notes, Record


def render(records: Sequence[Record], notes: Notes) -> str:
    """The links of all usable alternates, in the order given; of two with one language and medium the first stays."""
    seen: set[tuple[str, str]] = set()
    return "".join(_link_or_nothing(record, seen) for record in records)


def quick(found: Sequence[Any]) -> str | None:
    """What ``render`` gives for alternates that are plain and clean, some ten times faster; None for all others."""
    links: dict[str, str] = {}
    matches = CLEAN.fullmatch
    for values in found:
        if type(values) is not dict or len(values) != 2:
            return None
        language, href = values.get("hreflang"), values.get("href")
        if type(language) is not str or type(href) is not str:
            return None
        key = plain_hreflang(language)
        if key is None or key in links or matches(href) is None or len(href) > MAX_LOC_CHARACTERS:
            return None
        written = attribute(href) if "&" in href or "'" in href else href
        links[key] = f'<xhtml:link rel="alternate" hreflang="{language}" href="{written}"/>'
    return "".join(links.values())


def from_group(rows: Iterable[tuple[str, str]], *, default: str | None = None) -> str:
    """The alternates of every row of one group, as the JSON of the ``alternates`` column.

    Args:
        rows: the (loc, language) of all rows that share a group, in any order.
        default: a language of the group whose row also stands for everybody else (``x-default``).

    Returns:
        A JSON list for each of the rows alike: all of them, itself among them, since a pair that is not mutual is
        ignored (developers.google.com, localized versions). Ordered by language, ``x-default`` last, so that equal
        groups give equal bytes; of two rows with one language the first in the order of their URLs stays.
    """
    chosen: dict[str, str] = {}
    for language, loc in sorted((language, loc) for loc, language in rows if loc and language):
        chosen.setdefault(language, loc)
    if default is not None and default in chosen:
        chosen.setdefault(X_DEFAULT, chosen[default])
    ordered = sorted(chosen.items(), key=lambda item: (item[0].lower() == X_DEFAULT, item[0]))
    return json.dumps([{"hreflang": language, "href": loc} for language, loc in ordered], ensure_ascii=False)


def is_dropped(loc: str, judge: Judge) -> bool:
    """Whether a page of the section is not listed for what its URL says alone; other rows' fields are not known."""
    if is_clean(loc) and loc.startswith(judge.base_url):
        return False
    reading = read_loc(loc, judge)
    return reading.loc is None or any(judge.rulebook[fault] is Verdict.DROP_ROW for fault in reading.faults)


def _link_or_nothing(record: Record, seen: set[tuple[str, str]]) -> str:
    try:
        return _link(record, seen)
    except Unusable:
        return ""


def _link(record: Record, seen: set[tuple[str, str]]) -> str:
    if record.raw("rel") not in (None, "alternate"):
        raise record.unusable(f"its rel is {record.values['rel']!r}, not 'alternate'")
    media, language = record.plain("media"), _language(record)
    if language is None and media is None:
        raise record.unusable("it has neither hreflang nor media")
    href = record.url("href")
    if href is None:
        raise record.unusable("it has no usable href")
    key = ((language or "").lower(), media or "")
    if key in seen:
        raise record.unusable(f"hreflang {language!r} stands twice")
    seen.add(key)
    record.finish()
    written = attributes(media=media, hreflang=language, href=href)
    return f'<xhtml:link rel="alternate"{written}/>'


def _language(record: Record) -> str | None:
    given = record.plain("hreflang")
    if given is None:
        return None
    code = given.strip().replace("_", "-")
    fault = hreflang_fault(code)
    if fault:
        raise record.unusable(f"hreflang {given!r} {fault}")
    if code != given:
        record.fault("hreflang", f"{given!r} is written as {code!r}")
    return code
