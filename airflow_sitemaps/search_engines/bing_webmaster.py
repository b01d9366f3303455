"""Bing Webmaster Tools: what Bing knows of a URL, of the submitted sitemaps, and of the whole site.

Reference: learn.microsoft.com, Microsoft.Bing.Webmaster.Api.Interfaces.IWebmasterApi (GetUrlInfo, GetFeeds, GetCrawlStats).
Bing publishes no limit of requests; its errors ThrottleUser and ThrottleHost ask for fewer. The API key is a part of each
address, so only ``_Keyed`` knows it: no other code sees an address with the key, and no error or log can hold it.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timezone
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.http import Fetched, FetchError, HttpClient
from airflow_sitemaps.search_engines.index_status import PageState, SiteState, SubmittedFeed
from airflow_sitemaps.setting_checks import prefix_of
from airflow_sitemaps.web_services import NotAcceptedError, Sender, Service, client_for, excerpt, parsed

T = TypeVar("T")

log = logging.getLogger(__name__)

API: Final = "https://ssl.bing.com/webmaster/api.svc/json"
NOT_FOUND: Final = 11
"""Error code for what Bing does not know."""

_STATUS: Final = {
    **dict.fromkeys((1, 2), 500),  # InternalError, UnknownError
    **dict.fromkeys((4, 5), 429),  # ThrottleUser, ThrottleHost
    **dict.fromkeys((3, 6, 10, 13, 14), 403),  # InvalidApiKey, UserBlocked, UserNotFound, NotAllowed, NotAuthorized
}
"""HTTP status that says the same as an error code. Bing answers all of them with 400."""

_REASONS: Final = {
    400: "Bing refuses the site: give its address as Bing Webmaster Tools shows it, like 'https://www.example.com/'",
    403: "no access: check the API key in the connection's password, and that its user has verified the site",
    404: "no such method: check api=",
    429: "too many requests (Bing publishes no limit): lower daily=",
}
_DATE: Final = re.compile(r"/Date\((-?\d{1,15})(?:[+-]\d{4})?\)/")
_PAGES: Final = dict(crawled="CrawledPages", errors="CrawlErrors", blocked="BlockedByRobotsTxt", in_index="InIndex")  # noqa: C408


@dataclass(frozen=True, slots=True)
class _Keyed:
    """A sender that adds the API key to addresses, and removes it from errors and responses."""

    to: Sender
    key: str = field(repr=False)

    def send(
        self, method: str, url: str, *, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Fetched:
        """Send a request, and return the response with the status that says what its error code does."""
        address = f"{url}{'&' if urlsplit(url).query else '?'}apikey={quote(self.key, safe='')}"
        try:
            response = self.to.send(method, address, body=body, headers=headers)
        except FetchError as error:
            failed = type(error)(self._without_key(str(error)))
        else:
            text = self._without_key(response.body.decode(errors="replace"))
            status = _STATUS.get(_error_code(text), response.status) if response.status == 400 else response.status
            return replace(response, status=status, body=text.encode(), chain=())
        raise failed  # outside of the handler: the first error has the address, and would be its context

    def _without_key(self, text: str) -> str:
        for form in (self.key, quote(self.key, safe="")):
            text = text.replace(form, "***")
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class BingInspector:
    """Asks Bing about URLs of a ``site``, by an API key whose user has verified it.

    ``pause_s`` are the seconds between the beginnings of two requests.
    """

    site: str
    key: str = field(repr=False)
    api: str = API
    http: HttpClient | None = None
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    engine: str = "bing"
    stages: tuple[str, ...] = ("discovered", "crawled")
    pause_s: float = 1.0

    def __post_init__(self) -> None:
        if not (prefix := prefix_of(self.site)):
            raise ConfigurationError(
                f"Bing Webmaster site {self.site!r}: give its address with '/' at the end, like 'https://www.example.com/'"
            )
        object.__setattr__(self, "site", prefix)

    @property
    def properties(self) -> tuple[str, ...]:
        """The site, for which the requests are counted."""
        return (self.site,)

    def day(self, now: datetime) -> date:
        """Return the day in UTC: Bing says of no day how many requests it allows."""
        return now.astimezone(timezone.utc).date()

    def homes(self, url: str) -> list[str]:
        """Return the site, if it contains a URL."""
        return [self.site] if url.startswith(self.site) else []

    def is_used_up(self, response: Fetched) -> bool:
        """Bing does not say whether a limit is that of the day: refusals in a row do."""
        return False

    def sender(self) -> Sender:
        """Return the client that sends the requests."""
        return _Keyed(self.http or client_for(urlsplit(self.api).hostname or ""), self.key)

    def session(self) -> Callable[[str, str, Sender], PageState]:
        """Return a function that inspects URLs."""
        return self._inspect

    def _inspect(self, site: str, url: str, sender: Sender) -> PageState:
        what = f"Bing Webmaster, information of {url}"
        answer = self._call(what, "GetUrlInfo", sender, frozenset({200, 400}), url=url)
        if answer.status == 400 and _error_code(answer.body.decode()) != NOT_FOUND:
            raise NotAcceptedError(f"{what}: Bing refuses the URL (response: {excerpt(answer.body)})")
        return parsed(what, answer, lambda body: _page_state(body["d"] if answer.status == 200 else None))

    def site_state(self, sender: Sender, index_urls: Sequence[str]) -> SiteState:
        """Return Bing's newest crawl statistics of the site, and the state of these indexes."""
        feeds = self._list("GetFeeds", sender, _feeds)
        rows = self._list("GetCrawlStats", sender, _crawl_statistics)
        indexes = tuple(feeds.get(url, SubmittedFeed(url=url)) for url in index_urls)
        for each in indexes:
            log.log(logging.INFO if each.status.lower() in ("success", "pending") else logging.WARNING, "%s", each)
        day = max(rows, default="")
        return SiteState(day=day, pages=rows.get(day, {}), feeds=indexes)

    def _list(self, method: str, sender: Sender, parse: Callable[[Any], T]) -> T:
        what = f"Bing Webmaster, {method} of {self.site}"
        return parsed(what, self._call(what, method, sender, range(200, 300)), lambda body: parse(body["d"]))

    def _call(self, what: str, method: str, sender: Sender, success: range | frozenset[int], **query: str) -> Fetched:
        service = Service(sender=sender, reasons=_REASONS, success=success, sleep=self.sleep)
        address = f"{self.api}/{method}?{urlencode({'siteUrl': self.site, **query})}"
        return service.call(what, "GET", address, headers={"Accept": "application/json"})


