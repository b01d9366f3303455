"""The canary: pages that a run adds or changes are requested before the commit, and a bad section stays as published."""

from __future__ import annotations

import gzip
import logging
import random
import re
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_sitemaps import Canary, Guards, MemoryStore, Section, Sitemap, Website, report_text
from airflow_sitemaps.errors import ConfigurationError, GuardError, PartlyPublishedError
from airflow_sitemaps.http import Fetched, FetchError, RedirectError
from airflow_sitemaps.http.page_judge import Paced
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.pipeline.publish import new_pages, publisher
from airflow_sitemaps.pipeline.report import CanaryReport
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.pipeline.status import guard_results
from airflow_sitemaps.shards.guards import SequentialTest
from airflow_sitemaps.testing import FakeClock, MemorySourceConfig, crawl
from tests.support.environment import BASE, World, row
from tests.support.website import Page, serving


@dataclass
class Shop:
    """A website in memory: every page exists but those of ``bad``, by number, which answer otherwise."""

    bad: dict[str, Fetched | None] = field(default_factory=dict)
    is_down: bool = False
    robots: bytes = b""
    requests: list[str] = field(default_factory=list)

    def fetcher(self, address: str) -> Shop:
        return self

    def get(self, url: str) -> Fetched:
        self.requests.append(url)
        name = url.removeprefix(BASE).removeprefix("p/")
        if self.is_down:
            raise FetchError("www.example.com: connection refused")
        if name == "robots.txt":
            return Fetched(status=200, body=self.robots, chain=(url,))
        if name in self.bad:
            answer = self.bad[name]
            if isinstance(answer, FetchError):
                raise answer
            if answer is None:
                raise FetchError("www.example.com: no complete response within 10 s")
            return answer
        if re.fullmatch(r"9\d{8}", name):
            return Fetched(status=404, body=b"", chain=(url,))
        return Fetched(status=200, body=f"<h1>Page {name}".encode(), chain=(url,))

    @property
    def pages(self) -> set[str]:
        return {url for url in self.requests if re.fullmatch(BASE + r"p/\d{1,8}", url)}


GONE = Fetched(status=404, body=b"")


def world_of(
    shop: Shop, keys: Any, guards: dict[str, Any] | None = None, max_urls: int = 100, **settings: Any
) -> World:
    canary = Canary(site=shop, per_second=1e6, **(guards or {}))
    world = World([row(key) for key in keys], max_urls=max_urls, **settings)
    world.guards = Guards(max_shrink=1, max_churn=1, max_growth=1e9, canary=canary)
    return world


# ------------------------------------------------------------ the sequential test


def runs(fraction: float, max_bad: float = 0.02, sample: int = 200, seeds: int = 1_000) -> tuple[float, float]:
    """Return the fraction of refusals and the mean number of requests over seeded draws."""
    refused = requests = 0
    for seed in range(seeds):
        draw, test = random.Random(seed), SequentialTest(max_bad)
        verdict = None
        while verdict is None and test.judged < sample:
            verdict = test.add(is_faulty=draw.random() < fraction)
        refused += test.is_bad if verdict is None else verdict
        requests += test.judged
    return refused / seeds, requests / seeds


@pytest.mark.parametrize(
    ("fraction", "refused", "requests"),
    [
        (0.0, (0.0, 0.0), (66, 66)),
        (0.01, (0.02, 0.07), (90, 112)),
        (0.02, (0.25, 0.37), (118, 142)),
        (0.05, (0.91, 0.96), (82, 100)),
        (0.1, (0.99, 1.0), (32, 40)),
        (1.0, (1.0, 1.0), (3, 3)),
    ],
)
def test_what_a_thousand_draws_refuse_and_cost(
    fraction: float, refused: tuple[float, float], requests: tuple[float, float]
) -> None:
    """Exact: 4.2 % of refusals and 101 requests at 1 %, 31 % and 130 at 2 %, 93.2 % and 91 at 5 %, 99.9 % and 36 at 10 %."""
    measured = runs(fraction)
    assert refused[0] <= measured[0] <= refused[1]
    assert requests[0] <= measured[1] <= requests[1]


