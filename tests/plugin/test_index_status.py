"""What the page shows of index status: the newest estimates by section, and those of earlier days."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import convert, json, to_builtins

from airflow_sitemaps.plugin.pages.announcements import MAX_DAYS, MAX_SECTIONS, index_status_of
from airflow_sitemaps.ports import Overwrite
from airflow_sitemaps.search_engines.index_status import AREA, Observation, Stratum, keep
from tests.plugin.test_coverage_columns import URI, publish
from tests.support.plugin_factories import NOW

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy.orm import Session

    from tests.plugin.conftest import Client


def observation(days_ago: int, **indexed: int) -> Observation:
    moment = NOW - timedelta(days=days_ago)
    strata = {
        name: {"other": Stratum(urls=100, inspected=10, crawled=10, indexed=number, reasons={"Indexed": number})}
        for name, number in indexed.items()
    }
    return Observation(
        engine="google", day=moment.date(), at=moment.isoformat(), properties=["sc-domain:x"],
        sections=strata,
    )  # fmt: skip


def test_each_section_with_its_interval_and_history(admin: Client, session: Session, tmp_path: Path) -> None:
    objects = publish(session, tmp_path).store.open().state
    for each in (observation(8, pages=4), observation(1, pages=10), observation(0, pages=5, news=10)):
        keep(objects, each)

    found = admin.get("api/sitemap/index-status", asset=URI).json()

    assert found["properties"] == ["sc-domain:x"]
    assert found["at"] == NOW.isoformat()
    rows: dict[str, Any] = {row["section"]: row for row in found["sections"]}
    assert found["history"] == {"pages": [0.4, 1.0, 0.75], "news": [None, None, 1.0]}
    assert (rows["pages"]["inspected"], rows["pages"]["urls"]) == (20, 100)
    assert rows["pages"]["indexed"]["low"] < 0.75 < rows["pages"]["indexed"]["high"]
    assert rows["pages"]["reasons"] == {"Indexed": 15}


def test_bing_has_its_own_estimates_and_none_of_its_index(admin: Client, session: Session, tmp_path: Path) -> None:
    objects = publish(session, tmp_path).store.open().state
    strata = {"pages": {"other": Stratum(urls=100, inspected=10, discovered=10, crawled=4)}}
    stages = ("discovered", "crawled")
    keep(objects, Observation(engine="bing", day=NOW.date(), at=NOW.isoformat(), stages=stages, sections=strata))
    keep(objects, observation(0, pages=5))

    found = admin.get("api/sitemap/index-status", asset=URI, engine="bing").json()

    (row,) = found["sections"]
    assert (found["stages"], found["history"]) == (["discovered", "crawled"], {"pages": [0.4]})
    assert (row["discovered"]["share"], row["crawled"]["share"], row["indexed"]) == (1.0, 0.4, None)
    assert admin.get("api/sitemap/index-status", asset=URI).json()["stages"] == ["crawled", "indexed"]
    assert admin.get("api/sitemap/index-status", asset=URI, engine="else").status_code == 422


def test_nothing_was_inspected_or_it_cannot_be_read(admin: Client, session: Session, tmp_path: Path) -> None:
    objects = publish(session, tmp_path).store.open().state
    body = b'{"format": 1, "engine": "google", "day": 7, "sections": []}'
    objects.put(f"{AREA}google/9.json", body, mode=Overwrite(), metadata={}, content_type="application/json")

    found = admin.get("api/sitemap/index-status", asset=URI)

    assert (found.json()["sections"], found.json()["at"]) == ([], None)
    assert found.headers["cache-control"] == "no-store"


def test_observations_with_values_that_cannot_be_are_left_out(admin: Client, session: Session, tmp_path: Path) -> None:
    objects = publish(session, tmp_path).store.open().state
    good = to_builtins(observation(1, pages=5))
    keep(objects, observation(1, pages=5))
    for number, other in enumerate([{"stages": []}, {"first_crawl": {"x": 9}}, {"inspected": -2}, {"urls": 1 << 70}]):
        stratum = {**good["sections"]["pages"]["other"], **other}
        body = {**good, "sections": {"pages": {"other": stratum}}} | (other if "stages" in other else {})
        key, body = f"{AREA}google/9{number}.json", json.encode(body)
        objects.put(key, body, mode=Overwrite(), metadata={}, content_type="application/json")

    (row,) = admin.get("api/sitemap/index-status", asset=URI).json()["sections"]
    assert row["inspected"] == 10


@pytest.mark.parametrize("values", [{"day": "0001-01-01"}, {"indexed": 11}, {"indexed": 900}])
def test_odd_observations_have_estimates(values: dict[str, Any]) -> None:
    stratum = convert({"urls": 100, "inspected": 10, **values}, Stratum)
    day = date.fromisoformat(values.get("day", "2026-01-01"))
    (found,) = index_status_of([Observation(engine="google", day=day, sections={"pages": {"other": stratum}})]).sections
    assert found.indexed is not None
    assert 0 <= found.indexed.low <= found.indexed.share <= found.indexed.high <= 1


def test_a_store_that_cannot_be_read_says_so(admin: Client, session: Session, tmp_path: Path) -> None:
    publish(session, tmp_path)
    (tmp_path / "site-state").rename(tmp_path / "elsewhere")

    assert (
        "is not on the API server's machine" in admin.get("api/sitemap/index-status", asset=URI).json()["unavailable"]
    )


def test_only_so_many_sections_and_days_are_shown() -> None:
    names = {f"s{n}": 5 for n in range(MAX_SECTIONS + 5)}
    found = index_status_of([observation(ago, **names) for ago in reversed(range(MAX_DAYS + 3))])

    assert (len(found.sections), found.left_out) == (MAX_SECTIONS, 5)
    assert len(found.history["s0"]) == len(found.days) == MAX_DAYS
