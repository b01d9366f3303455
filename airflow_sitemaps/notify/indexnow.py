"""IndexNow: tell the engines that take part which URLs were added, changed or deleted (indexnow.org/documentation).

Google does not take part. Nobody wants old pages told again: send what changed, once.
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
from airflow_sitemaps.notify.destinations import Rules
from airflow_sitemaps.notify.http import HttpClient
from airflow_sitemaps.notify.outcomes import NotAcceptedError, excerpt, retry_after

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from airflow_sitemaps.pipeline.fetching import Fetched

log = logging.getLogger(__name__)

ENDPOINT: Final = "https://api.indexnow.org/indexnow"
"""One is enough: the engines share what they are told."""

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
"""Who takes part."""

MAX_URLS: Final = 10_000
"""URLs a request, all of one host (indexnow.org/documentation)."""

KEY: Final = re.compile(r"[A-Za-z0-9-]{8,128}")

TRIES: Final = 3
LONGEST_WAIT_S: Final = 60.0
"""A pause asked for that is longer than this is left to the task's retry."""

_ANSWERS: Final = {
    400: "the request is malformed",
    403: "the key is not valid: is its file published where key_location says?",
    422: "URLs are not of the host, or the key does not match its file",
}


class Sender(Protocol):
    """Sends one request; see ``HttpClient.send``."""

    def send(
        self, method: str, url: str, *, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Fetched:
        """The answer, whatever its status."""
        ...


def sender_to(endpoint: str) -> HttpClient:
    """A sender that reaches the engines that take part over https, and nobody else.

    Raises:
        ConfigurationError: the endpoint is none of theirs.
    """
    parts = urlsplit(endpoint)
    if parts.scheme != "https" or parts.hostname not in HOSTS:
        raise ConfigurationError(
            f"IndexNow endpoint {endpoint[:200]!r}: not one of {', '.join(sorted(HOSTS))} over https; to ask another one "
            "all the same give http=HttpClient(rules=Rules(hosts=frozenset({…})))"
        )
    return HttpClient(rules=Rules(hosts=HOSTS), max_byte_size=1 << 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What was told: URLs and requests; ``unchecked`` requests were taken before the key was looked at (202)."""

    urls: int = 0
    requests: int = 0
    unchecked: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexNow:
    """A site's key. ``key_location``: address of its file, ``/{key}.txt`` of the host unless given; it limits the URLs
    to its own directory. The key never stands in a text for people. ``sleep`` is a seam for tests.

    Raises:
        ConfigurationError: a key that cannot be.
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
        """What every URL must begin with, where the place of the key's file limits them."""
        return None if self.key_location is None else self.key_location.rpartition("/")[0] + "/"

    def submit(self, urls: Iterable[str], sender: Sender | None = None) -> Submission:
        """Tell of URLs, each once, in requests of one host and at most ``MAX_URLS``; a short pause asked for is kept.

        ``sender`` reaches only the engines that take part where None. To send the same again does no harm.

        Raises:
            ConfigurationError: a URL outside the key's directory, or the endpoint refuses key or URLs.
            NotAcceptedError: the endpoint is busy or failed.
            FetchError: the endpoint cannot be reached.
        """
        told = requests = unchecked = 0
        asked = sender or sender_to(self.endpoint)
        for host, some in self._requests(urls):
            status = self._send(asked, host, some)
            log.info("IndexNow took %d URLs of %s (%d)", len(some), host, status)
            told, requests, unchecked = told + len(some), requests + 1, unchecked + (status == 202)
        return Submission(urls=told, requests=requests, unchecked=unchecked)

    def _send(self, sender: Sender, host: str, urls: list[str]) -> int:
        """Send one request, again after a pause that is asked for; the status, 200 or 202."""
        for tries_left in reversed(range(TRIES)):
            answer = sender.send(
                "POST",
                self.endpoint,
                body=json.dumps(self._document(host, urls)).encode(),
                headers={"Content-Type": "application/json; charset=utf-8"},
            )
            if answer.status in (200, 202):
                break
            error = self._refusal(answer, host, len(urls))
            wait_s = error.wait_s if isinstance(error, NotAcceptedError) else None
            if wait_s is None or wait_s > LONGEST_WAIT_S or not tries_left:
                raise error
            log.warning("%s", error)
            self.sleep(wait_s)
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
                f"IndexNow: {url[:200]!r} lies outside {self.folder!r}, to which the place of the key's file limits it"
            )
        return site

    def _document(self, host: str, urls: list[str]) -> dict[str, object]:
        place = {} if self.key_location is None else {"keyLocation": self.key_location}
        return {"host": host, "key": self.key, **place, "urlList": urls}

    def _refusal(self, answer: Fetched, host: str, number: int) -> ConfigurationError | NotAcceptedError:
        told = f"IndexNow answered {answer.status} to {number:,} URLs of {host}"
        said = excerpt(answer.body, self.key)
        words = f" (it says: {said})" if said else ""
        if answer.status in _ANSWERS:
            return ConfigurationError(f"{told}: {_ANSWERS[answer.status]}{words}")
        wait_s = retry_after(answer.headers.get("retry-after", ""))
        asked = "" if wait_s is None else f"; it asks to wait {wait_s:.0f} s"
        return NotAcceptedError(f"{told}{words}{asked}. Try again later", wait_s=wait_s)


def _site(url: str) -> str:
    """Scheme and host of an absolute URL; empty where it is none."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return ""
    plain = parts.scheme in ("http", "https") and parts.hostname and parts.username is None
    return f"{parts.scheme}://{parts.netloc.lower()}" if plain else ""
