"""One state of the data for a whole plan, and no false reason where rows come and go between two questions."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_sitemaps import MemoryStore, Section, ShardPolicy, Sitemap
from airflow_sitemaps.errors import RefusedError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.shards.ranges import KeyRange, cut
from tests.support.databases import NAMES
from tests.support.simulated_source import SimulatedSourceConfig
from tests.support.source_sessions import create, live, session

BASE = "https://www.example.com/"


@pytest.mark.parametrize("name", [name for name in NAMES if name != "clickhouse"])
def test_questions_within_a_snapshot_see_one_state(name: str) -> None:
    base = live(name)
    if name == "sqlite":
        base.run("PRAGMA journal_mode = WAL")
    create(base, "busy", {"id": "integer", "slug": "text"})
    base.insert("busy", [{"id": n, "slug": f"p{n}"} for n in range(30)])
    with session(base, table="busy", key="id", loc="slug") as source:
        with source.snapshot():
            boundaries = source.boundaries(KeyRange(None, None), 10)
            before = source.survey(cut(KeyRange(None, None), boundaries))
            base.insert("busy", [{"id": 5, "slug": f"q{n}"} for n in range(40)])
            assert source.survey(cut(KeyRange(None, None), boundaries)) == before
            assert source.largest_key(KeyRange(None, None))[1] == 1
            assert source.boundaries(KeyRange(None, None), 10) == boundaries
            assert source.rank([(3,), (2,)]) == [1, 0]
        assert source.survey([KeyRange(None, None)]).digests[0].rows == 70
        assert source.largest_key(KeyRange(None, None)) == ((5,), 41)


def rows_of(number: int) -> list[dict[str, Any]]:
    return [{"id": n, "loc": f"{BASE}{n}"} for n in range(number)]


def sitemap_of(rows: list[dict[str, Any]], before: Any) -> Sitemap:
    source = SimulatedSourceConfig(rows, before=before)
    return Sitemap(MemoryStore(base_url=BASE), [Section("pages", source)], shards=ShardPolicy(max_urls=10))


def test_rows_that_come_before_the_survey_and_go_after_it_are_no_reason_to_refuse() -> None:
    rows = rows_of(25)
    guest = {"id": 3, "loc": f"{BASE}guest"}
    surveys = []

    def before(operation: str) -> None:
        if operation == "survey" and not surveys:
            surveys.append(operation)
            rows.append(guest)
        elif len(rows) > 25:
            rows[:] = rows[:25]

    report = build(sitemap_of(rows, before))
    assert (report.result, report.urls) == ("published", 25)


def test_a_key_that_has_too_many_rows_is_named() -> None:
    rows = [*rows_of(25), *({"id": 3, "loc": f"{BASE}{n}/x"} for n in range(12))]
    with pytest.raises(RefusedError, match=r"the key 3 has 13 rows, but a shard holds at most 10"):
        build(sitemap_of(rows, lambda _operation: None))
