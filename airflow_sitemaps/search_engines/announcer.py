"""Announcements: what a service knows of a sitemap, the changes since then for IndexNow, and pings of your own addresses.

IndexNow sends URLs to the participating search engines (indexnow.org/documentation). Google does not participate.
IndexNow asks sites to send each change once, and not to send old pages. Search engines discard the URLs of a host that does not
serve its key file.

Pings are not for search engines: Google retired its ping address in 2023 (it responds 404), and Bing retired its own
as well. These addresses are refused, because such a ping has no effect. Use Search Console and IndexNow instead.
"""

from __future__ import annotations

import json
import logging
import re
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, quote, urlsplit

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.http import Fetched, FetchError, HttpClient
from airflow_sitemaps.pipeline.changes import MOST, Changes, TooManyChangesError, changes
from airflow_sitemaps.pipeline.state.repository import StateRepository, last_announced, record_announced
from airflow_sitemaps.protocol.loc import normalise
from airflow_sitemaps.quantities import counted
from airflow_sitemaps.setting_checks import site_of
from airflow_sitemaps.web_services import (
    Sender,
    Service,
    client_for,
    excerpt,
    is_transient,
    password_and_extra,
    public_client,
)

if TYPE_CHECKING:
    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)

ENDPOINT: Final = "https://api.indexnow.org/indexnow"
"""Default endpoint of IndexNow. One is enough: the search engines share the URLs they receive."""

HOSTS: Final = frozenset(
    {
        "api.indexnow.org",
        "www.bing.com",
        "yandex.com",
        "searchadvisor.naver.com",
        "search.seznam.cz",
        "indexnow.yep.com",
    }
)

MAX_URLS: Final = 10_000
"""Largest number of URLs in one request, all of one host (indexnow.org/documentation)."""

KEY: Final = re.compile(r"[A-Za-z0-9-]{8,128}")

MAX_KEY_BYTES: Final = 1 << 20
"""Size of the largest response. A site's page for missing files is read too, since its status or text says that no key is there."""

_REASONS: Final = {
    400: "the request is malformed",
    403: "the key is not valid: check that its file is published at key_location",
    422: "the URLs are not of the host, or the key does not match its file",
}

PLACE: Final = "{sitemap}"
METHOD: Final = re.compile(r"[A-Z]{3,16}")
DEAD_HOST: Final = re.compile(r"(?:[\w-]+\.)*(?:google(?:\.\w{2,3}){1,2}|bing\.com)", re.IGNORECASE)
DEAD_PATH: Final = re.compile(r"(?:/\w+)*/(?:ping|ping\.aspx)/?", re.IGNORECASE)

_PING_REASONS: Final = {
    **dict.fromkeys((301, 302, 303, 307, 308), "redirects are not followed: give the address that it redirects to"),
    401: "credentials are missing: pass headers= or conn_id=",
    403: "access is denied: check headers= and conn_id=",
    404: "the address does not exist: check the template",
    429: "too many requests",
}


