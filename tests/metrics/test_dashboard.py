"""The Grafana dashboard over a real Prometheus: each panel's expression, evaluated over the metrics of real runs.

Two weeks of runs are made one after another: the package's clock is set to the time of each. ``SITEMAPS_PICTURES`` names
a folder for a picture of the panels, which ``tests/metrics/dashboard_picture.py`` draws.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sqlite3
import subprocess
import time
import urllib.parse
import urllib.request
from contextlib import closing, contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG

from airflow_sitemaps import (
    AccessLog,
    BingWebmasterOperator,
    Crawler,
    LocalStore,
    SearchConsoleInspectOperator,
    SearchConsoleSubmitOperator,
    Section,
    ShardPolicy,
    Sitemap,
    SitemapFetchesOperator,
    SitemapFreshnessOperator,
    SitemapTaskGroup,
    SitemapVerifyOperator,
)
from airflow_sitemaps.http import AccessRules, HttpClient
from airflow_sitemaps.operators import base, inspections, verify
from airflow_sitemaps.pipeline.request import SystemClock
from airflow_sitemaps.search_engines import inspection
from airflow_sitemaps.search_engines.quota import DayQuota
from airflow_sitemaps.testing import MemorySourceConfig
from tests.metrics.openmetrics import Recorder
from tests.support.airflow_db import run, states
from tests.support.airflow_processes import free_port
from tests.support.bing import KEY, Bing
from tests.support.polling import wait_until
from tests.support.website import Page, computed, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_sitemaps.http import Fetched
    from tests.support.statsd_server import StatsdServer
    from tests.support.website import Site

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not shutil.which("promtool"), reason="Prometheus is missing: run `make test-dashboard`"),
]
PANELS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "docs" / "grafana-dashboard.json").read_text(encoding="utf-8")
)["panels"]
PICTURES = os.environ.get("SITEMAPS_PICTURES", "")
URL = "https://www.example.com/"
STEP = timedelta(hours=12)
RUNS = 28
SHRUNK, DAMAGED = 11, 20
DROPPED = range(14, 18)
STUCK = range(23, 26)
LOOPBACK = AccessRules(allow_http=True, allow_private=True)
WARNINGS = 3
REDATED = 10
"""Articles that each run dates, without another change."""
INSPECTED = 40
"""Requests a day for Search Console's inspection."""
STATISTICS = [{"Date": "/Date(1770000000000)/", "CrawledPages": 70, "CrawlErrors": 3, "InIndex": 5_000}]
GOOGLES = "66.249.64.0/19"


class Cdn(HttpClient):
    """Reads the site's addresses from the server that stands for its CDN."""

    def __init__(self, server: Site) -> None:
        super().__init__(rules=LOOPBACK)
        object.__setattr__(self, "server", server)

    def get(self, url: str) -> Fetched:
        return super().get(url.replace(URL, f"{self.server.base}/"))


