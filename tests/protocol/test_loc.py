"""One URL: the table of decisions, laws over random text, and peers' cases."""

from __future__ import annotations

import csv
import gzip
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.protocol.columnar.batch import clean
from airflow_sitemaps.protocol.loc import normalise, read_loc, scope_of, settle
from airflow_sitemaps.protocol.rules import CHECKS, Tally, Verdict, rulebook_of
from airflow_sitemaps.protocol.url_template import Template
from tests.support.reference_renderer import row_context

SHARED = Path(__file__).parents[2].parent / "shared"
ORIGIN = "https://example.com"
URI = re.compile(
    r"https?://[a-z0-9._\-\[\]:]+/(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?]|%[0-9A-Fa-f]{2})*(?:#(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?]|%[0-9A-Fa-f]{2})*)?"
)


@pytest.mark.parametrize(
    ("given", "expected", "faults"),
    [
        ("https://example.com/a", "https://example.com/a", ()),
        ("  https://example.com/a\r\n", "https://example.com/a", ("loc-encoding",)),
        ("\ufeffhttps://example.com/a\u00a0", "https://example.com/a", ("loc-encoding",)),
        ("HTTPS://Example.COM/A", "https://example.com/A", ()),
        ("https://example.com", "https://example.com/", ()),
        ("https://example.com?a=1", "https://example.com/?a=1", ()),
        ("https://example.com#top", "https://example.com/#top", ()),
        ("https://example.com:443/a", "https://example.com/a", ()),
        ("http://example.com:0080/a", "http://example.com/a", ()),
        ("https://example.com:/a", "https://example.com/a", ()),
        ("https://example.com:8443/a", "https://example.com:8443/a", ()),
        ("/a", "https://example.com/a", ("loc-relative",)),
        ("/ä", "https://example.com/%C3%A4", ("loc-relative", "loc-encoding")),
        ("https://example.com/größe", "https://example.com/gr%C3%B6%C3%9Fe", ("loc-encoding",)),
        ("https://example.com/%41%c3%a4", "https://example.com/%41%c3%a4", ()),
        ("https://example.com/100%", "https://example.com/100%25", ("loc-encoding",)),
        ("https://example.com/%4g%zz", "https://example.com/%254g%25zz", ("loc-encoding",)),
        ("https://example.com/a b[c]", "https://example.com/a%20b%5Bc%5D", ("loc-encoding",)),
        ('https://example.com/a\\b^`{|}<>"', "https://example.com/a%5Cb%5E%60%7B%7C%7D%3C%3E%22", ("loc-encoding",)),
        ("https://example.com/a#b#c", "https://example.com/a#b%23c", ("loc-encoding",)),
        ("https://example.com//a///b/../c/./", "https://example.com//a///b/../c/./", ()),
        ("https://example.com/?a=1&amp;b=2", "https://example.com/?a=1&b=2", ("loc-entity",)),
        ("https://example.com/?a=1&amp;amp;b=2", "https://example.com/?a=1&b=2", ("loc-entity",)),
        ("https://example.com/canci&oacute;n", "https://example.com/canci%C3%B3n", ("loc-entity", "loc-encoding")),
        ("https://example.com/?a&#38;b&#x26;c", "https://example.com/?a&b&c", ("loc-entity",)),
        (
            "https://example.com/?a=1&copy=2&lang;=x",
            "https://example.com/?a=1&copy=2%E2%9F%A8=x",
            ("loc-entity", "loc-encoding"),
        ),
        ("https://example.com/?a=1&copy=2&nope;", "https://example.com/?a=1&copy=2&nope;", ()),
        ("https://example.com/&#1114112;", "https://example.com/&#1114112;", ()),
        ("https://example.com/\ud83d\ude00", "https://example.com/%F0%9F%98%80", ("loc-encoding",)),
        ("https://example.com/&#55357;&#56832;", "https://example.com/%F0%9F%98%80", ("loc-entity", "loc-encoding")),
        ("https://example.com/a&#10;", "https://example.com/a", ("loc-entity", "loc-encoding")),
        ("https://münchen.example/", "https://xn--mnchen-3ya.example/", ("loc-encoding",)),
        ("https://m%C3%BCnchen.example/", "https://xn--mnchen-3ya.example/", ("loc-encoding",)),
        ("https://faß.example/", "https://xn--fa-hia.example/", ("loc-encoding",)),
        ("https://my_shop.example./", "https://my_shop.example./", ()),
        ("http://192.0.2.1/", "http://192.0.2.1/", ()),
        ("http://[2001:DB8::1]:8080/", "http://[2001:db8::1]:8080/", ()),
        ("http://example.com/:$&+,;:=?@/:$&+,;:=?@", "http://example.com/:$&+,;:=?@/:$&+,;:=?@", ()),
    ],
)
def test_what_is_fixed(given: str, expected: str, faults: tuple[str, ...]) -> None:
    reading = normalise(given, origin=ORIGIN)
    assert (reading.loc, reading.faults) == (expected, faults)
    assert URI.fullmatch(expected) or not expected.isascii()


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ("", "loc-missing"),
        (" \t\u3000", "loc-missing"),
        ("&nbsp;", "loc-missing"),
        ("//example.com/a", "loc-relative"),
        ("///a", "loc-relative"),
        ("a/b", "loc-relative"),
        ("../a", "loc-relative"),
        ("?a=1", "loc-relative"),
        ("#", "loc-relative"),
        ("\\", "loc-relative"),
        ("ftp://example.com/", "loc-scheme"),
        ("javascript:alert(1)", "loc-scheme"),
        ("data:text/html,x", "loc-scheme"),
        ("https:/example.com/", "loc-host"),
        ("https:example.com", "loc-host"),
        ("https:///a", "loc-host"),
        ("https://user:secret@example.com/", "loc-host"),
        ("https://bad host/", "loc-host"),
        ("https://example..com/", "loc-host"),
        ("https://example-.com/", "loc-host"),
        ("https://-example.com/", "loc-host"),
        ("https://" + "a" * 64 + ".com/", "loc-host"),
        ("https://" + "a." * 126 + "com/", "loc-host"),
        ("https://☃☃.example.-/", "loc-host"),
        ("https://%ff.example/", "loc-host"),
        ("https://1.2.3/", "loc-host"),
        ("https://1.2.3.256/", "loc-host"),
        ("https://[::1/", "loc-host"),
        ("https://[::1]x/", "loc-host"),
        ("https://[fe80::1%25eth0]/", "loc-host"),
        ("https://example.com\\@evil.example/", "loc-host"),
        ("https://example.com:0/", "loc-port"),
        ("https://example.com:65536/", "loc-port"),
        ("https://example.com:80a/", "loc-port"),
        ("https://example.com:٨٠/", "loc-port"),
        ("https://example.com/\x00", "loc-characters"),
        ("https://example.com/a\nb", "loc-characters"),
        ("https://example.com/\x0b", "loc-characters"),
        ("https://example.com/\x85x", "loc-characters"),
        ("https://example.com/\ufffe", "loc-characters"),
        ("https://example.com/\uffff", "loc-characters"),
        ("https://example.com/\ud83d", "loc-characters"),
        ("https://example.com/\ude00\ud83d", "loc-characters"),
        ("https://example.com/" + "a" * 2_028, "loc-too-long"),
        ("https://example.com/" + "é" * 338, "loc-too-long"),
    ],
)
def test_what_is_refused(given: str, rule: str) -> None:
    reading = normalise(given, origin=ORIGIN)
    assert reading.loc is None
    assert reading.faults[-1] == rule