@pytest.mark.parametrize("max_bad", [0.001, 0.01, 0.02, 0.1, 0.3])
def test_the_bounds_hold_for_other_limits(max_bad: float) -> None:
    """Wald's bounds, with the error of a thousand draws. The sample does not end the test."""
    assert runs(max_bad / 2, max_bad, sample=10**6, seeds=300)[0] <= 0.02 / (1 - 0.065) + 0.03
    assert runs(2.5 * max_bad, max_bad, sample=10**6, seeds=300)[0] >= 1 - 0.065 / (1 - 0.02) - 0.05


def test_fewer_than_three_faulty_pages_refuse_nothing() -> None:
    test = SequentialTest(0.02)
    assert [test.add(is_faulty=True) for _ in range(2)] == [None, None]
    assert not test.is_bad
    assert test.add(is_faulty=True) is True


@pytest.mark.parametrize(
    "settings",
    [
        {"sample": 9}, {"max_bad": 0}, {"max_bad": 0.5}, {"per_second": 0}, {"ignore": ["noindex"]}, {"site": "staging"},
        {"site": Website},
    ],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"Canary: {next(iter(settings))}="):
        Canary(**settings)
    with pytest.raises(ConfigurationError, match="Guards: canary="):
        Guards(canary=settings)  # type: ignore[arg-type]


# ------------------------------------------------------------ in a run


def test_a_clean_first_build_costs_about_sixty_requests() -> None:
    shop = Shop()
    world = world_of(shop, range(2_000))
    report = world.build()
    assert report.urls == 2_000
    assert report.canaries == {"pages": CanaryReport(requested=66, faulty=0, faults={}, verdict="passed")}
    assert "canary of section pages: passed; 0 of 66 pages faulty" in report_text.lines(report)
    assert len(shop.pages) == 66
    assert len(shop.requests) == 68  # robots.txt, and a page that cannot exist


def test_a_section_with_one_new_page_in_twenty_dead_is_refused_with_counts_and_samples() -> None:
    shop = Shop()
    world = world_of(shop, range(1_000))
    world.build()
    before = world.public()
    world.rows += [row(key) for key in range(1_000, 3_000)]
    shop.bad = {str(key): GONE for key in range(1_000, 3_000, 10)}
    shop.requests.clear()
    with pytest.raises(GuardError) as refused:
        world.build()
    text = str(refused.value)
    assert re.search(
        r"\d+ of \d+ requested pages, new or changed in this run, are faulty \(\d+\.\d%; the limit is", text
    )
    assert re.search(
        r"\d+ page-status, such as https://www\.example\.com/p/\d+0 \(the status is 404, not 200\), http", text
    )
    assert "--allow canary:pages," in text
    refused, first = guard_results(StateRepository(world.config.open().state))
    kept = StateRepository(world.config.open().state).read_report(refused.run)
    assert kept is not None
    canary = kept.to_dict()["canaries"]["pages"]
    assert (canary["verdict"], canary["requested"]) == ("refused", len(shop.pages))
    assert canary["faults"] == {"page-status": canary["faulty"]}
    number = f"{canary['faulty']} of {canary['requested']} pages"
    assert refused.lines[0].startswith(
        f"refused: Section 'pages': {canary['faulty']} of {canary['requested']} requested pages"
    )
    assert refused.lines[1:] == (f"canary of section pages: refused, {number} faulty",)
    assert first.lines == ("canary of section pages: passed, 0 of 66 pages faulty",)
    assert world.public() == before
    assert all(int(url.rpartition("/")[2]) >= 1_000 for url in shop.pages)
    assert world.build(allow=["canary:pages"]).urls == 3_000


@pytest.mark.parametrize("ledger", [False, True])
def test_only_new_and_changed_pages_are_requested(ledger: bool) -> None:
    shop = Shop()
    world = world_of(shop, range(300), section_settings={"ledger": ledger})
    world.build()
    world.clock.advance(timedelta(hours=1))
    world.rows[7]["lastmod"] = world.clock.now() - timedelta(minutes=1)
    del world.rows[200]
    world.rows += [row(key) for key in range(500, 505)]
    shop.requests.clear()
    world.build()
    assert shop.pages == {f"{BASE}p/{key}" for key in (7, *range(500, 505))}
    shop.requests.clear()
    assert world.build().result == "unchanged"
    assert world.build(full=True).result == "unchanged"
    assert not shop.requests