class Shop:
    """A shop whose tables grow; once most rows are missing, and in some runs a few rows have no address.

    At last its CDN serves an old index for some runs.
    """

    def __init__(self, folder: Path, start: datetime, server: Site) -> None:
        self.server = server
        self.products: list[dict[str, Any]] = []
        self.articles: list[dict[str, Any]] = []
        self.start = start
        self.site = folder / "site"
        source = {"lastmod": "changed"}
        self.sitemap = Sitemap(
            LocalStore(self.site, base_url=URL),
            [
                Section("products", MemorySourceConfig(self.products, **source)),
                Section("articles", MemorySourceConfig(self.articles, page=("title",), **source)),
            ],
            shards=ShardPolicy(max_urls=1_000),
        )
        with DAG("shop", schedule=None, max_active_runs=1, default_args={"retries": 0}) as self.dag:
            group = SitemapTaskGroup("sitemap", self.sitemap)
            group >> SitemapVerifyOperator(task_id="verify", sitemap=self.sitemap)
            group >> SearchConsoleSubmitOperator(
                task_id="google",
                sitemap=self.sitemap,
                site="sc-domain:example.com",
                token=lambda: "token",
                api=f"{server.base}/v3",
                http=HttpClient(rules=LOOPBACK),
            )
        with DAG("watch", schedule=None) as self.watch:
            SitemapFreshnessOperator(
                task_id="served", sitemap=self.sitemap, max_age=timedelta(days=9), http=Cdn(server)
            )
            SearchConsoleInspectOperator(
                task_id="inspect",
                sitemap=self.sitemap,
                property="sc-domain:example.com",
                daily=INSPECTED,
                token=lambda: "token",
                api=f"{server.base}/v1",
                http=HttpClient(rules=LOOPBACK),
            )
            BingWebmasterOperator(
                task_id="bing",
                sitemap=self.sitemap,
                site=URL,
                daily=INSPECTED,
                api=Bing(server, known=bing_knows, statistics=STATISTICS).api,
                http=HttpClient(rules=LOOPBACK),
            )
            SitemapFetchesOperator(
                task_id="fetches",
                sitemap=self.sitemap,
                access_log=AccessLog("logs", query="SELECT * FROM log WHERE requested_at >= :since"),
                crawlers=[Crawler(name="google", agent="Googlebot", ranges=[GOOGLES], max_delay=timedelta(days=1))],
            )

    def advance(self, number: int) -> None:
        """Change the tables, and once a file, as before run ``number``."""
        products = 6_000 + 90 * number
        self.products[:] = self.rows("products", products if number != SHRUNK else products // 2)
        if number in DROPPED:
            for row in self.products[-40:]:
                row["loc"] = ""
        self.articles[:] = self.rows("articles", 1_400 + 25 * (number // 4))
        for row in self.articles[:REDATED]:
            row["changed"] = (self.start + (number - (number == SHRUNK)) * STEP).isoformat()
        if number == DAMAGED:
            min(self.site.glob("*products*.xml.gz")).unlink()  # the first: new rows change the last one only

    def log_requests(self, connection: sqlite3.Connection, at: datetime) -> None:
        """Log that Google fetched the files of products, and that another program did so in its name."""
        connection.execute(
            "CREATE TABLE IF NOT EXISTS log (path TEXT, requested_at TEXT, user_agent TEXT, address TEXT, status INTEGER)"
        )
        rows = [
            (f"/{file.name}", at.isoformat(), "Googlebot/2.1", address, 200)
            for file in self.site.glob("*products*.xml.gz")
            for address in ("66.249.66.1", "203.0.113.9")
        ]
        connection.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?)", rows)
        connection.commit()

    def serve_files(self, number: int) -> None:
        """Serve the files after run ``number``, but an old index while the CDN is stuck."""
        for path in self.site.glob("*.xml*"):
            if path.name != "sitemap.xml" or number not in STUCK:
                self.server.pages[f"/{path.name}"] = Page(path.read_bytes())
        self.server.pages["/robots.txt"] = Page(f"User-agent: *\nSitemap: {URL}sitemap.xml\n".encode())

    def serve_console(self) -> None:
        """Answer about the index as Search Console does."""
        contents = [{"type": "web", "submitted": str(len(self.products) + len(self.articles))}]
        known = {"path": URL + "sitemap.xml", "errors": "0", "warnings": str(WARNINGS), "contents": contents}
        address = "/v3/sites/sc-domain%3Aexample.com/sitemaps/https%3A%2F%2Fwww.example.com%2Fsitemap.xml"
        self.server.pages[address] = Page(json.dumps(known).encode())
        self.server.pages["/v1/urlInspection/index:inspect"] = computed(inspected)

    def rows(self, name: str, number: int) -> list[dict[str, Any]]:
        return [
            {
                "id": n,
                "loc": f"{URL}{name}/{n}",
                "changed": (self.start + timedelta(minutes=n % 90)).isoformat(),
                "title": f"Number {n}",
            }
            for n in range(number)
        ]


def inspected(asked: dict[str, str]) -> object:
    """Answer about a URL as Search Console does: it knows all products, and no article."""
    is_product = "/products/" in asked["inspectionUrl"]
    status = {"verdict": "PASS" if is_product else "NEUTRAL", "coverageState": "Indexed" if is_product else "Unknown"}
    return {"inspectionResult": {"indexStatusResult": status}}


def bing_knows(url: str) -> dict[str, str]:
    """Bing has crawled all products, and discovered the articles."""
    crawled = {"LastCrawledDate": "/Date(1770000000000)/"} if "/products/" in url else {}
    return {"DiscoveryDate": "/Date(1770000000000)/", **crawled}


@contextmanager
def prometheus(folder: Path, text: str) -> Iterator[str]:
    """Prometheus over samples of the past; yields its address."""
    (folder / "samples.txt").write_text(text)
    (folder / "empty.yml").write_text("{}")
    data = str(folder / "data")
    subprocess.run(
        [
            "promtool",
            "tsdb",
            "create-blocks-from",
            "--max-block-duration=336h",
            "openmetrics",
            str(folder / "samples.txt"),
            data,
        ],
        check=True,
        capture_output=True,
    )
    url = f"http://127.0.0.1:{free_port()}"
    command = [
        *("prometheus", f"--config.file={folder / 'empty.yml'}", f"--storage.tsdb.path={data}"),
        *(
            "--storage.tsdb.retention.time=10y",
            "--query.lookback-delta=1h",
            f"--web.listen-address={url.removeprefix('http://')}",
        ),
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_until(lambda: ready(url), "Prometheus", seconds=120)
        yield url
    finally:
        process.terminate()
        process.wait(60)


def ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def series(url: str, expression: str, start: datetime, end: datetime) -> list[dict[str, Any]]:
    """What an expression gives over a time, with a step of an hour."""
    query = urllib.parse.urlencode(
        {
            "query": expression.replace("$sitemap", ".*"),
            "start": start.timestamp(),
            "end": end.timestamp(),
            "step": 3_600,
        }
    )
    with urllib.request.urlopen(f"{url}/api/v1/query_range?{query}", timeout=60) as answer:
        result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
    return result


def test_every_panel_shows_what_happened(tmp_path: Path, statsd: StatsdServer, monkeypatch: pytest.MonkeyPatch) -> None:
    start = datetime(2026, 3, 2, 3, 0, tzinfo=timezone.utc)
    end = start + RUNS * STEP
    moment = [start, time.monotonic()]

    def now(*_: object) -> datetime:
        """The time of the run, which goes on while it runs."""
        return moment[0] + timedelta(seconds=time.monotonic() - moment[1])

    monkeypatch.setattr(SystemClock, "now", now)
    clock = type("Clock", (datetime,), {"now": staticmethod(now)})
    extra = f'{{"sqlalchemy_url": "sqlite:///{tmp_path / "logs.db"}"}}'
    monkeypatch.setenv("AIRFLOW_CONN_LOGS", f'{{"conn_type": "generic", "extra": {extra}}}')
    monkeypatch.setenv("AIRFLOW_CONN_BING_WEBMASTER_DEFAULT", json.dumps({"conn_type": "generic", "password": KEY}))
    unpaced = lambda *args, **settings: DayQuota(*args, **{**settings, "pause_s": 0.0})  # noqa: E731
    monkeypatch.setattr(inspection, "DayQuota", unpaced)
    for module in (base, inspections, verify):
        monkeypatch.setattr(module, "datetime", clock)
    recorder = Recorder(statsd)
    with serving() as server:
        shop = Shop(tmp_path, start, server)
        for number in range(RUNS):
            moment[:] = [start + number * STEP, time.monotonic()]
            shop.advance(number)
            shop.serve_console()
            planned = states(run(shop.dag))["sitemap.plan"]
            assert planned == ("failed" if number == SHRUNK else "success")
            shop.serve_files(number)
            with closing(sqlite3.connect(tmp_path / "logs.db")) as connection:
                shop.log_requests(connection, now())
            assert states(run(shop.watch)) == dict.fromkeys(("served", "inspect", "bing", "fetches"), "success")
            recorder.record(moment[0], STEP)

    with prometheus(tmp_path, recorder.text()) as url:
        shown = {
            panel["title"]: [
                (target["legendFormat"], each)
                for target in panel["targets"]
                for each in series(url, target["expr"], start, end)
            ]
            for panel in PANELS
        }

    assert [title for title, lines in shown.items() if not lines] == []

    def peak(title: str, **labels: str) -> float:
        found = [line for _, line in shown[title] if labels.items() <= line["metric"].items()]
        assert found, (title, labels, [line["metric"] for _, line in shown[title]])
        return max(float(value) for line in found for _, value in line["values"])

    assert peak("Generation") == RUNS - 1
    assert peak("Runs by result", result="refused") >= 1
    assert peak("Refusals by guard", section="products", guard="shrink") >= 1
    assert peak("Rows dropped by rule", rule="loc-missing") == 40
    assert peak("URLs by section", section="products") == 6_000 + 90 * (RUNS - 1)
    assert peak("Rows in the source", section="articles") == 1_400 + 25 * ((RUNS - 1) // 4)
    assert peak("Files changed by another program", section="products") >= 1
    assert peak("Shards by outcome", outcome="repaired") >= 1
    assert peak("Verification") >= 0
    assert 12 * 3_600 <= peak("Time since the last successful run") < 25 * 3_600  # one run of two a day was refused
    assert 12 * 3_600 <= peak("Age of the index as served") < 48 * 3_600
    assert peak("Search Console: URLs found") == len(shop.products) + len(shop.articles)
    assert peak("Search Console: errors and warnings") == WARNINGS
    assert peak("Stage duration", stage="plan") > 0
    estimated = "Estimated share discovered, crawled and indexed"
    assert peak(estimated, __name__="airflow_sitemaps_indexed_share", section="products") == 1
    assert peak(estimated, engine="google", section="articles") == 0
    assert peak(estimated, __name__="airflow_sitemaps_crawled_share", engine="bing", section="articles") == 0
    assert peak(estimated, __name__="airflow_sitemaps_discovered_share", engine="bing", section="articles") == 1
    assert peak("Trust of lastmod: URLs whose date or page changed in 7 days", section="articles") >= REDATED
    assert peak("Bing: pages of the whole site", state="in_index") == 5_000
    assert peak("Files fetched since their last change", section="products") >= 7
    assert peak("Files fetched since their last change", section="articles") == 0
    late = "Files not fetched in time, and false crawlers"
    assert peak(late, __name__="airflow_sitemaps_files_late", section="articles") >= 1
    assert peak(late, __name__="airflow_sitemaps_files_late", section="products") == 0
    assert peak(late, __name__="airflow_sitemaps_false_crawlers") >= 7
    assert peak("URLs inspected in 7 days", engine="google") == 7 * INSPECTED / 2, "in each of two sections"
    if PICTURES:
        importlib.import_module("tests.metrics.dashboard_picture").draw(PANELS, shown, Path(PICTURES) / "dashboard.png")