def test_2047_characters_are_the_most() -> None:
    longest = "https://example.com/" + "a" * 2_027
    assert len(longest) == 2_047
    assert normalise(longest, origin=ORIGIN).loc == longest


TEXT = st.lists(
    st.one_of(
        st.characters(exclude_categories=()),
        st.sampled_from(
            ["https://", "example.com", "%", "%4", "%41", "&amp;", "&", "#38;", ";", "/", ":", "@", "?", "#", "["]
        ),
    ),
    max_size=20,
).map("".join)


@given(st.one_of(TEXT, TEXT.map("https://example.com/".__add__)), st.booleans())
@example("https://example.com/&#37;41&#38;amp;", False)
@example("https://example.com/\ufffd", False)
@settings(max_examples=500, deadline=None)
def test_what_comes_out_is_clean_and_stays(text: str, keep_entities: bool) -> None:
    reading = normalise(text, origin=ORIGIN, keep_entities=keep_entities)
    assert set(reading.faults) - {"loc-missing"} <= set(CHECKS), "verify reports it too"
    if reading.loc is None:
        assert reading.faults
        return
    assert URI.fullmatch(reading.loc)
    again = normalise(reading.loc, origin="", keep_entities=keep_entities)
    assert again.loc == reading.loc
    stays = {"loc-replacement-character"} & set(reading.faults)  # the character is part of the URL
    assert not set(again.faults) - {"loc-entity"} - stays
    if not keep_entities:
        assert set(again.faults) == stays


