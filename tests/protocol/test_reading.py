"""Reading back: what was written comes back, and what is hostile does no harm."""

from __future__ import annotations

import gzip as stdlib_gzip
import time
import tracemalloc
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sitemaps.protocol import CURRENT, Limits, feeds, gzip
from airflow_sitemaps.protocol.markup import NAMESPACE, NAMESPACES
from airflow_sitemaps.protocol.reader import ReadUrlset, read
from airflow_sitemaps.protocol.rules import CHECKS, SAMPLES_PER_CHECK, Findings
from airflow_sitemaps.protocol.validator import ValidationContext, validate
from tests.protocol import cases

SMALL = Limits(name="small", max_urls=2, max_byte_size=600, max_sitemaps=2)
NOW = datetime(2026, 11, 1, 12, tzinfo=timezone.utc)
PREFIXES = "".join(f' xmlns:{prefix}="{uri}"' for prefix, uri in NAMESPACES.items())


def urlset(inside: str, attributes: str = PREFIXES) -> bytes:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="{NAMESPACE}"{attributes}>{inside}</urlset>'.encode()


def url(inside: str = "", loc: str = "https://example.com/p") -> str:
    return f"<url><loc>{loc}</loc>{inside}</url>"


def checks(body: bytes | ReadUrlset, **settings: Any) -> set[str]:
    file = body if isinstance(body, ReadUrlset) else read(body, limits=settings.get("limits", CURRENT))
    findings = Findings()
    validate(file, ValidationContext(**{"limits": CURRENT, "now": NOW, **settings}), findings)
    found = {finding.check for finding in (*file.problems, *findings.listed())}
    assert found <= set(CHECKS), "a finding that no check explains"
    return found


# ---------------------------------------------------------------- sound files


def test_what_was_written_is_read_back() -> None:
    record = {
        "loc": "https://example.com/p?a=1&b='2'",
        "lastmod": "2026-10-01T10:00:00Z",
        "changefreq": "daily",
        "priority": "0.5",
        "images": [{"loc": "https://example.com/a.jpg", "caption": "<&>"}],
        "videos": [
            {
                "thumbnail_loc": "https://example.com/t.jpg", "title": "T", "description": "D",
                "player_loc": "https://example.com/x", "player_loc_autoplay": "a=1", "tags": ["a", "b"],
                "restriction": {"relationship": "allow", "countries": ["DE", "FR"]}, "uploader": "U",
                "uploader_info": "https://example.com/u", "prices": [{"price": "1.99", "currency": "EUR"}],
                "id": [{"type": "url", "value": "x"}], "tvshow": {"show_title": "S", "video_type": "full"},
            }
        ],
        "news": {"publication": {"name": "P", "language": "en"}, "publication_date": "2026-10-31", "title": "T"},
        "alternates": [{"hreflang": "de", "href": "https://example.com/p?a=1&b='2'"}],
    }  # fmt: skip
    content, _ = cases.render([record], cases.row_context("https://example.com/"))
    assert content is not None
    file = read(content)
    assert not file.problems
    assert not checks(content, address="https://example.com/sitemap.xml")
    entry = file.entries[0]
    assert (entry.loc, entry.lastmod, entry.changefreq) == (record["loc"], record["lastmod"], "daily")
    assert entry.extensions["images"] == record["images"]
    assert entry.extensions["videos"] == record["videos"]
    assert entry.extensions["news"] == [record["news"]]
    assert entry.extensions["alternates"] == record["alternates"]


def test_gzip_is_read_as_plain_is() -> None:
    plain = urlset(url())
    assert read(gzip.compress(plain)).entries == read(plain).entries
    assert read(stdlib_gzip.compress(plain)).byte_size == len(plain)


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_text_is_read_line_by_line(ends: str) -> None:
    file = read(f"https://example.com/a{ends}https://example.com/b{ends}".encode())
    assert file.kind == "text"
    assert [(entry.loc, entry.line) for entry in file.entries] == [
        ("https://example.com/a", 1),
        ("https://example.com/b", 2),
    ]


