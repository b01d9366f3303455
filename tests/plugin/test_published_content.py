"""What the API reads from published files: the difference between generations, and where a URL is listed."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps import Guards, LocalStore, Section, ShardPolicy, Sitemap
from airflow_sitemaps.assets import event_extra, section_settings, store_facts
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.testing.source import MemorySourceConfig
from tests.support.plugin_factories import NOW, add_asset, add_event, extra, report

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy.orm import Session

    from tests.plugin.conftest import Client

URI = "file:///content/sitemap.xml"
BASE = "https://content.example/"


@pytest.fixture
def published(session: Session, tmp_path: Path) -> str:
    """Two generations of a real local sitemap: the second adds one URL, removes one and changes one."""
    rows: list[dict[str, Any]] = [{"id": n, "loc": f"{BASE}p/{n}", "priority": 0.5} for n in range(1, 41)]
    source = MemorySourceConfig(rows, key="id", priority="priority")
    store = LocalStore(tmp_path / "site", base_url=BASE)
    section = Section("pages", source, shards=ShardPolicy(max_urls=5))
    sitemap = Sitemap(store, [section], guards=Guards.disabled())
    asset = add_asset(session, URI, "content")
    for number in (1, 2):
        made = build(sitemap)
        facts = store_facts(store, store.open())
        payload = event_extra(made, store=facts, settings=section_settings(sitemap))
        add_event(session, asset, "content", payload, NOW, run=f"r{number}")
        rows[0]["priority"] = 0.3
        rows.append({"id": 41, "loc": f"{BASE}p/41", "priority": 0.5})
        del rows[9]
    session.commit()
    return URI


def test_the_difference_between_two_generations_in_either_direction(admin: Client, published: str) -> None:
    forward = admin.get("api/sitemap/changes", asset=published, from_generation=1, to_generation=2).json()
    back = admin.get("api/sitemap/changes", asset=published, from_generation=2, to_generation=1).json()

    assert (forward["urls"]["added_samples"], forward["urls"]["removed_samples"]) == ([f"{BASE}p/41"], [f"{BASE}p/10"])
    assert forward["urls"]["changed_samples"] == [f"{BASE}p/1"]
    assert (back["urls"]["added_samples"], back["urls"]["removed_samples"]) == ([f"{BASE}p/10"], [f"{BASE}p/41"])
    assert forward["sections"][0]["urls_before"] == forward["sections"][0]["urls_after"] == 40
    assert forward["sections"][0]["files_changed"] >= 2


def test_a_generation_that_is_not_kept_is_a_sentence(admin: Client, published: str) -> None:
    found = admin.get("api/sitemap/changes", asset=published, from_generation=2, to_generation=9).json()

    assert found == {"unavailable": "Generation 9 is no longer kept."}


@pytest.mark.parametrize("asset", [URI, ""], ids=["on its page", "on the list"])
@pytest.mark.parametrize(("number", "listed"), [(41, True), (7, True), (10, False), (99, False)])
def test_where_a_url_is_listed(admin: Client, published: str, asset: str, number: int, listed: bool) -> None:
    (found,) = admin.get("api/find", asset=asset, url=f"{BASE}p/{number}").json()["results"]

    assert (found["listed"], found["complete"], found["generation"]) == (listed, True, 2)
    if listed:
        assert found["matches"][0]["fields"] == {"priority": "0.5"}
        assert found["matches"][0]["file_url"].startswith(f"{BASE}pages-")


@pytest.mark.parametrize("url", ["https://elsewhere.example/", "nonsense", "javascript:alert(1)"])
def test_no_sitemap_serves_another_host(admin: Client, published: str, url: str) -> None:
    assert admin.get("api/find", url=url).json() == {"results": [], "note": "No published sitemap serves this host."}


def test_what_cannot_be_listed_is_said(admin: Client, published: str) -> None:
    found = admin.get("api/find", asset=published, url="javascript:alert(1)").json()

    assert "rule loc-scheme" in found["note"]


def test_issues_are_exported_with_what_happened_to_each(admin: Client, session: Session) -> None:
    """U9: old news rows are left out, also in events of earlier versions, which count them elsewhere."""
    asset = add_asset(session, URI, "content")
    payload = extra(report(1))
    payload["report"]["sections"]["products"] |= {
        "rows_dropped": {"loc-missing": 2},
        "rows_expired": {},
        "fields_mended": {"news-age": 73, "image": 4, "loc-encoding": 5, "scope-path": 6},
        "samples": {"loc-missing": ["NULL (key 42)", "=1+1"]},
    }
    add_event(session, asset, "content", payload, NOW)
    session.commit()

    rows = list(csv.DictReader(io.StringIO(admin.get("api/sitemap/issues.csv", asset=URI).text)))

    assert {row["rule"]: (row["result"], row["rows"]) for row in rows} == {
        "loc-missing": ("Left out", "2"),
        "news-age": ("Left out", "73"),
        "image": ("Field removed", "4"),
        "loc-encoding": ("Fixed", "5"),
        "scope-path": ("Listed anyway", "6"),
    }
    assert [row["sample"] for row in rows if row["rule"] == "loc-missing"] == ["NULL (key 42)", "'=1+1"]