# ---------------------------------------------------------------- scope and verdicts


@pytest.mark.parametrize(
    ("base_url", "cross_submit", "loc", "fault"),
    [
        ("https://example.com/", (), "https://example.com/a", None),
        ("https://example.com/", (), "http://example.com/a", "scope-host"),
        ("https://example.com/", (), "https://example.com:8443/a", "scope-host"),
        ("https://example.com/", (), "https://www.example.com/a", "scope-host"),
        ("https://example.com/", (), "https://example.com.evil.example/", "scope-host"),
        ("https://example.com:443/", (), "https://example.com/a", None),
        ("https://example.com/news/", (), "https://example.com/news/a", None),
        ("https://example.com/news/", (), "https://example.com/news/", None),
        ("https://example.com/news/", (), "https://example.com/news", "scope-path"),
        ("https://example.com/news/", (), "https://example.com/", "scope-path"),
        ("https://example.com/news/", ("www.example.com",), "http://www.example.com/a", None),
        ("https://example.com/", ("www.example.com",), "https://www.example.com:8443/a", "scope-host"),
        ("https://example.com/", ("https://www.example.com:8443",), "https://www.example.com:8443/a", None),
        ("https://example.com/", ("https://www.example.com",), "http://www.example.com/a", "scope-host"),
        ("https://example.com/", ("MÜNCHEN.example",), "https://xn--mnchen-3ya.example/", None),
    ],
)
def test_scope(base_url: str, cross_submit: tuple[str, ...], loc: str, fault: str | None) -> None:
    reading = read_loc(loc, row_context(base_url, cross_submit=cross_submit))
    assert reading.loc == loc
    assert reading.faults == (() if fault is None else (fault,))


@pytest.mark.parametrize(
    "base_url", ["/sitemaps/", "ftp://example.com/", "https://exa mple.com/", "https://example.com/ä/"]
)
def test_a_base_url_that_cannot_be(base_url: str) -> None:
    with pytest.raises(ConfigurationError, match="base_url"):
        read_loc("/a", row_context(base_url))


def test_a_cross_submit_that_cannot_be() -> None:
    with pytest.raises(ConfigurationError, match="cross_submit"):
        scope_of("https://example.com/", ("not a host",))


def test_verdicts() -> None:
    reading = normalise("/ä", origin=ORIGIN)
    assert settle(reading, rulebook_of()) == (
        "https://example.com/%C3%A4",
        (("loc-relative", Verdict.REPAIR), ("loc-encoding", Verdict.REPAIR)),
    )
    assert settle(reading, rulebook_of({"loc-encoding": "drop_row"})) == (None, (("loc-encoding", Verdict.DROP_ROW),))
    refused = normalise("a/b", origin=ORIGIN)
    assert settle(refused, rulebook_of()) == (None, (("loc-relative", Verdict.DROP_ROW),))
    assert settle(refused, rulebook_of({"loc-relative": "fail"})) == (None, (("loc-relative", Verdict.FAIL),))
    kept = read_loc("https://example.com/?a&amp;b", row_context(rules={"loc-entity": "keep"}))
    assert kept.loc == "https://example.com/?a&amp;b"


# ---------------------------------------------------------------- real strings


SAMPLE = [
    "graag", "größe & höhe", "日本語", "العربية", "עברית", "100% / 50 %", "?#[]@!$&'()*+,;=", "a%41b", "😀 👨‍👩‍👧", "x\u0301", "..", ".", "\\", "&amp;",
    "\u202eRTL", "🇩🇪", "İstanbul", "ﬁ", "\u200b", "'\"<>", "{}", "~_-", "Ａ", "𝔘", "नमस्ते",
]  # fmt: skip