def sender_to(endpoint: str) -> HttpClient:
    """Return a sender that reaches only the participating search engines, over https."""
    parts = urlsplit(endpoint)
    if parts.scheme != "https" or parts.hostname not in HOSTS:
        raise ConfigurationError(
            f"IndexNow endpoint {endpoint[:200]!r}: not one of {', '.join(sorted(HOSTS))} over https; for another "
            "endpoint pass http=HttpClient(rules=AccessRules(hosts=frozenset({…})))"
        )
    return client_for(*HOSTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """The URLs and requests that were accepted; ``unchecked`` requests before the key was checked (status 202)."""

    urls: int = 0
    requests: int = 0
    unchecked: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexNow:
    """A site's IndexNow key and endpoint. The key never appears in a message or log line.

    A key has 8 to 128 letters, digits and hyphens (ASCII). ``key_location``, ``/{key}.txt`` by default, limits the URLs
    to its own folder.
    """

    key: str = field(repr=False)
    key_location: str | None = field(default=None, repr=False)
    endpoint: str = ENDPOINT
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)

    def __post_init__(self) -> None:
        if not KEY.fullmatch(self.key):
            raise ConfigurationError("IndexNow: a key has 8 to 128 characters of a-z, A-Z, 0-9 and '-'")
        for name, url in (("key_location", self.key_location), ("endpoint", self.endpoint)):
            if url is not None and not (isinstance(url, str) and site_of(url)):
                raise ConfigurationError(f"IndexNow: {name} is not an absolute http or https URL")
        if self.key_location is not None:  # its folder is compared with URLs, which are in normal form
            location = normalise(self.key_location, origin="").loc or self.key_location
            object.__setattr__(self, "key_location", location)

    @property
    def folder(self) -> str | None:
        """The prefix that every URL must have; None if ``key_location`` does not limit the URLs."""
        return None if self.key_location is None else self.key_location.rpartition("/")[0] + "/"

    def submit(self, urls: Iterable[str], sender: Sender | None = None) -> Submission:
        """Send URLs, each once, in requests of one host and at most ``MAX_URLS``. Sending them again is harmless."""
        sent = requests = unchecked = 0
        client = sender or sender_to(self.endpoint)
        service = Service(
            sender=client, reasons=_REASONS, secret=self.key, success=frozenset({200, 202}), sleep=self.sleep
        )
        place = {} if self.key_location is None else {"keyLocation": self.key_location}
        for host, batch in self._requests(urls):
            what = f"IndexNow, {len(batch):,} URLs of {host}"
            headers = {"Content-Type": "application/json; charset=utf-8"}
            body = json.dumps({"host": host, "key": self.key, **place, "urlList": batch}).encode()
            status = service.call(what, "POST", self.endpoint, headers=headers, body=body).status
            log.info("IndexNow accepted %d URLs for %s (status %d)", len(batch), host, status)
            sent, requests, unchecked = sent + len(batch), requests + 1, unchecked + (status == 202)
        return Submission(urls=sent, requests=requests, unchecked=unchecked)

    def _requests(self, urls: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
        by_site: dict[str, dict[str, None]] = {}
        for url in urls:
            site = site_of(url)
            if not site:
                raise ConfigurationError(f"IndexNow: {url[:200]!r} is not an absolute URL")
            if self.folder is not None and not url.startswith(self.folder):
                raise ConfigurationError(f"IndexNow: {url[:200]!r} is outside {self.folder!r}, the key file's folder")
            by_site.setdefault(site, {})[url] = None
        for site, distinct in by_site.items():
            listed = list(distinct)
            for start in range(0, len(listed), MAX_URLS):
                yield site.partition("://")[2], listed[start : start + MAX_URLS]


def indexnow(conn_id: str) -> IndexNow:
    """Return a site's IndexNow key, and ``key_location`` and ``endpoint`` from the connection's extra."""
    key, extra = password_and_extra(conn_id, "the IndexNow key")
    return IndexNow(key=key, key_location=extra.get("key_location") or None, endpoint=extra.get("endpoint") or ENDPOINT)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFile:
    """A site's key file, as served; ``***`` hides its secret key. ``served`` is None without a usable response."""

    address: str
    served: bool | None
    message: str

    def __str__(self) -> str:
        return f"{self.address}: {self.message}"


def key_files(site: IndexNow, urls: Iterable[str], http: HttpClient) -> list[KeyFile]:
    """Request the key file of the host of each URL."""
    addresses = (site.key_location or f"{site_of(url)}/{site.key}.txt" for url in urls)
    return [_read_key(address, site.key, http) for address in dict.fromkeys(addresses)]


def require_key_files(site: IndexNow, urls: Iterable[str], http: HttpClient) -> None:
    """Check that every host serves its key file. A file that cannot be read costs a warning."""
    files = key_files(site, urls, http)
    missing = [str(file) for file in files if file.served is False]
    if missing:
        raise ConfigurationError(
            f"IndexNow: the key file is not served, so no URL is sent. {'; '.join(missing[:3])}. Publish a text file that "
            "holds only the key, which is the connection's password, at this address, or set key_location in the "
            "connection's extra. Where only search engines may read the file, set check_key=False"
        )
    for file in files:
        if file.served is None:
            log.warning("IndexNow: the key file cannot be checked, and the URLs are sent. %s", file)


def _read_key(address: str, key: str, http: HttpClient) -> KeyFile:
    shown = address.replace(key, "***")
    try:
        response = http.get(address)
    except FetchError as error:
        return KeyFile(address=shown, served=None, message=str(error).replace(key, "***"))
    if response.status != 200:
        served = None if is_transient(response.status) else False
        return KeyFile(address=shown, served=served, message=f"the response has status {response.status}")
    if _key_in(response) == key:
        return KeyFile(address=shown, served=True, message="holds the key")
    return KeyFile(address=shown, served=False, message="the response does not hold the key, or not only the key")


def _key_in(response: Fetched) -> str:
    """Return the text of a key file, without white space around it and a byte-order mark."""
    body = response.body
    if response.headers.get("content-encoding", "").strip().lower() == "gzip":
        try:
            body = zlib.decompressobj(wbits=31).decompress(body, MAX_KEY_BYTES)
        except zlib.error:
            return ""
    return body.decode("utf-8-sig", errors="replace").strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement(Submission):
    """The result of an announcement: the URLs that changed since a generation, and what was sent of them.

    The key does not cover ``outside`` URLs. If ``too_many``, nothing is sent.
    """

    generation: int
    since: int
    added: int = 0
    changed: int = 0
    removed: int = 0
    outside: int = 0
    too_many: bool = False

    def __str__(self) -> str:
        if self.too_many:
            return f"generation {self.generation}: too many changes, none sent"
        outside = f", {self.outside:,} outside the key's folder" if self.outside else ""
        return (
            f"generation {self.generation}: {counted(self.urls, 'URL')} sent in {counted(self.requests, 'request')} "
            f"({self.added:,} added, {self.changed:,} changed, {self.removed:,} removed{outside})"
        )


def announce(
    sitemap: Sitemap,
    site: IndexNow,
    *,
    generation: int | None = None,
    backfill: bool = False,
    max_urls: int = MOST,
    sender: Sender | None = None,
    key_reader: HttpClient | None = None,
) -> Announcement:
    """Send the URLs that were added, changed or removed since the last announcement, after the ``key_reader``'s check.

    The first announcement sends the changes of the current generation, and nothing for the first generation: IndexNow
    asks sites not to send their old pages. A run without changes and a repeated task send nothing twice. If a task fails, the
    next task sends all changes again. More changes than ``max_urls`` are skipped with a warning: their cause is a new
    template or host, and crawlers find them through the sitemap. With ``backfill``, the first announcement sends every URL.
    With a ``generation``, its changes are sent, and earlier announcements do not count.
    """
    state, service, since = StateRepository(sitemap.store.open().state), service_of(site), None
    if generation is None:
        since = _baseline(state, last_announced(state.objects, service), backfill)
    too_many = False
    try:
        difference = changes(sitemap, generation, since=since, backfill=backfill, most=max_urls)
    except TooManyChangesError as error:
        log.warning("%s: no URL is sent to IndexNow; raise max_urls to send as many", error)
        difference, too_many = Changes(generation=error.generation, since=error.since), True
    covered = [url for url in difference.urls if site.folder is None or url.startswith(site.folder)]
    if covered and key_reader is not None:
        require_key_files(site, covered, key_reader)
    submission = site.submit(covered, sender) if covered else Submission()
    if generation is None:
        record_announced(state.objects, service, difference.generation)
    return Announcement(
        generation=difference.generation,
        since=difference.since,
        added=len(difference.added),
        changed=len(difference.changed),
        removed=len(difference.removed),
        outside=len(difference.urls) - len(covered),
        too_many=too_many,
        **asdict(submission),
    )


def service_of(site: IndexNow) -> str:
    """Return the name under which announcements to an endpoint are recorded, of a folder's URLs if the key covers one."""
    folder = "" if site.folder is None else f"-{sha256(site.folder.encode()).hexdigest()[:16]}"
    return f"indexnow-{urlsplit(site.endpoint).hostname}{folder}"


def _baseline(state: StateRepository, last: int | None, backfill: bool) -> int | None:
    """Return the generation to compare the current one with, or None for the previous one."""
    manifest = state.manifest()
    if manifest is None or (backfill and last is None):
        return 0 if backfill else None
    current = manifest.generation
    if last is not None and (last == current or (last < current and state.generation(last) is not None)):
        return last
    kept = current == 1 or state.generation(current - 1) is not None
    if last is not None or not kept:
        sent = "only the changes of the last run are sent" if kept else "nothing is sent; set history= to 2 or more"
        log.warning("generation %d, the one to compare with, is no longer kept; %s", last or current - 1, sent)
    return None if kept else current


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    """A request that is sent for each index of a sitemap.

    In ``url``, ``{sitemap}`` is the index's address, percent-encoded, unless it is at the beginning (a CDN that is
    purged at the address itself). In ``body`` it is not encoded.
    """

    url: str = field(repr=False)
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: str | None = field(default=None, repr=False)
    http: HttpClient = field(default_factory=public_client)

    def __post_init__(self) -> None:
        values = self.headers.values() if isinstance(self.headers, Mapping) else (None,)
        body = "" if self.body is None else self.body
        if not all(isinstance(text, str) for text in (self.url, self.method, body, *values)):
            raise ConfigurationError(
                "ping: url=, method= and body= must be texts, and headers= a mapping of texts. Write a body in JSON by json.dumps"
            )
        if PLACE not in self.url and PLACE not in body:
            raise ConfigurationError(f"ping {shown(self.url)}: neither url nor body contains {PLACE}")
        if not METHOD.fullmatch(self.method):
            raise ConfigurationError(f"ping, method={self.method!r}: give a method such as 'GET', 'POST' or 'PURGE'")
        parts = _parts(self.url)
        if DEAD_HOST.fullmatch(parts.hostname or "") and DEAD_PATH.fullmatch(parts.path):
            raise ConfigurationError(
                f"{parts.hostname}{parts.path} is retired: Google shut down its sitemap ping in 2023, and Bing shut down its "
                "own. Use SearchConsoleSubmitOperator for Google and IndexNowOperator for Bing and others."
            )

    def address(self, sitemap_url: str) -> str:
        """Return the address to request for a sitemap."""
        if self.url.startswith(PLACE):
            return sitemap_url + self.url[len(PLACE) :].replace(PLACE, quote(sitemap_url, safe=""))
        return self.url.replace(PLACE, quote(sitemap_url, safe=""))

    def send(self, sitemap_url: str) -> int:
        """Send the request, and return the status of success. Raise the errors of ``Service.call``."""
        body = None if self.body is None else self.body.replace(PLACE, sitemap_url).encode()
        address = self.address(sitemap_url)
        values = [*self.headers.values(), *(value.rpartition(" ")[2] for value in self.headers.values())]
        path = urlsplit(self.url).path  # the token of a webhook may be a part of it; a shorter part is a word
        hidden = tuple(part for part in (path, *path.split("/")) if len(part) >= 8)
        secrets = (*hidden, *values, urlsplit(address).query, self.body or "", (body or b"").decode())
        # One attempt: a webhook may count its calls.
        service = Service(sender=self.http, reasons=_PING_REASONS, attempts=1, secret=secrets)
        try:
            return service.call(f"ping {shown(self.url)}", self.method, address, headers=self.headers, body=body).status
        except FetchError as error:
            raise FetchError(f"ping: {excerpt(str(error).replace(address, shown(address)).encode(), hidden)}") from None


def shown(url: str) -> str:
    """Return the scheme and the host of an address for messages: the rest may be secret."""
    parts = _parts(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.scheme else re.split("[/?]", url)[0]


def _parts(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:  # its text may hold a password
        raise ConfigurationError("ping: url= is not a URL, because its host cannot be read") from None
