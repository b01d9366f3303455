"""The ledger over real databases: fingerprints and keys as each of them gives them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_sitemaps import MemoryStore, Section, ShardPolicy, Sitemap, SqlSource
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