@given(st.lists(st.from_regex(r"https://example\.com/[a-z0-9/]{0,12}", fullmatch=True), max_size=5))
def test_a_text_sitemap_parses_back_to_itself(locs: list[str]) -> None:
    body = "".join(f"{loc}\n" for loc in locs).encode()
    assert [entry.loc for entry in read(body).entries] == locs
    assert [entry.loc for entry in read(b"\xef\xbb\xbf" + body.replace(b"\n", b"\r\n")).entries] == locs


@pytest.mark.parametrize("style", ["rss", "mrss", "atom"])
def test_feeds_are_read(style: feeds.Format) -> None:
    channel = feeds.Channel(address="https://example.com/feed", site="https://example.com/", title="T")
    entries = [feeds.FeedEntry(loc="https://example.com/a", lastmod=datetime(2026, 3, 1, 8, tzinfo=timezone.utc))]
    file = read(feeds.render(style, channel, entries))
    assert (file.kind, file.problems) == ("atom" if style == "atom" else "rss", ())
    assert [(entry.loc, entry.lastmod) for entry in file.entries] == [("https://example.com/a", "2026-03-01T08:00:00Z")]
    assert not checks(file)


@pytest.mark.timeout(60)
def test_fifty_thousand_urls_are_read_and_judged() -> None:
    body = urlset("".join(url("<lastmod>2026-01-01</lastmod>", f"https://example.com/p/{n}") for n in range(50_000)))
    assert not checks(body, address="https://example.com/sitemap.xml")


# ---------------------------------------------------------------- faulty files

ARTICLE = (
    "<news:news><news:publication><news:name>n</news:name><news:language>en</news:language></news:publication>"
    "<news:publication_date>2026-11-01</news:publication_date><news:title>t</news:title></news:news>"
)
VIDEO = (
    "<video:video><video:thumbnail_loc>https://example.com/t</video:thumbnail_loc><video:title>t</video:title>"
    "<video:description>d</video:description><video:content_loc>https://example.com/v</video:content_loc>{}</video:video>"
)


