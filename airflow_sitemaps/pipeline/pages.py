"""Listed pages, fetched and looked at: the faults by which a search engine drops a page that a sitemap names."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Final
from urllib.parse import urldefrag, urljoin

from airflow_sitemaps.errors import InvalidSitemapError, StoreError
from airflow_sitemaps.pipeline.fetching import FetchError
from airflow_sitemaps.protocol import gzip
from airflow_sitemaps.protocol.loc import normalise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airflow_sitemaps.pipeline.fetching import Fetched, Fetcher
    from airflow_sitemaps.pipeline.robots_files import RobotsFiles
    from airflow_sitemaps.protocol.findings import Findings

MAX_HTML_BYTE_SIZE: Final = 512 * 1024
"""Bytes of a page that are looked at: what counts stands in its head."""

MAX_PAGE_BYTE_SIZE: Final = 16 << 20
"""Bytes of a compressed page once unzipped."""

_CANONICAL_HEADER: Final = re.compile(r"""<([^<>]*)>\s*;[^,<]*\brel\s*=\s*["']?canonical\b""", re.IGNORECASE)
_CHARSET: Final = re.compile(r"charset=[\"']?([A-Za-z0-9_-]{1,40})", re.IGNORECASE)


def judge_pages(
    fetch: Fetcher,
    urls: Iterable[str],
    robots: RobotsFiles,
    crawler: str,
    findings_of: Callable[[str], Findings],
) -> None:
    """Fetch each URL and note what keeps it out of an index, under its own address."""
    for url in urls:
        if not robots.of(url).allows(url, crawler):
            findings_of(url).note("page-robots", f"{robots.address(url)} disallows it for {crawler}")
        try:
            page = fetch.get(url)
        except (FetchError, StoreError) as error:
            findings_of(url).note("page-status", str(error))
            continue
        if faults := page_faults(url, page, crawler):
            for check, words in faults:
                findings_of(url).note(check, words)


def page_faults(url: str, page: Fetched, crawler: str = "Googlebot") -> list[tuple[str, str]]:
    """The checks that one answer fails, each with words. Pure."""
    faults: list[tuple[str, str]] = []
    if len(page.chain) > 1:
        faults.append(("page-redirect", " → ".join(page.chain)))
    if page.status != 200:
        faults.append(("page-status", f"the answer is {page.status}, not 200"))
        return faults
    head = _Head()
    if "html" in page.headers.get("content-type", "text/html").lower():
        head.read(_html(page))
    directives = {*_directives(page.headers.get("x-robots-tag", ""), crawler), *head.directives(crawler)}
    if directives & {"noindex", "none"}:
        faults.append(("page-noindex", f"says {', '.join(sorted(directives & {'noindex', 'none'}))}"))
    in_header = _CANONICAL_HEADER.search(page.headers.get("link", ""))
    canonical = in_header[1] if in_header else head.canonical
    named = _absolute(page.address or url, canonical) if canonical else None
    if named not in (_normal(url), None):
        faults.append(("page-canonical", f"names {named} as canonical"))
    return faults


def _absolute(page: str, canonical: str) -> str | None:
    try:
        return _normal(urljoin(page, canonical))
    except ValueError:
        return None


def _normal(url: str) -> str | None:
    return normalise(urldefrag(url)[0], origin="https://unknown.invalid").loc


def _directives(header: str, crawler: str) -> set[str]:
    """The directives of an X-Robots-Tag that hold for a crawler: ``noindex``, or ``googlebot: noindex``.

    A part with a name holds for that crawler alone, and so do the parts that follow it.
    """
    directives: set[str] = set()
    applies = True
    for part in header.lower().split(","):
        name, colon, rest = part.partition(":")
        if colon and name.strip() != "unavailable_after":
            applies = name.strip() == crawler.lower()
            part = rest  # noqa: PLW2901 - what is left of it
        if applies:
            directives.add(part.strip())
    return directives


def _html(page: Fetched) -> str:
    body = page.body
    if page.headers.get("content-encoding", "").strip().lower() in ("gzip", "x-gzip"):
        try:
            body = gzip.decompress(body, max_byte_size=MAX_PAGE_BYTE_SIZE)
        except InvalidSitemapError:
            return ""
    declared = _CHARSET.search(page.headers.get("content-type", ""))
    try:
        return body[:MAX_HTML_BYTE_SIZE].decode(declared[1] if declared else "utf-8", "replace")
    except LookupError:
        return body[:MAX_HTML_BYTE_SIZE].decode("utf-8", "replace")


class _Head(HTMLParser):
    """The robots and canonical elements of a page's head."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.canonical = ""
        self._robots: list[tuple[str, str]] = []

    def read(self, html: str) -> None:
        """Look at a page; what is no HTML is passed over."""
        try:
            self.feed(html)
        except (AssertionError, ValueError):  # the parser's own guards on broken declarations
            return

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called by the parser for each element."""
        given = {name: value or "" for name, value in attrs}
        if tag == "meta":
            self._robots.append((given.get("name", "").lower(), given.get("content", "").lower()))
        elif tag == "link" and "canonical" in given.get("rel", "").lower().split() and not self.canonical:
            self.canonical = given.get("href", "").strip()

    def directives(self, crawler: str) -> set[str]:
        """What the meta elements say to everybody and to one crawler."""
        names = ("robots", crawler.lower())
        return {part.strip() for name, content in self._robots if name in names for part in content.split(",")}