def test_pages_of_a_split_and_of_a_merge_are_not_new() -> None:
    shop = Shop()
    world = world_of(shop, range(0, 200, 2))
    world.build()
    shop.requests.clear()
    world.rows += [row(key) for key in range(1, 60, 2)]  # 130 of at most 100
    world.build()
    assert shop.pages == {f"{BASE}p/{key}" for key in range(1, 60, 2)}
    shop.requests.clear()
    del world.rows[3:]
    world.build(allow=["shrink", "churn"])
    assert not shop.pages


def test_gone_pages_are_no_reason_to_refuse() -> None:
    shop = Shop()
    world = world_of(shop, range(300))
    world.build()
    shop.bad = {str(key): GONE for key in range(100, 300)}
    del world.rows[100:]
    shop.requests.clear()
    assert world.build().urls == 100
    assert not shop.requests


def test_a_site_that_is_down_lets_the_run_publish_with_a_warning() -> None:
    shop = Shop(is_down=True)
    world = world_of(shop, range(300))
    report = world.build()
    assert report.urls == 300
    (warning,) = (text for text in report.warnings if "canary" in text)
    assert "published unchecked" in warning
    assert "the site did not answer 10 of 10 requests, such as https://www.example.com/p/" in warning
    assert "connection refused" in warning
    assert report.canaries["pages"].verdict == "undecided"
    assert "did not answer 10 of 10 requests" in report.canaries["pages"].reason


@pytest.mark.parametrize("status", [401, 403, 407, 408, 425, 429, 500, 503])
def test_a_site_that_refuses_requests_is_no_bad_page(status: int) -> None:
    shop = Shop(bad={str(key): Fetched(status=status, body=b"") for key in range(300)})
    report = world_of(shop, range(300)).build()
    assert report.urls == 300
    assert any(f"the status is {status}" in text for text in report.warnings)


def test_a_few_pages_without_an_answer_do_not_end_the_canary() -> None:
    shop = Shop(bad={str(key): None for key in range(0, 1_000, 10)})
    report = world_of(shop, range(1_000)).build()
    assert not [text for text in report.warnings if "canary" in text]
    assert len(shop.pages) > 66


def test_a_slow_site_lets_the_run_publish_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop()
    world = world_of(shop, range(300))

    def get_late(*_: Any) -> Fetched:
        world.clock.advance(timedelta(minutes=1))
        return GONE

    monkeypatch.setattr(Shop, "get", get_late)
    monkeypatch.setattr(new_pages, "LONGEST", timedelta(minutes=2))
    assert any("longer than 2 minutes" in text for text in world.build().warnings)


@pytest.mark.parametrize(
    ("answer", "check"),
    [
        (Fetched(status=200, body=b"", headers={"x-robots-tag": "noindex"}), "page-noindex"),
        (Fetched(status=200, body=b"<meta name=robots content=noindex>"), "page-noindex"),
        (Fetched(status=200, body=b"<link rel=canonical href=/>"), "page-canonical"),
        (Fetched(status=200, body=b"", chain=("/a", "/b")), "page-redirect"),
        (RedirectError("https://www.example.com/p/1: redirect loop to /p/1"), "page-redirect"),
        (Fetched(status=410, body=b""), "page-status"),
    ],
)
def test_each_fault_refuses_unless_it_is_ignored(answer: Fetched | FetchError, check: str) -> None:
    shop = Shop(bad={str(key): answer for key in range(300)})
    with pytest.raises(GuardError, match=f"3 of 3 requested pages.* 3 {check}, such as"):
        world_of(shop, range(300)).build()
    assert world_of(shop, range(300), {"ignore": [check]}).build().urls == 300


