"""Language and country codes: the valid values of ``hreflang`` and ``news:language``."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

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
def plain_hreflang(code: str) -> str | None:
    """Return the code in lower case if it is valid as given, else None."""
    return None if hreflang_fault(code) is not None else code.lower()


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
