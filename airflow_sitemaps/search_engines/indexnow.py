"""IndexNow: send URLs to the participating search engines (indexnow.org/documentation), and check the site's key file.

Google does not participate. IndexNow asks sites to send each change once, and not to send old pages. Search engines discard the
URLs of a host that does not serve its key file.
"""

from __future__ import annotations

import json
import logging
import re
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.http import Fetched, FetchError, HttpClient
from airflow_sitemaps.protocol.loc import normalise
from airflow_sitemaps.setting_checks import site_of
from airflow_sitemaps.web_services import Sender, Service, client_for, is_transient, password_and_extra

log = logging.getLogger(__name__)

ENDPOINT: Final = "https://api.indexnow.org/indexnow"
"""Default endpoint. One is enough: the search engines share the URLs they receive."""

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
