"""IndexNow: what is sent, by host and in portions, what each response means, and that nothing is sent twice."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.http import FetchError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.pipeline.state.repository import last_announced, record_announced
from airflow_sitemaps.ports import Overwrite
from airflow_sitemaps.search_engines.announcer import ENDPOINT, HOSTS, IndexNow, announce, sender_to
from airflow_sitemaps.web_services import ATTEMPTS, NotAcceptedError
from tests.support.environment import BASE, World, row
from tests.support.website import Page, Site

if TYPE_CHECKING:
    from airflow_sitemaps.http import HttpClient

KEY = "0123-secret-key"
PATH = "/indexnow"


def bodies(engine: Site) -> list[dict[str, Any]]:
    return [json.loads(body) for _, _, _, body in engine.asked]


def site_of(engine: Site, **settings: Any) -> IndexNow:
    engine.pages.setdefault(PATH, Page())
    return IndexNow(key=KEY, endpoint=engine.base + PATH, **settings)


def test_urls_go_out_by_host_each_once_and_in_portions(engine: Site, loopback: HttpClient) -> None:
    urls = [f"https://a.example/{n}" for n in range(10_001)] + ["https://b.example/x", "https://b.example/x"]

    done = site_of(engine).submit(urls, loopback)

    assert (done.urls, done.requests, done.unchecked) == (10_002, 3, 0)
    sent = bodies(engine)
    assert [(each["host"], len(each["urlList"])) for each in sent] == [
        ("a.example", 10_000),
        ("a.example", 1),
        ("b.example", 1),
    ]
    assert [url for each in sent for url in each["urlList"]] == urls[:-1]
    assert all(set(each) == {"host", "key", "urlList"} and each["key"] == KEY for each in sent)
    for method, path, headers, _ in engine.asked:
        assert (method, path) == ("POST", PATH)
        assert headers["content-type"] == "application/json; charset=utf-8"


def test_the_place_of_the_key_is_told_and_limits_the_urls(engine: Site, loopback: HttpClient) -> None:
    engine.pages[PATH] = Page(status=202)
    site = site_of(engine, key_location=f"https://a.example/shop/{KEY}.txt")

    assert site.submit(["https://a.example/shop/1"], loopback).unchecked == 1
    assert bodies(engine) == [
        {
            "host": "a.example",
            "key": KEY,
            "keyLocation": f"https://a.example/shop/{KEY}.txt",
            "urlList": ["https://a.example/shop/1"],
        }
    ]
    with pytest.raises(ConfigurationError, match=r"is outside 'https://a\.example/shop/'"):
        site.submit(["https://a.example/shop/1", "https://a.example/blog/1"], loopback)
    assert len(engine.asked) == 1


def test_nothing_sends_nothing(engine: Site, loopback: HttpClient) -> None:
    assert site_of(engine).submit([], loopback).requests == 0
    assert engine.asked == []


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (400, ConfigurationError, "malformed"),
        (403, ConfigurationError, "key is not valid"),
        (422, ConfigurationError, "not of the host"),
        (429, NotAcceptedError, "retry after 120 s"),
        (500, NotAcceptedError, "Try again later"),
        (302, ConfigurationError, "status 302"),
    ],
)
def test_answers(
    engine: Site,
    loopback: HttpClient,
    status: int,
    error: type[Exception],
    words: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    engine.pages[PATH] = Page(f"no {KEY}, no entry".encode(), status, {"Retry-After": "120", "Location": "/x"})

    with pytest.raises(error, match=words) as raised:
        site_of(engine).submit(["https://a.example/1"], loopback)

    assert "(response: no ***, no entry)" in str(raised.value)
    assert KEY not in str(raised.value) + caplog.text
    assert len(engine.asked) == 1


def test_a_short_pause_that_is_asked_for_is_kept(engine: Site, loopback: HttpClient) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            engine.pages[PATH] = Page()

    site = site_of(engine, sleep=pause)
    engine.pages[PATH] = Page(status=429, headers={"Retry-After": "7"})

    assert site.submit(["https://a.example/1"], loopback).requests == 1
    assert pauses == [7.0, 7.0]
    engine.pages[PATH] = Page(status=429, headers={"Retry-After": "7"})
    with pytest.raises(NotAcceptedError) as raised:
        site.submit(["https://a.example/1"], loopback)
    assert (raised.value.wait_s, len(pauses)) == (7.0, 2 + ATTEMPTS - 1)


@pytest.mark.parametrize("key", ["", "short", "x" * 129, "has space in it", "slash/slash", "naïvenaïve", KEY + "\n"])
def test_keys_that_cannot_be(key: str) -> None:
    with pytest.raises(ConfigurationError, match="8 to 128"):
        IndexNow(key=key)


@pytest.mark.parametrize(
    "url", ["/relative", "ftp://a.example/x", "https:///nothing", "", "https://u:p@a.example/", "https://a:b:c/"]
)
def test_urls_that_cannot_be(url: str, loopback: HttpClient) -> None:
    with pytest.raises(ConfigurationError, match="not an absolute URL"):
        IndexNow(key=KEY).submit([url], loopback)


def test_only_engines_that_take_part_are_asked_unless_a_client_says_so(engine: Site) -> None:
    for host in HOSTS:
        assert sender_to(f"https://{host}/indexnow").rules.hosts == HOSTS
    for endpoint in (engine.base + PATH, "http://api.indexnow.org/indexnow", "https://api.indexnow.org.evil.example/"):
        with pytest.raises(ConfigurationError, match="not one of api"):
            IndexNow(key=KEY, endpoint=endpoint).submit(["https://a.example/1"])
    with pytest.raises(FetchError, match="only https"):
        sender_to(ENDPOINT).send("POST", engine.base + PATH)
    assert engine.asked == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("endpoint", "api.indexnow.org"), ("endpoint", 5), ("key_location", f"/{KEY}.txt"), ("key_location", 5)],
)
def test_addresses_are_absolute(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"IndexNow: {name} is not an absolute http or https URL"):
        IndexNow(key=KEY, **{name: value})


def test_the_key_is_not_shown() -> None:
    assert KEY not in repr(IndexNow(key=KEY, key_location=f"https://a.example/{KEY}.txt"))


# ---------------------------------------------------------------- of a sitemap


@pytest.fixture
def world() -> World:
    world = World([row(n) for n in range(1, 13)])
    world.build()
    return world


def urls_told(engine: Site) -> list[str]:
    return [url.removeprefix(BASE) for body in bodies(engine) for url in body["urlList"]]


def test_the_first_generation_is_not_told_and_later_ones_are_told_once(
    world: World, engine: Site, loopback: HttpClient
) -> None:
    site = site_of(engine)
    assert announce(world.sitemap(), site, sender=loopback).urls == 0
    world.rows[0]["priority"] = 0.3
    world.rows[11]["loc"] = f"{BASE}p/moved"
    world.build()

    done = announce(world.sitemap(), site, sender=loopback)

    assert (done.since, done.generation, done.added, done.changed, done.removed) == (1, 2, 1, 1, 1)
    assert urls_told(engine) == ["p/moved", "p/1", "p/12"]
    assert announce(world.sitemap(), site, sender=loopback).urls == 0
    world.build()
    assert announce(world.sitemap(), site, sender=loopback).urls == 0
    assert len(engine.asked) == 1
    assert announce(world.sitemap(), site, generation=2, sender=loopback).urls == 3


def test_what_a_failed_task_left_out_the_next_one_tells(world: World, engine: Site, loopback: HttpClient) -> None:
    site = site_of(engine)
    announce(world.sitemap(), site, sender=loopback)
    world.rows.append(row(20))
    world.build()
    engine.pages[PATH] = Page(status=503)
    with pytest.raises(NotAcceptedError):
        announce(world.sitemap(), site, sender=loopback)
    world.rows.append(row(21))
    world.build()
    engine.pages[PATH] = Page()
    engine.asked.clear()

    assert announce(world.sitemap(), site, sender=loopback).added == 2
    assert urls_told(engine) == ["p/20", "p/21"]


def test_a_backfill_is_only_made_when_asked_for(world: World, engine: Site, loopback: HttpClient) -> None:
    world.rows.append(row(20))
    world.build()
    assert announce(world.sitemap(), site_of(engine), sender=loopback).added == 1
    other = IndexNow(key=KEY, endpoint=engine.base.replace("127.0.0.1", "localhost") + PATH)
    assert announce(world.sitemap(), other, backfill=True, sender=loopback).added == 13
    assert announce(world.sitemap(), other, backfill=True, sender=loopback).added == 0


def test_too_many_changes_are_passed_over(
    world: World, engine: Site, loopback: HttpClient, caplog: pytest.LogCaptureFixture
) -> None:
    for each in world.rows:
        each["priority"] = 0.3
    world.build()

    done = announce(world.sitemap(), site_of(engine), max_urls=11, sender=loopback)

    assert (done.too_many, done.urls, engine.asked) == (True, 0, [])
    assert "raise max_urls" in caplog.text
    assert asdict(announce(world.sitemap(), site_of(engine), sender=loopback))["too_many"] is False
    assert engine.asked == []


def test_urls_that_the_key_does_not_cover_are_left_out(world: World, engine: Site, loopback: HttpClient) -> None:
    world.rows.append(row(20, loc=f"{BASE}other/20"))
    world.rows.append(row(21))
    world.build()

    place = f"{BASE}p/{KEY}.txt".replace("https://www.", "https://WWW.").replace(".com/", ".com:443/")
    done = announce(world.sitemap(), site_of(engine, key_location=place), sender=loopback)

    assert (done.urls, done.outside, urls_told(engine)) == (1, 1, ["p/21"])


def test_keys_of_two_folders_are_announced_apart(world: World, engine: Site, loopback: HttpClient) -> None:
    world.rows.append(row(20, loc=f"{BASE}other/20"))
    world.rows.append(row(21))
    world.build()
    for folder in ("p", "other"):
        site = site_of(engine, key_location=f"{BASE}{folder}/{KEY}.txt")
        assert announce(world.sitemap(), site, sender=loopback).urls == 1
        assert announce(world.sitemap(), site, sender=loopback).urls == 0
    assert urls_told(engine) == ["p/21", "other/20"]


def test_without_an_earlier_generation_nothing_is_sent(
    engine: Site, loopback: HttpClient, caplog: pytest.LogCaptureFixture
) -> None:
    world = World([row(n) for n in range(12)])
    for number in (20, 21, 22):
        world.rows.append(row(number))
        sitemap = replace(world.sitemap(), history=1)
        build(sitemap, clock=world.clock)
        assert announce(sitemap, site_of(engine), sender=loopback).urls == 0
    assert engine.asked == []
    assert "generation 2, the one to compare with, is no longer kept; nothing is sent" in caplog.text


def test_a_mark_that_is_damaged_or_of_another_store_costs_only_the_last_changes(
    world: World, engine: Site, loopback: HttpClient, caplog: pytest.LogCaptureFixture
) -> None:
    world.rows.append(row(20))
    world.build()
    objects = world.store.state
    for mark in (b"", b"[]", b'{"generation": "x"}'):
        objects.put("told/me.json", mark, mode=Overwrite(), metadata={}, content_type="application/json")
        assert last_announced(objects, "me") is None
    record_announced(objects, "indexnow-127.0.0.1", 99)

    assert announce(world.sitemap(), site_of(engine), sender=loopback).added == 1
    assert "no longer kept" in caplog.text
    with pytest.raises(ValueError, match="part of a key"):
        record_announced(objects, "../x", 1)
