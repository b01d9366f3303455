"""Google Search Console: submit sitemaps, and read back what Google made of them.

Reference: developers.google.com/webmaster-tools/v1/sitemaps. Limits are 20 queries a second, 200 a minute a user.
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
from airflow_sitemaps.notify.destinations import Rules
from airflow_sitemaps.notify.http import HttpClient
from airflow_sitemaps.notify.outcomes import NotAcceptedError, excerpt, refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from airflow_sitemaps.pipeline.fetching import Fetched

log = logging.getLogger(__name__)

MOST_INDEXES: Final = 500
"""Index files of one property that Google reads (developers.google.com, "Manage your sitemaps with an index file")."""

UNPACED: Final = 90
"""Sitemaps that are submitted and read back without a pause: 180 queries, below 200 a minute."""

PAUSE_S: Final = 0.65
API: Final = "https://www.googleapis.com/webmasters/v3"
DOMAIN: Final = re.compile(r"sc-domain:[a-z0-9-]+(\.[a-z0-9-]+)+")
QUOTA: Final = frozenset({"rateLimitExceeded", "userRateLimitExceeded", "quotaExceeded", "dailyLimitExceeded"})
"""Reasons that come with a 403 and pass."""

_REASONS: Final = {
    400: "the sitemap's address is not of this property, or cannot be read",
    401: "the token is not valid: look at the Google connection",
    403: "no permission: add the connection's service account to the property in Search Console, as an owner or with "
    "full rights, and enable the Search Console API in its project",
    404: "no such property, or no such sitemap in it: a URL-prefix property ends in '/', a domain is 'sc-domain:…'",
    429: "too many requests (limits: 20 a second, 200 a minute)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedSitemap:
    """What Search Console knows of a sitemap. Times are RFC 3339 texts as told, None: not yet."""

    path: str
    last_submitted: str | None
    last_downloaded: str | None
    pending: bool
    is_index: bool
    errors: int
    warnings: int
    urls: Mapping[str, int]
    """URLs found, by kind (``web``, ``image``, ``news``, ``video``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchConsoleClient:
    """One property. ``site``: ``https://www.example.com/`` or ``sc-domain:example.com``; ``token`` gives bearer tokens.

    Raises:
        ConfigurationError: a property that cannot be.
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
        """Submit a sitemap, or say that it changed; submitting one again does no harm.

        Raises:
            ConfigurationError: the address is not of the property, or Google says that something is not set up.
            NotAcceptedError: too many requests, or Google is out of order.
            FetchError: no answer.
        """
        self._check(sitemap_url)
        self._ask("PUT", sitemap_url)

    def get(self, sitemap_url: str) -> SubmittedSitemap:
        """What Google made of a sitemap. Raises as ``submit`` does."""
        answer = self._ask("GET", sitemap_url)
        try:
            return _read(json.loads(answer.body), sitemap_url)
        except (ValueError, TypeError, AttributeError) as error:
            raise NotAcceptedError(
                f"Search Console, {sitemap_url}: an answer that cannot be read ({excerpt(answer.body)!r})"
            ) from error

    def address(self, sitemap_url: str) -> str:
        """The API's address of a sitemap: both parts are one path segment each, so every ``/`` in them is quoted."""
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
                f"{sitemap_url} does not lie in the Search Console property {self.site!r}: Google takes no sitemap of "
                "another property. Name the property that the sitemap's own address is in."
            )

    def _ask(self, method: str, sitemap_url: str) -> Fetched:
        host = urlsplit(self.api).hostname or ""
        http = self.http or HttpClient(rules=Rules(hosts=frozenset({host})), max_byte_size=1 << 20)
        token = self.token()
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        answer = http.send(method, self.address(sitemap_url), headers=headers)
        if answer.status in (200, 204):
            return answer
        what = f"Search Console, {sitemap_url}"
        if answer.status == 403 and QUOTA & _reasons(answer.body):
            raise NotAcceptedError(f"{what}: 403, the quota is used up for now: {excerpt(answer.body, token)}")
        raise refusal(what, answer, _REASONS, secret=token)


def submit_all(
    client: SearchConsoleClient, urls: Sequence[str], *, sleep: Callable[[float], None] = time.sleep
) -> list[SubmittedSitemap]:
    """Submit sitemaps, then say in the log what Google makes of each so far: it reads them later, in its own time.

    Raises as ``SearchConsoleClient.submit``.
    """
    if len(urls) > MOST_INDEXES:
        log.warning("%d index files: Google reads at most %d of one property", len(urls), MOST_INDEXES)
    found = []
    for url in urls:
        client.submit(url)
        found.append(client.get(url))
        _say(found[-1])
        if len(urls) > UNPACED:
            sleep(PAUSE_S)
    return found


def _say(known: SubmittedSitemap) -> None:
    log.log(
        logging.WARNING if known.errors or known.warnings else logging.INFO,
        "Search Console, %s: submitted; last downloaded %s, %d errors, %d warnings, URLs %s",
        known.path,
        known.last_downloaded or "never",
        known.errors,
        known.warnings,
        ", ".join(f"{number:,} ({kind})" for kind, number in known.urls.items()) or "not counted yet",
    )


def _reasons(body: bytes) -> set[str]:
    """Google's own words for why, from an error's JSON."""
    try:
        errors = json.loads(body)["error"]["errors"]
        return {str(error["reason"]) for error in errors}
    except (ValueError, KeyError, TypeError):
        return set()


def _read(told: Mapping[str, Any], sitemap_url: str) -> SubmittedSitemap:
    """A sitemap resource; its whole numbers come as texts."""
    return SubmittedSitemap(
        path=str(told.get("path", sitemap_url)),
        last_submitted=told.get("lastSubmitted"),
        last_downloaded=told.get("lastDownloaded"),
        pending=bool(told.get("isPending")),
        is_index=bool(told.get("isSitemapsIndex")),
        errors=int(told.get("errors", 0)),
        warnings=int(told.get("warnings", 0)),
        urls={str(each.get("type", "")): int(each.get("submitted", 0)) for each in told.get("contents", ())},
    )