def test_pages_that_cannot_be_decoded_are_not_judged() -> None:
    """A page in an encoding that was not requested, or in damaged gzip, may say noindex: it is no page that passed."""
    whole = gzip.compress(b"<meta name=robots content=noindex>")
    for body, encoding in ((b"\x8b\x02\x80", "br"), (whole[:-9], "gzip"), (gzip.compress(whole), "gzip"), (whole, "")):
        page = Fetched(status=200, body=body, headers={"content-encoding": encoding})
        report = world_of(Shop(bad={str(key): page for key in range(300)}), range(300)).build()
        assert (report.canaries["pages"].verdict, report.canaries["pages"].requested) == ("undecided", 0)
        assert "its content cannot be decoded" in report.canaries["pages"].reason
    empty = Fetched(status=200, body=b"", headers={"content-encoding": "gzip"})  # as browsers take it
    report = world_of(Shop(bad={str(key): empty for key in range(300)}), range(300)).build()
    assert report.canaries["pages"].verdict == "passed"


def test_pages_that_robots_txt_disallows_are_faulty_and_not_requested() -> None:
    shop = Shop(robots=b"User-agent: *\nDisallow: /p/")
    with pytest.raises(GuardError, match="3 page-robots"):
        world_of(shop, range(300)).build()
    assert shop.requests == [f"{BASE}robots.txt"]


def test_pages_that_robots_txt_disallows_are_requested_where_that_is_ignored() -> None:
    """As on a staging site."""
    shop = Shop(robots=b"User-agent: *\nDisallow: /")
    assert world_of(shop, range(300), {"ignore": ["page-robots", "page-noindex"]}).build().urls == 300
    assert len(shop.pages) > 60
    shop.bad = {str(key): GONE for key in range(300)}
    with pytest.raises(GuardError, match="3 page-status"):
        world_of(shop, range(300), {"ignore": ["page-robots", "page-noindex"]}).build()


def test_a_soft_404_is_found_behind_an_ignored_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    get, sorry = Shop.get, Fetched(status=200, body=b"<h1>Sorry", headers={"x-robots-tag": "noindex"})
    monkeypatch.setattr(Shop, "get", lambda self, url: sorry if "/p/" in url else get(self, url))
    with pytest.raises(GuardError, match="3 page-soft-404"):
        world_of(Shop(), range(300), {"ignore": ["page-noindex"]}).build()


def test_a_bad_section_stays_and_the_others_are_published() -> None:
    shop, clock = Shop(bad={str(key): GONE for key in range(100)}), FakeClock()
    store = MemoryStore(base_url=BASE, now=clock.now)
    guards = Guards(canary=Canary(site=shop, per_second=1e6))
    good, bad = ([row(key) for key in range(start, start + 100)] for start in (1_000, 0))

    def sitemap(**settings: Any) -> Sitemap:
        sections = [Section("bad", MemorySourceConfig(bad)), Section("good", MemorySourceConfig(good))]
        return Sitemap(store, sections, guards=guards, **settings)

    with pytest.raises(GuardError, match="Section 'bad': 3 of 3"):
        build(sitemap(on_section_failure="fail_all"), clock=clock)
    assert not store.public.objects
    with pytest.raises(PartlyPublishedError, match="Section 'bad': 3 of 3") as failed:
        build(sitemap(), clock=clock)
    assert [failure.section for failure in failed.value.failures] == ["bad"]  # type: ignore[attr-defined]
    shop.requests.clear()
    build(sitemap(), allow=["canary"], clock=clock)
    assert not shop.requests  # a permit spares the site


def test_a_canary_that_cannot_run_keeps_its_section_and_no_other() -> None:
    store = MemoryStore(base_url=BASE)
    canary = Guards(canary=Canary(site=Website(conn_id="nowhere")))
    old, new = (Section(name, MemorySourceConfig([row(key)])) for name, key in (("old", 1), ("new", 2)))
    sitemap = Sitemap(store, [replace(old, guards=canary), new])
    with pytest.raises(PartlyPublishedError, match=r"Section 'old': its canary cannot run: .*nowhere"):
        build(sitemap)
    assert crawl(store.open()).locs() == {f"{BASE}p/2"}


