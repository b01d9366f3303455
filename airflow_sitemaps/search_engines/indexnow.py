"""IndexNow: send added, changed and deleted URLs to the participating search engines (indexnow.org/documentation).

Google does not participate. IndexNow wants each change once, and no backfill of old pages.
"""

from __future__ import annotations

import json
import logging
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.http.client import HttpClient
from airflow_sitemaps.http.destinations import AccessRules
from airflow_sitemaps.retry import repeated_on_request
from airflow_sitemaps.search_engines.outcomes import NotAcceptedError, excerpt, retry_after

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from airflow_sitemaps.http.response import Fetched

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
"""Hosts of the participating search engines."""

MAX_URLS: Final = 10_000
"""Largest number of URLs in one request, all of one host (indexnow.org/documentation)."""

KEY: Final = re.compile(r"[A-Za-z0-9-]{8,128}")

TRIES: Final = 3
LONGEST_WAIT_S: Final = 60.0
"""Longest requested pause in seconds. A longer pause is left to the task's retry."""

_ANSWERS: Final = {
    400: "the request is malformed",
    403: "the key is not valid: check that its file is published at key_location",
    422: "the URLs are not of the host, or the key does not match its file",
}


class Sender(Protocol):
    """Sends one request, like ``HttpClient.send``."""

    def send(
        self, method: str, url: str, *, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Fetched:
        """Return the response with any status.

        Args:
            body: Request body. Default: none.
            headers: Request headers. Default: none.
        """
        ...


def sender_to(endpoint: str) -> HttpClient:
    """Return a sender that reaches only the participating search engines, over https.

    Raises:
        ConfigurationError: The endpoint is not one of theirs.
    """
    parts = urlsplit(endpoint)
    if parts.scheme != "https" or parts.hostname not in HOSTS:
        raise ConfigurationError(
            f"IndexNow endpoint {endpoint[:200]!r}: not one of {', '.join(sorted(HOSTS))} over https; for another "
            "endpoint pass http=HttpClient(rules=AccessRules(hosts=frozenset({…})))"
        )
    return HttpClient(rules=AccessRules(hosts=HOSTS), max_byte_size=1 << 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """The result of a submission. All counts default to 0.

    Attributes:
        urls: Number of URLs that were accepted.
        requests: Number of requests that were accepted.
        unchecked: Number of requests that were accepted before the key was checked (status 202).
    """

    urls: int = 0
    requests: int = 0
    unchecked: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexNow:
    """A site's IndexNow key and endpoint. The key never appears in a message or log line.

    Attributes:
        key: 8 to 128 characters of ``a-z``, ``A-Z``, ``0-9`` and ``-``.
        key_location: Address of the key's file. It limits the URLs to its own folder. Default: ``/{key}.txt``.
        endpoint: Address that receives the URLs. Default: ``ENDPOINT``.
        sleep: Waits for a number of seconds. Tests replace it. Default: ``time.sleep``.

    Raises:
        ConfigurationError: ``key`` or ``key_location`` is invalid.
    """

    key: str = field(repr=False)
    key_location: str | None = field(default=None, repr=False)
    endpoint: str = ENDPOINT
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)

    def __post_init__(self) -> None:
        if not KEY.fullmatch(self.key):
            raise ConfigurationError("IndexNow: a key has 8 to 128 characters of a-z, A-Z, 0-9 and '-'")
        if self.key_location is not None and not _site(self.key_location):
            raise ConfigurationError("IndexNow: key_location is not an absolute http or https URL")

    @property
    def folder(self) -> str | None:
        """The prefix that every URL must have; None if ``key_location`` does not limit the URLs."""
        return None if self.key_location is None else self.key_location.rpartition("/")[0] + "/"

    def submit(self, urls: Iterable[str], sender: Sender | None = None) -> Submission:
        """Send URLs, each once, in requests of one host and at most ``MAX_URLS``. Sending them again is harmless.

        If the endpoint requests a pause, the method waits for up to ``LONGEST_WAIT_S`` per request.

        Args:
            sender: Sends the requests. Default: a client that reaches only the participating search engines.

        Raises:
            ConfigurationError: A URL is outside the key's folder, or the endpoint rejects the key or the URLs.
            NotAcceptedError: The endpoint is busy or failed.
            FetchError: The endpoint is unreachable.
        """
        sent = requests = unchecked = 0
        client = sender or sender_to(self.endpoint)
        for host, batch in self._requests(urls):
            status = self._send(client, host, batch)
            log.info("IndexNow accepted %d URLs for %s (status %d)", len(batch), host, status)
            sent, requests, unchecked = sent + len(batch), requests + 1, unchecked + (status == 202)
        return Submission(urls=sent, requests=requests, unchecked=unchecked)

    def _send(self, sender: Sender, host: str, urls: list[str]) -> int:
        """Send one request, and again after a requested pause. Return the status, 200 or 202."""
        send = repeated_on_request(
            _requested_s, attempts=TRIES, longest_pause_s=LONGEST_WAIT_S, log=log, sleep=self.sleep
        )
        return send(self._send_once, sender, host, urls)

    def _send_once(self, sender: Sender, host: str, urls: list[str]) -> int:
        answer = sender.send(
            "POST",
            self.endpoint,
            body=json.dumps(self._document(host, urls)).encode(),
            headers={"Content-Type": "application/json; charset=utf-8"},
        )
        if answer.status not in (200, 202):
            raise self._refusal(answer, host, len(urls))
        return answer.status

    def _requests(self, urls: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
        by_site: dict[str, dict[str, None]] = {}
        for url in urls:
            by_site.setdefault(self._checked_site(url), {})[url] = None
        for site, distinct in by_site.items():
            listed = list(distinct)
            for start in range(0, len(listed), MAX_URLS):
                yield site.partition("://")[2], listed[start : start + MAX_URLS]

    def _checked_site(self, url: str) -> str:
        site = _site(url)
        if not site:
            raise ConfigurationError(f"IndexNow: {url[:200]!r} is not an absolute URL")
        if self.folder is not None and not url.startswith(self.folder):
            raise ConfigurationError(
                f"IndexNow: {url[:200]!r} is outside {self.folder!r}, the folder of the key's file"
            )
        return site

    def _document(self, host: str, urls: list[str]) -> dict[str, object]:
        place = {} if self.key_location is None else {"keyLocation": self.key_location}
        return {"host": host, "key": self.key, **place, "urlList": urls}

    def _refusal(self, answer: Fetched, host: str, number: int) -> ConfigurationError | NotAcceptedError:
        what = f"IndexNow responded {answer.status} to {number:,} URLs of {host}"
        said = excerpt(answer.body, self.key)
        words = f" (response: {said})" if said else ""
        if answer.status in _ANSWERS:
            return ConfigurationError(f"{what}: {_ANSWERS[answer.status]}{words}")
        wait_s = retry_after(answer.headers.get("retry-after", ""))
        asked = "" if wait_s is None else f"; retry after {wait_s:.0f} s"
        return NotAcceptedError(f"{what}{words}{asked}. Try again later", wait_s=wait_s)


def _requested_s(error: BaseException) -> float | None:
    return error.wait_s if isinstance(error, NotAcceptedError) else None


def _site(url: str) -> str:
    """Return scheme and host of an absolute URL; empty if it is not an absolute URL."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return ""
    plain = parts.scheme in ("http", "https") and parts.hostname and parts.username is None
    return f"{parts.scheme}://{parts.netloc.lower()}" if plain else ""
