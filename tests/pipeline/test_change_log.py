"""Runs that survey only the ranges that a change log names."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_sitemaps import Guards, Section, ShardPolicy, Sitemap, pipeline
from airflow_sitemaps.errors import ConfigurationError, GuardError, PartlyPublishedError
from airflow_sitemaps.pipeline import build, stages
from airflow_sitemaps.pipeline.plan.dry_run import explain
from airflow_sitemaps.pipeline.request import RunRequest
from airflow_sitemaps.pipeline.state.repository import StateRepository, known_key
from airflow_sitemaps.ports import Overwrite
from airflow_sitemaps.shards.ranges import Known
from airflow_sitemaps.testing import FakeClock, crawl
from tests.support import simulated_source
from tests.support.environment import BASE, FREE, World, row
from tests.support.observed_table import ObservedTable
from tests.support.simulated_source import SimulatedSourceConfig


class Table(ObservedTable):
    """The table with a feed of its changes."""

    def __init__(self, **settings: Any) -> None:
        self.log: list[tuple[int, Any]] = [(0, (0,))]
        super().__init__({"change_log": self.log}, **settings)

    def change(self, place: int, priority: float, *, is_recorded: bool = True) -> None:
        self.world.rows[place]["priority"] = priority
        if is_recorded:
            self.record(self.world.rows[place]["id"])

    def record(self, *keys: Any) -> None:
        for key in keys:
            self.log.append((self.log[-1][0] + 1, None if key is None else (key,)))

    def delete(self, place: int) -> None:
        self.record(self.world.rows.pop(place)["id"])

    @property
    def known(self) -> Known | None:
        manifest = StateRepository(self.world.store.state).manifest()
        assert manifest is not None
        return manifest.sections["pages"].known

    def note(self) -> str:
        planned = stages.plan(self.world.sitemap(), RunRequest(dry_run=True), clock=self.world.clock)
        return planned.sections["pages"].survey_note


@pytest.fixture
def table() -> Table:
    made = Table()
    made.build()
    assert made.is_surveyed
    return made


def test_a_run_without_changes_surveys_nothing(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        assert table.build().result == "unchanged"
    assert not table.is_surveyed
    assert "read" not in table.operations
    assert "section pages: the change log names 0 changes in 0 of 20 ranges; only these are surveyed" in caplog.text


@pytest.mark.parametrize("full", [False, True])
def test_a_warning_of_the_feed_is_the_runs(table: Table, full: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    real = simulated_source.read_change_log
    monkeypatch.setattr(
        simulated_source, "read_change_log", lambda *given: replace(real(*given), warning="a transaction has been open")
    )
    warning = "section 'pages': the change log: a transaction has been open"
    assert warning in build(table.world.sitemap(), full, clock=table.world.clock).warnings


def test_only_the_ranges_of_changed_keys_are_surveyed(table: Table) -> None:
    table.change(40, 0.7)
    table.change(41, 0.7)
    table.change(90, 0.7, is_recorded=False)
    report = table.build()
    assert (report.shards.rewritten, report.rows_read) == (1, 5)
    assert not table.is_right()  # until the net
    table.world.clock.advance(timedelta(hours=25))
    assert table.build().shards.rewritten == 1
    assert table.is_right()


def test_inserts_deletes_and_changed_keys_are_found(table: Table) -> None:
    table.world.rows.append(row(405))
    table.delete(70)
    table.record(405, table.world.rows[10]["id"], 777)
    table.world.rows[10]["id"] = 777
    assert table.build().result == "published"
    assert table.is_right()
    assert table.build().result == "unchanged"
    assert not table.is_surveyed


def test_deletes_of_all_but_a_few_shards(table: Table) -> None:
    for _ in range(80):
        table.delete(10)
    table.build()
    assert table.is_right()
    table.build()
    assert not table.is_surveyed


def test_the_plan_says_which_way_was_taken(table: Table) -> None:
    table.change(40, 0.7)
    assert table.note().startswith(
        "the change log names 1 change in 1 of 20 ranges; only these are surveyed (the last "
    )
    planned = stages.plan(table.world.sitemap(), RunRequest(dry_run=True, full=True), clock=table.world.clock)
    assert "  survey: every range is surveyed: a full run was requested" in explain(planned)


def test_the_position_is_committed_with_the_digests(table: Table) -> None:
    assert table.known == Known(position="0", surveyed_at=table.world.clock.now())
    table.change(40, 0.7)
    table.build()
    assert table.known is not None
    assert table.known.position == "1"


def test_a_run_that_publishes_nothing_remembers_its_position(table: Table) -> None:
    table.record(100, 200, 300)  # of columns that the sitemap does not show
    assert table.build().result == "unchanged"
    assert table.is_surveyed
    assert table.known is not None
    assert table.known.position == "0"
    assert table.build().result == "unchanged"
    assert not table.is_surveyed
    del table.log[:3]  # the feed is truncated up to the position that was remembered
    assert "0 changes" in table.note()


def test_a_position_beside_the_manifest_is_not_needed(table: Table) -> None:
    table.change(40, 0.7)
    table.build()
    state = table.world.store.state
    info = next(each for each in state.list("") if each.key == known_key("pages"))
    state.delete(info.key)
    table.build()
    assert not table.is_surveyed
    state.put(known_key("pages"), b'{"known": ', mode=Overwrite(), metadata={}, content_type="application/json")
    table.build()
    assert not table.is_surveyed


def test_a_crash_before_the_commit_keeps_the_earlier_position(table: Table) -> None:
    table.change(40, 0.7)
    stages.plan(table.world.sitemap(), clock=table.world.clock)
    assert table.known is not None
    assert table.known.position == "0"
    assert table.build().result == "published"
    assert table.is_right()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda feed: feed.__delitem__(slice(0, 2)), "truncated"),
        (lambda feed: feed.clear(), "truncated"),
        (lambda feed: feed.append((9, None)), "NULL key"),
    ],
    ids=["truncated", "emptied", "null"],
)
def test_a_feed_that_cannot_be_followed_means_a_full_survey_and_a_warning(
    table: Table, damage: Any, words: str
) -> None:
    table.change(40, 0.7)
    table.change(60, 0.7, is_recorded=False)
    damage(table.log)
    planned = stages.plan(table.world.sitemap(), RunRequest(dry_run=True), clock=table.world.clock)
    assert any(words in warning and "every range is surveyed" in warning for warning in planned.warnings)
    assert table.build().shards.rewritten == 2
    assert table.is_right()


def test_changes_between_reading_and_survey_are_read_again(table: Table) -> None:
    table.change(40, 0.7)
    table.hooks["survey"] = lambda: table.change(41, 0.2)
    table.build()
    assert table.note().startswith("the change log names 1 change ")
    table.hooks["survey"] = lambda: table.change(99, 0.2)
    table.change(3, 0.3)
    table.build()
    table.build()
    assert table.is_right()


@pytest.mark.parametrize("others", [False, True])
def test_a_change_that_the_replica_of_a_writing_task_lacks_is_found_later(table: Table, others: bool) -> None:
    world, old = table.world, dict(table.world.rows[7])
    table.change(7, 0.9)
    if others:
        table.change(50, 0.3)
    planned = stages.plan(world.sitemap(), clock=world.clock)
    new = dict(world.rows[7])
    world.rows[7].update(old)
    keys = [
        stages.write(world.sitemap(), planned.key or "", batch.number, clock=world.clock).receipt_key
        for batch in planned.batches
    ]
    stages.publish(world.sitemap(), planned.key or "", keys, clock=world.clock)
    world.rows[7].update(new)
    assert table.build().result == "published"
    assert crawl(world.store).entries()[new["loc"]][0][2] == "0.9"
    assert table.build().result == "unchanged"
    assert not table.is_surveyed


def test_rows_that_are_new_and_that_the_replica_lacks_are_found_later(table: Table) -> None:
    world = table.world
    new = [{**row(1_000 + key), "id": 1_000 + key} for key in range(3)]
    world.rows += new
    table.record(*(each["id"] for each in new))
    planned = stages.plan(world.sitemap(), clock=world.clock)
    del world.rows[-3:]
    keys = [
        stages.write(world.sitemap(), planned.key or "", batch.number, clock=world.clock).receipt_key
        for batch in planned.batches
    ]
    stages.publish(world.sitemap(), planned.key or "", keys, clock=world.clock)
    world.rows += new
    assert table.build().result == "published"
    assert {each["loc"] for each in new} <= world.crawl().locs()


def test_a_row_that_changes_before_it_is_read_makes_no_further_generation(table: Table) -> None:
    world = table.world
    table.change(7, 0.9)
    planned = stages.plan(world.sitemap(), clock=world.clock)
    table.change(7, 0.3)
    keys = [
        stages.write(world.sitemap(), planned.key or "", batch.number, clock=world.clock).receipt_key
        for batch in planned.batches
    ]
    report = stages.publish(world.sitemap(), planned.key or "", keys, clock=world.clock)
    assert report.sections["pages"].shards.waiting == 0
    assert table.build().result == "unchanged"


def test_another_configuration_reads_everything(table: Table) -> None:
    table.world.settings["rules"] = {"lastmod-future": "keep"}
    assert table.build().rows_read == 100
    assert table.build().rows_read == 0
    assert not table.is_surveyed


def test_a_rollback_goes_on_from_its_own_position(table: Table) -> None:
    table.change(40, 0.7)
    table.build()
    table.change(60, 0.7)
    table.build()
    pipeline.rollback(table.world.sitemap(), 1, clock=table.world.clock)
    report = table.build()
    assert (report.result, report.shards.rewritten) == ("published", 2)
    assert table.is_right()


def test_a_section_that_is_refused_keeps_its_position(table: Table) -> None:
    table.world.guards = Guards(max_shrink=0.1, min_rows=1)
    for _ in range(80):
        table.delete(20)
    for _ in range(2):
        with pytest.raises(GuardError):
            table.build()
    assert table.known is not None
    assert table.known.position == "0"
    table.build(allow=("shrink:pages=0.9",))
    assert table.is_right()


def test_shards_to_rebuild_are_surveyed_too(table: Table) -> None:
    name = next(iter(table.world.shards()))
    table.change(90, 0.7)
    report = table.build(rebuild=(name,))
    assert report.rows_read == 10
    assert table.is_right()


def test_rows_with_a_null_key_stay_counted_and_shown(table: Table) -> None:
    table.world.rows.append(row(None))
    table.record(None)
    table.build()
    table.change(40, 0.7)
    report = table.build()
    assert report.shards.rewritten == 1
    manifest = StateRepository(table.world.store.state).manifest()
    assert manifest is not None
    section = manifest.sections["pages"]
    assert (section.null_keys, len(section.samples["key-null"])) == (1, 1)


def test_a_refusal_of_rendered_rows_keeps_the_position() -> None:
    """The guard refuses at the commit, after the rows were read, and the other section is published."""
    clock, world = FakeClock(), World()
    feeds: dict[str, list[tuple[int, Any]]] = {"good": [(0, (0,))], "bad": [(0, (0,))]}
    rows = {name: [row(n) for n in range(1, 101)] for name in feeds}

    def sitemap() -> Sitemap:
        guards = Guards(max_shrink=0.1, max_dropped=0.1, min_rows=1)
        sections = [
            Section(name, SimulatedSourceConfig(rows[name], change_log=feeds[name]), guards=guards)
            for name in ("good", "bad")
        ]
        return Sitemap(world.config, sections, shards=ShardPolicy(max_urls=50))

    build(sitemap(), clock=clock)
    rows["good"][0]["loc"] += "x"
    feeds["good"].append((1, (1,)))
    for each in rows["bad"][:40]:
        each["loc"] = "not a url"
    feeds["bad"].append((1, (1,)))
    for _ in range(2):
        with pytest.raises((PartlyPublishedError, GuardError)):
            build(sitemap(), clock=clock)
    rows["bad"][:] = [row(n) for n in range(1, 101)]
    build(sitemap(), clock=clock)
    rows["bad"][99]["loc"] += "y"
    feeds["bad"].append((2, (100,)))
    build(sitemap(), clock=clock)
    assert f"{BASE}p/100y" in crawl(world.store).entries()


def test_a_full_run_that_is_carried_over_other_commits_surveys_all_the_next_time(table: Table) -> None:
    planned = stages.plan(table.world.sitemap(), RunRequest(full=True), clock=table.world.clock)
    receipts = [
        stages.write(table.world.sitemap(), planned.key, batch.number, clock=table.world.clock).receipt_key
        for batch in planned.batches
    ]
    table.change(40, 0.7)
    table.build()
    table.change(60, 0.7)
    stages.publish(table.world.sitemap(), planned.key, receipts, clock=table.world.clock)
    table.build()
    assert table.is_right()


def test_a_shard_kept_from_a_run_that_read_earlier_is_surveyed_the_next_time(table: Table) -> None:
    """The full run's position is later than a change that it read and that the file it keeps does not hold."""
    table.change(40, 0.5)
    sitemap, clock = table.world.sitemap(), table.world.clock
    rival = stages.plan(sitemap, clock=clock)
    theirs = [stages.write(sitemap, rival.key, b.number, clock=clock).receipt_key for b in rival.batches]
    table.change(41, 0.6)
    table.change(70, 0.7)
    full = stages.plan(sitemap, RunRequest(full=True), clock=clock)
    ours = [stages.write(sitemap, full.key, b.number, clock=clock).receipt_key for b in full.batches]
    stages.publish(sitemap, rival.key, theirs, clock=clock)
    stages.publish(sitemap, full.key, ours, clock=clock)
    table.build()
    assert table.is_right()