def _error_code(body: str) -> int:
    try:
        said = json.loads(body)
        return int((said.get("d") or said)["ErrorCode"])
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return 0


def _moment(value: object) -> datetime | None:
    """Return the time of ``/Date(1399100400000-0700)/``, which counts milliseconds in UTC. Years before 1970 mean never."""
    date_text = _DATE.fullmatch(str(value or "/Date(0)/"))
    if date_text is None:
        raise ValueError(f"{value!r} is no date of Bing's API")
    milliseconds = int(date_text[1])
    return datetime.fromtimestamp(milliseconds / 1_000, tz=timezone.utc) if milliseconds > 0 else None


def _page_state(info: Mapping[str, Any] | None) -> PageState:
    """Read what Bing knows of a URL: nothing, dates of year 1, or an error code if it does not know it."""
    info = info or {}
    crawled, discovered = _moment(info.get("LastCrawledDate")), _moment(info.get("DiscoveryDate"))
    if crawled is None:
        reason = "Not crawled yet" if discovered else "URL is unknown to Bing"
        return PageState(crawled_at=None, is_discovered=discovered is not None, reason=reason)
    status = int(info.get("HttpStatus") or 0)
    return PageState(crawled_at=crawled, reason=f"Crawled with status {status}" if status else "Crawled")


def _feeds(rows: Sequence[Mapping[str, Any]] | None) -> dict[str, SubmittedFeed]:
    return {
        str(row["Url"]): SubmittedFeed(
            url=str(row["Url"]),
            status=str(row.get("Status") or "unknown")[:100],
            urls=int(row.get("UrlCount") or 0),
            last_read=read.isoformat() if (read := _moment(row.get("LastCrawled"))) else None,
        )
        for row in rows or ()
    }


def _crawl_statistics(rows: Sequence[Mapping[str, Any]] | None) -> dict[str, dict[str, int]]:
    return {
        moment.date().isoformat(): {name: int(row.get(said) or 0) for name, said in _PAGES.items()}
        for row in rows or ()
        if (moment := _moment(row.get("Date"))) is not None
    }
