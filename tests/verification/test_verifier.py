"""Verify: each rule that spans files, on sitemaps of ours and of strangers."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sitemaps.errors import ConfigurationError, StoreError
from airflow_sitemaps.http import AccessRules, Fetched, FetchError, HttpClient
from airflow_sitemaps.http.page_judge import NOT_FOUND, PageJudge, RobotsCache, impossible_url, page_faults
from airflow_sitemaps.ports import Create
from airflow_sitemaps.protocol import CURRENT, Limits, gzip, validator
from airflow_sitemaps.protocol.feeds import ATOM_NAMESPACE
from airflow_sitemaps.protocol.markup import NAMESPACE, NAMESPACES, render_index
from airflow_sitemaps.protocol.rules import CHECKS
from airflow_sitemaps.stores.memory import MemoryStore
from airflow_sitemaps.verification import FolderFetcher, StoreFetcher
from airflow_sitemaps.verification.result import Verification, VerificationOptions
from airflow_sitemaps.verification.verifier import verify
from tests.support.website import Page, serving

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 11, 1, 12, tzinfo=timezone.utc)
BASE = "https://www.example.com/"
INDEX = BASE + "sitemap.xml"
PREFIXES = "".join(f' xmlns:{prefix}="{uri}"' for prefix, uri in NAMESPACES.items())


def urlset(*locs: str, lastmod: str = "", links: dict[str, str] | None = None) -> bytes:
    changed = f"<lastmod>{lastmod}</lastmod>" if lastmod else ""
    alternates = "".join(
        f'<xhtml:link rel="alternate" hreflang="{language}" href="{href}"/>' for language, href in (links or {}).items()
    )
    urls = "".join(f"<url><loc>{loc}</loc>{changed}{alternates}</url>" for loc in locs)
    return f'<urlset xmlns="{NAMESPACE}"{PREFIXES}>{urls}</urlset>'.encode()


def index(*names: str, lastmod: datetime | None = None, base: str = BASE) -> bytes:
    return render_index([(name if "://" in name else base + name, lastmod) for name in names])


@dataclass
class Web:
    """A web in memory."""

    pages: dict[str, bytes | Fetched | Exception] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def get(self, url: str) -> Fetched:
        self.asked.append(url)
        page = self.pages.get(url, NOT_FOUND)
        if isinstance(page, Exception):
            raise page
        return Fetched(status=200, body=page, chain=(url,)) if isinstance(page, bytes) else page


def web(**files: bytes | Fetched | Exception) -> Web:
    pages: dict[str, Any] = {BASE + name.replace("__", "."): body for name, body in files.items()}
    return Web({BASE + "robots.txt": f"Sitemap: {INDEX}\n".encode(), **pages})


def found(result: Verification) -> dict[str, str]:
    for failure in result.failures:
        assert failure.severity == CHECKS[failure.rule].severity
        assert failure.message
    return {failure.rule: failure.where for failure in result.failures}


def judged(site: Web, address: str = INDEX, **options: Any) -> dict[str, str]:
    return found(verify(site, address, now=NOW, options=VerificationOptions(**options)))


def test_a_sound_sitemap_has_no_failure() -> None:
    gz = gzip.compress(urlset(BASE + "b", lastmod="2026-10-01"))
    site = web(sitemap__xml=index("a.xml", "b.xml.gz", lastmod=NOW), a__xml=urlset(BASE + "a"), b__xml__gz=gz)
    site.pages[BASE + "b.xml.gz"] = gz
    result = verify(site, INDEX, now=NOW)
    assert result.failures == ()
    assert result.valid
    assert (result.files, result.urls, result.index_urls) == (3, 2, (INDEX,))
    assert json.loads(json.dumps(result.to_dict()))["valid"] is True
    assert site.asked.count(BASE + "robots.txt") == 1


def test_one_file_and_several_indexes_are_judged_too() -> None:
    site = web(a__xml=urlset(BASE + "a"), one__xml=index("a.xml"), two__xml=index("a.xml"))
    assert judged(site, BASE + "a.xml") == {"robots-index": BASE + "a.xml"}
    result = verify(site, [BASE + "one.xml", BASE + "two.xml"], now=NOW, options=VerificationOptions(robots=False))
    assert result.index_urls == (BASE + "one.xml", BASE + "two.xml")
    assert found(result) == {"loc-duplicate": BASE + "a.xml"}


def test_every_rule_of_urls_that_a_file_breaks_is_reported() -> None:
    site = web(sitemap__xml=urlset(BASE + "\ufffd", BASE + "&amp;amp;amp;", "/x", BASE + "x" * 2_040, "ftp://a/"))
    assert {
        "loc-replacement-character",
        "loc-encoding",
        "loc-entity",
        "loc-relative",
        "loc-too-long",
        "loc-scheme",
    } <= set(judged(site))


# ---------------------------------------------------------------- index against files


def test_a_file_that_is_missing_or_cannot_be_had() -> None:
    site = web(sitemap__xml=index("a.xml"))
    assert judged(site) == {"unreachable": BASE + "a.xml"}
    for error in (FetchError("too slow"), StoreError("gone")):
        assert judged(web(sitemap__xml=error)) == {"unreachable": INDEX}
    redirected = Fetched(status=200, body=urlset(BASE + "a"), chain=(BASE + "a.xml", BASE + "b.xml"))
    assert judged(web(sitemap__xml=index("a.xml"), a__xml=redirected)) == {"redirect": BASE + "a.xml"}


def test_a_file_listed_twice_and_an_index_within_an_index() -> None:
    site = web(sitemap__xml=index("a.xml", "a.xml", "sub.xml"), a__xml=urlset(BASE + "a"), sub__xml=index("a.xml"))
    assert judged(site) == {"index-duplicate": INDEX, "index-nested": BASE + "sub.xml"}


@pytest.mark.parametrize(
    "feed", ["<rss><channel><title>x</title></channel></rss>", f'<feed xmlns="{ATOM_NAMESPACE}"/>']
)
def test_a_feed_that_lists_nothing_is_a_fault_only_of_its_index(feed: str) -> None:
    """RSS and Atom permit a feed without items, such as one of recent changes."""
    site = web(sitemap__xml=index("a.xml", "feed.xml"), a__xml=urlset(BASE + "a"), feed__xml=feed.encode())
    assert judged(site) == {"empty": BASE + "feed.xml"}
    assert judged(site, BASE + "feed.xml", robots=False) == {}


def test_files_elsewhere() -> None:
    site = web(a__xml=urlset(BASE + "maps/a"))
    site.pages[BASE + "maps/sitemap.xml"] = index("a.xml", "https://other.example/b.xml")
    assert judged(site, BASE + "maps/sitemap.xml") == {
        "index-host": BASE + "maps/sitemap.xml",
        "index-path": BASE + "maps/sitemap.xml",
        "robots-index": BASE + "maps/sitemap.xml",
    }


def test_files_of_other_sites_are_not_fetched_for_a_stranger() -> None:
    site = web(sitemap__xml=index("https://victim.example/a.xml", "https://de.example.com/b.xml"))
    site.pages["https://de.example.com/b.xml"] = urlset("https://de.example.com/b")
    assert judged(site, cross_submit=("de.example.com",)) == {"index-host": INDEX}
    assert "https://victim.example/a.xml" not in site.asked
    assert "https://de.example.com/b.xml" in site.asked


def test_an_index_that_is_older_than_its_file() -> None:
    told = datetime(2026, 9, 1, tzinfo=timezone.utc)
    site = web(sitemap__xml=index("a.xml", lastmod=told), a__xml=urlset(BASE + "a", lastmod="2026-10-01T00:00:00Z"))
    assert judged(site) == {"index-lastmod": INDEX}
    site.pages[BASE + "a.xml"] = urlset(BASE + "a", lastmod="2026-10-01")  # a day of a zone that is not known
    assert judged(site) == {}


def test_path_scope_falls_away_where_robots_names_the_index() -> None:
    site = web(sitemap__xml=index("maps/a.xml"))
    site.pages[BASE + "maps/a.xml"] = urlset(BASE + "shop/a")
    assert judged(site) == {}
    site.pages[BASE + "robots.txt"] = b"User-agent: *\n"
    assert judged(site) == {"robots-index": INDEX, "scope-path": BASE + "maps/a.xml"}


def test_a_file_that_robots_disallows_is_one_that_no_crawler_reads() -> None:
    site = web(sitemap__xml=index("a.xml"), a__xml=urlset(BASE + "a"))
    site.pages[BASE + "robots.txt"] = f"User-agent: *\nDisallow: /a.xml\nSitemap: {INDEX}\n".encode()
    assert judged(site) == {"robots-file": BASE + "a.xml"}
    assert judged(site, robots=False) == {}
    site.pages[BASE + "robots.txt"] = f"User-agent: Googlebot\nDisallow: /sitemap.xml\nSitemap: {INDEX}\n".encode()
    assert judged(site) == {"robots-file": INDEX}
    assert judged(site, crawler="bingbot") == {}


@pytest.mark.parametrize("answered", [Fetched(status=503, body=b""), FetchError("too slow")])
def test_a_robots_file_that_cannot_be_read_is_not_said_to_lack_a_line(answered: Fetched | FetchError) -> None:
    site = web(sitemap__xml=urlset(BASE + "a"), robots__txt=answered)
    (failure,) = verify(site, INDEX, now=NOW).failures
    reason = "the status is 503" if isinstance(answered, Fetched) else "too slow"
    assert failure.rule == "robots-index"
    assert failure.message.startswith(f"{BASE}robots.txt cannot be read ({reason}). Crawlers may read nothing")


def test_the_same_url_in_two_files_is_named_with_both() -> None:
    site = web(sitemap__xml=index("a.xml", "b.xml"), a__xml=urlset(BASE + "x"), b__xml=urlset(BASE + "y", BASE + "x"))
    (failure,) = verify(site, INDEX, now=NOW).failures
    assert failure.rule == "loc-duplicate"
    for part in (BASE + "x", BASE + "a.xml", BASE + "b.xml"):
        assert part in failure.message


def test_alternates_that_are_not_mutual() -> None:
    pair = {"de": BASE + "de", "en": BASE + "en"}
    both = web(
        sitemap__xml=index("a.xml", "b.xml"),
        a__xml=urlset(BASE + "de", links=pair),
        b__xml=urlset(BASE + "en", links=pair),
    )
    assert judged(both) == {}
    pair["x-default"] = BASE + "en"
    assert judged(web(sitemap__xml=urlset(BASE + "en", BASE + "de", links=pair))) == {}
    del pair["x-default"]
    one = web(sitemap__xml=index("a.xml", "b.xml"), a__xml=urlset(BASE + "de", links=pair), b__xml=urlset(BASE + "en"))
    assert judged(one) == {"alternate-return": BASE + "de"}
    twice = web(
        sitemap__xml=index("r.xml", "a.xml", "b.xml"), r__xml=urlset(BASE + "de", links=pair),
        a__xml=urlset(BASE + "de", links=pair), b__xml=urlset(BASE + "en", links=pair),
    )  # fmt: skip
    assert set(judged(twice)) == {"loc-duplicate"}
    elsewhere = web(
        sitemap__xml=index("a.xml"), a__xml=urlset(BASE + "de", links={**pair, "fr": "https://fr.example/"})
    )
    assert judged(elsewhere) == {}


# ---------------------------------------------------------------- transport


def answer(body: bytes, **headers: str) -> Fetched:
    return Fetched(status=200, body=body, headers={name.replace("_", "-"): value for name, value in headers.items()})


@pytest.mark.parametrize(
    ("name", "fetched", "expected"),
    [
        ("a.xml.gz", answer(gzip.compress(urlset(BASE + "a"))), set()),
        ("a.xml", answer(gzip.compress(urlset(BASE + "a")), content_encoding="gzip"), set()),
        ("a.xml.gz", answer(gzip.compress(urlset(BASE + "a")), content_encoding="gzip"), {"content-encoding"}),
        ("a.xml.gz", answer(gzip.compress(gzip.compress(urlset(BASE + "a"))), content_encoding="gzip"), {"content-encoding", "gzip-twice"}),
        ("a.xml.gz", answer(urlset(BASE + "a")), {"gzip"}),
        ("a.xml", answer(urlset(BASE + "a"), content_encoding="gzip"), {"gzip"}),
        ("a.xml", answer(urlset(BASE + "a"), content_encoding="br"), {"content-encoding"}),
        ("a.xml.gz", answer(gzip.compress(urlset(BASE + "a"))[:-9]), {"gzip"}),
        ("a.xml", answer(b"<html/>"), {"root"}),
    ],
)  # fmt: skip
def test_encodings(name: str, fetched: Fetched, expected: set[str]) -> None:
    site = web(sitemap__xml=index(name))
    site.pages[BASE + name] = fetched
    assert set(judged(site)) == expected


@pytest.mark.parametrize("canonical", ["/caf%c3%a9", "https://www.example.com/café"])
def test_a_canonical_header_may_be_written_in_another_way(canonical: str) -> None:
    url, sent = f"{BASE}caf%C3%A9", f"<{canonical}>; rel=canonical".encode().decode("latin-1")
    assert page_faults(url, answer(b"", link=sent), "Googlebot") == []


@pytest.mark.parametrize(
    ("query", "names_itself"),
    [("a=1&region=x", True), ("a=1&copy=x&amp;lang=de", True), ("&times;=&section=1", False), ("a=1&region=y", False)],
)
def test_a_canonical_may_have_a_raw_ampersand(query: str, names_itself: bool) -> None:
    url = f"{BASE}list?{query.replace('&amp;', '&') if names_itself else 'a=1&region=x'}"
    found = page_faults(url, answer(f"<link rel=canonical href='{BASE}list?{query}'>".encode()), "Googlebot")
    assert [check for check, _ in found] == ([] if names_itself else ["page-canonical"])


def test_the_original_profile_is_stricter() -> None:
    small = Limits(name="original", max_urls=1, max_byte_size=CURRENT.max_byte_size, max_sitemaps=1)
    site = web(sitemap__xml=index("a.xml", "b.xml"), a__xml=urlset(BASE + "a", BASE + "b"), b__xml=urlset(BASE + "c"))
    assert judged(site, limits=small) == {"limit-sitemaps": INDEX, "limit-urls": BASE + "a.xml"}
    assert BASE + "b.xml" not in site.asked, "a hostile index makes us fetch no more than its limit"


# ---------------------------------------------------------------- folders and stores


def test_a_folder_is_read_by_the_tails_of_addresses(tmp_path: Path) -> None:
    (tmp_path / "de").mkdir()
    (tmp_path / "de" / "a.xml").write_bytes(urlset(BASE + "maps/de/a"))
    (tmp_path / "sitemap.xml").write_bytes(index("maps/de/a.xml"))
    result = verify(FolderFetcher(tmp_path), "sitemap.xml", now=NOW)
    assert (result.failures, result.files, result.urls) == ((), 2, 1)


@pytest.mark.parametrize("name", ["../secret", "..%2fsecret", "a/../../secret", "/etc/passwd", "link", "%00", ""])
def test_nothing_outside_a_folder_is_read(tmp_path: Path, name: str) -> None:
    public = tmp_path / "public"
    public.mkdir()
    (tmp_path / "secret").write_bytes(b"secret")
    (public / "link").symlink_to(tmp_path / "secret")
    for address in (BASE + name, name):
        assert FolderFetcher(public).get(address).status == 404


def test_a_name_too_long_for_the_disk_is_not_there(tmp_path: Path) -> None:
    assert FolderFetcher(tmp_path).get(BASE + "x" * 1_000 + "/a.xml").status == 404


def test_links_in_a_circle_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert FolderFetcher(tmp_path).get(BASE + "a").status == 404


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_bytes(b"x" * 11)
    with pytest.raises(FetchError, match="limit 10"):
        FolderFetcher(tmp_path, max_byte_size=10).get("a.xml")


def test_a_store_is_read_by_its_base_url() -> None:
    store = MemoryStore(base_url=BASE).open()
    for key, body in {"sitemap.xml": index("a.xml"), "a.xml": urlset(BASE + "a")}.items():
        store.public.put(key, body, mode=Create(), metadata={}, content_type="application/xml")
    fetcher = StoreFetcher(store.public, base_url=BASE)
    assert verify(fetcher, INDEX, now=NOW, options=VerificationOptions(robots=False)).failures == ()
    assert fetcher.get(BASE + "b.xml").status == 404
    assert fetcher.get("https://other.example/sitemap.xml").status == 404


def test_a_file_that_the_store_denies_is_a_finding_and_the_others_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lifecycle rule of the bucket may archive a single file."""
    public = MemoryStore(base_url=BASE).open().public
    for key, body in {"sitemap.xml": index("a.xml", "b.xml"), "b.xml": urlset(BASE + "b")}.items():
        public.put(key, body, mode=Create(), metadata={}, content_type="application/xml")
    read = StoreFetcher.get
    denied = {BASE + "a.xml"}

    def get(self: StoreFetcher, url: str) -> Fetched:
        if url in denied:
            raise ConfigurationError("InvalidObjectState: the object is archived: restore it")
        return read(self, url)

    monkeypatch.setattr(StoreFetcher, "get", get)
    fetcher = StoreFetcher(public, base_url=BASE)
    options = VerificationOptions(robots=False)

    result = verify(fetcher, INDEX, now=NOW, options=options)

    assert [(f.rule, f.where, f.message) for f in result.failures if f.rule == "unreachable"] == [
        ("unreachable", BASE + "a.xml", "InvalidObjectState: the object is archived: restore it")
    ]
    assert (result.files, result.urls) == (2, 1)
    denied.add(INDEX)
    with pytest.raises(ConfigurationError, match="is archived"):
        verify(fetcher, INDEX, now=NOW, options=options)


