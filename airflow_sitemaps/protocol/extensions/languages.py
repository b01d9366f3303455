"""Extensions that name a language: versions of a page (``xhtml:link``) and news articles (``news:news``)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final

from airflow_sitemaps.protocol import RowContext
from airflow_sitemaps.protocol.extensions import fields
from airflow_sitemaps.protocol.extensions.fields import FieldProblems, FieldReader, JsonFault, Unusable
from airflow_sitemaps.protocol.loc import CLEAN, LONGEST_CLEAN, is_clean, read_loc
from airflow_sitemaps.protocol.markup import attribute, attributes, element, escape
from airflow_sitemaps.protocol.rules import Verdict

X_DEFAULT: Final = "x-default"
"""The alternate for all other readers (developers.google.com, localized versions)."""

TWO_LETTERS: Final = frozenset(
    """
    aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en
    eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja
    jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb
    nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so
    sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
    """.split()  # noqa: SIM905
)
"""ISO 639-1."""

SHORTER_EXISTS: Final = frozenset(
    """
    aar abk afr aka alb amh ara arg arm asm ava ave aym aze bak bam baq bel ben bis bod bos bre bul bur cat ces cha
    che chi chu chv cor cos cre cym cze dan deu div dut dzo ell eng epo est eus ewe fao fas fij fin fra fre fry ful
    geo ger gla gle glg glv gre grn guj hat hau hbs heb her hin hmo hrv hun hye ibo ice ido iii iku ile ina ind ipk
    isl ita jav jpn kal kan kas kat kau kaz khm kik kin kir kom kon kor kua kur lao lat lav lim lin lit ltz lub lug
    mac mah mal mao mar may mkd mlg mlt mon mri msa mya nau nav nbl nde ndo nep nld nno nob nor nya oci oji ori orm
    oss pan per pli pol por pus que roh ron rum run rus sag san sin slk slo slv sme smo sna snd som sot spa sqi srd
    srp ssw sun swa swe tah tam tat tel tgk tgl tha tib tir ton tsn tso tuk tur twi uig ukr urd uzb ven vie vol wel
    wln wol xho yid yor zha zho zul
    """.split()  # noqa: SIM905
)
"""ISO 639-2 codes of languages that also have a two-letter code, which BCP 47 then requires."""

COUNTRIES: Final = frozenset(
    """
    AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ
    CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO
    FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE
    JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO
    MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW
    PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM
    TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS YE YT ZA ZM ZW
    """.split()  # noqa: SIM905
)
"""ISO 3166-1 alpha-2."""

_TAG: Final = re.compile(r"([a-z]{2,3})(?:-[a-z]{4})?(?:-(?:([a-z]{2})|[0-9]{3}))?", re.IGNORECASE | re.ASCII)
_MEDIA: Final = re.compile(r"[^,]+(?:,[^,]+)*")
_NEWS: Final = re.compile(r"zh-cn|zh-tw|[a-z]{2,3}")


@lru_cache(maxsize=1024)
def hreflang_fault(code: str) -> str | None:
    """Return why an ``hreflang`` is wrong, or None.

    It is language[-Script][-REGION] or ``x-default``, in any case. A language has two letters (ISO 639-1), or three if it
    has no shorter code (BCP 47). A region is from ISO 3166-1, or three digits (developers.google.com, localized versions).
    """
    if code.lower() == X_DEFAULT:
        return None
    match = _TAG.fullmatch(code)
    if match is None:
        return "is not language[-Script][-REGION] or x-default"
    language, region = match.group(1).lower(), (match.group(2) or "").upper()
    if len(language) == 2 and language not in TWO_LETTERS:
        return f"names no language of ISO 639-1 ({language!r})"
    if language in SHORTER_EXISTS:
        return f"has three letters where ISO 639-1 has a shorter code ({language!r})"
    if region and region not in COUNTRIES:
        return f"names no country of ISO 3166-1 ({region!r})"
    return None


@lru_cache(maxsize=1024)
def news_language_fault(code: str) -> str | None:
    """Return why a ``news:language`` is wrong, or None.

    It is an ISO 639 code of two or three letters, or zh-cn, zh-tw (developers.google.com, news sitemaps; sitemap-news.xsd).
    """
    if not _NEWS.fullmatch(code):
        return "is not an ISO 639 code of two or three small letters, zh-cn or zh-tw"
    if len(code) == 2 and code not in TWO_LETTERS:
        return "names no language of ISO 639-1"
    return None


# ---------------------------------------------------------------- alternates


def render_alternates(records: Sequence[FieldReader]) -> str:
    """Return the links of all usable alternates. Of two with the same language and medium, the first is kept."""
    seen: set[tuple[str, str]] = set()
    return "".join(_link(record, seen) for record in records)


def quick_alternates(given: Sequence[Any]) -> str | None:
    """Return the result of ``render_alternates`` for plain and clean alternates, about ten times faster, or None for all others."""
    links: dict[str, str] = {}
    matches = CLEAN.fullmatch
    for values in given:
        if type(values) is not dict or len(values) != 2:
            return None
        language, href = values.get("hreflang"), values.get("href")
        if type(language) is not str or type(href) is not str:
            return None
        key = None if hreflang_fault(language) is not None else language.lower()
        if key is None or key in links or matches(href) is None or len(href) > LONGEST_CLEAN:
            return None
        language = X_DEFAULT if key == X_DEFAULT else language
        written = attribute(href) if "&" in href or "'" in href else href
        links[key] = f'<xhtml:link rel="alternate" hreflang="{language}" href="{written}"/>'
    return "".join(links.values())


def alternates_of_group(rows: Iterable[tuple[str, str]]) -> str:
    """Return the JSON of ``alternates``, the same for every row of one group, from (loc, language) in any order.

    It contains all rows, including the row itself, because links that are not mutual are ignored
    (developers.google.com, localized versions). It is ordered by language with ``x-default`` last, so equal groups give
    equal bytes. Of two rows with one language, the first in the order of their URLs is kept.
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


