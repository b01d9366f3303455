"""Inspection of listed URLs: the quota, the order, the estimates, and every response of a server that plays Google."""

from __future__ import annotations

import json
import random
import threading
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps import MemoryStore, Section, Sitemap
from airflow_sitemaps.errors import ConfigurationError, StoreError
from airflow_sitemaps.http import AccessRules, HttpClient
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.ports import Overwrite
from airflow_sitemaps.search_engines import index_status, inspection, quota
from airflow_sitemaps.search_engines.index_status import Observation, estimate, median, statuses
from airflow_sitemaps.search_engines.inspection import shares
from airflow_sitemaps.search_engines.searchconsole import GoogleInspector
from airflow_sitemaps.testing import FakeClock, MemorySourceConfig
from airflow_sitemaps.web_services import NotAcceptedError
from tests.support.website import Page, respond

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.website import Site

URL = "https://shop.example/"
DOMAIN = "sc-domain:shop.example"
PATH = "/urlInspection/index:inspect"
TOKEN = "ya29.secret-token"
ZERO = datetime(2026, 1, 15, 12, tzinfo=timezone.utc)


@dataclass
class Google:
    """What a server that plays Google knows, and the requests it got. ``answer`` may replace the response to a request."""

    engine: Site
    loopback: HttpClient
    clock: FakeClock = field(default_factory=FakeClock)
    quota: int = 10**9
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    known: Callable[[str], dict[str, Any]] = lambda url: {"verdict": "PASS", "coverageState": "Submitted and indexed"}
    answer: Callable[[str, str], tuple[int, bytes, dict[str, str]] | None] = lambda site, url: None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.engine.pages[PATH] = Page(write=self._write)

    def _write(self, handler: Any) -> None:
        asked = json.loads(handler.body)
        site, url = asked["siteUrl"], asked["inspectionUrl"]
        day = GoogleInspector(properties=(site,), token=str).day(self.clock.now())
        with self.lock:
            self.asked.append((day, site, url))
            spent = sum((day, site) == each[:2] for each in self.asked)
        status, body, headers = self.answer(site, url) or (200, b"", {})
        if spent > self.quota:
            status, body = 429, b'{"error": {"message": "Quota exceeded: inspection requests per day"}}'
        if status == 200 and not body:
            body = json.dumps({"inspectionResult": {"indexStatusResult": self.known(url)}}).encode()
        respond(handler, body, status, headers)

    def inspector(self, *properties: str) -> GoogleInspector:
        return GoogleInspector(
            properties=properties or (DOMAIN,), token=lambda: TOKEN, api=self.engine.base, http=self.loopback,
            sleep=self.sleep,
        )  # fmt: skip

    def sleep(self, seconds: float) -> None:
        with self.lock:
            self.clock.advance(timedelta(seconds=seconds))

    def inspect(self, sitemap: Sitemap, *properties: str, daily: int = 2_000) -> list[Observation]:
        inspector = self.inspector(*properties)
        return inspection.inspect(sitemap, inspector, daily=daily, clock=self.clock, sleep=self.sleep)

    @property
    def urls(self) -> list[str]:
        return [url for _, _, url in self.asked]


@pytest.fixture
def google(engine: Site, loopback: HttpClient) -> Google:
    return Google(engine, loopback)


def published(**sizes: int) -> Sitemap:
    sections = [
        Section(name, MemorySourceConfig([{"id": n, "loc": f"{URL}{name}/{n}"} for n in range(size)]))
        for name, size in sizes.items()
    ]
    sitemap = Sitemap(MemoryStore(base_url=URL), sections)
    build(sitemap)
    return sitemap


# ---------------------------------------------------------------- the estimates


@pytest.mark.parametrize("strata", [[(400, 0.9)], [(5_000, 0.02)], [(300, 0.1), (900, 0.4), (20_000, 0.97)]])
def test_intervals_cover_the_truth_in_95_percent_of_samples(strata: list[tuple[int, float]]) -> None:
    listed = [[n < urls * share for n in range(urls)] for urls, share in strata]
    truth = sum(map(sum, listed)) / sum(map(len, listed))
    covered = 0
    for seed in range(1_000):
        draw = random.Random(seed)
        samples = [draw.sample(urls, 120) for urls in listed]
        found = estimate([(len(urls), 120, sum(sample)) for urls, sample in zip(listed, samples, strict=True)])
        covered += found.low <= truth <= found.high
    assert covered >= 950


