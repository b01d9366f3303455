"""What a real run sent to the search engines, and what they returned: seen on the sitemap's page."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.support.bing import KEY, NEVER, Bing, bing_date
from tests.support.website import Page, computed, serving
from tests.ui.conftest import THEMES
from tests.ui.layout import WIDTHS, shows_everything, width_of
from tests.ui.scale import uri_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.website import Site as Website
    from tests.ui.browser import Visitor
    from tests.ui.site import Site

pytestmark = [pytest.mark.ui, pytest.mark.timeout(1_800)]

PROPERTY = "sc-domain:announced.example"
SECTIONS = ("pages", "news")
DAG = """
import os
from pathlib import Path

from airflow.sdk import DAG

from airflow_sitemaps import (
    AccessLog, BingWebmasterOperator, IndexNowOperator, LocalStore, SearchConsoleInspectOperator, SearchConsoleSubmitOperator, Section, Sitemap,
    SitemapFetchesOperator, SitemapPingOperator, SitemapTaskGroup, SqlSource,
)
from airflow_sitemaps.http import HttpClient
from airflow_sitemaps.http import AccessRules

LOOPBACK = HttpClient(rules=AccessRules(allow_http=True, allow_private=True), wait_s=30.0)
sections = [
    Section(name, SqlSource("warehouse", table="announced", key="id", loc="https://announced.example/" + name + "/{id}"))
    for name in ("pages", "news")
]
store = LocalStore(Path(os.environ["SITEMAPS_UI_SITES"]) / "announced", base_url="https://announced.example/")
announced = Sitemap(store, sections, index="per_section")

with DAG("announced", schedule=None, max_active_runs=1, default_args={"retries": 0}):
    SitemapTaskGroup("sitemap", announced) >> [
        IndexNowOperator(
            task_id="indexnow", sitemap=announced, conn_id="indexnow_announced", http=LOOPBACK, check_key=False, backfill=True
        ),
        SearchConsoleSubmitOperator(
            task_id="console", sitemap=announced, site="sc-domain:announced.example", token=lambda: "token",
            api="%(base)s/webmasters/v3", http=LOOPBACK,
        ),
        SearchConsoleInspectOperator(
            task_id="inspect", sitemap=announced, property="sc-domain:announced.example", token=lambda: "token",
            api="%(base)s", http=LOOPBACK,
        ),
        BingWebmasterOperator(
            task_id="bing", sitemap=announced, site="https://announced.example/", daily=20, conn_id="bing_announced",
            api="%(base)s/bing", http=LOOPBACK,
        ),
        SitemapFetchesOperator(
            task_id="fetches", sitemap=announced,
            access_log=AccessLog("warehouse", query="SELECT * FROM requests WHERE requested_at >= :since"),
        ),
        SitemapPingOperator(task_id="ping", sitemap=announced, url="%(base)s/ping?of={sitemap}", http=LOOPBACK),
    ]