def index(inside: str) -> bytes:
    sitemap = f"<sitemap><loc>https://example.com/a.xml</loc>{inside}</sitemap>"
    return f'<sitemapindex xmlns="{NAMESPACE}">{sitemap}</sitemapindex>'.encode()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (urlset(url())[:-9], "xml"),
        (urlset(url())[:-30], "xml"),
        (urlset("<url><loc>https://example.com/a?b&c</loc></url>"), "xml"),
        (urlset("<url><loc>https://example.com/&eacute;</loc></url>"), "xml"),
        (b" " + urlset(url()), "xml"),
        (b"\xef\xbb\xbf" + urlset(url()), "bom"),
        (urlset(url()).replace(b"/p", b"/\xe9"), "encoding"),
        (urlset(url()).decode().encode("utf-16"), "encoding"),
        (urlset(url()).replace(b"UTF-8", b"ISO-8859-1"), "encoding"),
        (b"<html><body>Not found</body></html>", "root"),
        (b"Not found", "root"),
        (b'{"error": 404}', "root"),
        (urlset(url()).replace(NAMESPACE.encode(), b"http://www.google.com/schemas/sitemap/0.84"), "namespace"),
        (urlset(url()).replace(f' xmlns="{NAMESPACE}"'.encode(), b""), "namespace"),
        (urlset(""), "empty"),
        (f'<sitemapindex xmlns="{NAMESPACE}"/>'.encode(), "empty"),
        (b"", "empty"),
        (urlset(url("<foo/>")), "structure"),
        (urlset("<foo/>" + url()), "structure"),
        (urlset(url() + "<foo/>"), "structure"),
        (urlset(f"<foo>{url()}</foo>"), "structure"),
        (urlset("<url><lastmod>2026-01-01</lastmod><loc>https://example.com/p</loc></url>"), "element-order"),
        (urlset(url("<priority>0.5</priority><lastmod>2026-01-01</lastmod>")), "element-order"),
        (urlset("stray" + url()), "structure"),
        (urlset(url() + "stray"), "structure"),
        (urlset(url() + "stray" + url(loc="https://example.com/q")), "structure"),
        (urlset(url("stray")), "structure"),
        (urlset(url()).replace(b"<urlset ", b"<urlset " + b" ".join(b'a%d="1"' % n for n in range(200_000)) + b" "), "structure"),
        (urlset(url()).replace(b"<url>", b'<url id="1">'), "structure"),
        (urlset(url()).replace(b"<loc>", b'<loc lang="de">'), "structure"),
        (urlset(url('<xhtml:link rel="alternate" hreflang="İd" href="https://example.com/p"/>')), "alternate"),
        (b"<!DOCTYPE html>\n<html><body>Not found</body></html>", "root"),
        (b"<!---->" * 10_000 + urlset("<url></url>")[38:], "loc"),
        (b"<!---->" * 10_000 + b"<!DOCTYPE a>", "doctype"),
        (b"<!-- x --><!doctype HTML><html/>", "root"),
        (urlset(url("<loc>https://example.com/q</loc>")), "structure"),
        (urlset(url("<lastmod>2026-01-01</lastmod><lastmod>2026-01-01</lastmod>")), "structure"),
        (urlset(url("<changefreq>daily<b/></changefreq>")), "structure"),
        (urlset(url('<x xmlns="https://example.com/ns"/>')), "extension-unknown"),
        (urlset("<url/>"), "loc"),
        (urlset("<url><loc> </loc></url>"), "loc"),
        (urlset(url(loc="/p")), "loc-relative"),
        (urlset(url(loc="//example.com/p")), "loc-relative"),
        (urlset(url(loc="ftp://example.com/p")), "loc-scheme"),
        (urlset(url(loc="https://user:pw@example.com/p")), "loc-host"),
        (urlset(url(loc="https://example.com:99999/p")), "loc-port"),
        (urlset(url(loc="https://example.com/" + "x" * 2028)), "loc-too-long"),
        (urlset(url(loc="https://example.com/ä")), "loc-encoding"),
        (urlset(url(loc="https://example.com/?a=1&amp;amp;b=2")), "loc-entity"),
        (urlset(url(loc="https://example.com/%EF%BF%BD")), "loc-replacement-character"),
        (urlset(url() + url()), "loc-duplicate"),
        (urlset(url("<lastmod>01.02.2026</lastmod>")), "lastmod-format"),
        (urlset(url("<lastmod>2026-02-30</lastmod>")), "lastmod-format"),
        (urlset(url("<lastmod>2026-01-01T10:00:00</lastmod>")), "lastmod-format"),
        (urlset(url("<lastmod></lastmod>")), "lastmod-format"),
        (urlset(url("<lastmod>2026-01-01T10:00Z</lastmod>")), "lastmod-xsd"),
        (urlset(url("<lastmod>2026-01</lastmod>")), "lastmod-xsd"),
        (urlset(url("<lastmod>2027-01-01</lastmod>")), "lastmod-future"),
        (urlset(url("<changefreq>Daily</changefreq>")), "changefreq"),
        (urlset(url("<priority>1.1</priority>")), "priority"),
        (urlset(url("<priority>high</priority>")), "priority"),
        (urlset(url("<priority></priority>")), "priority"),
        (urlset(url("<image:image/>")), "image"),
        (urlset(url("<image:image><image:loc>/a.jpg</image:loc></image:image>")), "image"),
        (urlset(url("<video:video/>")), "video"),
        (urlset(url("<news:news/>")), "news"),
        (urlset(url('<xhtml:link rel="alternate" hreflang="en-UK" href="https://example.com/p"/>')), "alternate"),
        (urlset(url('<xhtml:link hreflang="en" href="https://example.com/p"/>')), "alternate"),
        (urlset(url('<xhtml:link rel="alternate" hreflang="en" href="https://example.com/q"/>')), "alternate-self"),
        (
            urlset(url("<image:image><image:title>t</image:title><image:loc>https://example.com/a</image:loc></image:image>")),
            "extension-order",
        ),
        (
            urlset(url(
                "<news:news><news:publication><news:language>en</news:language><news:name>n</news:name></news:publication>"
                "<news:publication_date>2026-11-01</news:publication_date><news:title>t</news:title></news:news>"
            )),
            "extension-order",
        ),
        (
            urlset(url(
                "<news:news><news:publication><news:name>n</news:name><news:language>en</news:language></news:publication>"
                "<news:publication_date>2026-10-20</news:publication_date><news:title>t</news:title></news:news>"
            )),
            "news-old",
        ),
        (urlset(url(ARTICLE.replace("2026-11-01", "2026-11-01 10:00:00"))), "news"),
        (urlset(url(ARTICLE.replace("<news:name>n</news:name>", "<news:name>n</news:name>" * 2))), "structure"),
        (urlset(url(VIDEO.format("<video:tags>a</video:tags><video:tag>b</video:tag>"))), "video"),
        (urlset(url(VIDEO.format("<video:prices>1</video:prices><video:price type='rent'/>"))), "video"),
        (urlset(url(VIDEO.format("<video:player_loc_autoplay>a</video:player_loc_autoplay>"))), "video"),
        (urlset(url(VIDEO.format("<video:duration>1</video:duration>" * 2))), "structure"),
        (urlset(url(VIDEO.format("<video:duration/>"))), "structure"),
        (urlset(url(VIDEO.format("<video:publication_date>2007-11-05 19:20:30</video:publication_date>"))), "video"),
        (urlset(url(f"<image:image>{'<image:loc>https://example.com/a</image:loc>' * 2}</image:image>")), "structure"),
        (index("<priority>0.5</priority>"), "structure"),
        (index("<changefreq>daily</changefreq>"), "structure"),
        (b"<rss><channel><item><link>https://example.com/a</link><pubDate>soon</pubDate></item></channel></rss>", "lastmod-format"),
        (b"<rss><channel><item><title>t</title></item></channel></rss>", "loc"),
    ],
)  # fmt: skip
def test_each_fault_is_found_and_no_other(body: bytes, expected: str) -> None:
    assert checks(body) == {expected}


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_element_in_a_wrong_place_hides_no_entry(place: int) -> None:
    entries = [url(), url()]
    entries.insert(place, "<sitemap><loc>https://example.com/x.xml</loc></sitemap>")
    found = read(urlset("".join(entries)))
    assert (found.kind, len(found.entries), found.whole) == ("urlset", 2, False)
    assert [problem.check for problem in found.problems] == ["structure"]
    assert "<sitemap> does not belong here" in str(found.problems)