def test_an_age_counts_by_the_number_of_its_listed_urls() -> None:
    found = estimate([(100, 50, 0), (9_900, 50, 50)])

    assert found.share == pytest.approx(0.99)
    assert found.low < 0.99 < found.high
    assert estimate([(10, 0, 0)]) == estimate([]) == index_status.Estimate(share=0.0, low=0.0, high=1.0)


def test_the_median_waits_for_half_of_the_urls() -> None:
    assert median({}) is None
    assert median({"0": 2, "3": 2, "": 1}) == 3
    assert median({"0": 2, "": 2}) is None


def test_small_sections_leave_their_share_to_large_ones() -> None:
    assert shares(100, {"a": 10, "b": 1_000, "c": 50}) == {"a": 10, "b": 45, "c": 45}
    assert shares(100, {"a": 10}) == {"a": 10}
    assert shares(100, {}) == {}


# ---------------------------------------------------------------- the sample


def test_no_url_is_inspected_twice_before_all_were(google: Google) -> None:
    sitemap = published(a=25, b=10)
    for _ in range(5):
        google.inspect(sitemap, daily=10)
        google.clock.advance(timedelta(days=1))

    of_a = [url for url in google.urls if "/a/" in url]
    assert len(google.asked) == 50
    assert len(of_a) == 25
    assert len(set(of_a)) == 25
    of_b = [url for url in google.urls if "/b/" in url]
    assert len(set(of_b[:10])) == 10


def test_no_url_is_inspected_twice_a_day(google: Google) -> None:
    sitemap = published(a=12)
    for _ in range(3):
        google.inspect(sitemap)

    assert len(google.asked) == 12


def test_the_sample_is_random_and_its_estimates_are_of_seven_days(google: Google) -> None:
    google.known = lambda url: {"verdict": "PASS" if int(url.rpartition("/")[2]) < 300 else "NEUTRAL"}
    sitemap = published(a=1_000)
    for _ in range(7):
        google.inspect(sitemap, daily=60)
        google.clock.advance(timedelta(days=1))
    observations = google.inspect(sitemap, daily=60)

    (status,) = statuses(observations)

    assert (status.urls, status.inspected) == (1_000, 420)
    assert status.indexed.low <= 0.3 <= status.indexed.high
    assert status.indexed.high - status.indexed.low < 0.11
    assert len(observations) == 8


def test_what_google_knows_is_counted(google: Google) -> None:
    states: dict[str, dict[str, Any]] = {
        "0": {
            "verdict": "PASS", "coverageState": "Submitted and indexed", "lastCrawlTime": "2026-01-14T11:00:00.5Z",
            "googleCanonical": f"{URL}a/0",
        },
        "1": {
            "verdict": "NEUTRAL", "coverageState": "Duplicate, Google chose different canonical than user",
            "lastCrawlTime": "2026-01-02T11:00:00Z", "googleCanonical": f"{URL}other",
        },
        "2": {"verdict": "NEUTRAL", "coverageState": "URL is unknown to Google"},
    }  # fmt: skip
    google.known = lambda url: states[url.rpartition("/")[2]]
    rows = [{"id": n, "loc": f"{URL}a/{n}", "lastmod": ZERO - timedelta(days=4)} for n in range(3)]
    sitemap = Sitemap(
        MemoryStore(base_url=URL), [Section("a", MemorySourceConfig(rows, lastmod="lastmod"), ledger=True)]
    )
    build(sitemap, clock=google.clock)
    google.clock.advance(timedelta(hours=1))

    (status,) = statuses(google.inspect(sitemap))

    assert (status.inspected, status.other_canonical, status.failed) == (3, 1, 0)
    assert (status.crawled.share, status.indexed.share) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert status.reasons["URL is unknown to Google"] == 1
    assert (status.first_crawl_days, status.first_crawl_of) == (0, 3), "two were crawled before they were listed"
    assert (status.recrawl_days, status.recrawl_of) == (None, 3), "one was crawled since its lastmod"


