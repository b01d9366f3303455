"""What the page shows of Search Console: the newest state of each index, and the numbers of earlier submissions."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_sitemaps import LocalStore, Section, Sitemap
from airflow_sitemaps.assets import event_extra, section_settings, store_facts
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.plugin.pages.announcements import MAX_INDEXES, MAX_OBSERVATIONS, coverage_of
from airflow_sitemaps.ports import Overwrite
from airflow_sitemaps.search_engines.searchconsole import (
    COVERAGE,
    IndexCoverage,
    Observation,
    SubmittedSitemap,
    observe,
)
from airflow_sitemaps.testing import MemorySourceConfig
from tests.support.plugin_factories import NOW, add_asset, add_event

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy.orm import Session

    from tests.plugin.conftest import Client

URI = "file:///coverage/sitemap.xml"
BASE = "https://coverage.example/"
SITE = "sc-domain:coverage.example"


def publish(session: Session, folder: Path) -> Sitemap:
    sections = [
        Section(name, MemorySourceConfig([{"id": n, "loc": f"{BASE}{name}/{n}"} for n in range(number)]))
        for name, number in (("news", 3), ("pages", 7))
    ]
    store = LocalStore(folder / "site", base_url=BASE)
    sitemap = Sitemap(store, sections, index="per_section")
    asset = add_asset(session, URI, "coverage")
    made = build(sitemap)
    payload = event_extra(made, store=store_facts(store, store.open()), settings=section_settings(sitemap))
    add_event(session, asset, "coverage", payload, NOW, run="r1")
    session.commit()
    return sitemap


def submitted(section: str, **values: Any) -> SubmittedSitemap:
    fields: dict[str, Any] = {
        "last_submitted": None, "last_downloaded": None, "pending": False, "is_index": True, "errors": 0, "warnings": 0,
        "urls": {},
    }  # fmt: skip
    return SubmittedSitemap(path=f"{BASE}sitemap-{section}.xml", **{**fields, **values})


def test_each_section_with_its_history(admin: Client, session: Session, tmp_path: Path) -> None:
    sitemap = publish(session, tmp_path)
    observe(sitemap, SITE, [submitted("pages", pending=True)], NOW - timedelta(days=1))
    read = "2026-11-19T08:00:00Z"
    now = [
        submitted("news", urls={"web": 3, "news": 2}, errors=1, last_downloaded=read),
        submitted("pages", urls={"web": 6}),
    ]
    observe(sitemap, SITE, now, NOW)

    found = admin.get("api/sitemap/coverage", asset=URI).json()

    assert (found["site"], found["left_out"]) == (SITE, 0)
    assert found["at"] == [(NOW - timedelta(days=1)).isoformat(), NOW.isoformat()]
    news, pages = found["indexes"]
    assert news == {
        "url": f"{BASE}sitemap-news.xml", "section": "news", "listed": 3, "pending": False, "errors": 1, "warnings": 0,
        "last_read": "2026-11-19T08:00:00+00:00", "discovered": {"web": 3, "news": 2}, "discovered_history": [None, 3],
    }  # fmt: skip
    assert (pages["section"], pages["listed"], pages["last_read"]) == ("pages", 7, None)
    assert pages["discovered_history"] == [0, 6]


def test_nothing_was_submitted_or_published(admin: Client, session: Session, tmp_path: Path) -> None:
    publish(session, tmp_path)
    add_asset(session, "file:///unpublished/sitemap.xml", "unpublished")
    session.commit()

    found = admin.get("api/sitemap/coverage", asset=URI)

    assert found.json() == {"site": "", "at": [], "indexes": [], "left_out": 0}
    assert found.headers["cache-control"] == "no-store"


def test_an_observation_of_other_types_is_left_out_and_wrong_times_are_not_shown(
    admin: Client, session: Session, tmp_path: Path
) -> None:
    objects = publish(session, tmp_path).store.open().state
    index = {"url": 7, "section": ["x"], "listed": "many", "discovered": [1], "errors": True, "pending": "yes"}
    planted = {"format": 1, "at": "yesterday", "generation": 1, "site": "s", "indexes": []}
    for key, value in (("8", planted), ("9", {**planted, "indexes": [index]})):
        body = json.dumps(value).encode()
        objects.put(f"{COVERAGE}{key}.json", body, mode=Overwrite(), metadata={}, content_type="application/json")

    found = admin.get("api/sitemap/coverage", asset=URI)

    assert found.status_code == 200
    assert (found.json()["site"], found.json()["at"], found.json()["indexes"]) == ("s", [None], [])


def test_a_store_that_cannot_be_read_says_so(admin: Client, session: Session, tmp_path: Path) -> None:
    publish(session, tmp_path)
    (tmp_path / "site-state").rename(tmp_path / "elsewhere")

    assert "is not on the API server's machine" in admin.get("api/sitemap/coverage", asset=URI).json()["unavailable"]


def test_only_so_many_indexes_are_shown() -> None:
    indexes = tuple(IndexCoverage(url=f"{BASE}{n}", section="", listed=n) for n in range(MAX_INDEXES + 5))
    observations = [Observation(at=NOW.isoformat(), generation=1, site=SITE, indexes=indexes)] * MAX_OBSERVATIONS

    found = coverage_of(observations)

    assert (len(found.indexes), found.left_out) == (MAX_INDEXES, 5)
    assert len(found.indexes[0].discovered_history) == MAX_OBSERVATIONS