@pytest.mark.parametrize("name", ["a//b.xml", "./b.xml", "a%5Cb.xml", "%01.xml", "x" * 1_025])
def test_an_address_that_no_store_can_hold_is_not_there(name: str) -> None:
    """The index of another program may name any address, and none makes the verification fail."""
    store = MemoryStore(base_url=BASE).open()
    store.public.put("sitemap.xml", index(name), mode=Create(), metadata={}, content_type="application/xml")
    fetcher = StoreFetcher(store.public, names={INDEX: "sitemap.xml"})
    result = verify(fetcher, INDEX, now=NOW, options=VerificationOptions(robots=False))
    assert "unreachable" in found(result)


# ---------------------------------------------------------------- listed pages


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ({}, b"<html><head><title>x</title></head></html>", set()),
        ({"x-robots-tag": "noindex"}, b"", {"page-noindex"}),
        ({"x-robots-tag": "googlebot: noindex"}, b"", {"page-noindex"}),
        ({"x-robots-tag": "otherbot: noindex, nofollow"}, b"", set()),
        ({"x-robots-tag": "otherbot: nofollow, googlebot: none"}, b"", {"page-noindex"}),
        ({"x-robots-tag": "unavailable_after: 25 Jun 2026 15:00:00 PST"}, b"", set()),
        ({"x-robots-tag": "unavailable_after: Fri, 25 Jun 2100 15:00:00 PST, noindex"}, b"", {"page-noindex"}),
        ({"x-robots-tag": "max-snippet:-1, max-image-preview:large, noindex"}, b"", {"page-noindex"}),
        ({"x-robots-tag": "otherbot: max-snippet:-1, noindex"}, b"", set()),
        ({"x-robots-tag": "otherbot: nofollow,\nnoindex"}, b"", {"page-noindex"}),
        ({"x-robots-tag": "noarchive,\notherbot: noindex,\nnofollow"}, b"", set()),
        ({}, b"<META NAME=Robots CONTENT='NOINDEX,follow'>", {"page-noindex"}),
        ({}, b"<meta name=googlebot content=none>", {"page-noindex"}),
        ({}, b"<meta name=bingbot content=noindex>", set()),
        ({}, b"<!-- <meta name=robots content=noindex> -->", set()),
        ({}, b"<link rel=canonical href='https://www.example.com/p'>", set()),
        ({}, b"<link rel=canonical href='/p#x'>", set()),
        ({}, b"<base href='/b/'><base href='/x/'><link rel=canonical href='../p'>", set()),
        ({}, b"<link rel=canonical href='/%70'>", set()),
        ({}, b"<link rel='canonical nofollow' href='/q'>", {"page-canonical"}),
        ({"link": "<https://www.example.com/q>; rel=\"canonical\""}, b"", {"page-canonical"}),
        ({"link": "<https://www.example.com/q>; rel=next, </p>; rel=canonical"}, b"", set()),
        ({"content-type": "application/pdf"}, b"<link rel=canonical href='/q'>", set()),
        ({"content-type": "text/html; charset=nonsense"}, b"<meta name=robots content=noindex>", {"page-noindex"}),
        ({"content-encoding": "gzip"}, gzip.compress(b"<meta name=robots content=noindex>"), {"page-noindex"}),
        ({"content-encoding": "gzip"}, b"no gzip", set()),
        ({}, b"<body>x</body></html><meta name=robots content=noindex>", {"page-noindex"}),
        ({}, b"<div>" * 1_000 + b"<meta name=robots content=noindex>", {"page-noindex"}),
        ({}, b"<p \0 class='\0'><meta name=robots content=noindex>", {"page-noindex"}),
        ({}, b"<title><meta name=robots content=noindex></title>", set()),
        ({"content-type": "text/html; charset=punycode"}, b"\xff<meta name=robots content=noindex>", {"page-noindex"}),
        ({}, b"", set()),
        ({}, b"<![", set()),
        ({}, b"\xff\xfe<link rel=canonical>", set()),
    ],
)  # fmt: skip
def test_what_a_page_says_of_itself(headers: dict[str, str], body: bytes, expected: set[str]) -> None:
    page = Fetched(status=200, body=body, headers=headers, chain=(BASE + "p",))
    assert {check for check, _ in page_faults(BASE + "p", page, "Googlebot")} == expected


