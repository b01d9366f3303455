"""Pings: the request, retired addresses, the meaning of each response, and waiting times."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.http import FetchError
from airflow_sitemaps.search_engines.announcer import Ping
from airflow_sitemaps.web_services import NotAcceptedError, excerpt, retry_after
from tests.support.website import Page, Site

if TYPE_CHECKING:
    from airflow_sitemaps.http import HttpClient

INDEX = "https://www.example.com/a/sitemap.xml?v=1&w=ü"


def test_the_sitemaps_address_is_encoded_in_the_query(engine: Site, loopback: HttpClient) -> None:
    path = "/reindex?token=s3cret&url=https%3A%2F%2Fwww.example.com%2Fa%2Fsitemap.xml%3Fv%3D1%26w%3D%C3%BC"
    engine.pages[path] = Page(status=204)
    assert Ping(url=engine.base + "/reindex?token=s3cret&url={sitemap}", http=loopback).send(INDEX) == 204
    assert [(method, path) for method, path, _, _ in engine.asked] == [("GET", path)]


def test_a_cdn_is_purged_by_the_address_itself_with_a_header(engine: Site, loopback: HttpClient) -> None:
    engine.pages["/sitemap.xml"] = Page()
    ping = Ping(url="{sitemap}", method="POST", headers={"Fastly-Key": "abc"}, http=loopback)
    assert ping.send(f"{engine.base}/sitemap.xml") == 200
    assert engine.asked[0][2]["fastly-key"] == "abc"


def test_a_body_may_hold_the_address(engine: Site, loopback: HttpClient) -> None:
    engine.pages["/purge"] = Page()
    headers = {"Content-Type": "application/json"}
    ping = Ping(
        url=engine.base + "/purge", method="POST", headers=headers, body='{"files": ["{sitemap}"]}', http=loopback
    )
    assert ping.send(INDEX) == 200
    assert engine.asked[0][3].decode() == f'{{"files": ["{INDEX}"]}}'


@pytest.mark.parametrize(
    "url",
    [
        "https://www.google.com/ping?sitemap={sitemap}",
        "http://google.com/ping?sitemap={sitemap}",
        "https://www.google.com/webmasters/tools/ping?sitemap={sitemap}",
        "http://www.google.co.uk/webmasters/sitemaps/ping?sitemap={sitemap}",
        "https://www.bing.com/ping?sitemap={sitemap}",
        "http://www.bing.com/webmaster/ping.aspx?siteMap={sitemap}",
    ],
)
def test_dead_addresses_are_refused_with_what_to_use_instead(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"is retired: .*SearchConsoleSubmitOperator for Google and IndexNow"):
        Ping(url=url)


@pytest.mark.parametrize(
    "url", ["https://google.example.com/ping?x={sitemap}", "https://search.google.com/other?{sitemap}"]
)
def test_other_addresses_are_not(url: str) -> None:
    assert Ping(url=url).url == url


def test_templates_that_cannot_be() -> None:
    with pytest.raises(ConfigurationError, match="neither url nor body contains") as raised:
        Ping(url="https://u:pw@a.example/x?token=s3cret")
    assert "s3cret" not in str(raised.value)
    assert "pw" not in str(raised.value)
    for url in ("https://u:pw@[a.example/x?{sitemap}", "https://u:pw@[a.example/x"):
        with pytest.raises(ConfigurationError, match="url= is not a URL") as raised:
            Ping(url=url)
        assert "pw" not in str(raised.value)
    with pytest.raises(ConfigurationError, match="give a method such as 'GET'"):
        Ping(url="https://a.example/?{sitemap}", method="get\r\nX: y")
    with pytest.raises(ConfigurationError, match="body= must be texts"):
        Ping(url="https://a.example/?{sitemap}", body=0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (301, ConfigurationError, "it redirects"),
        (401, ConfigurationError, "credentials are missing"),
        (404, ConfigurationError, "address does not exist"),
        (418, ConfigurationError, "the response has status 418"),
        (429, NotAcceptedError, "retry after 9 s"),
        (503, NotAcceptedError, "503"),
    ],
)
def test_answers(engine: Site, loopback: HttpClient, status: int, error: type[Exception], words: str) -> None:
    engine.pages["/x?token=s3cret&u=https%3A%2F%2Fwww.example.com%2F"] = Page(
        b"why", status, {"Retry-After": "9", "Location": "/y"}
    )
    ping = Ping(url=engine.base + "/x?token=s3cret&u={sitemap}", http=loopback)
    with pytest.raises(error, match=words) as raised:
        ping.send("https://www.example.com/")
    assert "s3cret" not in str(raised.value)
    assert len(engine.asked) == 1


def test_private_addresses_are_not_asked_by_default_and_secrets_not_told(engine: Site, loopback: HttpClient) -> None:
    url = engine.base.replace("http:", "https:") + "/x?token=s3cret&u={sitemap}"
    with pytest.raises(FetchError, match="not of the public Internet"):
        Ping(url=url).send(INDEX)
    engine.pages["/x?token=s3cret&u=a"] = Page(b"x" * 100, headers={"Content-Length": "99999999999"})
    with pytest.raises(FetchError) as raised:
        Ping(url=engine.base + "/x?token=s3cret&u={sitemap}", http=loopback).send("a")
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    "url", ["{}/hooks/T0A1B2C3D/x/s3cret-token", "{}/hooks/T0A1B2C3D/x/s3cret-token?u={{sitemap}}"]
)
def test_a_token_in_the_path_of_a_webhook_is_not_told(engine: Site, loopback: HttpClient, url: str) -> None:
    ping = Ping(url=url.format(engine.base), method="POST", body="{sitemap}", http=loopback)
    _, _, path = ping.address(INDEX).partition(engine.base)
    engine.pages[path] = Page(f"no team T0A1B2C3D: {path} or s3cret-token".encode(), 404)
    with pytest.raises(ConfigurationError, match=r"the address does not exist.*no team") as refused:
        ping.send(INDEX)
    engine.pages[path] = Page(b"x", headers={"Content-Length": "9"})
    with pytest.raises(FetchError, match="the response ends after 1 of 9 bytes") as broken:
        ping.send(INDEX)
    with pytest.raises(FetchError, match="only https is allowed") as plain:
        Ping(url=ping.url, body="{sitemap}").send(INDEX)
    with pytest.raises(ConfigurationError, match="neither url nor body") as wrong:
        Ping(url=engine.base + "/hooks/s3cret-token")
    for told in (refused, broken, plain, wrong):
        assert "s3cret" not in str(told.value)
        assert "T0A1B2C3D" not in str(told.value)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        ("Thu, 15 Jan 2026 12:00:30 GMT", 30.0),
        ("Thu, 15 Jan 2026 11:00:00 GMT", 0.0),
        ("soon", None),
        ("", None),
        ("-5", None),
        ("9" * 400, 999_999_999.0),
    ],
)
def test_waiting_times(value: str, seconds: float | None) -> None:
    assert retry_after(value, datetime(2026, 1, 15, 12, tzinfo=timezone.utc)) == seconds


def test_excerpts_are_one_short_line() -> None:
    assert excerpt(b"a\n\x1b[31m b\xff " + b"x" * 5_000).startswith("a [31m b\N{REPLACEMENT CHARACTER} xx")
    assert len(excerpt(b"x" * 5_000)) < 310
