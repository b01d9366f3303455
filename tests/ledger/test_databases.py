"""The ledger over real databases: fingerprints and keys as each of them gives them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_sitemaps import MemoryStore, Observed, Section, ShardPolicy, Sitemap, SqlSource
from airflow_sitemaps.pipeline import build, inventory
from airflow_sitemaps.testing import FakeClock
from tests.support.environment import BASE, FREE
from tests.support.source_sessions import connected, create

STAMPED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)


def ledger(sitemap: Sitemap) -> dict[str, dict[str, Any]]:
    rows = (row for table in inventory(sitemap) for row in table.drop_columns("shard").to_pylist())
    return {row["loc"].removeprefix(BASE): row for row in rows}


@pytest.mark.parametrize("key", [("id",), ("part", "id"), ("slug",)])
@pytest.mark.parametrize("name", ["sqlite", "duckdb", "postgresql", "mariadb", "clickhouse"])
def test_only_the_rows_that_changed_are_recorded_as_changed(name, key, monkeypatch):
    base = connected(name, "ledger_shop", monkeypatch)
    create(base, "ledger_rows", {"id": "integer", "part": "integer", "slug": "text", "lm": "timestamp", "cf": "text"})
    base.insert(
        "ledger_rows",
        [
            {"id": n, "part": n // 7, "slug": f"{BASE}p/{n:03d}", "lm": STAMPED.replace(tzinfo=None), "cf": "daily"}
            for n in range(40)
        ],
    )
    source = SqlSource("ledger_shop", table="ledger_rows", key=key, loc="slug", lastmod="lm", changefreq="cf")
    clock, store = FakeClock(), MemoryStore(base_url=BASE)
    section = Section("products", source, ledger=True)
    sitemap = Sitemap(store, [section], shards=ShardPolicy(max_urls=10), guards=FREE)
    first = clock.now()
    build(sitemap, clock=clock)
    before = ledger(sitemap)
    assert {(row["first_listed"], row["changed_at"], row["lastmod"]) for row in before.values()} == {
        (first, None, "2026-01-02T03:04:05Z")
    }
    assert before["p/012"]["key"] == {"id": "[12]", "part": "[1,12]"}.get(key[0], f'["{BASE}p/012"]')
    clock.advance(timedelta(hours=1))
    second = clock.now()
    base.run(base.update_of("ledger_rows", "cf = 'weekly'", "id IN (12, 33)"))
    base.insert("ledger_rows", [{"id": 99, "part": 3, "slug": f"{BASE}p/099", "lm": None, "cf": None}])
    build(sitemap, clock=clock)
    after = ledger(sitemap)
    assert {loc for loc, row in after.items() if row["changed_at"] == second} == {"p/012", "p/033"}
    assert {loc for loc, row in after.items() if row["first_listed"] == second} == {"p/099"}
    assert all(after[loc] == row for loc, row in before.items() if loc not in ("p/012", "p/033"))
    assert build(sitemap, full=True, clock=clock).result == "unchanged"


@pytest.mark.parametrize("name", ["sqlite", "duckdb", "postgresql", "mariadb"])
def test_after_two_nights_that_stamp_every_row_only_the_changed_pages_are_dated_anew(name, monkeypatch):
    base = connected(name, "ledger_shop", monkeypatch)
    types = {
        "id": "integer",
        "slug": "text",
        "title": "text",
        "price": "float",
        "born": "timestamp",
        "stamp": "timestamp",
    }
    create(base, "nightly_rows", types)
    base.insert(
        "nightly_rows",
        [
            {
                "id": n,
                "slug": f"{BASE}p/{n}",
                "title": f"t{n}",
                "price": 1.5,
                "born": datetime(2020, 1, 1),
                "stamp": None,
            }
            for n in range(40)
        ],
    )
    dates = Observed("title", "price", initial="born")
    source = SqlSource("ledger_shop", table="nightly_rows", key="id", loc="slug", lastmod=dates)
    sitemap = Sitemap(
        MemoryStore(base_url=BASE), [Section("products", source)], shards=ShardPolicy(max_urls=10), guards=FREE
    )
    build(sitemap)
    assert {row["lastmod"] for row in ledger(sitemap).values()} == {"2020-01-01T00:00:00Z"}
    began = datetime.now(timezone.utc)
    for night, changed in enumerate((12, 33)):
        base.run(base.update_of("nightly_rows", f"stamp = '2026-01-0{night + 2} 03:00:00'", "id >= 0"))
        base.run(base.update_of("nightly_rows", "price = 2.5", f"id = {changed}"))
        report = build(sitemap)
        assert report.sections["products"].lastmods_moved == 1
        assert report.sections["products"].shards.rewritten == 1
    moved = {loc: row["lastmod"] for loc, row in ledger(sitemap).items() if row["lastmod"] != "2020-01-01T00:00:00Z"}
    assert moved.keys() == {"p/12", "p/33"}
    for text in moved.values():
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        assert began < moment < datetime.now(timezone.utc) + timedelta(seconds=2)
    assert build(sitemap, full=True).result == "unchanged"


@pytest.mark.parametrize("name", ["sqlite", "duckdb", "postgresql", "mariadb", "clickhouse"])
def test_a_column_that_a_load_stamps_and_a_job_forgets_is_found_out(name, monkeypatch):
    base = connected(name, "ledger_shop", monkeypatch)
    create(
        base, "stamped_rows", {"id": "integer", "slug": "text", "title": "text", "price": "float", "lm": "timestamp"}
    )
    stamped = STAMPED.replace(tzinfo=None)
    rows = [{"id": n, "slug": f"{BASE}p/{n}", "title": f"t{n}", "price": 1.5, "lm": stamped} for n in range(40)]
    base.insert("stamped_rows", rows)
    source = SqlSource("ledger_shop", table="stamped_rows", key="id", loc="slug", lastmod="lm", page=["title", "price"])
    clock = FakeClock()
    sitemap = Sitemap(
        MemoryStore(base_url=BASE), [Section("products", source)], shards=ShardPolicy(max_urls=10), guards=FREE
    )
    build(sitemap, clock=clock)
    clock.advance(timedelta(hours=1))
    base.run(base.update_of("stamped_rows", "lm = '2026-01-09 03:00:00'", "id < 30"))
    base.run(base.update_of("stamped_rows", "price = 2.5", "id IN (12, 33)"))
    trust = build(sitemap, clock=clock).sections["products"].lastmod_trust
    assert trust is not None
    assert (trust.both, trust.date_only, trust.page_only) == (1, 29, 1)
    assert trust.page_only_samples == (f"{BASE}p/33",)
    assert {loc for loc, row in ledger(sitemap).items() if row["changed_at"]} == {"p/12", "p/33"}
    assert build(sitemap, full=True, clock=clock).result == "unchanged"
