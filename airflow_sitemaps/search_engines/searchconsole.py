"""Google Search Console: submit sitemaps, and read how Google processed them.

Reference: developers.google.com/webmaster-tools/v1/sitemaps. The limits are 20 queries per second and
200 per minute and user.
"""

from __future__ import annotations

import json
import logging
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.http.client import HttpClient
from airflow_sitemaps.http.destinations import AccessRules
from airflow_sitemaps.search_engines.outcomes import NotAcceptedError, excerpt, refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from airflow_sitemaps.http.response import Fetched

log = logging.getLogger(__name__)

MOST_INDEXES: Final = 500
"""Largest number of indexes of one property that Google reads. Source: developers.google.com, "Manage your sitemaps
with an index file".
"""

UNPACED: Final = 90
"""Number of sitemaps that are submitted and read without pauses: 180 queries, below the limit of 200 per minute."""

PAUSE_S: Final = 0.65
API: Final = "https://www.googleapis.com/webmasters/v3"
DOMAIN: Final = re.compile(r"sc-domain:[a-z0-9-]+(\.[a-z0-9-]+)+")
QUOTA: Final = frozenset({"rateLimitExceeded", "userRateLimitExceeded", "quotaExceeded", "dailyLimitExceeded"})
"""Reasons of a 403 response that are temporary."""