@pytest.mark.parametrize(
    ("content_type", "meta", "expected"),
    [
        ("text/html", b"<meta charset=windows-1252>", set()),
        ("text/html", b'<meta http-equiv=Content-Type content="text/html; charset=windows-1252">', set()),
        ("text/html", b"<meta charset='utf-16'>", {"page-canonical"}),
        ("text/html", b" " * 1_024 + b"<meta charset=windows-1252>", {"page-canonical"}),
        ("text/html; charset=utf-8", b"<meta charset=windows-1252>", {"page-canonical"}),
    ],
)
def test_a_page_without_a_charset_in_its_header_is_read_as_its_start_says(
    content_type: str, meta: bytes, expected: set[str]
) -> None:
    url, body = f"{BASE}caf%C3%A9", meta + b"<link rel=canonical href='/caf\xe9'>"
    page = Fetched(status=200, body=body, headers={"content-type": content_type}, chain=(url,))
    assert {check for check, _ in page_faults(url, page, "Googlebot")} == expected


def test_pages_are_sampled_and_judged() -> None:
    site = web(
        sitemap__xml=urlset(*(BASE + name for name in ("ok", "gone", "moved", "hidden", "private", "slow"))),
        robots__txt=f"Sitemap: {INDEX}\nUser-agent: *\nDisallow: /private".encode(),
        ok=b"<html/>",
        private=b"<html/>",
        hidden=b"<meta name=robots content=noindex>",
        moved=Fetched(status=200, body=b"", chain=(BASE + "moved", BASE + "ok")),
        slow=FetchError("too slow"),
    )
    result = verify(site, INDEX, now=NOW, options=VerificationOptions(sample=10))
    assert result.sampled == 6
    assert {(failure.rule, failure.where) for failure in result.failures} == {
        ("page-status", BASE + "gone"), ("page-status", BASE + "slow"), ("page-redirect", BASE + "moved"),
        ("page-noindex", BASE + "hidden"), ("page-robots", BASE + "private"),
    }  # fmt: skip
    assert not result.valid