def test_the_declared_encoding_is_found_with_spaces_around_the_sign() -> None:
    body = urlset(url()).split(b"?>", 1)[1]
    found = read(b'<?xml version="1.0" encoding = "ISO-8859-1"?>' + body)
    assert [problem.check for problem in found.problems] == ["encoding"]


def test_a_page_with_a_link_of_another_kind_has_no_alternates() -> None:
    amp = '<xhtml:link rel="amphtml" href="https://example.com/{}"/>'
    assert checks(urlset(url(amp.format("amp/p")))) == set()
    other = '<xhtml:link rel="alternate" hreflang="en" href="https://example.com/q"/>'
    assert checks(urlset(url(amp.format("p") + other))) == {"alternate-self"}


@pytest.mark.parametrize(
    "inside",
    [
        '<xhtml:link rel="alternate" type="text/html" title="P" hreflang="en" href="https://example.com/p"/>',
        VIDEO.format("<video:publication_date>2007-11-05T19:20:30</video:publication_date><video:tag>a</video:tag>" + "<video:tag/>"),
        ARTICLE.replace("2026-11-01", "2026-11-01T10:00+01:00"),
        "<image:image><image:loc>https://example.com/a</image:loc><image:caption/></image:image>",
    ],
)  # fmt: skip
def test_what_the_schemas_allow_is_no_fault(inside: str) -> None:
    assert checks(urlset(url(inside))) == set()


def test_an_empty_file_with_a_byte_order_mark_is_empty() -> None:
    assert checks(b"\xef\xbb\xbf" + urlset("")) == {"bom", "empty"}


