"""A server that plays Bing Webmaster's API: what it knows of URLs, feeds and the site, and the errors of its documents."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from tests.support.website import Page, respond

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from tests.support.website import Site

KEY = "b1ng-c4nary/+key"
"""A key with characters that an address must encode."""

NEVER = "/Date(-62135568000000-0800)/"
SITE = "https://shop.example/"


def bing_date(moment: datetime) -> str:
    """A time as Bing's JSON has it."""
    return f"/Date({int(moment.timestamp() * 1_000)}-0700)/"


def refusal(code: int, name: str) -> tuple[int, bytes]:
    """An error as Bing answers it."""
    return 400, json.dumps({"ErrorCode": code, "Message": f"ERROR!!! {name}"}).encode()


@dataclass
class Bing:
    """What the server knows, and the requests that it got, by method and parameters. ``answer`` may replace a response."""

    engine: Site
    known: Callable[[str], Mapping[str, Any] | None] = lambda url: None
    feeds: list[dict[str, Any]] = field(default_factory=list)
    statistics: list[dict[str, Any]] = field(default_factory=list)
    answer: Callable[[str, dict[str, str]], tuple[int, bytes] | None] = lambda method, query: None
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for method in ("GetUrlInfo", "GetFeeds", "GetCrawlStats"):
            self.engine.pages[f"/bing/{method}?*"] = Page(write=self._write)

    @property
    def api(self) -> str:
        return f"{self.engine.base}/bing"

    @property
    def urls(self) -> list[str]:
        return [query["url"] for method, query in self.asked if method == "GetUrlInfo"]

    def _write(self, handler: Any) -> None:
        method = urlsplit(handler.path).path.rpartition("/")[2]
        query = dict(parse_qsl(urlsplit(handler.path).query))
        self.asked.append((method, query))
        found = self.answer(method, query)
        if found is None and query.get("apikey") != KEY:
            found = refusal(3, "InvalidApiKey")
        if found is None:
            held = {"GetFeeds": self.feeds, "GetCrawlStats": self.statistics}
            value = self.known(query["url"]) if method == "GetUrlInfo" else held[method]
            found = 200, json.dumps({"d": value}).encode()
        respond(handler, found[1], found[0])