@pytest.mark.parametrize("how", ["full", "watermark"])
def test_it_needs_digests(how: str) -> None:
    with pytest.raises(ConfigurationError, match=f"change_detection='{how}' cannot be used with change_log="):
        Table(change_detection=how).build()


def test_a_version_that_says_unchanged_is_believed_first(table: Table) -> None:
    table.world.source_settings["version"] = lambda: "v1"
    table.build()
    table.build()
    assert "changes" not in table.operations
    table.world.source_settings["version"] = lambda: "v2"
    table.change(40, 0.7)
    table.build()
    assert table.is_right()
    table.world.clock.advance(timedelta(hours=25))
    table.build()
    assert table.is_surveyed


def test_a_mark_that_is_not_used_any_more_is_taken_out(table: Table) -> None:
    del table.world.source_settings["change_log"]
    table.change(40, 0.7)
    table.build()
    assert table.known is None
    table.world.source_settings["change_log"] = table.log
    table.build()
    assert table.is_surveyed


def test_a_stored_position_of_another_state_is_not_used(table: Table) -> None:
    state = table.world.store.state
    known = {"position": "7", "surveyed_at": table.world.clock.now().isoformat()}
    value = {"known": known, "changed_in": 77}
    body = json.dumps(value).encode()
    state.put(known_key("pages"), body, mode=Overwrite(), metadata={}, content_type="application/json")
    table.build()
    assert not table.is_surveyed  # by the manifest's own
    assert FREE is table.world.guards