@pytest.mark.parametrize("zone", [" +0000", " -0000", "", " GMT"])
def test_a_feeds_date_without_a_zone_is_in_utc(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    item = f"<item><link>https://example.com/a</link><pubDate>Sun, 01 Nov 2026 11:00:00{zone}</pubDate></item>"
    (entry,) = read(f"<rss><channel>{item}</channel></rss>".encode()).entries
    monkeypatch.undo()
    time.tzset()
    assert entry.lastmod == "2026-11-01T11:00:00Z"


def test_a_date_that_has_begun_somewhere_is_not_in_the_future() -> None:
    now = datetime(2026, 11, 1, 9, 59, tzinfo=timezone.utc)
    tomorrow = urlset(url("<lastmod>2026-11-02</lastmod>"))
    assert checks(tomorrow, now=now) == {"lastmod-future"}
    assert checks(tomorrow, now=now + timedelta(minutes=1)) == set()
    assert checks(urlset(url("<lastmod>2026-11-01T10:00:00Z</lastmod>")), now=now) == {"lastmod-future"}


def test_sizes_are_judged() -> None:
    three = urlset("".join(url(loc=f"https://example.com/{n}") for n in range(3)), "")
    assert checks(three, limits=SMALL) == {"limit-urls"}
    large = urlset(url(loc="https://example.com/" + "x" * 600))
    assert checks(large, limits=SMALL) == {"limit-bytes"}
    index = f'<sitemapindex xmlns="{NAMESPACE}">{"".join(f"<sitemap><loc>https://example.com/{n}</loc></sitemap>" for n in range(3))}</sitemapindex>'
    assert checks(index.encode(), limits=SMALL) == {"limit-sitemaps"}
    index = index.replace("/2<", "/1<").replace("/0<", "/5<")
    assert checks(index.encode()) == {"index-duplicate"}


def test_more_than_a_thousand_articles_are_too_many() -> None:
    many = "".join(url(ARTICLE, f"https://example.com/{n}") for n in range(1_001))
    assert checks(urlset(many)) == {"limit-news"}


@pytest.mark.parametrize(
    ("loc", "expected"),
    [
        ("https://www.example.com/shop/p", set()),
        ("https://www.example.com/shop", {"scope-path"}),
        ("https://www.example.com/", {"scope-path"}),
        ("http://www.example.com/shop/p", {"scope-host"}),
        ("https://example.com/shop/p", {"scope-host"}),
        ("https://www.example.com:8443/shop/p", {"scope-host"}),
        ("https://other.example/p", set()),
    ],
)
def test_scope_is_judged(loc: str, expected: set[str]) -> None:
    settings = {"address": "https://www.example.com/shop/sitemap.xml", "cross_submit": ("other.example",)}
    assert checks(urlset(url(loc=loc)), **settings) == expected
    assert checks(urlset(url(loc=loc)), **settings, path_scope=False) == expected - {"scope-path"}


def test_a_million_faults_cost_no_more_than_a_few() -> None:
    findings = Findings()
    for number in range(10_000):
        findings.note("loc", "x" * 10_000 + str(number))
    (finding,) = findings.listed()
    assert finding.count == 10_000
    assert len(finding.samples) == SAMPLES_PER_CHECK
    assert len(finding.message) < 1_000
    assert "9,997 more" in finding.message


# ---------------------------------------------------------------- hostile files

LAUGHS = b"""<?xml version="1.0"?>
<!DOCTYPE lolz [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;"><!ENTITY d "&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;">]>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>&d;</loc></url></urlset>"""


@pytest.mark.parametrize(
    "body",
    [
        LAUGHS,
        LAUGHS.replace(b'<?xml version="1.0"?>\n', b"<!-- " + b"x" * 5_000 + b" -->\n<?pi x?>\n"),
        LAUGHS.replace(b'<?xml version="1.0"?>', b'<?xml version="1.0"?>' + b" " * 9_000),
        b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><urlset/>',
        b'<!DOCTYPE x [<!ENTITY e SYSTEM "http://127.0.0.1:9/">]><urlset>&e;</urlset>',
        b'<!DOCTYPE x [<!ENTITY % p SYSTEM "file:///etc/passwd">%p;]><urlset/>',
    ],
)
def test_a_doctype_is_refused(body: bytes) -> None:
    file = read(body)
    assert [finding.check for finding in file.problems] == ["doctype"]
    assert not file.entries


def test_a_doctype_hidden_by_its_encoding_is_not_read_either() -> None:
    hidden = LAUGHS.decode().replace('version="1.0"', 'version="1.0" encoding="UTF-16"').encode("utf-16")
    assert not read(hidden).entries
    seven = (
        LAUGHS.decode().replace('version="1.0"', 'version="1.0" encoding="UTF-7"').replace("<!D", "+ADwAIQ-D").encode()
    )
    assert not read(seven).entries


def test_a_doctype_within_text_is_none() -> None:
    caption = "<image:image><image:loc>https://example.com/a</image:loc><image:caption><![CDATA[<!DOCTYPE html>]]></image:caption></image:image>"
    file = read(urlset(url(caption)))
    assert not file.problems
    assert file.entries[0].extensions["images"][0]["caption"] == "<!DOCTYPE html>"


def bomb(byte_size: int) -> bytes:
    head, foot = f'<urlset xmlns="{NAMESPACE}"><url><loc>'.encode(), b"</loc></url></urlset>"
    return stdlib_gzip.compress(head + b"a" * byte_size + foot, 1)


def test_a_gzip_bomb_is_not_unpacked() -> None:
    body = bomb(200 << 20)
    assert len(body) < 2 << 20
    tracemalloc.start()
    try:
        file = read(body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [finding.check for finding in file.problems] == ["gzip"]
    assert peak < 300 << 20


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (gzip.compress(gzip.compress(urlset(url()))), {"gzip-twice"}),
        (gzip.compress(urlset(url()))[:-12], {"gzip"}),
        (gzip.compress(urlset(url()))[:40], {"gzip"}),
        (gzip.compress(urlset(url())) + b"rubbish", {"gzip"}),
        (b"\x1f\x8b\x08\x00", {"gzip"}),
        (gzip.compress(gzip.compress(gzip.compress(urlset(url())))), {"gzip-twice", "encoding"}),
    ],
)
def test_damaged_gzip_is_named(body: bytes, expected: set[str]) -> None:
    assert checks(body) == expected