def test_a_url_that_google_only_discovered_is_not_crawled(google: Google) -> None:
    google.known = lambda url: {
        "verdict": "NEUTRAL", "coverageState": "Discovered - currently not indexed",
        "lastCrawlTime": "1970-01-01T00:00:00Z",
    }  # fmt: skip
    rows = [{"id": n, "loc": f"{URL}a/{n}"} for n in range(3)]
    sitemap = Sitemap(MemoryStore(base_url=URL), [Section("a", MemorySourceConfig(rows), ledger=True)])
    build(sitemap, clock=google.clock)

    (status,) = statuses(google.inspect(sitemap))

    assert status.crawled is not None
    assert status.crawled.share == 0
    assert (status.first_crawl_days, status.first_crawl_of) == (None, 3)


def test_new_urls_are_a_sample_of_their_own(google: Google) -> None:
    rows = [{"id": n, "loc": f"{URL}a/{n}"} for n in range(200)]
    sitemap = Sitemap(MemoryStore(base_url=URL), [Section("a", MemorySourceConfig(rows), ledger=True)])
    build(sitemap, clock=google.clock)
    google.clock.advance(timedelta(days=20))
    rows += [{"id": n, "loc": f"{URL}a/{n}"} for n in range(200, 210)]
    build(sitemap, clock=google.clock)

    google.inspect(sitemap, daily=40)

    ages = google.inspect(sitemap, daily=40)[-1].sections["a"]
    assert {age: (stratum.urls, stratum.inspected) for age, stratum in ages.items()} == {
        "new": (10, 10), "other": (200, 30),
    }  # fmt: skip


def test_a_url_is_inspected_in_the_most_specific_property_that_has_quota_left(google: Google) -> None:
    sitemap = published(a=30, b=30)

    google.inspect(sitemap, DOMAIN, f"{URL}a/", daily=20)

    by_site = {site: [url for _, s, url in google.asked if s == site] for site in (DOMAIN, f"{URL}a/")}
    assert {site: len(urls) for site, urls in by_site.items()} == {DOMAIN: 20, f"{URL}a/": 20}
    assert all("/a/" in url for url in by_site[f"{URL}a/"])
    assert any("/b/" in url for url in by_site[DOMAIN])


def test_urls_outside_the_properties_are_not_counted(google: Google) -> None:
    found = google.inspect(published(a=30, b=30), f"{URL}a/")

    assert [status.section for status in statuses(found)] == ["a"]
    assert found[-1].sections["b"] == {}
    assert len(google.asked) == 30


def test_sections_outside_the_properties_take_no_share_of_the_quota(google: Google) -> None:
    google.inspect(published(a=300, b=300, c=300), f"{URL}a/", daily=200)
    assert len(google.asked) == 200


# ---------------------------------------------------------------- the quota


@pytest.mark.parametrize("days_in_all", [7, pytest.param(30, marks=pytest.mark.long)])
def test_no_day_exceeds_the_quota_whatever_fails(google: Google, days_in_all: int) -> None:
    """Several runs a day, some killed in the middle, responses of every kind, repeated requests included."""
    sitemap, draw = published(a=900), random.Random(5)

    def answer(site: str, url: str) -> tuple[int, bytes, dict[str, str]] | None:
        luck = draw.random()
        if luck < 0.002:
            raise ConnectionAbortedError
        return (503, b"", {}) if luck < 0.1 else (429, b"", {"Retry-After": "0"}) if luck < 0.15 else None

    google.answer = answer
    for hour in range(24 * days_in_all):
        if hour % 7 == 0:
            google.inspect(sitemap, daily=30)
        google.clock.advance(timedelta(hours=1))
    days: dict[str, int] = {}
    for day, _, _ in google.asked:
        days[day] = days.get(day, 0) + 1
    assert max(days.values()) == 30
    assert len(days) in (days_in_all, days_in_all + 1)