def test_a_race_of_commits_asks_the_site_once(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop()
    put, lost = publisher.put_manifest, []

    def put_late(*args: Any, **kwargs: Any) -> Any:
        lost.append(1)
        return (None, {}) if len(lost) < 3 else put(*args, **kwargs)

    monkeypatch.setattr(publisher, "put_manifest", put_late)
    assert world_of(shop, range(300)).build().urls == 300
    assert (len(lost), len(shop.pages)) == (3, 66)


def test_a_file_that_grew_most_is_drawn_most_without_a_ledger() -> None:
    """One file has 60 new URLs, and 13 files have one each. A draw by file would find them after the 13."""
    shop = Shop()
    world = world_of(shop, range(0, 2_000, 2), max_urls=100)
    world.build()
    world.rows += [row(key) for key in (*range(1, 2_000, 160), *range(5_000, 5_060))]
    shop.requests.clear()
    world.build()
    numbers = [int(url.rpartition("/")[2]) for url in shop.requests if url in shop.pages]
    assert len(numbers) == 66
    assert sum(number >= 5_000 for number in numbers[:20]) >= 12


def test_a_site_gets_no_more_requests_in_a_second_than_set() -> None:
    shop, now, starts = Shop(), [0.0], []

    def sleep(seconds: float) -> None:
        now[0] += seconds

    paced = Paced(shop, per_second=5, sleep=sleep, monotonic=lambda: now[0])
    for pause in (0.0, 0.05, 0.0, 1.0, 0.0):
        paced.get(f"{BASE}p/1")
        starts.append(round(now[0], 6))
        now[0] += pause
    assert starts == [0.0, 0.2, 0.4, 0.6, 1.6]


# ------------------------------------------------------------ over HTTP


def test_credentials_go_to_the_own_host_only_and_into_no_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    secret, token = "s3cret-pa55", "t0ken-of-staging"
    extra = f'"extra": {{"headers": {{"X-Staging-Token": "{token}"}}}}'
    connection = f'{{"conn_type": "http", "login": "editor", "password": "{secret}", {extra}}}'
    monkeypatch.setenv("AIRFLOW_CONN_STAGING", connection)
    caplog.set_level(logging.DEBUG)
    with serving() as site, serving() as other:
        site.pages = {f"/p/{key}": Page(b"<h1>%d" % key) for key in range(40)}
        site.pages["/p/3"] = Page(status=302, headers={"Location": f"{other.base}/login"})
        site.pages["/p/4"] = Page(b"wrong password: " + secret.encode(), 403)
        clock = FakeClock()
        rows = [{**row(key), "loc": f"{site.base}/p/{key}"} for key in range(60)]
        guards = Guards(
            canary=Canary(per_second=1e6, site=Website(conn_id="staging", allow_http=True, allow_private=True))
        )
        store = MemoryStore(base_url=f"{site.base}/", now=clock.now)
        with pytest.raises(GuardError, match=r"page-status, such as http://127\.0\.0\.1:\d+/p/\d+ \(the status is 404"):
            build(Sitemap(store, [Section("pages", MemorySourceConfig(rows))], guards=guards), clock=clock)
        assert {headers["x-staging-token"] for _, _, headers, _ in site.asked} == {token}
        assert all(headers["authorization"].startswith("Basic ") for _, _, headers, _ in site.asked)
        assert all("authorization" not in h and "x-staging-token" not in h for _, _, h, _ in other.asked)
    assert secret not in caplog.text
    assert token not in caplog.text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("allow_private", "False"),
        ("allow_http", 0),
        ("user_agent", None),
        ("user_agent", "My bot\n"),
        ("user_agent", "Zürich – bot"),
        ("conn_id", 7),
    ],
)
def test_a_setting_of_a_website_that_cannot_be_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(f"Website: {name}={value!r}; give")):
        Website(**{name: value})


@pytest.mark.parametrize("headers", ['"X-Token"', '{"X-Token": "a\\r\\nb"}', '{"X-Token": 7}', '{"X-Token": "ä"}'])
def test_headers_that_http_cannot_send_are_refused_without_their_value(
    monkeypatch: pytest.MonkeyPatch, headers: str
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_STAGING", f'{{"conn_type": "http", "extra": {{"headers": {headers}}}}}')
    with pytest.raises(ConfigurationError, match="'staging': the headers of its extra must be") as refused:
        Website(conn_id="staging").fetcher(BASE)
    assert "a\r\nb" not in str(refused.value)