@pytest.mark.timeout(120)
@pytest.mark.parametrize("inside", ["<a/>" * 2_000_000, "<url>" + "<a/>" * 2_000_000, "<a>" * 300_000])
def test_elements_without_end_do_not_fill_the_memory(inside: str) -> None:
    file = read(f'<urlset xmlns="{NAMESPACE}">{inside}'.encode())
    assert {finding.check for finding in file.problems} <= {"structure", "xml"}
    assert file.problems


@given(st.binary(max_size=200))
def test_whatever_the_bytes_reading_and_judging_only_find(body: bytes) -> None:
    checks(body)


FRAGMENTS = st.lists(
    st.sampled_from(
        [
            "<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>", "</urlset>", "<url>", "</url>", "<loc>", "</loc>",
            "https://example.com/", "&amp;", "<lastmod>", "</lastmod>", "2026-01-01", "<!--", "-->", "<![CDATA[", "]]>",
            "<sitemapindex>", "<rss><channel><item>", "</item></channel></rss>", "<?x", "?>", "<!DOCTYPE", "\x00", "é",
        ]
    ),
    max_size=12,
).map("".join)  # fmt: skip


@given(FRAGMENTS)
def test_whatever_the_pieces_reading_and_judging_only_find(body: str) -> None:
    checks(body.encode())
    checks(gzip.compress(body.encode()))


def problem(body: bytes) -> str:
    (finding,) = read(body).problems
    return finding.message


def test_messages_name_the_cause() -> None:
    nbsp = urlset(url() + "\n<url><loc>https://example.com/&nbsp;&amp;</loc></url>")
    assert "line 3: XML has no entity &nbsp;; write the character itself" in problem(nbsp)
    assert "HTML page" in problem(b"<!DOCTYPE html><html/>")
    assert "Remove the DOCTYPE" in problem(LAUGHS)
    assert "more than 104,857,600 bytes of content (a sitemap has at most 52,428,800)" in problem(bomb(200 << 20))
    assert "'a0' and 199,999 more" in problem(
        urlset(url()).replace(b"<urlset ", b"<urlset " + b" ".join(b'a%d="1"' % n for n in range(200_000)) + b" ")
    )


def test_the_schemas_location_may_be_named() -> None:
    named = b'<urlset xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="a b" '
    assert not read(urlset(url()).replace(b"<urlset ", named)).problems
