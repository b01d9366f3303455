"""The judgement of pages as a crawler sees them: robots.txt, and whether a listed page can be indexed.

``verify`` judges the pages that it samples by it, and the canary of a commit the pages that are new.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from airflow_sitemaps.errors import InvalidSitemapError, StoreError
from airflow_sitemaps.http import Fetched, FetchError, RedirectError
from airflow_sitemaps.protocol import gzip, robots
from airflow_sitemaps.protocol.loc import normalise


class Fetcher(Protocol):
    """Reads the content of an address."""

    def get(self, url: str) -> Fetched:
        """Return the response with any status, after following redirects, or raise FetchError or StoreError."""
        ...


class Site(Protocol):
    """Says how the pages of a website are requested."""

    def fetcher(self, address: str) -> Fetcher:
        """Return a reader that gives credentials, if it has any, to the host of this address only."""
        ...


@dataclass(slots=True)
class Paced:
    """A reader that waits before each request, so that a site gets at most ``per_second`` of them in a second."""

    to: Fetcher
    per_second: float
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    _next_s: float = 0.0

    def get(self, url: str) -> Fetched:
        """Return the response, as ``Fetcher.get`` does."""
        now = self.monotonic()
        if self._next_s > now:
            self.sleep(self._next_s - now)
        self._next_s = max(now, self._next_s) + 1 / self.per_second
        return self.to.get(url)


NOT_FOUND: Final = Fetched(status=404, body=b"")

NOT_ANSWERS: Final = (401, 403, 407, 408, 425, 429)
"""Statuses below 500 that refuse a request, and say nothing of the page."""

MAX_HOSTS: Final = 1_000
"""Number of hosts whose robots.txt is fetched. Pages of further hosts count as allowed."""


class RobotsCache:
    """The robots.txt of each host, fetched once.

    A file that is missing allows everything (RFC 9309, 2.3.1.3). So does one that cannot be read: a crawler may assume the
    opposite (2.3.1.4), but verification reports only faults that are certain. ``unread`` says why, by the file's address.
    """

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        self._files: dict[str, robots.Robots] = {}
        self.unread: dict[str, str] = {}

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
        except (FetchError, StoreError) as error:
            response, self.unread[address] = NOT_FOUND, str(error)
        if response.status == 429 or response.status >= 500:
            self.unread[address] = f"the status is {response.status}"
        return robots.read(robots_text(response))


def robots_text(response: Fetched) -> str:
    """Return the text of a robots.txt; empty if there is none."""
    body = (_decoded(response) if response.status == 200 else None) or b""
    return body[: robots.MAX_BYTE_SIZE].decode("utf-8", "replace")


MAX_HTML_BYTE_SIZE: Final = 512 * 1024
"""Number of bytes of a page that are parsed. The relevant elements are in its head."""

MAX_PAGE_BYTE_SIZE: Final = 16 << 20
PAGE_WAIT_S: Final = 10.0

MAX_PROBES: Final = 20
"""Number of hosts and folders whose answer for a URL that cannot exist is requested."""

_CANONICAL_HEADER: Final = re.compile(r"""<([^<>]*)>\s*;[^,<]*\brel\s*=\s*["']?canonical\b""", re.IGNORECASE)
_ESCAPE: Final = re.compile("%[0-9A-Fa-f]{2}")
_UNRESERVED: Final = re.compile("[A-Za-z0-9._~-]")
_CRAWLER: Final = re.compile(r"[a-z*][\w-]*")
_VALUED: Final = ("max-snippet", "max-image-preview", "max-video-preview", "unavailable_after")
"""Directives of ``X-Robots-Tag`` that have a value after a colon, as the name of a crawler has."""
_NUMBER: Final = re.compile(r"(?<!%)(?<!%[0-9A-Fa-f])\d+")
_WORD: Final = re.compile(r"\w+")
_ENDS: Final = re.compile(r"\0|</(?:html|body)\s*>", re.IGNORECASE)
"""Where libxml2 stops, and crawlers do not."""
_FOREIGN_ENCODING: Final = re.compile(r"\b(?:br|zstd|deflate|compress)\b|,")
_CHARSET: Final = re.compile(r"charset=[\"']?([A-Za-z0-9_-]{1,40})", re.IGNORECASE)
_META_CHARSET: Final = re.compile(r"(?ai)<meta\b[^>]*\bcharset\s*=[\"'\s]*(?!utf-16)([\w-]{1,40})")
"""The encoding that a page names in its first 1,024 bytes; one of UTF-16 cannot be true there (HTML, "prescan a byte stream")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageJudgement:
    """The checks that a page fails, each with a message, and whether the site answered for the page at all."""

    faults: tuple[tuple[str, str], ...] = ()
    is_answered: bool = True


@dataclass(slots=True, kw_only=True)
class PageJudge:
    """A judge of listed pages. Mutable: it keeps what the site answers for URLs that cannot exist.

    If the home page of a host equals that answer, as on a site that only scripts fill, a page counts as a soft 404 only
    after another one has differed.

    Attributes:
        product: Product token of the search engine's crawler, for robots.txt and the directives of pages.
        ignore: Checks that stop no other: pages that robots.txt disallows are requested with ``page-robots``. Default: none.
    """

    fetcher: Fetcher
    robots: RobotsCache
    product: str = "Googlebot"
    ignore: Sequence[str] = ()
    _missing: dict[tuple[str, str], _MissingPage | None] = field(default_factory=dict)

    def judge(self, url: str) -> PageJudgement:
        """Fetch a page that robots.txt allows, and return the faults that keep it out of the search engine's index."""
        if "page-robots" not in self.ignore and not self.robots.robots_of(url).allows(url, self.product):
            message = f"{self.robots.address(url)} disallows the page for {self.product}"
            return PageJudgement(faults=(("page-robots", message),))
        try:
            page = self.fetcher.get(url)
        except RedirectError as error:
            return PageJudgement(faults=(("page-redirect", str(error)),))
        except (FetchError, StoreError) as error:
            return PageJudgement(faults=(("page-status", str(error)),), is_answered=False)
        faults = page_faults(url, page, self.product)
        if not faults and _is_html(page) and _decoded(page) is None:
            said = page.headers.get("content-encoding", "")
            message = f"its content cannot be decoded, so it is not judged: damaged gzip, or encoding {said!r}"
            return PageJudgement(faults=(("page-status", message),), is_answered=False)
        if all(check in self.ignore for check, _ in faults) and self._is_soft_404(url, page):
            faults.append(("page-soft-404", "the page equals the answer for a URL that cannot exist"))
        return PageJudgement(faults=tuple(faults), is_answered=page.status not in NOT_ANSWERS and page.status < 500)

    def _is_soft_404(self, url: str, page: Fetched) -> bool:
        missing = self._missing_page(url)
        if missing is None:
            return False
        if _words(url, page) != missing.words:
            missing.differs = True
        elif missing.differs is None:
            home = self._success(urljoin(url, "/"))
            missing.differs = home is not None and _words(urljoin(url, "/"), home) != missing.words
        return bool(missing.differs) and _words(url, page) == missing.words

    def _missing_page(self, url: str) -> _MissingPage | None:
        """Return the page that stands for missing ones below the same first folder; None if their status says so."""
        parts = urlsplit(url)
        key = parts.netloc, parts.path.split("/")[1] if parts.path.count("/") > 1 else ""
        if key not in self._missing and len(self._missing) < MAX_PROBES:
            probe = impossible_url(url)
            page = self._success(probe)
            self._missing[key] = None if page is None else _MissingPage(words=_words(probe, page))
        return self._missing.get(key)

    def _success(self, url: str) -> Fetched | None:
        """Return a page of status 200 that does not redirect, or None."""
        try:
            page = self.fetcher.get(url)
        except (FetchError, StoreError):
            return None
        return page if page.status == 200 and len(page.chain) < 2 else None