def test_a_sample_is_drawn_alike_by_its_seed_and_from_everywhere() -> None:
    locs = [f"{BASE}{n}" for n in range(300)]
    site = web(sitemap__xml=index("a.xml", "b.xml"), a__xml=urlset(*locs[:150]), b__xml=urlset(*locs[150:]))

    def drawn(seed: int) -> list[str]:
        site.asked.clear()
        verify(site, INDEX, now=NOW, options=VerificationOptions(sample=20, seed=seed))
        return sorted(set(site.asked) & set(locs))

    first = drawn(1)
    assert len(first) == 20
    assert drawn(1) == first
    assert drawn(2) != first
    assert {loc in locs[:150] for loc in first} == {True, False}


def test_pages_can_have_a_reader_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "sitemap.xml").write_bytes(urlset(BASE + "a"))
    pages = web(a=b"<html/>")
    result = verify(FolderFetcher(tmp_path), "sitemap.xml", now=NOW, options=VerificationOptions(sample=1), pages=pages)
    assert result.failures == ()
    robots, page, probe = pages.asked
    assert (robots, page) == (BASE + "robots.txt", BASE + "a")
    assert re.fullmatch(BASE + r"9\d{8}-a", probe)  # does the site answer 404 for a page that cannot exist?


MISSING = b"<title>Shop</title><script>var n = %d</script><p>Sorry, %s is not here"


