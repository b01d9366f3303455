"""A watermark over local times without a zone: rows changed in the hour that repeats in autumn are found by the next run."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from airflow_sitemaps import Guards, MemoryStore, Section, ShardPolicy, Sitemap, SqlSource
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.sources.session import SqlSession
from airflow_sitemaps.testing import FakeClock
from tests.support.source_sessions import connected, create

BASE = "https://shop.example/"
BERLIN = ZoneInfo("Europe/Berlin")
STEP = timedelta(minutes=30)


@pytest.mark.parametrize("name", ["sqlite", "duckdb", "postgresql", "mariadb"])
@pytest.mark.parametrize("start", ["2026-10-24T22:00", "2026-03-28T22:00"], ids=["autumn", "spring"])
def test_each_run_of_the_night_finds_the_rows_changed_before_it(
    name: str, start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = connected(name, "autumn", monkeypatch)
    clock = FakeClock(datetime.fromisoformat(start).replace(tzinfo=timezone.utc))
    monkeypatch.setattr(SqlSession, "now", lambda _: clock.now())
    create(base, "autumn_clocks", {"id": "integer", "slug": "text", "lm": "timestamp"})
    long_ago = datetime(2026, 1, 1)
    base.insert("autumn_clocks", [{"id": n, "slug": f"p{n}", "lm": long_ago} for n in range(1, 401)])
    source = SqlSource(
        "autumn", table="autumn_clocks", key="id", loc=BASE + "{slug}", lastmod="lm", timezone="Europe/Berlin"
    )
    sitemap = Sitemap(
        MemoryStore(base_url=BASE, now=clock.now),
        [Section("pages", source)],
        shards=ShardPolicy(max_urls=10),
        guards=Guards.disabled(),
        change_detection="watermark",
    )
    build(sitemap, clock=clock)
    missed = []
    for run in range(12):
        changed_at = clock.now() + timedelta(minutes=20)
        local = changed_at.astimezone(BERLIN).replace(tzinfo=None)
        row = 385 - 20 * run  # neither in the last range nor in this run's slice, which are surveyed anyway
        base.run(f"UPDATE autumn_clocks SET slug = 'changed{row}', lm = '{local:%Y-%m-%d %H:%M:%S}' WHERE id = {row}")
        clock.advance(STEP)
        if build(sitemap, clock=clock).shards.rewritten != 1:
            missed.append(str(changed_at))
    assert not missed