@dataclass(slots=True, kw_only=True)
class _MissingPage:
    """A page of status 200 for a URL that cannot exist. ``differs``: whether a page that exists differs from it, if known."""

    words: tuple[str | bytes, ...]
    differs: bool | None = None


def impossible_url(url: str) -> str:
    """Return a URL of the same form that no site lists: with other numbers, or another name where there is no number."""
    parts = urlsplit(url)
    folder, _, name = parts.path.rstrip("/").rpartition("/")
    tail = name + "/" * (name != "" and parts.path.endswith("/")) + ("?" + parts.query if parts.query else "")
    number = str(900_000_000 + secrets.randbelow(100_000_000))  # fits into the integers of databases
    other = _NUMBER.sub(number, tail)
    return f"{parts.scheme}://{parts.netloc}{folder}/{other if other != tail else f'{number}-{tail}'}"


def _words(url: str, page: Fetched) -> tuple[str | bytes, ...]:
    """Return the visible words of a page without those of its URL, which the text of a missing page may repeat."""
    if not _is_html(page):
        return (page.body,)
    own = set(_WORD.findall(unquote(url).lower()))
    return tuple(word for word in _WORD.findall(_Head.of(page).text.lower()) if word not in own)


def page_faults(url: str, page: Fetched, crawler: str) -> list[tuple[str, str]]:
    """Return the checks that a page fails by its own content, each with a message. Pure."""
    faults: list[tuple[str, str]] = []
    if len(page.chain) > 1:
        faults.append(("page-redirect", " → ".join(page.chain)))
    if page.status != 200:
        faults.append(("page-status", f"the status is {page.status}, not 200"))
        return faults
    head = _Head.of(page) if _is_html(page) else _Head()
    directives = {*_directives(page.headers.get("x-robots-tag", ""), crawler), *head.directives(crawler)}
    if directives & {"noindex", "none"}:
        faults.append(("page-noindex", f"the page says {', '.join(sorted(directives & {'noindex', 'none'}))}"))
    link = page.headers.get("link", "").encode("latin-1", "replace").decode("utf-8", "replace")
    in_header = _CANONICAL_HEADER.search(link)
    canonical, base = (in_header[1], "") if in_header else (head.canonical, head.base)
    named = _normal(canonical, page.address or url, base) if canonical else None
    if named not in (_normal(url), None):
        faults.append(("page-canonical", f"the page names {named} as canonical"))
    return faults