@dataclass
class SoftSite:
    """A site that answers every missing page with status 200, a text, and the name that was requested."""

    pages: dict[str, bytes]
    requests: list[str] = field(default_factory=list)

    def get(self, url: str) -> Fetched:
        self.requests.append(url)
        if url.endswith("robots.txt"):
            return Fetched(status=404, body=b"", chain=(url,))
        missing = MISSING % (len(self.requests), url.rpartition("/")[2].replace("-", " ").encode())
        return Fetched(status=200, body=self.pages.get(url, missing), chain=(url,))


def soft_faults(site: SoftSite, *urls: str) -> list[str]:
    judge = PageJudge(fetcher=site, robots=RobotsCache(site))
    return [check for url in urls for check, _ in judge.judge(url).faults]


def test_a_missing_page_of_status_200_is_a_soft_404() -> None:
    site = SoftSite({BASE: b"<h1>Home", BASE + "p/red-hat-7": b"<h1>Red hat"})
    assert soft_faults(site, BASE + "p/red-hat-7") == []
    assert soft_faults(site, BASE + "p/blue-hat-8", BASE + "p/green-hat-9") == ["page-soft-404"] * 2
    assert (
        len([url for url in site.requests if re.fullmatch(r".*/p/[a-z]+-hat-9\d{8}", url)]) == 2
    )  # one for each crawler


