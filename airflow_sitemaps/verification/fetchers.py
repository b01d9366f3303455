"""Readers of published files, of robots.txt and of listed pages."""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from airflow_sitemaps.errors import InvalidSitemapError, StoreError
from airflow_sitemaps.http import Fetched, FetchError
from airflow_sitemaps.protocol import gzip, robots
from airflow_sitemaps.protocol.loc import normalise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from airflow_sitemaps.ports import ObjectStore
    from airflow_sitemaps.protocol.rules import Findings


class Fetcher(Protocol):
    """Reads the content of an address."""

    def get(self, url: str) -> Fetched:
        """Return the response with any status, after following redirects, or raise FetchError or StoreError."""
        ...


NOT_FOUND: Final = Fetched(status=404, body=b"")


@dataclass(frozen=True, slots=True)
class FolderFetcher:
    """Reads public addresses from a folder. It never reads outside the folder, not even through symbolic links.

    ``base_url`` None tries every suffix of a path: ``/a/b/c.xml`` as ``a/b/c.xml``, ``b/c.xml`` and ``c.xml``.
    """

    folder: Path
    base_url: str | None = None
    max_byte_size: int = 256 << 20

    def get(self, url: str) -> Fetched:
        """Return the file, or status 404; raise FetchError if it is unreadable, or larger than ``max_byte_size``."""
        root = self.folder.resolve()
        for key in _candidate_keys(url, self.base_url):
            try:
                path = (root / key).resolve()
                if not path.is_relative_to(root) or not path.is_file():
                    continue
                byte_size = path.stat().st_size
                if byte_size > self.max_byte_size:
                    raise FetchError(f"{path}: {byte_size:,} bytes (limit {self.max_byte_size:,})")
                return Fetched(status=200, body=path.read_bytes(), chain=(url,))
            except RuntimeError:  # a loop of symbolic links, before Python 3.13
                continue
            except OSError as error:
                if error.errno == errno.ENAMETOOLONG:
                    continue
                raise FetchError(f"{key[:200]!r} in {root}: {error.strerror or error}") from error
        return NOT_FOUND


@dataclass(frozen=True, slots=True)
class StoreFetcher:
    """Reads public addresses from an object store. ``base_url`` None tries every suffix of an address's path.

    ``names`` has the keys of files that are served at another address, by that address.
    """

    objects: ObjectStore
    base_url: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)

    def get(self, url: str) -> Fetched:
        """Return the object, or status 404. Raises StoreError."""
        keys = (self.names[url],) if url in self.names else _candidate_keys(url, self.base_url)
        for key in keys:
            stored = self.objects.get(key)
            if stored is not None:
                headers = {name: value for name, value in stored.info.metadata.items() if name.startswith("content-")}
                return Fetched(status=200, body=stored.body, headers=headers, chain=(url,))
        return NOT_FOUND


def _candidate_keys(url: str, base_url: str | None) -> list[str]:
    """Return the keys under which an address may be stored. None of them leads out of the area."""
    if base_url is not None and "://" in url:
        if not url.startswith(base_url):
            return []
        candidates = [unquote(url[len(base_url) :].partition("?")[0])]
    elif "://" in url:
        try:
            parts = unquote(urlsplit(url).path).lstrip("/").split("/")
        except ValueError:
            return []
        candidates = ["/".join(parts[start:]) for start in range(len(parts))]
    else:
        candidates = [url]
    return [key for key in candidates if key and ".." not in key and "\x00" not in key and not key.startswith("/")]


MAX_HOSTS: Final = 1_000
"""Number of hosts whose robots.txt is fetched. Pages of further hosts count as allowed."""


class RobotsCache:
    """The robots.txt of each host, fetched once.

    A file that is missing allows everything (RFC 9309, 2.3.1.3). So does one that cannot be read: a crawler may assume the
    opposite (2.3.1.4), but verification reports only faults that are certain.
    """

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        self._files: dict[str, robots.Robots] = {}

    def address(self, url: str) -> str:
        """Return the address of the robots.txt that applies to a URL; empty when the URL has no host."""
        try:
            parts = urlsplit(url)
        except ValueError:
            return ""
        return f"{parts.scheme}://{parts.netloc}/robots.txt" if parts.netloc else ""

    def robots_of(self, url: str) -> robots.Robots:
        """Return the rules that apply to a URL."""
        address = self.address(url)
        if not address:
            return robots.Robots()
        if address not in self._files:
            if len(self._files) >= MAX_HOSTS:
                return robots.Robots()
            self._files[address] = self._read(address)
        return self._files[address]

    def names(self, sitemap_url: str) -> bool:
        """Return whether robots.txt has a ``Sitemap`` line with this address."""
        return sitemap_url in self.robots_of(sitemap_url).sitemaps

    def _read(self, address: str) -> robots.Robots:
        try:
            response = self._fetcher.get(address)
        except (FetchError, StoreError):
            response = NOT_FOUND
        body = response.body[: robots.MAX_BYTE_SIZE] if response.status == 200 else b""
        return robots.read(body.decode("utf-8", "replace"))


MAX_HTML_BYTE_SIZE: Final = 512 * 1024
"""Number of bytes of a page that are parsed. The relevant elements are in its head."""

MAX_PAGE_BYTE_SIZE: Final = 16 << 20

_CANONICAL_HEADER: Final = re.compile(r"""<([^<>]*)>\s*;[^,<]*\brel\s*=\s*["']?canonical\b""", re.IGNORECASE)
_CHARSET: Final = re.compile(r"charset=[\"']?([A-Za-z0-9_-]{1,40})", re.IGNORECASE)


def check_pages(
    fetcher: Fetcher,
    urls: Iterable[str],
    robots: RobotsCache,
    crawler: str,
    findings_of: Callable[[str], Findings],
) -> None:
    """Fetch pages and add the faults that keep them out of an index of this crawler to the findings of their address."""
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
    named = _normal(canonical, page.address or url) if canonical else None
    if named not in (_normal(url), None):
        faults.append(("page-canonical", f"the page names {named} as canonical"))
    return faults


def _normal(url: str, page: str = "") -> str | None:
    try:
        return normalise(urldefrag(urljoin(page, url))[0], origin="https://unknown.invalid").loc
    except ValueError:
        return None


def _directives(header: str, crawler: str) -> set[str]:
    """Return the directives of an ``X-Robots-Tag`` header that apply to a crawler.

    A name, as in ``googlebot: noindex``, restricts its directive and those that follow to that crawler.
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