def _is_html(page: Fetched) -> bool:
    return "html" in page.headers.get("content-type", "text/html").lower()


def _normal(url: str, page: str = "", base: str = "") -> str | None:
    """Return a URL, which may be relative to a page and its ``<base>``, so that equivalent ones are equal (RFC 3986, 6.2.2)."""
    try:
        loc = normalise(urldefrag(urljoin(urljoin(page, base), url))[0], origin="https://unknown.invalid").loc
    except ValueError:
        return None
    return loc and _ESCAPE.sub(
        lambda found: c if _UNRESERVED.fullmatch(c := unquote(found[0])) else found[0].upper(), loc
    )


def _directives(header: str, crawler: str) -> set[str]:
    """Return the directives of ``X-Robots-Tag`` headers, each on its own line, that apply to a crawler.

    A name, as in ``googlebot: noindex``, restricts its directive and those that follow in the header to that crawler.
    """
    directives: set[str] = set()
    applies = True
    for part in header.lower().split(","):
        applies = applies or part.startswith("\n")
        name, colon, rest = part.partition(":")
        if colon and _CRAWLER.fullmatch(name.strip()) and name.strip() not in _VALUED:
            applies = name.strip() == crawler.lower()
            part = rest  # noqa: PLW2901 - the directive without the name
        if applies:
            directives.add(part.strip())
    return directives


def _decoded(response: Fetched) -> bytes | None:
    """Return a body without its compression; None if that is damaged, is double, or was not requested."""
    encoding, body = response.headers.get("content-encoding", "").strip().lower(), response.body
    with suppress(InvalidSitemapError):
        if body and encoding in ("gzip", "x-gzip"):
            body = gzip.decompress(body, max_byte_size=MAX_PAGE_BYTE_SIZE)
        return None if _FOREIGN_ENCODING.search(encoding) or body.startswith(b"\x1f\x8b") else body
    return None


def _html(page: Fetched) -> str:
    body = _decoded(page) or b""
    start = body[:1_024].decode("latin-1")
    declared = _CHARSET.search(page.headers.get("content-type", "")) or _META_CHARSET.search(start)
    try:
        return body[:MAX_HTML_BYTE_SIZE].decode(declared[1] if declared else "utf-8", "replace")
    except (LookupError, UnicodeError):
        return body[:MAX_HTML_BYTE_SIZE].decode("utf-8", "replace")


@dataclass(slots=True, kw_only=True)
class _Head:
    """The robots and canonical elements of a page, its ``<base>``, and its text without scripts and styles."""

    base: str = ""
    canonical: str = ""
    text: str = ""
    robots: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, page: Fetched) -> _Head:
        """Parse a page. Content that is not HTML has none of them."""
        from lxml import etree  # noqa: PLC0415

        parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
        root = etree.fromstring(b"<html>" + _ENDS.sub("", _html(page)).encode("utf-8", "replace"), parser)
        etree.strip_elements(root, "script", "style", with_tail=False)
        links = (each for each in root.iter("link") if "canonical" in each.get("rel", "").lower().split())
        return cls(
            base=_first_address(root.iter("base")),
            canonical=_first_address(links),
            text=" ".join(root.itertext()),
            robots=tuple((each.get("name", "").lower(), each.get("content", "").lower()) for each in root.iter("meta")),
        )

    def directives(self, crawler: str) -> set[str]:
        """Return the directives of the meta elements that apply to all crawlers or to the given one."""
        contents = [content for name, content in self.robots if name in ("robots", crawler.lower())]
        return {part.strip() for content in contents for part in content.split(",")}


def _first_address(elements: Iterable[Any]) -> str:
    return next(filter(None, (element.get("href", "").strip() for element in elements)), "")