"""


@dataclass
class Announced:
    """A sitemap that two runs announced. At the second one Google had read more, and the ping was refused."""

    site: Site

    @property
    def asset(self) -> str:
        return uri_of(self.site, "announced")


def index_url(section: str) -> str:
    return f"https://announced.example/sitemap-{section}.xml"


def answer(website: Website, *, discovered: int, errors: int, ping: int) -> None:
    """Let the search engines answer so from now on."""
    website.pages["/indexnow"] = Page(status=202)
    website.pages["/urlInspection/index:inspect"] = computed(inspected)
    for section in SECTIONS:
        url = index_url(section)
        status = {
            "path": url,
            "lastSubmitted": "2026-11-20T08:00:00Z",
            "lastDownloaded": "2026-11-20T09:00:00Z",
            "isPending": False,
            "isSitemapsIndex": True,
            "errors": str(errors),
            "warnings": "0",
            "contents": [{"type": "web", "submitted": str(discovered)}],
        }
        path = f"/webmasters/v3/sites/{quote(PROPERTY, safe='')}/sitemaps/{quote(url, safe='')}"
        website.pages[path] = Page(json.dumps(status).encode())
        website.pages[f"/ping?of={quote(url, safe='')}"] = Page(status=ping)


def inspected(asked: dict[str, str]) -> object:
    """Google has indexed the pages up to number 75, and does not know the others."""
    is_indexed = int(asked["inspectionUrl"].rpartition("/")[2]) <= 75
    status = {"verdict": "NEUTRAL", "coverageState": "URL is unknown to Google"}
    if is_indexed:
        status = {
            "verdict": "PASS",
            "coverageState": "Submitted and indexed",
            "lastCrawlTime": "2026-11-20T09:00:00Z",
        }
    return {"inspectionResult": {"indexStatusResult": status}}


CRAWLED = bing_date(datetime(2026, 11, 20, 9, tzinfo=timezone.utc))
FEEDS = [
    {
        "Url": index_url("pages"),
        "LastCrawled": CRAWLED,
        "Submitted": CRAWLED,
        "Status": "Success",
        "UrlCount": 100,
        "FileSize": 900,
    }
]
STATISTICS = [
    {"Date": CRAWLED, "CrawledPages": 120, "InIndex": 150, "CrawlErrors": 3, "Code4xx": 2, "Code5xx": 1, "InLinks": 7}
]


def known_to_bing(url: str) -> dict[str, object] | None:
    """Bing has crawled the pages up to number 60, discovered those up to number 80, and does not know the others."""
    number = int(url.rpartition("/")[2])
    if number > 80:
        return None
    return {
        "LastCrawledDate": CRAWLED if number <= 60 else NEVER,
        "DiscoveryDate": CRAWLED,
        "HttpStatus": 200,
        "IsPage": True,
    }


@pytest.fixture(scope="module")
def announced(site: Site) -> Iterator[Announced]:
    made = Announced(site)
    with serving() as website:
        connection = {
            "connection_id": "indexnow_announced", "conn_type": "generic", "password": "0123-secret-key",
            "extra": json.dumps({"endpoint": f"{website.base}/indexnow"}),
        }  # fmt: skip
        assert site.request("POST", "/api/v2/connections", json=connection).status_code == 201
        connection = {"connection_id": "bing_announced", "conn_type": "generic", "password": KEY}
        assert site.request("POST", "/api/v2/connections", json=connection).status_code == 201
        Bing(website, known=known_to_bing, feeds=FEEDS, statistics=STATISTICS)
        site.execute("create table announced (id integer primary key)")
        site.execute(*[f"insert into announced values ({n})" for n in range(1, 101)])
        site.execute("create table requests (path text, requested_at text, user_agent text)")
        site.write_dag("announced", DAG % {"base": website.base})
        site.wait_for_dag("announced")
        answer(website, discovered=60, errors=1, ping=200)
        assert site.run("announced") == ["success"]
        [file] = [path.name for path in (site.home / "sites" / "announced").iterdir() if path.name.startswith("pages-")]
        now = datetime.now(timezone.utc).replace(tzinfo=None).isoformat(" ", "seconds")
        site.execute(f"insert into requests values ('/{file}', '{now}', 'Mozilla/5.0 (compatible; Googlebot/2.1)')")
        answer(website, discovered=90, errors=0, ping=403)
        assert site.run("announced") == ["failed"]
        yield made
    site.archive(made.asset, "announced")


def test_what_each_service_did_and_returned_with_its_history(announced: Announced, admin: Visitor) -> None:
    page = admin.sitemap(announced.asset, "engines")
    rows = page.get_by_role("region", name="Search engines", exact=True).get_by_test_id("announcement")
    page.get_by_role("button", name="Show all 12 announcements").click()
    expect(rows).to_have_count(12)
    for service, newest, earlier in (
        ("IndexNow", "No changed URLs to submit.", "200 URLs submitted in 1 request."),
        ("Google Search Console", "180 URLs discovered, 0 errors", "120 URLs discovered, 2 errors"),
        ("Index status in Google", "200 inspections in 2 sections", "200 inspections in 2 sections"),
        ("Index status in Bing", "18 inspections in 2 sections", "18 inspections in 2 sections"),
        ("Fetches in the access log", "1 fetch by google", "0 fetches by google"),
        ("Ping", "403", "2 of 2 requests accepted."),
    ):
        shown = rows.filter(has_text=re.compile(f"^{service}"))
        expect(shown).to_have_count(2)
        expect(shown.first).to_contain_text(newest)
        expect(shown.last).to_contain_text(earlier)
    expect(rows.filter(has_text="Failed")).to_have_count(1)
    rows.filter(has_text="Failed").get_by_role("link", name="Log").click()
    page.wait_for_url(re.compile("/dags/announced/runs/.*/tasks/ping"))


def test_coverage_by_section_with_its_history(announced: Announced, admin: Visitor) -> None:
    page = admin.sitemap(announced.asset, "engines")
    rows = page.get_by_test_id("coverage")
    expect(rows).to_have_count(2)
    for section in SECTIONS:
        row = rows.filter(has_text=index_url(section))
        expect(row.get_by_role("cell").nth(1)).to_have_text("100")
        expect(row.get_by_role("cell").nth(3)).to_have_text("90 %")
        expect(row.get_by_role("img")).to_have_attribute(
            "aria-label", "URLs discovered at the last 2 submissions: 60, 90"
        )
    expect(page.get_by_text(re.compile(f"Property {PROPERTY}; 2 submissions"))).to_be_visible()


def test_index_status_by_section_is_an_estimate_with_its_interval(announced: Announced, admin: Visitor) -> None:
    page = admin.sitemap(announced.asset, "engines")
    expect(page.get_by_test_id("index-status")).to_have_count(4)
    row = page.get_by_test_id("index-status").filter(has_text="URL is unknown to Google").filter(has_text="news")
    expect(row.get_by_role("cell").nth(2)).to_contain_text("≈ 75 %")
    expect(row.get_by_role("cell").nth(3)).to_contain_text("URL is unknown to Google")
    expect(page.get_by_text("The shares are estimates from a random sample")).to_have_count(2)


def test_the_funnel_from_listed_to_indexed_shows_what_the_servers_hold(announced: Announced, admin: Visitor) -> None:
    page = admin.sitemap(announced.asset, "engines")
    rows = page.get_by_test_id("funnel")
    expect(rows).to_have_count(3)
    for section, listed, fetched, discovered in (
        ("All sections", 200, 100, 180),
        ("pages", 100, 100, 90),
        ("news", 100, 0, 90),
    ):
        row = page.get_by_role("region", name=f"Funnel: {section}", exact=True)
        stages = row.get_by_role("definition")
        expect(stages).to_have_count(5)
        expect(stages.nth(0)).to_contain_text(str(listed))
        expect(stages.nth(1)).to_contain_text(f"{fetched} (")
        expect(stages.nth(2)).to_contain_text(f"{discovered} (90 %)")
        expect(stages.nth(4)).to_contain_text(f"≈ {listed * 3 // 4} (")
    expect(page.get_by_text("≈ is an estimate from a random sample")).to_have_count(2)
    expect(page.get_by_text("Not observed")).to_have_count(0)


def test_the_funnel_of_bing_covers_what_its_server_holds(announced: Announced, admin: Visitor) -> None:
    page = admin.sitemap(announced.asset, "engines")
    expect(page.get_by_test_id("funnel-bing")).to_have_count(3)
    for section, listed in (("All sections", 200), ("pages", 100), ("news", 100)):
        stages = page.get_by_role("region", name=f"Funnel in Bing: {section}", exact=True).get_by_role("definition")
        expect(stages).to_have_count(4)
        expect(stages.nth(0)).to_contain_text(str(listed))
        expect(stages.nth(1)).to_contain_text("0 (0 %)")
        for stage, truth in ((2, 80), (3, 60)):
            low, high = map(float, re.findall(r"([\d.]+) %", stages.nth(stage).inner_text()))
            assert low <= truth <= high
    expect(page.get_by_text("Bing does not say which URLs it has indexed")).to_be_visible()


@pytest.mark.parametrize("theme", THEMES)
def test_no_width_cuts_the_announcements_off(announced: Announced, visitors: dict[str, Visitor], theme: str) -> None:
    visitor = visitors[theme]
    for width in WIDTHS:
        with width_of(visitor.page, width):
            page = visitor.sitemap(announced.asset, "engines")
            expect(page.get_by_test_id("coverage")).to_have_count(2)
            expect(page.get_by_test_id("index-status")).to_have_count(4)
            expect(page.get_by_test_id("funnel")).to_have_count(3)
            expect(page.get_by_test_id("funnel-bing")).to_have_count(3)
            expect(page.get_by_test_id("loading")).to_have_count(0)
            shows_everything(page)