def test_a_site_that_only_scripts_fill_has_no_soft_404() -> None:
    shell = b"<div id=root></div><script src=/app.js></script>"
    site = SoftSite({})
    site.get = lambda url: Fetched(status=200, body=b"" if url.endswith(".txt") else shell, chain=(url,))  # type: ignore[method-assign]
    assert soft_faults(site, BASE + "p/1", BASE + "p/2") == []


def test_a_site_that_answers_with_its_home_page_is_told_by_another_page() -> None:
    home = b"<h1>Welcome"
    site = SoftSite({BASE + "p/1": b"<h1>Hat"})
    known = site.pages
    site.get = lambda url: Fetched(status=200, body=b"" if url.endswith(".txt") else known.get(url, home), chain=(url,))  # type: ignore[method-assign]
    assert soft_faults(site, BASE + "p/2") == []
    assert soft_faults(site, BASE + "p/1", BASE + "p/2") == ["page-soft-404"]


@pytest.mark.parametrize(
    ("url", "form"),
    [
        ("p/7", r"p/9\d{8}"),
        ("p/hat-7/", r"p/hat-9\d{8}/"),
        ("p?id=7", r"p\?id=9\d{8}"),
        ("p/%C3%A4?q=1", r"p/%C3%A4\?q=9\d{8}"),
        ("about.html", r"9\d{8}-about\.html"),
        ("", r"9\d{8}-"),
        ("?id=7", r"\?id=9\d{8}"),
    ],
)
def test_a_url_that_cannot_exist_has_the_form_of_one_that_does(url: str, form: str) -> None:
    assert re.fullmatch(re.escape(BASE) + form, impossible_url(BASE + url))


