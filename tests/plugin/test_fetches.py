"""What the page says of files that crawlers have not fetched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from airflow_sitemaps.ports import Overwrite
from airflow_sitemaps.search_engines.fetches import (
    RECORD,
    SUMMARY,
    CrawlerFetches,
    Fetches,
    FetchRecord,
    SectionFetches,
)
from tests.plugin.test_coverage_columns import BASE, URI, publish

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy.orm import Session

    from tests.plugin.conftest import Client


def test_late_files_are_a_problem_with_a_next_step(admin: Client, session: Session, tmp_path: Path) -> None:
    objects = publish(session, tmp_path).store.open().state
    news = SectionFetches(files=1, late=1, samples=[f"{BASE}news-00001.xml.gz"])
    sections = {"news": news, "pages": SectionFetches(files=1, current=1)}
    summary = Fetches(
        at="2026-01-15T12:00:00+00:00", crawlers={"google": CrawlerFetches(max_delay_s=7 * 86_400, sections=sections)}
    )
    objects.put(SUMMARY, msgspec.json.encode(summary), mode=Overwrite(), metadata={}, content_type="application/json")

    page = admin.get("api/sitemap", asset=URI).json()

    (problem,) = [each for each in page["problem_list"] if each["kind"] == "not-fetched"]
    assert problem["title"] == "Google has not fetched 1 file that changed more than 7 days ago"
    assert f"{BASE}news-00001.xml.gz" in problem["detail"]
    assert problem["detail"].endswith("Read from the access log at 2026-01-15 12:00 UTC.")
    assert "robots.txt" in problem["next_step"]
    assert problem["severity"] == "warning"


def test_the_map_has_the_last_fetch_of_each_shard_by_crawler(admin: Client, session: Session, tmp_path: Path) -> None:
    objects = publish(session, tmp_path).store.open().state
    record = FetchRecord(since="2026-01-01", files={"pages-00001.xml.gz": {"google": 7, "bing": 5}})
    empty = admin.get("api/sitemap/shards/fetches", asset=URI)
    objects.put(RECORD, msgspec.json.encode(record), mode=Overwrite(), metadata={}, content_type="application/json")

    found = admin.get("api/sitemap/shards/fetches", asset=URI)

    assert empty.json() == {"since": "", "crawlers": {}}
    times = {name: {"news": [0], "pages": [at]} for name, at in (("bing", 5), ("google", 7))}
    assert found.json() == {"since": "2026-01-01", "crawlers": times}
    assert found.headers["cache-control"] == "no-store"
