"""Announcements: what a service knows of a sitemap, the changes since then for IndexNow, and pings of your own addresses.

Pings are not for search engines: Google retired its ping address in 2023 (it responds 404), and Bing retired its own
as well. These addresses are refused, because such a ping has no effect. Use Search Console and IndexNow instead.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, quote, urlsplit

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.http import FetchError, HttpClient
from airflow_sitemaps.pipeline.changes import MOST, Changes, TooManyChangesError, changes
from airflow_sitemaps.pipeline.state.repository import StateRepository, last_announced, record_announced
from airflow_sitemaps.quantities import counted
from airflow_sitemaps.search_engines.indexnow import IndexNow, Submission, require_key_files
from airflow_sitemaps.web_services import Sender, Service, excerpt, public_client

if TYPE_CHECKING:
    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)

PLACE: Final = "{sitemap}"
METHOD: Final = re.compile(r"[A-Z]{3,16}")
DEAD_HOST: Final = re.compile(r"(?:[\w-]+\.)*(?:google(?:\.\w{2,3}){1,2}|bing\.com)", re.IGNORECASE)
DEAD_PATH: Final = re.compile(r"(?:/\w+)*/(?:ping|ping\.aspx)/?", re.IGNORECASE)

_REASONS: Final = {
    **dict.fromkeys((301, 302, 303, 307, 308), "redirects are not followed: give the address that it redirects to"),
    401: "credentials are missing: pass headers= or conn_id=",
    403: "access is denied: check headers= and conn_id=",
    404: "the address does not exist: check the template",
    429: "too many requests",
}


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
        service = Service(sender=self.http, reasons=_REASONS, attempts=1, secret=secrets)
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
