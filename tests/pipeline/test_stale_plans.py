"""A plan is refused when another run changed something that it decides."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps import MemoryStore, Section, Sitemap
from airflow_sitemaps.errors import ConfigurationError, ConflictError
from airflow_sitemaps.pipeline import build, stages
from airflow_sitemaps.pipeline.request import RunRequest
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.testing import FakeClock, MemorySourceConfig, crawl
from tests.simulation.faults import Call, Faults, FaultyStore
from tests.support.environment import BASE, FREE, row

if TYPE_CHECKING:
    from collections.abc import Sequence


class Site:
    """Two sections over one store, deployed in different versions."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(base_url=BASE, now=self.clock.now)
        self.rows = {"pages": [row(key) for key in range(5)], "news": [row(100 + key) for key in range(8)]}

    def sitemap(self, *names: str, retired: Sequence[str] = (), **settings: Any) -> Sitemap:
        sections = [Section(name, MemorySourceConfig(self.rows[name], lastmod="lastmod")) for name in names]
        return Sitemap(self.store, sections, guards=FREE, retired=retired, **settings)

    def plan(self, sitemap: Sitemap, **request: Any) -> tuple[str, list[str]]:
        planned = stages.plan(sitemap, RunRequest(**request), clock=self.clock)
        batches = planned.batches
        return planned.key, [
            stages.write(sitemap, planned.key, b.number, clock=self.clock).receipt_key for b in batches
        ]

    def locs(self) -> set[str]:
        return {e.loc for entries in crawl(self.store.open()).files.values() for e in entries}


@pytest.mark.parametrize("how", ["retired", "vanished"])
def test_a_stale_plan_does_not_take_out_a_section_that_came_back(how: str) -> None:
    site = Site()
    both = site.sitemap("pages", "news")
    build(both, clock=site.clock)
    without = site.sitemap("pages", retired=["news"] if how == "retired" else [])
    late = site.plan(without, allow=() if how == "retired" else ("vanished:news",))
    site.rows["news"].append(row(200))
    build(both, clock=site.clock)
    with pytest.raises(ConflictError, match=r"section 'news', which this run removes, was changed by generation 2"):
        stages.publish(without, *late, clock=site.clock)
    assert {r["loc"] for r in site.rows["news"]} <= site.locs()


def test_a_section_taken_out_meanwhile_is_no_conflict() -> None:
    site = Site()
    build(site.sitemap("pages", "news"), clock=site.clock)
    without = site.sitemap("pages", retired=["news"])
    late = site.plan(without)
    build(without, clock=site.clock)
    assert stages.publish(without, *late, clock=site.clock).result == "unchanged"


def test_code_that_has_a_retired_section_again_does_not_publish_the_earlier_plan() -> None:
    site = Site()
    both = site.sitemap("pages", "news")
    build(both, clock=site.clock)
    key, receipts = site.plan(site.sitemap("pages", retired=["news"]))
    with pytest.raises(ConfigurationError, match="removes section 'news', but the code has it now"):
        stages.publish(both, key, receipts, clock=site.clock)


def test_a_folder_that_changed_after_the_plan_is_refused() -> None:
    """With ``base_url`` the address of the folder stays, and an index would list files of the plan's folder wrongly."""
    site = Site()

    def sitemap(path: str) -> Sitemap:
        section = Section("pages", MemorySourceConfig(site.rows["pages"]), path=path, base_url=f"{BASE}served/")
        return Sitemap(site.store, [section], guards=FREE)

    build(sitemap("de/"), clock=site.clock)
    before = dict(site.store.public.objects)
    site.rows["pages"].append(row(50))
    key, receipts = site.plan(sitemap("de/"))
    with pytest.raises(ConfigurationError, match="'pages' has another path= than when this run was planned"):
        stages.publish(sitemap("magazine/"), key, receipts, clock=site.clock)
    assert site.store.public.objects == before
    assert build(sitemap("magazine/"), clock=site.clock).result == "published"


@pytest.mark.parametrize("settings", [{"index": "per_section"}, {"stylesheet": True}, {"feeds": ("atom",)}])
def test_a_stale_plan_does_not_undo_a_new_layout_of_the_indexes(settings: dict[str, Any]) -> None:
    site = Site()
    before = site.sitemap("pages", "news")
    build(before, clock=site.clock)
    site.rows["pages"].append(row(300))
    late = site.plan(before, sections=("pages",))
    build(site.sitemap("pages", "news", **settings), sections=["news"], clock=site.clock)
    public = set(site.store.public.objects)
    with pytest.raises(ConflictError, match="the layout of the indexes was changed by generation 2"):
        stages.publish(before, *late, clock=site.clock)
    assert set(site.store.public.objects) == public


def test_the_first_of_two_first_runs_is_no_other_pipeline_to_the_second() -> None:
    """It commits and publishes after the second one read that there is no manifest."""
    site = Site()
    sitemap = site.sitemap("pages")
    key, receipts = site.plan(sitemap)
    waiting = [lambda: build(sitemap, clock=site.clock)]

    def before(call: Call) -> None:
        if waiting and (call.verb, call.area, call.key) == ("head", "public", "sitemap.xml"):
            waiting.pop()()

    late = replace(sitemap, store=FaultyStore(site.store, Faults(before=before)))
    with pytest.raises(ConflictError, match="section 'pages' was changed by generation 1"):
        stages.publish(late, key, receipts, clock=site.clock)
    assert {r["loc"] for r in site.rows["pages"]} == site.locs()


@pytest.mark.parametrize("swept", [False, True])
def test_a_section_that_returns_uses_no_file_name_twice(swept: bool) -> None:
    site = Site()
    both = site.sitemap("pages", "news")
    build(both, clock=site.clock)
    first = names_of(site, "news")
    build(site.sitemap("pages", retired=["news"]), clock=site.clock)
    if swept:
        site.clock.advance(timedelta(days=60))
        build(site.sitemap("pages", retired=["news"]), clock=site.clock)
        assert not first & {info.key for info in site.store.open().public.list()}
    site.rows["news"].append(row(200))
    build(both, clock=site.clock)
    assert names_of(site, "news")
    assert not names_of(site, "news") & first


def names_of(site: Site, section: str) -> set[str]:
    manifest = StateRepository(site.store.open().state).manifest()
    assert manifest is not None
    return {file.name for file in manifest.sections[section].files()}


@pytest.mark.parametrize("retired", [(), ("news",)])
def test_a_run_of_some_sections_leaves_the_others(retired: Sequence[str]) -> None:
    site = Site()
    build(site.sitemap("pages", "news"), clock=site.clock)
    site.rows["pages"].append(row(300))
    build(site.sitemap("pages", retired=retired), sections=["pages"], clock=site.clock)
    assert {r["loc"] for rows in site.rows.values() for r in rows} == site.locs()


def test_a_section_that_a_rival_publishes_for_the_first_time_stays() -> None:
    site = Site()
    build(site.sitemap("pages"), clock=site.clock)
    site.rows["pages"].append(row(300))
    both = site.sitemap("pages", "news")
    late = site.plan(both, sections=("pages",))
    build(both, sections=["news"], clock=site.clock)
    stages.publish(both, *late, clock=site.clock)
    assert {r["loc"] for rows in site.rows.values() for r in rows} == site.locs()