def _link(record: FieldReader, seen: set[tuple[str, str]]) -> str:
    try:
        if record.raw("rel") not in (None, "alternate"):
            raise record.unusable(f"its rel is {fields.shown(record.values['rel'])}, not 'alternate'")
        media, language = record.plain("media"), _language(record)
        if language is None and media is None:
            raise record.unusable("it has neither hreflang nor media")
        if media is not None and not _MEDIA.fullmatch(media):
            raise record.unusable(f"its media {fields.shown(media)} is no list of media with commas between them")
        href = record.required("href", record.url("href", is_page=True))
        key = ((language or "").lower(), media or "")
        if key in seen:
            raise record.unusable(f"hreflang {language!r} is given twice")
    except Unusable:
        return ""
    seen.add(key)
    record.finish()
    return f'<xhtml:link rel="alternate"{attributes(media=media, hreflang=language, href=href)}/>'


def _language(record: FieldReader) -> str | None:
    given = record.plain("hreflang")
    if given is None:
        return None
    code = given.strip().replace("_", "-")
    if code.lower() == X_DEFAULT:
        code = X_DEFAULT
    fault = hreflang_fault(code)
    if fault:
        raise record.unusable(f"hreflang {fields.shown(given)} {fault}")
    if code.lower() != given.lower():
        record.fault("hreflang", f"{fields.shown(given)} is written as {code!r}")
    return code


# ---------------------------------------------------------------- articles

MAX_NEWS: Final = 1_000
"""Maximum number of ``news:news`` elements in one file (developers.google.com, news sitemaps)."""

NEWS_WINDOW: Final = timedelta(days=2)
"""Time after their publication_date for which articles are listed (developers.google.com, news sitemaps)."""

GENRES: Final = ("PressRelease", "Satire", "Blog", "OpEd", "Opinion", "UserGenerated")
"""sitemap-news.xsd, ``genres``."""

MAX_TICKERS: Final = 5
"""sitemap-news.xsd, ``stock_tickers``."""

_ACCESS: Final = ("Subscription", "Registration")
_TICKER: Final = re.compile(r"[^\W_]+:[^\W_]+")  # the XSD's class of word characters has no underscore


def render_articles(records: Sequence[FieldReader], notes: FieldProblems) -> str:
    """Return the element of the one article of a page. The fields are in the order of the XSD."""
    if len(records) > 1:
        notes.faults.append(f"{len(records)} news objects: a URL is one article, the first is kept")
    try:
        return "".join(map(_article, records[:1]))
    except Unusable:
        return ""


def publication_date(record_json: str) -> str | None:
    """Return the ``publication_date`` in the JSON of a ``news`` column, or None. It is to be parsed as a lastmod."""
    try:
        value = fields.parse(record_json)
        fields.check_depth(value)
    except JsonFault:
        return None
    records = value if isinstance(value, list) else [value]
    given = next((record.get("publication_date") for record in records if isinstance(record, dict)), None)
    return given if isinstance(given, str) else None


def _article(record: FieldReader) -> str:
    children = [element("news:publication", _publication(record))]
    if record.wanted("access", "news:access") and (access := record.choice("access", _ACCESS)):
        children.append(element("news:access", access))
    if record.wanted("genres", "news:genres") and (genres := _genres(record)):
        children.append(element("news:genres", genres))
    date, title = record.date("publication_date"), record.text("title")
    children.append(element("news:publication_date", record.required("publication_date", date)))
    children.append(element("news:title", record.required("title", title)))
    if record.wanted("keywords", "news:keywords") and (keywords := _listed(record, "keywords")):
        children.append(element("news:keywords", escape(keywords)))
    if record.wanted("stock_tickers", "news:stock_tickers") and (tickers := _tickers(record)):
        children.append(element("news:stock_tickers", tickers))
    record.finish()
    return element("news:news", "".join(children))


def _publication(record: FieldReader) -> str:
    publication = record.part("publication")
    if publication is None:
        raise record.unusable("it has no publication")
    name, given = publication.text("name"), publication.plain("language")
    if name is None or given is None:
        raise record.unusable(f"its publication has no usable {'name' if name is None else 'language'}")
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
    genres = _split(_listed(record, "genres"))
    if unknown := [genre for genre in genres if genre not in GENRES]:
        record.fault("genres", f"holds {', '.join(map(repr, unknown))}, not of {', '.join(GENRES)}")
        return None
    return ", ".join(genres)


def _tickers(record: FieldReader) -> str | None:
    tickers = _split(_listed(record, "stock_tickers"))
    if len(tickers) > MAX_TICKERS:
        record.fault("stock_tickers", f"holds {len(tickers)} tickers (limit {MAX_TICKERS})")
    elif wrong := [ticker for ticker in tickers if not _TICKER.fullmatch(ticker)]:
        record.fault("stock_tickers", f"holds {', '.join(map(repr, wrong))}, not EXCHANGE:TICKER")
    else:
        return ", ".join(tickers)
    return None


def _listed(record: FieldReader, name: str) -> str | None:
    """Return an unescaped comma-separated text, from such a text or from a list of texts."""
    value: Any = record.raw(name)
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        record.values = {**record.values, name: ", ".join(value)}
    return record.plain(name)


def _split(listed: str | None) -> list[str]:
    return [part.strip() for part in (listed or "").split(",") if part.strip()]
