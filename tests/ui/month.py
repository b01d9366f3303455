"""A month of a shop, each night of it run in this process by a clock of its own, and what Google would say each night."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final
from zlib import crc32

import duckdb

from airflow_sitemaps import LocalStore, Section, ShardPolicy, Sitemap, SqlSource
from airflow_sitemaps.errors import PartlyPublishedError
from airflow_sitemaps.pipeline.stages import build
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.ports.source import Requests
from airflow_sitemaps.search_engines import fetches, index_status, inspection, searchconsole
from airflow_sitemaps.search_engines.crawlers import BING, GOOGLE
from airflow_sitemaps.search_engines.index_status import PageState
from airflow_sitemaps.search_engines.searchconsole import GoogleInspector, SubmittedSitemap
from airflow_sitemaps.testing import FakeClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from airflow_sitemaps.pipeline.report import Report
    from airflow_sitemaps.web_services import Sender

SHARES: Final = {"products": 0.88, "articles": 0.09, "stores": 0.018, "brands": 0.012}
BASE_URL: Final = "https://www.acme.example/"
PROPERTY: Final = "sc-domain:acme.example"


def sitemap_of(root: Path, rows: int) -> Sitemap:
    """The sitemap, with about a hundred files."""
    sections = [
        Section(
            name,
            SqlSource(
                "acme_warehouse",
                table=name,
                key="id",
                loc=f"{BASE_URL}{name}/{{slug}}",
                lastmod="updated_at",
                page=["title", "price"],
            ),
        )
        for name in SHARES
    ]
    return Sitemap(
        LocalStore(root, base_url=BASE_URL),
        sections,
        shards=ShardPolicy(max_urls=max(50, rows // 100)),
        gone=timedelta(days=30),
        recent=timedelta(days=2),
        freshness=timedelta(hours=26),
    )


@dataclass
class Shop:
    """The tables, in a DuckDB file, and what happens to them in a day."""

    path: Path
    rows: int
    chance: random.Random = field(default_factory=lambda: random.Random(33))

    def execute(self, *statements: str) -> None:
        with duckdb.connect(str(self.path)) as connection:
            for statement in statements:
                connection.execute(statement)

    def fill(self, until: datetime) -> None:
        """Rows that changed in the two years before; every five-hundredth article has no address."""
        at = f"TIMESTAMP '{until:%Y-%m-%d}' - INTERVAL (i * 7919 % 63072000) SECOND"
        for table, share in SHARES.items():
            columns = "id BIGINT PRIMARY KEY, slug VARCHAR, title VARCHAR, price INTEGER, updated_at TIMESTAMP"
            self.execute(f"CREATE TABLE {table} ({columns})", insert(table, 1, int(self.rows * share), at))
        self.execute("UPDATE articles SET slug = NULL WHERE id % 500 = 0")

    def day(self, until: datetime) -> None:
        """New pages, changes in a few places, and old pages that go; on Mondays more of all."""
        much = 4 if until.weekday() == 0 else 1
        at = f"TIMESTAMP '{until - timedelta(hours=3):%Y-%m-%d %H:%M:%S}'"
        statements = []
        with duckdb.connect(str(self.path), read_only=True) as connection:
            last = {
                table: (connection.execute(f"SELECT max(id) FROM {table}").fetchone() or (0,))[0] for table in SHARES
            }
        for table, share in SHARES.items():
            size = self.rows * share
            statements.append(
                insert(table, last[table] + 1, 1 + int(size * self.chance.uniform(0.0003, 0.003)) * much, at)
            )
            for _ in range(self.chance.randint(1, 3) * much):
                first = int(last[table] * self.chance.random() ** 0.5)
                where = f"id BETWEEN {first} AND {first + int(size * 0.0008)}"
                statements.append(f"UPDATE {table} SET price = price + 1, updated_at = {at} WHERE {where}")
            first = int(last[table] * self.chance.random() * 0.6)
            statements.append(f"DELETE FROM {table} WHERE id BETWEEN {first} AND {first + int(size * 0.0004)}")
        self.execute(*statements)


def insert(table: str, first: int, number: int, at: str) -> str:
    values = f"i, '{table[:-1]}-' || i, 'Title of ' || i, i % 900, {at}"
    return f"INSERT INTO {table} SELECT {values} FROM range({first}, {first + number}) AS r(i)"


@dataclass(frozen=True)
class Night:
    """A run: when it began, how long it took, its report or why it failed, and what the services returned after it."""

    number: int
    at: datetime
    minutes: float
    report: Report | None
    failure: PartlyPublishedError | None = None
    returned: dict[str, object] = field(default_factory=dict)


def nights(shop: Shop, sitemap: Sitemap, today: datetime, number: int) -> Iterator[Night]:
    """Runs, one a night, the last of them yesterday. After a half of them a load loses products once.

    They begin at half past nine in UTC, so that each is in another day of Google's quota.
    """
    first = today.replace(hour=9, minute=30) - timedelta(days=number)
    shop.fill(first)
    for night in range(1, number + 1):
        clock = FakeClock(first + timedelta(days=night - 1, minutes=shop.chance.uniform(0, 4)))
        if night > 1:
            shop.day(clock.moment)
        is_broken = night == number // 2 + 1
        if is_broken:
            lost = "FROM products WHERE id % 3 = 0"
            shop.execute(f"CREATE TABLE lost AS SELECT * {lost}", f"DELETE {lost}")
        try:
            report = build(sitemap, clock=clock)
        except PartlyPublishedError as error:
            yield Night(night, clock.moment, 0.7, None, error)
        else:
            written = report.shards.created + report.shards.rewritten
            yield Night(
                night,
                clock.moment,
                0.7 + 0.04 * written,
                report,
                returned=services(sitemap, report, clock, night / number),
            )
        if is_broken:
            shop.execute("INSERT INTO products SELECT * FROM lost", "DROP TABLE lost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Google(GoogleInspector):
    """A Google that has crawled most pages, and indexed more of them from night to night."""

    now: datetime
    progress: float

    def session(self) -> Callable[[str, str, Sender], PageState]:
        return lambda _site, url, _sender: self.state_of(url)

    def state_of(self, url: str) -> PageState:
        place = crc32(url.encode()) / 2**32
        crawled = self.now - timedelta(days=1 + 40 * place)
        if place < 0.78 + 0.1 * self.progress:
            return PageState(crawled_at=crawled, is_indexed=True, reason="Submitted and indexed")
        if place < 0.95:
            return PageState(crawled_at=crawled, reason="Crawled - currently not indexed")
        return PageState(crawled_at=None, reason="Discovered - currently not indexed")


def services(sitemap: Sitemap, report: Report, clock: FakeClock, progress: float) -> dict[str, object]:
    """Keep what Search Console, Google's index and the access log say after a run; return what the tasks would return."""
    now, objects = clock.now(), sitemap.store.open().state
    at = now.isoformat()
    google = Google(properties=(PROPERTY,), token=str, now=now, progress=progress)
    observed = inspection.inspect(sitemap, google, daily=300, clock=clock, sleep=lambda _: None)
    status = [
        SubmittedSitemap(
            path=url, last_submitted=at, last_downloaded=at, pending=False, is_index=True, errors=0, warnings=0,
            urls={"web": int(report.urls * (0.9 + 0.09 * progress))},
        )
        for url in report.index_urls
    ]  # fmt: skip
    searchconsole.observe(sitemap, PROPERTY, status, now)

    def requests(_: object) -> Iterator[Requests]:
        manifest = StateRepository(objects).published()
        shards = [shard.file.name for section in manifest.sections.values() for shard in section.shards if shard.file]
        for crawler, share in ((GOOGLE, 0.3), (BING, 0.2)):
            for name in (*shards, *(index.name for index in manifest.indexes)):
                place = crc32(f"{name} {crawler.name} {now:%j}".encode()) / 2**32
                if place < share:
                    yield Requests(crawler.name, f"/{name}", None, "200", now - timedelta(hours=20 * place), 1)

    fetched = fetches.observe(objects, requests, (GOOGLE, BING), lambda _, addresses: addresses, now.date(), now)
    changed = sum(max(section.urls_changed.values(), default=0) for section in report.sections.values())
    return {
        "indexnow": {
            "generation": report.generation, "since": report.previous_generation, "urls": changed, "requests": 1 + changed // 10_000
        },
        "console": [{"path": each.path, "last_downloaded": at, "errors": 0, "warnings": 0, "urls": each.urls} for each in status],
        "inspect": {"inspected": sum(each.inspected for each in index_status.statuses(observed)), "sections": {name: {} for name in SHARES}},
        "fetches": {
            name: {"fetches": each.fetches, "refused": each.refused, "false": each.false, "late": each.late}
            for name, each in fetched.crawlers.items()
        },
    }  # fmt: skip
