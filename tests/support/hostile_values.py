"""Values that no writer of sitemaps expects: texts, times, JSON of any depth, for every field of an entry."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from airflow_sitemaps.protocol import CHANGEFREQS, EXTENSIONS

W = "https://example.com"
"""The site of the rows; its sitemaps are at the root."""

HOSTILE = "\x00\x0b\x1f\x7f\x85\xa0\u200b\u2028\ufeff\ufffd\ufffe\uffff\ud800\udfffé中😀İſ\u212a&<>'\"%[]{}|\\^` \t\r\n;#?=/:@.-_~aZ09"
WORDS = [
    "&amp;",
    "&amp;amp;",
    "&#0;",
    "&#xD800;",
    "&lt;",
    "%zz",
    "%C3",
    "%EF%BF%BD",
    "]]>",
    "<!--",
    "NaN",
    "1e400",
    "null",
]
TEXTS = st.lists(st.one_of(st.sampled_from([*HOSTILE, *WORDS]), st.characters()), max_size=10).map("".join)
REPEATED = st.builds(lambda text, times: text * times, TEXTS, st.integers(100, 600))
LOCS = st.one_of(
    st.builds(lambda n: f"{W}/{n}", st.integers(0, 30)),
    st.builds(str.__add__, st.sampled_from([f"{W}/", "/", "https://", "http://www.example.com/", "ftp://x/"]), TEXTS),
    TEXTS, REPEATED,
)  # fmt: skip
MOMENTS = [
    "2026-02-28",
    "2026-03-01T10:00:00Z",
    "2020-01-01",
    "2030-01-01",
    "0001-01-01",
    "infinity",
    "soon",
    "",
    "2026-02-30",
]
NAMES = [
    "loc", "title", "caption", "license", "href", "hreflang", "rel", "media", "group", "fault", "publication", "name",
    "language", "publication_date", "thumbnail_loc", "description", "content_loc", "player_loc", "duration", "rating",
    "tags", "restriction", "relationship", "countries", "platform", "platforms", "prices", "price", "currency", "type",
    "uploader", "family_friendly", "id", "value", "tvshow", "genres", "stock_tickers", "category", "expiration_date",
]  # fmt: skip
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-(10**400), 10**400), st.floats(), TEXTS, LOCS,
    st.sampled_from(["de", "en-GB", "x-default", "İd", "allow", "GB", "UK", "web", "yes", "USD", "rent", *MOMENTS]),
)  # fmt: skip
RECORDS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.one_of(st.sampled_from(NAMES), TEXTS), inner, max_size=6)),
    max_leaves=12,
)  # fmt: skip
ARTICLE = {"publication": {"name": "P", "language": "en"}, "publication_date": "2026-02-28", "title": "T"}
VIDEO = {"thumbnail_loc": f"{W}/t.jpg", "title": "T", "description": "D", "content_loc": f"{W}/v.mp4"}


def changed(record: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    return {**record, **change}


CHANGES = st.dictionaries(st.sampled_from(NAMES), RECORDS, max_size=2)
DEEP = st.builds(
    lambda depth, before, after: before + "[" * depth + "]" * depth + after,
    st.one_of(st.integers(1, 60), st.integers(950, 1_000), st.integers(950, 1_000), st.just(50_000)),
    st.sampled_from(["", '{"loc":', '[{"title":', '{"group":[{"href":', "{"]),
    st.sampled_from(["", "}", "}]", "}]}"]),
)
JSON = st.one_of(
    RECORDS.map(json.dumps),
    RECORDS.map(lambda value: json.dumps(value, ensure_ascii=False)),
    st.builds(changed, st.sampled_from([ARTICLE, VIDEO, {"loc": f"{W}/i.png"}, {"hreflang": "de", "href": f"{W}/1"}]), CHANGES).map(json.dumps),
    st.lists(st.builds(changed, st.just({"hreflang": "de", "href": f"{W}/1"}), CHANGES), max_size=3).map(lambda g: json.dumps({"group": g})),
    DEEP, TEXTS,
)  # fmt: skip
SOURCES = {
    "loc": LOCS,
    "lastmod": st.one_of(st.sampled_from(MOMENTS), TEXTS),
    "changefreq": st.one_of(st.sampled_from([*CHANGEFREQS, "Daily", "", "wee\u212aly"]), TEXTS),
    "priority": st.one_of(st.sampled_from(["0.5", "1", "2", "", "1e-400", "NaN", "٠.٥"]), TEXTS),
    **dict.fromkeys(EXTENSIONS, JSON),
}
