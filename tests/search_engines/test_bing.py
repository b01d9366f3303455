"""Bing Webmaster's API: what is read of it, its errors, and that no place shows the key."""

from __future__ import annotations

import json
import logging
import threading
import traceback
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps.errors import ConfigurationError, SitemapError
from airflow_sitemaps.http import AccessRules, HttpClient
from airflow_sitemaps.search_engines import bing_webmaster, inspection
from airflow_sitemaps.search_engines.bing_webmaster import BingInspector
from airflow_sitemaps.search_engines.index_status import SubmittedFeed, statuses
from airflow_sitemaps.testing import FakeClock
from airflow_sitemaps.web_services import NotAcceptedError
from tests.search_engines.test_inspection import published
from tests.support.bing import KEY, NEVER, SITE, Bing, bing_date, refusal

if TYPE_CHECKING:
    from airflow_sitemaps import Sitemap
    from airflow_sitemaps.search_engines.index_status import Observation
    from tests.support.website import Site

NOW = FakeClock().now()
CRAWLED = {
    "LastCrawledDate": bing_date(NOW - timedelta(days=2)), "DiscoveryDate": bing_date(NOW - timedelta(days=9)),
    "HttpStatus": 200, "IsPage": True,
}  # fmt: skip


@pytest.fixture
def server(engine: Site) -> Bing:
    return Bing(engine, known=lambda url: CRAWLED)


def inspect(server: Bing, loopback: HttpClient, sitemap: Sitemap, *, daily: int = 500) -> list[Observation]:
    clock = FakeClock()
    inspector = BingInspector(
        site=SITE, key=KEY, api=server.api, http=loopback, sleep=lambda s: clock.advance(timedelta(seconds=s))
    )
    return inspection.inspect(
        sitemap, inspector, daily=daily, clock=clock, sleep=lambda s: clock.advance(timedelta(seconds=s))
    )


def test_what_bing_knows_is_counted_and_nothing_is_said_of_its_index(server: Bing, loopback: HttpClient) -> None:
    never = {"LastCrawledDate": NEVER, "DiscoveryDate": NEVER}
    known = {
        "0": CRAWLED,
        "1": {**CRAWLED, "HttpStatus": 404},
        "2": {**never, "DiscoveryDate": bing_date(NOW)},
        "3": never,
        "4": None,
    }
    server.known = lambda url: known[url.rpartition("/")[2]]
    server.answer = lambda method, query: refusal(11, "NotFound") if query.get("url", "").endswith("/5") else None

    (status,) = statuses(inspect(server, loopback, published(a=6)))

    assert (status.inspected, status.failed, status.indexed) == (6, 0, None)
    assert status.shares == {"discovered": status.discovered, "crawled": status.crawled}
    assert status.shares["discovered"].share == pytest.approx(3 / 6)
    assert status.shares["crawled"].share == pytest.approx(2 / 6)
    assert status.reasons == {
        "URL is unknown to Bing": 3, "Crawled with status 200": 1, "Crawled with status 404": 1, "Not crawled yet": 1,
    }  # fmt: skip


def test_the_state_of_the_feeds_and_the_newest_statistics_are_kept(
    server: Bing, loopback: HttpClient, caplog: pytest.LogCaptureFixture
) -> None:
    index = f"{SITE}sitemap.xml"
    server.feeds = [
        {"Url": index, "Status": "Success", "UrlCount": 7, "LastCrawled": bing_date(NOW), "Compressed": False},
        {"Url": f"{SITE}other.xml", "Status": "Error"},
    ]
    server.statistics = [
        {"Date": bing_date(NOW - timedelta(days=day)), "CrawledPages": 100 + day, "CrawlErrors": 4, "InIndex": 90}
        for day in (1, 3, 2)
    ]

    site = inspect(server, loopback, published(a=5))[-1].site

    assert site is not None
    assert site.feeds == (SubmittedFeed(url=index, status="Success", urls=7, last_read=NOW.isoformat()),)
    assert site.day == (NOW - timedelta(days=1)).date().isoformat()
    assert site.pages == {"crawled": 101, "errors": 4, "blocked": 0, "in_index": 90}
    server.feeds = []
    again = inspect(server, loopback, published(a=5))[-1].site
    assert again is not None
    assert again.feeds == (SubmittedFeed(url=index),)
    assert "not submitted: submit it in Bing Webmaster Tools" in caplog.text


def test_statistics_without_a_response_do_not_stop_the_inspection(
    server: Bing, loopback: HttpClient, caplog: pytest.LogCaptureFixture
) -> None:
    server.answer = lambda method, query: (200, b'{"d": [7]}') if method == "GetFeeds" else None

    newest = inspect(server, loopback, published(a=5))[-1]

    assert (newest.site, newest.sections["a"]["other"].inspected) == (None, 5)
    assert "statistics of the site are not read" in caplog.text


def test_urls_outside_the_site_are_not_sampled_and_each_request_counts(server: Bing, loopback: HttpClient) -> None:
    sitemap = published(a=30)

    newest = inspect(server, loopback, sitemap, daily=12)[-1]

    assert len(server.asked) == 12, "two of them for the site"
    assert newest.sections["a"]["other"].inspected == 10
    assert {query["siteUrl"] for _, query in server.asked} == {SITE}
    inspector = BingInspector(site=f"{SITE}b/", key=KEY)
    assert (inspector.homes(f"{SITE}a/1"), inspector.homes(f"{SITE}b/1")) == ([], [f"{SITE}b/"])


