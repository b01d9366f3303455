"""News articles: ``news:news``, Google's news sitemaps 0.9."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.protocol.extensions.fields import Unusable
from airflow_sitemaps.protocol.extensions.json_value import JsonFault, check_depth, parse
from airflow_sitemaps.protocol.extensions.languages import news_language_fault
from airflow_sitemaps.protocol.markup import element, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_sitemaps.protocol.extensions.fields import FieldProblems, FieldReader

MAX_NEWS: Final = 1_000
"""Maximum number of ``news:news`` elements in one file (developers.google.com, news sitemaps)."""

WINDOW: Final = timedelta(days=2)
"""Time after their publication_date for which articles are listed (developers.google.com, news sitemaps)."""

GENRES: Final = ("PressRelease", "Satire", "Blog", "OpEd", "Opinion", "UserGenerated")
"""sitemap-news.xsd, ``genres``."""

MAX_TICKERS: Final = 5
"""sitemap-news.xsd, ``stock_tickers``."""

_ACCESS: Final = ("Subscription", "Registration")
_TICKER: Final = re.compile(r"\w+:\w+")


def render(records: Sequence[FieldReader], notes: FieldProblems) -> str:
    """Return the element of the one article of a page. The fields are in the order of the XSD."""
    if len(records) > 1:
        notes.fault(f"{len(records)} news objects: a URL is one article, the first is kept")
    try:
        return "".join(map(_news, records[:1]))
    except Unusable:
        return ""


def publication_date(record_json: str) -> str | None:
    """Return the ``publication_date`` in the JSON of a ``news`` column unchanged, or None if there is none.

    For the two-day window, parse it as a lastmod.
    """
    try:
        value = parse(record_json)
        check_depth(value)
    except JsonFault:
        return None
    first = value[0] if isinstance(value, list) and value else value
    given = first.get("publication_date") if isinstance(first, dict) else None
    return given if isinstance(given, str) else None


def _news(record: FieldReader) -> str:
    children = [element("news:publication", _publication(record))]
    if record.wanted("access", "news:access") and (access := record.choice("access", _ACCESS)):
        children.append(element("news:access", access))
    if record.wanted("genres", "news:genres") and (genres := _genres(record)):
        children.append(element("news:genres", genres))
    date, title = record.date("publication_date"), record.text("title")
    if date is None:
        raise record.unusable("it has no usable publication_date")
    if title is None:
        raise record.unusable("it has no usable title")
    children += [element("news:publication_date", date), element("news:title", title)]
    if record.wanted("keywords", "news:keywords") and (keywords := _listed(record, "keywords")):
        children.append(element("news:keywords", text(keywords)))
    if record.wanted("stock_tickers", "news:stock_tickers") and (tickers := _tickers(record)):
        children.append(element("news:stock_tickers", tickers))
    record.finish()
    return element("news:news", "".join(children))


def _publication(record: FieldReader) -> str:
    parts = record.parts("publication")
    if not parts:
        raise record.unusable("it has no publication")
    publication = parts[0]
    name, given = publication.text("name"), publication.plain("language")
    if name is None:
        raise record.unusable("its publication has no usable name")
    if given is None:
        raise record.unusable("its publication has no usable language")
    language = given.strip()
    language = language.lower() if language.isascii() else language
    fault = news_language_fault(language)
    if fault:
        raise record.unusable(f"its publication's language {given!r} {fault}")
    if language != given:
        record.fault("publication", f"language {given!r} is written as {language!r}")
    publication.finish()
    return element("news:name", name) + element("news:language", language)


def _genres(record: FieldReader) -> str | None:
    listed = _listed(record, "genres")
    if listed is None:
        return None
    unknown = [genre for genre in _split(listed) if genre not in GENRES]
    if unknown:
        record.fault("genres", f"holds {', '.join(map(repr, unknown))}, not of {', '.join(GENRES)}")
        return None
    return ", ".join(_split(listed))


def _tickers(record: FieldReader) -> str | None:
    listed = _listed(record, "stock_tickers")
    if listed is None:
        return None
    tickers = _split(listed)
    if len(tickers) > MAX_TICKERS:
        record.fault("stock_tickers", f"holds {len(tickers)} tickers (limit {MAX_TICKERS})")
        return None
    if wrong := [ticker for ticker in tickers if not _TICKER.fullmatch(ticker)]:
        record.fault("stock_tickers", f"holds {', '.join(map(repr, wrong))}, not EXCHANGE:TICKER")
        return None
    return ", ".join(tickers)


def _listed(record: FieldReader, name: str) -> str | None:
    """Return an unescaped comma-separated text, from such a text or from a list of texts."""
    value: Any = record.raw(name)
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        record.values = {**record.values, name: ", ".join(value)}
    return record.plain(name)


def _split(listed: str) -> list[str]:
    return [part.strip() for part in listed.split(",") if part.strip()]
