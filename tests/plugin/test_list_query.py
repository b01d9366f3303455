"""The list: filtered, sorted and exported on the server."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from airflow_sitemaps.plugin.pages.sitemap_pages import ListQuery, SitemapLine, csv_of, selected, totals
from airflow_sitemaps.plugin.pages.verdict import DataAge


def line(name: str, **changes: Any) -> SitemapLine:
    fields = {
        "asset": f"s3://{name}/sitemap.xml", "name": name, "index_url": f"https://{name}.example/sitemap.xml",
        "dag_id": name, "dag_ids": [name], "tags": [], "state": "healthy", "reason": "Healthy", "activity": "",
        "paused": False, "orphaned": False, "archived": False, "result": "published", "run_id": "r", "generation": 1,
        "at": "2026-11-20T10:00:00Z", "committed_at": None, "verified_at": None, "urls": 10, "shards": 1,
        "file_bytes": 5, "rows": 10, "dropped": 0, "index_files": 1, "problems": [], "run_dag_id": name,
        "data_read_at": None, "newest_lastmod": None, "freshness": DataAge(), "history": [], **changes,
    }  # fmt: skip
    return SitemapLine(**fields)


LINES = [
    line("a", urls=5, tags=["seo"], state="healthy"),
    line("b", urls=50, state="failing", activity="running"),
    line("c", urls=20, state="warning", paused=True, at=None),
    line("d", urls=1, state="failing"),
    line("e", state="unknown", archived=True),
]


def names(**query: Any) -> str:
    return "".join(found.name for found in selected(LINES, ListQuery(**query)))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, "bdca"),
        ({"search": "B.EXAMPLE"}, "b"),
        ({"search": "s3://c"}, "c"),
        ({"state": "failing"}, "bd"),
        ({"state": "running"}, "b"),
        ({"state": "paused"}, "c"),
        ({"dag": "d"}, "d"),
        ({"tag": "seo"}, "a"),
        ({"archived": True}, "e"),
        ({"sort": "urls"}, "dacb"),
        ({"sort": "urls", "descending": True}, "bcad"),
        ({"sort": "name", "descending": True}, "dcba"),
        ({"sort": "at"}, "cabd"),
        ({"search": "nothing"}, ""),
    ],
)
def test_what_is_shown_and_in_which_order(query: dict[str, Any], expected: str) -> None:
    assert names(**query) == expected


def test_totals_leave_archived_ones_out() -> None:
    assert totals(LINES).model_dump() == {
        "sitemaps": 4, "urls": 76, "failing": 2, "warning": 1, "not_verified": 0, "unknown": 0, "healthy": 1,
        "running": 1, "archived": 1,
    }  # fmt: skip


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_no_cell_is_a_formula(start: str) -> None:
    text = csv_of([line(f"{start}cmd|' /C calc'!A0").model_dump()], ("name", "urls"))

    assert next(iter(list(csv.reader(io.StringIO(text)))[1]))[0] == "'"