def test_a_task_that_is_killed_wastes_requests_and_exceeds_nothing(
    google: Google, monkeypatch: pytest.MonkeyPatch
) -> None:
    sitemap = published(a=100)

    class KilledError(BaseException):
        pass

    def killed(*_: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(inspection, "CHUNK", 10)
        patch.setattr(inspection._Run, "ask", killed)
        patch.setattr(quota.DayQuota, "settle", lambda _: None)
        with pytest.raises(KilledError):
            google.inspect(sitemap, daily=50)

    began = google.clock.now()
    google.inspect(sitemap, daily=50)

    assert len(google.asked) == 10, "ten URLs with up to four requests each were reserved"
    assert google.clock.now() - began >= quota.LEASE, "what the killed task had still to send is awaited"


def test_requests_are_fewer_than_600_a_minute() -> None:
    moment, sent = [0.0], []
    google = GoogleInspector(properties=(DOMAIN,), token=str)
    spending = quota.DayQuota(
        MemoryStore(base_url=URL).open().state, "quota.json", google, daily=2_000, clock=FakeClock(ZERO),
        sleep=lambda s: moment.__setitem__(0, moment[0] + s), monotonic=lambda: moment[0],
    )  # fmt: skip
    assert spending.reserve({DOMAIN: 500})
    for _ in range(2_000):
        spending.spend(DOMAIN)
        sent.append(moment[0])
    assert all(later - earlier >= 60 for earlier, later in zip(sent, sent[600:], strict=False))
    assert pytest.approx(sent[-1]) == 1_999 * google.pause_s


def test_the_next_day_goes_on_where_the_engine_ended_the_day(google: Google) -> None:
    google.quota = 12
    sitemap = published(a=40)

    first = google.inspect(sitemap)[-1].sections["a"]["other"]
    again = google.inspect(sitemap)[-1].sections["a"]["other"]
    google.clock.advance(timedelta(days=1))
    google.quota = 10**6
    second = google.inspect(sitemap)[-1].sections["a"]["other"]

    assert first.inspected <= 12
    assert (again.inspected, again.failed) == (first.inspected, 0)
    assert second.inspected == 40


@pytest.mark.parametrize("free", [0, 50])
def test_refusals_without_a_reason_end_the_day(google: Google, free: int) -> None:
    google.answer = lambda site, url: (429, b"Too many", {}) if len(google.asked) > free else None

    sitemap = published(a=400)
    seen = google.inspect(sitemap)[-1].sections["a"]["other"]
    sent = len(google.asked)

    assert seen.inspected <= free
    assert seen.failed == 0, "their turn is the next day"
    assert sent < 200
    google.inspect(sitemap)
    assert len(google.asked) == sent, "the day has ended"


def test_a_refusal_whose_text_names_a_status_is_no_spent_quota(google: Google) -> None:
    first = min((f"{URL}a/{n}" for n in range(400)), key=inspection.order_of)
    refused, spent = (400, b"not status 429", {}), (429, b"Too many", {})
    google.answer = lambda site, url: refused if url == first else spent if len(google.asked) > 50 else None

    assert google.inspect(published(a=400))[-1].sections["a"]["other"].failed == 1


# ---------------------------------------------------------------- responses


def test_single_urls_without_a_result_are_counted_apart(google: Google, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    google.answer = lambda site, url: {
        "0": (400, b"bad", {}), "1": (500, b"", {}), "2": (200, b"[]", {})
    }.get(url.rpartition("/")[2])  # fmt: skip

    (status,) = statuses(google.inspect(published(a=10)))

    assert (status.inspected, status.failed) == (7, 3)
    assert "3 of 10 URLs could not be inspected" in caplog.text
    assert "inspected 10 of 10 URLs" in caplog.text
    assert TOKEN not in caplog.text


def test_a_url_that_is_alone_in_the_last_chunk_fails_no_task(google: Google) -> None:
    last = max((f"{URL}a/{n}" for n in range(inspection.CHUNK + 1)), key=inspection.order_of)
    google.answer = lambda site, url: (400, b"bad", {}) if url == last else None
    (status,) = statuses(google.inspect(published(a=inspection.CHUNK + 1)))
    assert (status.inspected, status.failed) == (inspection.CHUNK, 1)


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (401, ConfigurationError, "token is not valid"),
        (403, ConfigurationError, "no permission"),
        (400, NotAcceptedError, "Google refuses the URL"),
        (503, NotAcceptedError, "503"),
    ],
)
def test_a_task_fails_if_no_url_is_inspected(google: Google, status: int, error: type[Exception], words: str) -> None:
    google.answer = lambda site, url: (status, f"no {TOKEN}".encode(), {})
    with pytest.raises(error, match=words) as raised:
        google.inspect(published(a=10))
    assert TOKEN not in str(raised.value)