_REASONS: Final = {
    400: "the sitemap's address is not of this property, or cannot be read",
    401: "the token is not valid: check the Google connection",
    403: "no permission: add the connection's service account to the property in Search Console, as an owner or with "
    "full rights, and enable the Search Console API in its project",
    404: "no such property, or no such sitemap in it: a URL-prefix property ends in '/', a domain property is 'sc-domain:…'",
    429: "too many requests (limits: 20 per second, 200 per minute)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedSitemap:
    """The state of a sitemap in Search Console.

    Attributes:
        path: Address of the sitemap.
        last_submitted: Time of the last submission, RFC 3339; None if it was never submitted.
        last_downloaded: Time of Google's last download, RFC 3339; None if Google has not read it yet.
        pending: Whether Google has not processed the sitemap yet.
        is_index: Whether the sitemap is an index.
        errors: Number of errors that Google reports.
        warnings: Number of warnings that Google reports.
        urls: URLs that Google found, by kind (``web``, ``image``, ``news``, ``video``).
    """

    path: str
    last_submitted: str | None
    last_downloaded: str | None
    pending: bool
    is_index: bool
    errors: int
    warnings: int
    urls: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchConsoleClient:
    """A client for one property.

    Attributes:
        site: The property: ``https://www.example.com/`` or ``sc-domain:example.com``.
        token: Returns a bearer token.
        api: Base address of the API. Default: ``API``.
        http: Sends the requests. Default: a client that reaches only the host of ``api``.

    Raises:
        ConfigurationError: ``site`` is not a valid property.
    """

    site: str
    token: Callable[[], str] = field(repr=False)
    api: str = API
    http: HttpClient | None = None

    def __post_init__(self) -> None:
        parts = urlsplit(self.site)
        prefix = parts.scheme in ("http", "https") and parts.hostname and self.site.endswith("/") and not parts.query
        if not prefix and not DOMAIN.fullmatch(self.site):
            raise ConfigurationError(
                f"Search Console property {self.site!r}: give a URL prefix that ends in '/', like "
                "'https://www.example.com/', or a domain, like 'sc-domain:example.com'"
            )

    def submit(self, sitemap_url: str) -> None:
        """Submit a sitemap, for the first time or after a change.

        Raises:
            ConfigurationError: The address is outside the property, or Google reports that the set-up is incomplete.
            NotAcceptedError: Too many requests, or Google is unavailable.
            FetchError: There is no response.
        """
        self._check(sitemap_url)
        self._request("PUT", sitemap_url)

    def get(self, sitemap_url: str) -> SubmittedSitemap:
        """Return the state of a sitemap in Search Console. Raises the same errors as ``submit``."""
        answer = self._request("GET", sitemap_url)
        try:
            return _read(json.loads(answer.body), sitemap_url)
        except (ValueError, TypeError, AttributeError) as error:
            raise NotAcceptedError(
                f"Search Console, {sitemap_url}: the response cannot be parsed ({excerpt(answer.body)!r})"
            ) from error

    def address(self, sitemap_url: str) -> str:
        """Return the API's address of a sitemap. Property and sitemap are one path segment each, so ``/`` is quoted."""
        return f"{self.api}/sites/{quote(self.site, safe='')}/sitemaps/{quote(sitemap_url, safe='')}"

    def _check(self, sitemap_url: str) -> None:
        if DOMAIN.fullmatch(self.site):
            domain = self.site.partition(":")[2]
            host = urlsplit(sitemap_url).hostname or ""
            inside = host == domain or host.endswith("." + domain)
        else:
            inside = sitemap_url.startswith(self.site)
        if not inside:
            raise ConfigurationError(
                f"{sitemap_url} is outside the Search Console property {self.site!r}. Give the property that contains "
                "the sitemap's address; Google accepts no other."
            )

    def _request(self, method: str, sitemap_url: str) -> Fetched:
        host = urlsplit(self.api).hostname or ""
        http = self.http or HttpClient(rules=AccessRules(hosts=frozenset({host})), max_byte_size=1 << 20)
        token = self.token()
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        answer = http.send(method, self.address(sitemap_url), headers=headers)
        if answer.status in (200, 204):
            return answer
        what = f"Search Console, {sitemap_url}"
        if answer.status == 403 and QUOTA & _reasons(answer.body):
            raise NotAcceptedError(f"{what}: 403, the quota is used up: {excerpt(answer.body, token)}")
        raise refusal(what, answer, _REASONS, secret=token)


def submit_all(
    client: SearchConsoleClient, urls: Sequence[str], *, sleep: Callable[[float], None] = time.sleep
) -> list[SubmittedSitemap]:
    """Submit sitemaps, and log the state of each one. Google chooses when to read them.

    Args:
        sleep: Waits for a number of seconds. Tests replace it. Default: ``time.sleep``.

    Raises:
        SitemapError: The same errors as ``SearchConsoleClient.submit``.
    """
    if len(urls) > MOST_INDEXES:
        log.warning("%d index files: Google reads at most %d per property", len(urls), MOST_INDEXES)
    submitted = []
    for url in urls:
        client.submit(url)
        submitted.append(client.get(url))
        _log_state(submitted[-1])
        if len(urls) > UNPACED:
            sleep(PAUSE_S)
    return submitted


def _log_state(sitemap: SubmittedSitemap) -> None:
    log.log(
        logging.WARNING if sitemap.errors or sitemap.warnings else logging.INFO,
        "Search Console, %s: submitted; last downloaded %s, %d errors, %d warnings, URLs %s",
        sitemap.path,
        sitemap.last_downloaded or "never",
        sitemap.errors,
        sitemap.warnings,
        ", ".join(f"{number:,} ({kind})" for kind, number in sitemap.urls.items()) or "not counted yet",
    )


def _reasons(body: bytes) -> set[str]:
    """Return the reasons in the JSON of a Google error."""
    try:
        errors = json.loads(body)["error"]["errors"]
        return {str(error["reason"]) for error in errors}
    except (ValueError, KeyError, TypeError):
        return set()


def _read(resource: Mapping[str, Any], sitemap_url: str) -> SubmittedSitemap:
    """Parse a sitemap resource. Its integers are JSON strings."""
    return SubmittedSitemap(
        path=str(resource.get("path", sitemap_url)),
        last_submitted=resource.get("lastSubmitted"),
        last_downloaded=resource.get("lastDownloaded"),
        pending=bool(resource.get("isPending")),
        is_index=bool(resource.get("isSitemapsIndex")),
        errors=int(resource.get("errors", 0)),
        warnings=int(resource.get("warnings", 0)),
        urls={str(each.get("type", "")): int(each.get("submitted", 0)) for each in resource.get("contents", ())},
    )