@pytest.mark.parametrize(
    ("code", "name", "error", "words"),
    [
        (3, "InvalidApiKey", ConfigurationError, "check the API key"),
        (14, "NotAuthorized", ConfigurationError, "has verified the site"),
        (7, "InvalidUrl", ConfigurationError, "Bing refuses the site"),
    ],
)
def test_errors_that_a_retry_cannot_fix(
    server: Bing, loopback: HttpClient, code: int, name: str, error: type[Exception], words: str
) -> None:
    server.answer = lambda method, query: refusal(code, f"{name} {KEY}")
    with pytest.raises(error, match=words) as raised:
        inspect(server, loopback, published(a=5))
    assert name in str(raised.value)
    assert KEY not in seen(raised.value)


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (refusal(1, "InternalError"), "500"),
        ((503, b"<html>busy"), "503"),
        ((200, b"<html>"), "cannot be parsed"),
        ((200, b'{"d": {"LastCrawledDate": "yesterday"}}'), "cannot be parsed"),
        ((200, b'{"d": {"LastCrawledDate": "/Date(999999999999999)/"}}'), "cannot be parsed"),
        (refusal(8, "InvalidParameter"), "Bing refuses the URL"),
    ],
)
def test_a_task_fails_if_no_url_is_inspected(
    server: Bing, loopback: HttpClient, response: tuple[int, bytes], words: str
) -> None:
    server.answer = lambda method, query: response if method == "GetUrlInfo" else None
    with pytest.raises(NotAcceptedError, match=words):
        inspect(server, loopback, published(a=5))


@pytest.mark.parametrize("code", [4, 5])
def test_a_throttle_is_waited_for_and_in_the_end_ends_the_day(server: Bing, loopback: HttpClient, code: int) -> None:
    server.answer = lambda method, query: (
        refusal(code, "Throttle") if len(server.asked) > 60 or len(server.asked) in (20, 21) else None
    )
    sitemap = published(a=300)
    inspected = inspect(server, loopback, sitemap)[-1].sections["a"]["other"]
    asked = len(server.asked)

    assert 0 < inspected.inspected <= 58
    assert asked < 150
    inspect(server, loopback, sitemap)
    assert len(server.asked) == asked, "the day has ended"


def test_slow_answers_end(server: Bing) -> None:
    blocked = threading.Event()
    quick = HttpClient(rules=AccessRules(allow_http=True, allow_private=True), wait_s=0.3)
    server.answer = lambda method, query: blocked.wait(5) and None if query.get("url", "").endswith("/0") else None

    found = inspect(server, quick, published(a=4))[-1].sections["a"]["other"]
    blocked.set()

    assert (found.inspected, found.failed) == (3, 1)


@pytest.mark.parametrize("site", ["", "shop.example", "https://shop.example", "sc-domain:shop.example", "https://[x/"])
def test_sites_that_cannot_be(site: str) -> None:
    with pytest.raises(ConfigurationError, match="with '/' at the end"):
        BingInspector(site=site, key=KEY)


def test_the_host_of_a_site_may_have_capitals() -> None:
    inspector = BingInspector(site="HTTPS://Shop.Example/A/", key=KEY)
    assert inspector.properties == ("https://shop.example/A/",)
    assert inspector.homes("https://shop.example/A/1") == ["https://shop.example/A/"]
    assert inspector.homes("https://shop.example/a/1") == []


# ---------------------------------------------------------------- the key


def seen(error: BaseException) -> str:
    """All that a log, a debugger or a tracker of errors may show of an exception: each that led to it, and its arguments."""
    shown, pending = [], [error]
    while pending:
        each = pending.pop()
        shown += [repr(each), str(each), *traceback.format_exception(each)]
        pending += [other for other in (each.__cause__, each.__context__) if other is not None]
    return "\n".join(shown)


def encoded(key: str = KEY) -> list[str]:
    """The key, and the forms of it in an address and in JSON."""
    return [key, "b1ng-c4nary%2F%2Bkey", json.dumps(key)[1:-1], "b1ng-c4nary"]


@pytest.mark.parametrize("failure", ["refused", "no connection", "access rules", "broken body", "echo"])
def test_no_failure_shows_the_key(
    server: Bing, loopback: HttpClient, caplog: pytest.LogCaptureFixture, failure: str
) -> None:
    caplog.set_level(logging.DEBUG)
    client, api = loopback, server.api
    if failure == "refused":
        server.answer = lambda method, query: refusal(3, f"InvalidApiKey {query}")
    elif failure == "no connection":
        api = "http://127.0.0.1:9/bing"
    elif failure == "access rules":
        client = HttpClient()
    elif failure == "broken body":
        server.answer = lambda method, query: (200, f"<html>{query}".encode())
    else:
        server.answer = lambda method, query: (500, json.dumps(query).encode())
    inspector = BingInspector(site=SITE, key=KEY, api=api, http=client, sleep=lambda _: None)
    with pytest.raises(SitemapError) as raised:
        inspection.inspect(published(a=3), inspector, daily=50, clock=FakeClock(), sleep=lambda _: None)
    for form in encoded():
        assert form not in seen(raised.value)
        assert form not in caplog.text
        assert form not in repr(inspector) + repr(inspector.sender())


def test_dates_are_read_as_bing_writes_them() -> None:
    assert bing_webmaster._moment("/Date(1399100400000-0700)/") == datetime(2014, 5, 3, 7, 0, tzinfo=timezone.utc)
    assert bing_webmaster._moment("/Date(1399100400000)/") == datetime(2014, 5, 3, 7, 0, tzinfo=timezone.utc)
    never: list[Any] = [NEVER, None, "", "/Date(0)/"]
    assert [bing_webmaster._moment(each) for each in never] == [None] * 4