def test_slow_responses_end(google: Google) -> None:
    google.loopback = HttpClient(rules=AccessRules(allow_http=True, allow_private=True), wait_s=0.2)
    blocked = threading.Event()
    google.answer = lambda site, url: (blocked.wait(5) and None) if url.endswith("/0") else None

    found = google.inspect(published(a=5))[-1].sections["a"]["other"]
    blocked.set()

    assert (found.inspected, found.failed) == (4, 1)


def test_an_engine_that_is_too_slow_for_its_lease_is_warned_of(
    google: Google, caplog: pytest.LogCaptureFixture
) -> None:
    def spend(*_: Any) -> None:
        raise quota.UsedUpError("the service is too slow for the requests that were reserved")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(quota.DayQuota, "spend", spend)
        google.inspect(published(a=10))
    assert "not all of these 10 URLs were inspected: the service is too slow" in caplog.text


# ---------------------------------------------------------------- the record


def test_two_tasks_at_once_are_noticed(google: Google) -> None:
    sitemap = published(a=10)
    others = [1]

    def answer(site: str, url: str) -> None:
        if others and others.pop():
            google.inspect(sitemap)

    google.answer = answer
    with pytest.raises(StoreError):
        google.inspect(sitemap)


def test_a_damaged_record_of_the_quota_sends_nothing_that_day(google: Google, caplog: pytest.LogCaptureFixture) -> None:
    sitemap = published(a=10)
    damage(sitemap, f"{index_status.AREA}quota/google.json")

    google.inspect(sitemap)
    assert google.asked == []
    assert "begin again tomorrow" in caplog.text
    google.clock.advance(timedelta(days=1))
    google.inspect(sitemap)
    assert len(google.asked) == 10


def test_after_a_damaged_record_the_sample_begins_again(google: Google, caplog: pytest.LogCaptureFixture) -> None:
    sitemap = published(a=10)
    google.inspect(sitemap, daily=4)
    damage(sitemap, f"{index_status.AREA}google.json")

    google.inspect(sitemap, daily=8)

    assert (len(google.asked), sorted(google.urls[4:])) == (8, sorted(google.urls[:4]))
    assert "the sample begins again" in caplog.text


def damage(sitemap: Sitemap, key: str) -> None:
    objects = sitemap.store.open().state
    objects.put(key, b"{", mode=Overwrite(), metadata={}, content_type="application/json")


def test_old_observations_are_removed_and_unreadable_ones_left_out(
    google: Google, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_status, "KEPT", 3)
    sitemap = published(a=10)
    for _ in range(5):
        google.inspect(sitemap, daily=2)
        google.clock.advance(timedelta(days=1))
    objects = sitemap.store.open().state
    keys = sorted(info.key for info in objects.list(f"{index_status.AREA}google/"))
    assert len(keys) == 3
    for key, body in zip(keys, (b"", b'{"format": 99, "engine": "google", "day": "2026-01-01"}', None), strict=True):
        if body is not None:
            objects.put(key, body, mode=Overwrite(), metadata={}, content_type="application/json")

    assert len(index_status.history(objects, "google")) == 1


@pytest.mark.parametrize("site", ["", "example.com", "sc-domain:"])
def test_properties_that_cannot_be(site: str) -> None:
    with pytest.raises(ConfigurationError, match="give a URL prefix"):
        GoogleInspector(properties=(site,), token=lambda: TOKEN)


def test_the_day_is_californias() -> None:
    inspector = GoogleInspector(properties=(DOMAIN,), token=lambda: TOKEN)
    assert inspector.day(datetime(2026, 7, 1, 6, 59, tzinfo=timezone.utc)) == date(2026, 6, 30)
    assert inspector.day(datetime(2026, 7, 1, 7, 0, tzinfo=timezone.utc)) == date(2026, 7, 1)
    assert inspector.day(datetime(2026, 1, 1, 7, 59, tzinfo=timezone.utc)) == date(2025, 12, 31)
