"""Checks of listed pages: the faults that keep a page out of a search engine's index."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Final
from urllib.parse import urldefrag, urljoin

from airflow_sitemaps.errors import InvalidSitemapError, StoreError
from airflow_sitemaps.http.client import FetchError
from airflow_sitemaps.protocol import gzip
from airflow_sitemaps.protocol.loc import normalise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airflow_sitemaps.http.client import Fetched
    from airflow_sitemaps.protocol.validation.findings import Findings
    from airflow_sitemaps.verification.fetchers import Fetcher
    from airflow_sitemaps.verification.robots_cache import RobotsCache

MAX_HTML_BYTE_SIZE: Final = 512 * 1024
"""Number of bytes of a page that are parsed. The relevant elements are in its head."""

MAX_PAGE_BYTE_SIZE: Final = 16 << 20
"""Largest size in bytes of a decompressed page."""

_CANONICAL_HEADER: Final = re.compile(r"""<([^<>]*)>\s*;[^,<]*\brel\s*=\s*["']?canonical\b""", re.IGNORECASE)
_CHARSET: Final = re.compile(r"charset=[\"']?([A-Za-z0-9_-]{1,40})", re.IGNORECASE)


def check_pages(
    fetcher: Fetcher,
    urls: Iterable[str],
    robots: RobotsCache,
    crawler: str,
    findings_of: Callable[[str], Findings],
) -> None:
    """Fetch pages and record the faults that keep them out of an index.

    Args:
        crawler: Product token that robots.txt and robots directives are evaluated for.
        findings_of: Returns the findings of an address. Faults are added to them.
    """
    for url in urls:
        if not robots.robots_of(url).allows(url, crawler):
            findings_of(url).note("page-robots", f"{robots.address(url)} disallows the page for {crawler}")
        try:
            page = fetcher.get(url)
        except (FetchError, StoreError) as error:
            findings_of(url).note("page-status", str(error))
            continue
        for check, message in page_faults(url, page, crawler):
            findings_of(url).note(check, message)


def page_faults(url: str, page: Fetched, crawler: str = "Googlebot") -> list[tuple[str, str]]:
    """Return the checks that a page fails, each with a message. Pure."""
    faults: list[tuple[str, str]] = []
    if len(page.chain) > 1:
        faults.append(("page-redirect", " → ".join(page.chain)))
    if page.status != 200:
        faults.append(("page-status", f"the status is {page.status}, not 200"))
        return faults
    head = _Head()
    if "html" in page.headers.get("content-type", "text/html").lower():
        head.read(_html(page))
    directives = {*_directives(page.headers.get("x-robots-tag", ""), crawler), *head.directives(crawler)}
    if directives & {"noindex", "none"}:
        faults.append(("page-noindex", f"the page says {', '.join(sorted(directives & {'noindex', 'none'}))}"))
    in_header = _CANONICAL_HEADER.search(page.headers.get("link", ""))
    canonical = in_header[1] if in_header else head.canonical
    named = _absolute(page.address or url, canonical) if canonical else None
    if named not in (_normal(url), None):
        faults.append(("page-canonical", f"the page names {named} as canonical"))
    return faults


def _absolute(page: str, canonical: str) -> str | None:
    try:
        return _normal(urljoin(page, canonical))
    except ValueError:
        return None


def _normal(url: str) -> str | None:
    return normalise(urldefrag(url)[0], origin="https://unknown.invalid").loc


def _directives(header: str, crawler: str) -> set[str]:
    """Return the directives of an ``X-Robots-Tag`` header that apply to a crawler.

    A directive with a name, such as ``googlebot: noindex``, applies to that crawler only, and so do the directives
    that follow it.
    """
    directives: set[str] = set()
    applies = True
    for part in header.lower().split(","):
        name, colon, rest = part.partition(":")
        if colon and name.strip() != "unavailable_after":
            applies = name.strip() == crawler.lower()
            part = rest  # noqa: PLW2901 - the directive without the name
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
    """A parser of the robots and canonical elements of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.canonical = ""
        self._robots: list[tuple[str, str]] = []

    def read(self, html: str) -> None:
        """Parse a page. Content that is not HTML is ignored."""
        try:
            self.feed(html)
        except (AssertionError, ValueError):  # raised by the parser on broken declarations
            return

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record an element. The parser calls this for each start tag."""
        attributes = {name: value or "" for name, value in attrs}
        if tag == "meta":
            self._robots.append((attributes.get("name", "").lower(), attributes.get("content", "").lower()))
        elif tag == "link" and "canonical" in attributes.get("rel", "").lower().split() and not self.canonical:
            self.canonical = attributes.get("href", "").strip()

    def directives(self, crawler: str) -> set[str]:
        """Return the directives of the meta elements that apply to all crawlers or to the given one."""
        names = ("robots", crawler.lower())
        return {part.strip() for name, content in self._robots if name in names for part in content.split(",")}