# ---------------------------------------------------------------- over HTTP


def test_over_http_with_redirects_and_compression() -> None:
    with serving() as site:
        base = site.base + "/"
        body = gzip.compress(urlset(base + "a", base + "b"))
        site.pages["/robots.txt"] = Page(f"Sitemap: {base}sitemap.xml".encode())
        site.pages["/sitemap.xml"] = Page(index("a.xml.gz", base=base))
        site.pages["/a.xml.gz"] = Page(body, headers={"Content-Type": "application/gzip"})
        site.pages["/a"] = Page(b"<html/>", headers={"Content-Type": "text/html"})
        site.pages["/b"] = Page(b"", 301, {"Location": "/a"})
        client = HttpClient(rules=AccessRules(allow_http=True, allow_private=True), wait_s=10.0)
        result = verify(client, base + "sitemap.xml", now=NOW, options=VerificationOptions(sample=2))
        assert {(failure.rule, failure.where) for failure in result.failures} == {("page-redirect", base + "b")}
        closed = verify(HttpClient(rules=AccessRules(allow_http=True)), base + "sitemap.xml", now=NOW)
        assert found(closed) == {"unreachable": base + "sitemap.xml"}
        assert closed.urls == 0


# ---------------------------------------------------------------- parts


def test_duplicates_are_found_exactly() -> None:
    seen = validator.Duplicates()
    for file in range(3):
        seen.add(file, [f"https://example.com/{n}" for n in range(file * 900, file * 900 + 1_000)])
    assert sorted(files for _, files in seen.shared()) == [(0, 1)] * 100 + [(1, 2)] * 100
    assert seen.known(["https://example.com/5", "https://example.com/none"]) == {"https://example.com/5"}


