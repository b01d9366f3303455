"""No false reason for a refusal where rows come and go between two questions of a plan."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_sitemaps import MemoryStore, Section, ShardPolicy, Sitemap
from airflow_sitemaps.errors import RefusedError
from airflow_sitemaps.pipeline import build
from tests.support.simulated_source import SimulatedSourceConfig

BASE = "https://www.example.com/"


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
