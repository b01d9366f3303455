"""The survey that a run skips because the table's version has not changed."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest

from airflow_sitemaps import Guards, Section, ShardPolicy, Sitemap, pipeline
from airflow_sitemaps.errors import ConfigurationError, GuardError, PartlyPublishedError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.pipeline.state.repository import known_key
from airflow_sitemaps.ports import Overwrite
from airflow_sitemaps.testing import FakeClock, crawl
from tests.simulation.faults import Fault, Faults, FaultyStore, SimulatedCrash
from tests.support.environment import BASE, World, row
from tests.support.observed_table import ObservedTable
from tests.support.simulated_source import SimulatedSourceConfig


class Table(ObservedTable):
    """The table with a version that the test sets."""

    def __init__(self, **settings: Any) -> None:
        self.version: str | None = "v1"
        super().__init__({"version": lambda: self.version}, **settings)


@pytest.fixture
def table() -> Table:
    made = Table()
    made.build()
    assert made.is_surveyed
    return made


def test_an_unchanged_table_is_not_surveyed(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        assert table.build().result == "unchanged"
    assert not table.is_surveyed
    assert "read" not in table.operations
    assert "section pages: its table has not changed since" in caplog.text


def test_a_changed_table_is_surveyed_and_then_not_again(table: Table) -> None:
    table.world.rows[40]["priority"] = 0.7
    table.version = "v2"
    assert table.build().result == "published"
    assert table.is_surveyed
    assert table.build().result == "unchanged"
    assert not table.is_surveyed
    assert table.is_right()


def test_a_version_that_goes_back_is_another_version(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    table.version = "v0"
    with caplog.at_level(logging.INFO):
        table.build()
    assert table.is_surveyed
    assert "section pages: every range is surveyed: its table changed since" in caplog.text


def test_a_full_survey_is_taken_at_the_stated_interval(table: Table) -> None:
    table.world.rows[40]["priority"] = 0.7  # though the version says otherwise
    table.world.clock.advance(timedelta(hours=23))
    assert table.build().result == "unchanged"
    table.world.clock.advance(timedelta(hours=2))
    assert table.build().result == "published"
    assert table.is_right()
    assert table.build().result == "unchanged"
    assert not table.is_surveyed


@pytest.mark.parametrize("settings", [{"table_versions": None}, {"change_detection": "full"}], ids=str)
def test_it_can_be_turned_off(settings: dict[str, Any]) -> None:
    table = Table(**settings)
    table.build()
    table.build()
    assert table.is_surveyed
    assert "table_version" not in table.operations


def test_a_source_without_a_version_is_surveyed(table: Table) -> None:
    table.version = None
    table.build()
    assert table.is_surveyed


def test_a_change_between_version_and_survey_is_found_by_the_next_run(table: Table) -> None:
    def change(value: float, version: str) -> None:
        table.world.rows[40]["priority"] = value
        table.version = version

    table.version = "v2"
    table.hooks["survey"] = lambda: change(0.7, "v3")
    table.build()
    table.hooks["read"] = lambda: change(0.8, "v4")
    table.world.rows[70]["priority"] = 0.1
    table.build()
    assert table.is_surveyed
    table.build()
    assert table.is_surveyed
    assert table.is_right()


def test_another_configuration_reads_everything(table: Table) -> None:
    table.world.settings["rules"] = {"lastmod-future": "keep"}
    assert table.build().rows_read == 100
    table.build(full=True)
    assert table.is_surveyed


def test_a_rollback_is_surveyed(table: Table) -> None:
    table.world.rows[40]["priority"] = 0.7
    table.version = "v2"
    table.build()
    pipeline.rollback(table.world.sitemap(), 1, clock=table.world.clock)
    assert table.build().result == "published"
    assert table.is_right()


def test_a_refused_run_is_not_remembered(table: Table) -> None:
    table.world.guards = Guards(max_shrink=0.1, min_rows=1)
    del table.world.rows[20:]
    table.version = "v2"
    with pytest.raises(GuardError):
        table.build()
    with pytest.raises(GuardError):
        table.build()
    table.build(allow=("shrink:pages=0.9",))
    assert table.is_right()


@pytest.mark.parametrize("detection", ["digest", "watermark"])
def test_a_section_that_the_commit_refuses_stores_neither_version_nor_watermark(detection: str) -> None:
    """The guard refuses it after its rows were read. The other section is published, and stores its own."""
    clock, world = FakeClock(), World()
    rows = {name: [row(n) for n in range(1, 101)] for name in ("good", "bad")}
    version = ["v1"]

    def sitemap() -> Sitemap:
        guards = Guards(max_dropped=0.1, min_rows=1)
        settings: dict[str, Any] = {"version": lambda: version[0]} if detection == "digest" else {}
        settings |= {"lastmod": "lastmod", "clock": clock.now}
        sections = [Section(name, SimulatedSourceConfig(rows[name], **settings), guards=guards) for name in rows]
        return Sitemap(world.config, sections, shards=ShardPolicy(max_urls=50), change_detection=detection)

    def stored(name: str) -> Any:
        found = world.store.state.get(known_key(name))
        return found and found.body

    build(sitemap(), clock=clock)
    before = {name: stored(name) for name in rows}
    assert all(before.values())
    clock.advance(timedelta(hours=1))
    version[0] = "v2"
    for listed in rows.values():
        listed[0] = {**listed[0], "loc": f"{BASE}p/new", "lastmod": clock.now()}
    rows["bad"][1:40] = [{**each, "loc": "not a url", "lastmod": clock.now()} for each in rows["bad"][1:40]]
    with pytest.raises((PartlyPublishedError, GuardError)):
        build(sitemap(), clock=clock)
    assert stored("bad") == before["bad"]
    assert stored("good") != before["good"]
    rows["bad"][:] = [row(n) for n in range(1, 101)]
    rows["bad"][0] = {**rows["bad"][0], "loc": f"{BASE}p/other", "lastmod": clock.now()}
    build(sitemap(), clock=clock)
    assert f"{BASE}p/other" in crawl(world.store).entries()


def test_only_the_ranges_that_are_read_are_surveyed(table: Table) -> None:
    name = next(iter(table.world.shards()))
    report = table.build(rebuild=(name,))
    assert (report.rows_read, table.is_surveyed) == (5, True)
    assert table.is_right()


def test_a_damaged_record_is_not_believed(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    state = table.world.store.state
    table.world.rows[40]["priority"] = 0.7
    table.version = "v2"
    forged = b'{"known": {"version": "v2", "surveyed_at": "2026-01-15T12:00:00Z"}, "changed_in": true}'
    state.put(known_key("pages"), forged, mode=Overwrite(), metadata={}, content_type="application/json")
    table.build()
    assert table.is_surveyed
    assert table.is_right()
    assert "is damaged" in caplog.text


def test_a_crash_between_the_commit_and_the_record_costs_no_survey(table: Table) -> None:
    table.world.rows[40]["priority"] = 0.7
    table.version = "v2"
    faults = Faults().on("put", known_key("pages"), Fault.CRASH_BEFORE)
    with pytest.raises(SimulatedCrash):
        build(table.world.sitemap(FaultyStore(table.world.config, faults)), clock=table.world.clock)
    assert table.build().result == "unchanged"
    assert not table.is_surveyed
    assert table.is_right()


def test_the_interval_is_above_zero() -> None:
    with pytest.raises(ConfigurationError, match="table_versions"):
        Table(table_versions=timedelta(0)).build()