def titles() -> list[str]:
    """All strings of the shared data, or a sample of what they hold."""
    path = SHARED / "data" / "titles.csv.gz"
    if not path.exists():
        return SAMPLE
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        return [row["title"] for row in csv.DictReader(file)]


@pytest.mark.parametrize("strings", [SAMPLE, titles()], ids=["sample", "shared"])
def test_every_title_survives_as_segment_and_as_value(strings: list[str]) -> None:
    template = Template.parse("https://example.com/p/{title}?q={title}")
    expanded = template.expand({"title": pa.array(strings)})
    tally = Tally()
    cleaned = clean(pa.record_batch({"loc": expanded}), row_context(), tally).loc.to_pylist()
    long = [title for title in strings if len(quote(title, safe="")) * 2 + 29 > 2_047]
    assert tally.dropped == ({"loc-too-long": len(long)} if long else {})
    assert not tally.fixed
    assert len(cleaned) == len(strings) - len(long)
    for title, loc in zip((title for title in strings if title not in long), cleaned, strict=True):
        assert URI.fullmatch(loc)
        parts = urlsplit(loc)
        assert unquote(parts.path.removeprefix("/p/"), errors="strict") == title
        assert unquote(parts.query.removeprefix("q="), errors="strict") == title


@pytest.mark.parametrize("strings", [SAMPLE, titles()[::7]], ids=["sample", "shared"])
def test_every_title_as_it_stands_comes_out_clean(strings: list[str]) -> None:
    """Raw text in a URL: what means something in a URL (``?``, ``#``, ``%41``, an entity) keeps its meaning."""
    locs = [f"https://example.com/p/{title}?q={title}" for title in strings]
    cleaned = clean(pa.record_batch({"loc": locs}), row_context(), Tally()).loc.to_pylist()
    plain = re.compile(r"[^?#%&;\\]*")
    for title, loc in zip(strings, cleaned, strict=True):
        assert URI.fullmatch(loc)
        if plain.fullmatch(title) and title == title.rstrip():
            assert unquote(urlsplit(loc).path) == f"/p/{title}"


# ---------------------------------------------------------------- peers' cases


def cases(*kinds: str) -> list[dict[str, Any]]:
    path = SHARED / "cases" / "peers.jsonl"
    if not path.exists():
        return []
    return [case for line in path.read_text("utf-8").splitlines() if (case := json.loads(line))["kind"] in kinds]


REFUSALS = ("loc-missing", "loc-relative", "loc-scheme", "loc-host", "loc-port", "loc-too-long", "scope-another-scheme")
REFUSALS += ("scope-another-port", "scope-another-domain")


@pytest.mark.parametrize("case", cases("urlset"), ids=lambda case: case["id"])
def test_peers_urls(case: dict[str, Any]) -> None:
    for record in case["records"]:
        loc = record.get("loc")
        host = urlsplit(loc or "").netloc.rpartition("@")[2] if loc and "//" in loc[:9] and " " not in loc else ""
        sitemap_url = (case.get("context") or {}).get("sitemap_url")
        base_url = sitemap_url.rpartition("/")[0] + "/" if sitemap_url else "https://example.com/"
        cross = () if sitemap_url or "99999" in host else (f"http://{host}", f"https://{host}")
        valid_host = normalise(f"http://{host}/", origin="").loc is not None
        context = row_context(base_url, cross_submit=cross if valid_host else ())
        result, verdicts = settle(read_loc(loc, context), context.rulebook)
        reason = case["expected"].removeprefix("reject:")
        if reason in REFUSALS:
            assert result is None or (loc.startswith("/") and result == f"https://example.com{loc}")
        elif case["expected"] == "valid" and (case["force"] == "must" or result is not None):
            assert result is not None, verdicts
            assert URI.fullmatch(result)
            accepted = case.get("loc_out") or [loc, quote(loc, safe="%/:?#[]@!$&'()*+,;=~")]
            assert result in accepted or result == f"{loc}/"