def test_reciprocity_says_nothing_when_it_cannot_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validator, "MAX_OPEN", 1)
    links = validator.Reciprocity()
    links.add("a", ["a", "b"])
    assert links.one_way() == [("a", "b")]
    links.add("c", ["d"])
    assert not links.complete
    assert links.one_way() == []


def test_robots_files_are_fetched_once_and_missing_ones_allow() -> None:
    site = Web({"https://b.example/robots.txt": FetchError("no answer")})
    files = RobotsCache(site)
    for _ in range(2):
        assert files.robots_of("https://a.example/x").allows("https://a.example/x", "bot")
        assert files.robots_of("https://b.example/x").allows("https://b.example/x", "bot")
    assert site.asked == ["https://a.example/robots.txt", "https://b.example/robots.txt"]


LOCS = st.sampled_from(
    [
        "https://[", "https://[::1", "https://[::1]:x/", "https://www.example.com:99999/a", "HTTPS://WWW.EXAMPLE.COM/ä/a.xml",
        "//www.example.com/a", "/a", "a", "javascript:alert(1)", "https://", "https:///", "https://www.example.com", "http://x.y/#",
        "https://user:pw@www.example.com/a", "https://www.example.com/../../a", "https://www.example.com/%00", "https://bücher.example/",
        "https://www.example.com/\u202e", "ftp://www.example.com/a", "https://www.example.com/sitemap.xml", "file:///etc/passwd",
    ]
)  # fmt: skip
PIECES = st.lists(LOCS, max_size=5).map(lambda locs: "".join(f"<sitemap><loc>{loc}</loc></sitemap>" for loc in locs))


@given(PIECES, st.lists(LOCS, max_size=5), LOCS, st.binary(max_size=40))
def test_whatever_is_published_verifying_only_finds(
    children: str, locs: list[str], target: str, rubbish: bytes
) -> None:
    """Over a client that is allowed to reach nothing, so that every loc goes through its refusals."""
    listed = f'<sitemapindex xmlns="{NAMESPACE}">{children}<sitemap><loc>{BASE}a.xml</loc></sitemap></sitemapindex>'
    page = Fetched(
        status=200, body=f"<link rel=canonical href='{target}'>".encode() + rubbish, chain=(target,),
        headers={"link": f"<{target}>; rel=canonical", "content-encoding": "gzip" if rubbish else ""},
    )  # fmt: skip
    site = Web({INDEX: listed.encode(), BASE + "a.xml": urlset(*locs), BASE + "robots.txt": rubbish})
    closed = HttpClient(rules=AccessRules(hosts=frozenset({"nobody.invalid"})))

    @dataclass
    class Mixed:
        def get(self, url: str) -> Fetched:
            if url in site.pages:
                return site.get(url)
            page_faults(url, page, "Googlebot")
            return closed.get(url)

    result = verify(Mixed(), INDEX, now=NOW, options=VerificationOptions(sample=3))
    found(result)
    json.dumps(result.to_dict())
    found(verify(Mixed(), target, now=NOW))
