"""Whole runs over rows that once ended them: each ends with a report that can be stored and read."""

from __future__ import annotations

import json

import pytest

from airflow_sitemaps import ShardPolicy
from tests.support.environment import BASE, World, row

SURROGATE_GROUP = (
    '{"group": [{"hreflang": "de", "href": "https://www.example.com/\\ud800"},'
    ' {"hreflang": "en", "href": "https://www.example.com/p/1"}]}'
)


@pytest.mark.parametrize(
    ("kind", "value", "rule"),
    [
        ("alternates", SURROGATE_GROUP, "alternate-dropped"),
        ("images", '{"loc": "https://www.example.com/i.png", "title": "\\ud800"}', "image"),
        ("images", "[" * 990, "extension-json"),
        ("news", "[" * 990, "extension-json"),
        ("alternates", '{"rel":' + "[" * 976 + "]" * 976 + "}", "extension-json"),
        ("videos", '{"title":' + "[" * 980 + "]" * 980 + "}", "extension-json"),
    ],
)
def test_the_run_ends_with_a_report_and_nothing_else_is_lost(kind: str, value: str, rule: str) -> None:
    rows = [row(1), row(2, **{kind: value}), row(3)]
    world = World(rows, source_settings={kind: kind})
    report = world.build()
    assert report.result == "published"
    assert world.crawl().locs() == {f"{BASE}p/{n}" for n in (1, 2, 3)}
    section = report.sections["pages"]
    assert section.fields_fixed[rule] == 1
    assert "key [2]" in section.samples[rule][0]
    json.dumps(report.to_dict(), ensure_ascii=False).encode("utf-8")
    assert world.build().result == "unchanged"


def test_more_than_a_thousand_articles_among_pages_stay_unchanged() -> None:
    world = World(policy=ShardPolicy(), source_settings={"news": "news"})
    publication = {"name": "P", "language": "en"}
    article = json.dumps({"publication": publication, "publication_date": world.clock.now().isoformat(), "title": "T"})
    world.rows.extend(row(number, news=article) for number in range(2_500))
    assert world.build().urls == 2_500
    files = world.crawl().files
    assert [len(locs) for locs in files.values()] == [1_000, 1_000, 500]
    again = world.build()
    assert (again.result, again.sections["pages"].rows_read) == ("unchanged", 0)
    assert world.crawl().files == files
