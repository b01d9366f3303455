"""The sensor without a probe: the triggerer compares whole tables with what is published."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps import ChangeLog, Guards, ListSource, LocalStore, Section, ShardPolicy, Sitemap, SqlSource
from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.sources.session import SqlSession
from airflow_sitemaps.triggers import SitemapTablesTrigger, TableDigest, in_worker, published
from tests.support.databases import NAMES, Database, NotAvailable, database

if TYPE_CHECKING:
    from pathlib import Path

URL = "https://shop.example/"
ROWS = 12
LIVE = [name for name in ("sqlite", "duckdb", "postgresql", "mariadb") if name in NAMES]
CHANGES = {
    "changed": "UPDATE sensed SET slug = 'other' WHERE id = 7",
    "inserted": "INSERT INTO sensed VALUES (100, 'new', '2026-01-01', 0)",
    "inserted first": "INSERT INTO sensed VALUES (-5, 'new', '2026-01-01', 0)",
    "deleted": "DELETE FROM sensed WHERE id = 3",
    "new lastmod": "UPDATE sensed SET changed_on = '2026-05-05' WHERE id = 12",
    "emptied": "DELETE FROM sensed",
}


class Shop:
    """A published sitemap over a table of a live database."""

    def __init__(self, live: Database, folder: Path) -> None:
        self.live = live
        live.run(
            "DROP TABLE IF EXISTS sensed",
            "CREATE TABLE sensed (id INTEGER PRIMARY KEY, slug VARCHAR(40), changed_on VARCHAR(20), clicks INTEGER)",
            *(f"INSERT INTO sensed VALUES ({n}, 'page-{n}', '2026-01-02', 0)" for n in range(1, ROWS + 1)),
        )
        source = SqlSource("sensed_shop", table="sensed", key="id", loc=f"{URL}{{slug}}", lastmod="changed_on")
        self.sitemap = Sitemap(
            LocalStore(folder / "site", base_url=URL), [Section("products", source)], shards=ShardPolicy(max_urls=5)
        )
        build(self.sitemap)

    def table(self) -> TableDigest:
        """The published digest, as the triggerer gets it."""
        (table,), _ = published(self.sitemap, [])
        return TableDigest(**json.loads(json.dumps(asdict(table))))


@pytest.fixture(params=LIVE)
def shop(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    try:
        live = database(request.param)
    except NotAvailable as lacking:
        pytest.skip(str(lacking))
    extra = {"sqlalchemy_url": live.url}
    monkeypatch.setenv("AIRFLOW_CONN_SENSED_SHOP", json.dumps({"conn_type": "generic", "extra": extra}))
    return Shop(live, tmp_path)


def first_event(trigger: SitemapTablesTrigger) -> dict[str, Any]:
    async def first() -> dict[str, Any]:
        async for event in trigger.run():
            return dict(event.payload)
        raise AssertionError("the trigger ended without an event")

    return asyncio.run(first())


def trigger_of(shop: Shop, **settings: Any) -> SitemapTablesTrigger:
    path, arguments = SitemapTablesTrigger(
        **{"tables": [asdict(shop.table())], "recheck_at": None, "poll_interval": 0.0, **settings}
    ).serialize()
    assert path == "airflow_sitemaps.triggers.SitemapTablesTrigger"
    return SitemapTablesTrigger(**json.loads(json.dumps(arguments)))


def test_a_published_table_does_not_differ(shop: Shop) -> None:
    assert shop.table().poll(None)[1] == ""
    shop.live.run("UPDATE sensed SET clicks = clicks + 1")  # a column that no file shows
    assert shop.table().poll(None)[1] == ""


def test_rows_that_exchange_their_keys_do_not_count(shop: Shop) -> None:
    """The same URLs stay listed, with the same fields."""
    shop.live.run("UPDATE sensed SET slug = CASE id WHEN 1 THEN 'page-12' ELSE 'page-1' END WHERE id IN (1, 12)")
    assert shop.table().poll(None)[1] == ""


@pytest.mark.parametrize("statement", CHANGES.values(), ids=list(CHANGES))
def test_every_change_of_what_files_show_is_seen_until_it_is_published(shop: Shop, statement: str) -> None:
    shop.live.run(statement)

    difference = shop.table().poll(None)[1]

    assert difference.startswith("section 'products': ")
    assert f"published are {ROWS} with " in difference
    if statement != CHANGES["emptied"]:  # a guard refuses this one
        build(shop.sitemap)
        assert shop.table().poll(None)[1] == ""


def test_the_trigger_fires_when_a_table_differs(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    trigger = trigger_of(shop, poll_interval=7.0)
    slept: list[float] = []

    async def change_before_the_third_poll(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            shop.live.run(CHANGES["changed"])

    monkeypatch.setattr(asyncio, "sleep", change_before_the_third_poll)

    assert first_event(trigger)["value"].startswith("section 'products': 12 rows with checksum ")
    assert slept == [7.0, 7.0, 7.0]


def test_a_table_that_is_gone_ends_the_wait_with_the_tables_there_are(shop: Shop) -> None:
    trigger = trigger_of(shop)
    shop.live.run("DROP TABLE IF EXISTS sensed_new", "ALTER TABLE sensed RENAME TO sensed_new")
    assert "sensed_new" in first_event(trigger)["error"]
    with pytest.raises(SourceConfigurationError):
        shop.table().poll(None)


def test_a_table_is_not_read_while_its_exact_version_stays(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SqlSession, "table_version", lambda _: "7")
    assert shop.table().poll(None) == ("7", "")
    shop.live.run(CHANGES["changed"])
    assert shop.table().poll("7") == ("7", "")
    assert shop.table().poll("6")[1] != ""


def test_gone_urls_that_expire_end_the_wait(shop: Shop, tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "gone", base_url=URL)
    sitemap = Sitemap(store, shop.sitemap.sections, gone=timedelta(days=30), guards=Guards.disabled())
    build(sitemap)
    assert published(sitemap, [])[1] is None
    shop.live.run("DELETE FROM sensed WHERE id = 3")
    begin = datetime.now(timezone.utc)
    assert build(sitemap).urls_gone == 1
    _, recheck_at = published(sitemap, [])
    assert recheck_at is not None
    assert timedelta(days=30, seconds=-1) <= recheck_at - begin <= timedelta(days=31)


def test_files_that_change_by_age_alone_end_the_wait(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    soon = datetime.now(timezone.utc) + timedelta(hours=1)
    shop.live.run(f"UPDATE sensed SET changed_on = '{soon:%Y-%m-%dT%H:%M:%SZ}' WHERE id = 4")
    build(shop.sitemap)
    _, recheck_at = published(shop.sitemap, ["products"])
    assert recheck_at == soon.replace(microsecond=0)

    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    event = first_event(trigger_of(shop, recheck_at=recheck_at.isoformat(), poll_interval=9_000.0))
    assert event["value"].startswith(f"files change at {recheck_at.isoformat()}")
    assert 0 < slept[0] <= 3_600


def test_a_database_that_is_down_is_polled_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    trigger = trigger_of(shop, poll_interval=7.0)
    password = "s3cr3t-passw0rd"
    down = {"sqlalchemy_url": f"postgresql+psycopg://reader:{password}@127.0.0.1:1/shop"}
    polls = 0

    async def restart(_: float) -> None:
        nonlocal polls
        polls += 1
        extra = down if polls == 1 else {"sqlalchemy_url": shop.live.url}
        monkeypatch.setenv("AIRFLOW_CONN_SENSED_SHOP", json.dumps({"conn_type": "generic", "extra": extra}))

    monkeypatch.setattr(asyncio, "sleep", restart)
    shop.live.run(CHANGES["changed"])

    assert "12 rows with checksum" in first_event(trigger)["value"]
    assert "The next poll is in 7.0 s. section 'products'" in caplog.text
    assert password not in caplog.text


def test_what_the_triggerer_cannot_compare_is_named(tmp_path: Path) -> None:
    def reason(section: Section, **settings: Any) -> str:
        return in_worker(Sitemap(LocalStore(tmp_path, base_url=URL), [section], **settings), [])

    def sql(**settings: Any) -> SqlSource:
        return SqlSource("shop", **{"table": "t", "key": "id", "loc": "url", **settings})

    assert reason(Section("pages", sql(parameters={"shop": 7}))) == ""
    assert "has no SqlSource" in reason(Section("pages", ListSource([f"{URL}a"])))
    assert "change_detection='watermark'" in reason(Section("pages", sql(lastmod="at")), change_detection="watermark")
    assert "change_log=" in reason(Section("pages", sql(change_log=ChangeLog(table="outbox", position="n"))))
    waits = ShardPolicy(rewrite_after=timedelta(days=1))
    assert "rewrite_after=" in reason(Section("pages", sql(lastmod="at"), shards=waits))
    assert "materialize=" in reason(Section("pages", sql(table=None, query="SELECT 1", materialize="stage")))
    assert "a parameter of section 'pages'" in reason(Section("pages", sql(parameters={"price": Decimal(1)})))
