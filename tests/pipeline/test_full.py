"""Runs that read more than what changed: they publish no equal content again, and do not lose to shorter runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps import Section
from airflow_sitemaps.errors import ConflictError
from airflow_sitemaps.pipeline import build, find, stages
from airflow_sitemaps.pipeline.request import RunRequest
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.shards.layout import ShardPolicy
from airflow_sitemaps.testing import MemorySourceConfig
from tests.simulation.faults import Fault, Faults, FaultyStore, SimulatedCrash
from tests.support.environment import World, row

if TYPE_CHECKING:
    from airflow_sitemaps.pipeline.report import Report


def test_a_shard_without_a_valid_row_makes_no_new_generation():
    rows = [row(10 * n, priority=7 if n <= 5 else 0.5) for n in range(1, 11)]
    world = World(rows, settings={"change_detection": "full", "rules": {"priority": "drop_row"}})
    assert world.build().generation == 1
    assert len(world.shards()) == 1
    again = world.build()
    assert (again.result, again.generation) == ("unchanged", 1)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"index": "per_section", "feeds": ("atom",), "stylesheet": True},
        {"change_detection": "watermark", "recent": timedelta(days=3)},
        {"rules": {"priority": "drop_row"}},
    ],
)
@pytest.mark.parametrize("request_of_run", [{"full": True}, {"rebuild": ["pages-00001", "pages-00002"]}])
def test_a_full_run_or_a_rebuild_that_changes_no_byte_publishes_no_generation(
    settings: dict[str, Any], request_of_run: dict[str, Any]
) -> None:
    rows = [row(10 * n, lastmod="2026-01-14", priority=7 if n < 8 else 0.5) for n in range(1, 31)]
    rows.append(row(11, loc=rows[0]["loc"]))  # unsettled: two rows of one URL
    world = World(rows, settings=settings)
    world.build()
    world.clock.advance(timedelta(hours=1))
    before = (world.public(), dict(world.config.state.objects)["manifest.json.gz"].body)

    report = world.build(**request_of_run)

    assert (report.result, report.generation) == ("unchanged", 1)
    assert report.rows_read >= 5
    assert (world.public(), world.config.state.objects["manifest.json.gz"].body) == before


def started(world: World, **request: Any) -> tuple[str, list[str]]:
    """A run that has written everything and has not committed yet."""
    planned = stages.plan(world.sitemap(), RunRequest(**request), clock=world.clock)
    receipts = [
        stages.write(world.sitemap(), planned.key, batch.number, clock=world.clock).receipt_key
        for batch in planned.batches
    ]
    return planned.key, receipts


def committed(world: World, run: tuple[str, list[str]]) -> Report:
    return stages.publish(world.sitemap(), *run, clock=world.clock)


def world_of(number: int = 30, **settings: Any) -> World:
    world = World([row(10 * n) for n in range(1, number + 1)], policy=ShardPolicy(max_urls=5), settings=settings)
    world.build()
    return world


def test_a_full_run_does_not_lose_to_the_runs_that_publish_meanwhile() -> None:
    """Five shorter runs commit while it reads. It undoes nothing of them, and nothing is left for the next run."""
    world = world_of()
    slow = started(world, full=True)
    for at in range(5):
        world.rows[at * 5]["priority"] = 0.7
        assert world.build().result == "published"
    before = (world.crawl().entries(), world.shards())

    report = committed(world, slow)

    assert (report.result, report.generation) == ("unchanged", 6)
    assert (world.crawl().entries(), world.shards()) == before
    assert world.build().result == "unchanged"


def test_what_a_full_run_alone_found_is_published_though_others_published_meanwhile() -> None:
    """A watermark does not see the silent change of the first row, and a later run changes other rows."""
    rows = [row(10 * n, lastmod="2026-01-01T00:00:00Z") for n in range(1, 61)]
    world = World(rows, max_urls=2, settings={"change_detection": "watermark"})
    world.build()
    world.clock.advance(timedelta(hours=1))
    world.rows[20]["priority"] = 0.9
    slow = started(world, full=True)
    for at in (40, 50):
        world.rows[at]["lastmod"] = world.clock.now().isoformat()
        assert world.build().result == "published"
        world.clock.advance(timedelta(hours=1))

    report = committed(world, slow)

    assert report.result == "published"
    assert [w for w in report.warnings if "published meanwhile; 2 of 30 ranges stay as other runs wrote them" in w]
    assert world.crawl().entries() == world.rebuilt().entries()
    assert world.build().result == "unchanged"


def test_a_full_run_says_that_others_published_all_that_it_would_change() -> None:
    """The shorter run read before the last change, and the full run keeps what it wrote."""
    world = world_of()
    world.rows[0]["priority"] = 0.7
    short = started(world)
    world.rows[1]["priority"] = 0.3
    slow = started(world, full=True)
    assert committed(world, short).result == "published"

    report = committed(world, slow)

    assert report.result == "unchanged"
    assert [w for w in report.warnings if "published meanwhile; 1 of 6 ranges stay as other runs wrote them" in w]
    assert world.build().result == "published"
    assert world.crawl().entries() == world.rebuilt().entries()


@pytest.mark.parametrize("dies", [False, True], ids=["at once", "by its retry"])
def test_the_next_run_surveys_a_table_whose_version_a_full_run_read_beside_another_run(dies: bool) -> None:
    """The full run keeps a shard of a run that read an older version of the table."""
    version = ["v1"]
    world = World([row(10 * n) for n in range(1, 31)], policy=ShardPolicy(max_urls=5))
    world.source_settings = {"version": lambda: version[0]}
    world.build()
    world.rows[0]["priority"], version[0] = 0.7, "v2"
    short = started(world)
    world.rows[1]["priority"] = world.rows[29]["priority"] = 0.3
    version[0] = "v3"
    slow = started(world, full=True)
    assert committed(world, short).result == "published"
    if dies:
        faults = Faults().on("put", "manifest.json.gz", Fault.CRASH_AFTER, area="state")
        with pytest.raises(SimulatedCrash):
            stages.publish(world.sitemap(FaultyStore(world.config, faults)), *slow, clock=world.clock)
    assert committed(world, slow).result == "published"

    assert world.build().result == "published"

    assert world.crawl().entries() == world.rebuilt().entries()
    assert world.build().result == "unchanged"


def test_a_rebuild_stores_a_body_that_is_lost() -> None:
    world = World([row(key) for key in range(20)])
    world.build()
    file = next(iter(StateRepository(world.store.state).published().files()))
    del world.config.state.objects[file.body]
    assert world.build().result == "unchanged"
    assert world.build(rebuild=[file.name]).shards.rewritten == 1
    assert all(found.listed for found in (find(world.sitemap(), row(key)["loc"]) for key in range(20)))
    assert world.build().result == "unchanged"
    assert world.crawl().locs() == {row(key)["loc"] for key in range(20)}


def test_a_rebuild_is_published_though_others_published_meanwhile() -> None:
    """A rebuild for a silent change that a watermark has not found yet."""
    rows = [row(10 * n, lastmod="2026-01-01T00:00:00Z") for n in range(1, 61)]
    world = World(rows, max_urls=2, settings={"change_detection": "watermark"})
    world.build()
    world.clock.advance(timedelta(hours=1))
    world.rows[24]["priority"] = 0.9
    slow = started(world, rebuild=["pages-00013"])
    world.rows[40]["lastmod"] = world.clock.now().isoformat()
    assert world.build().result == "published"

    assert committed(world, slow).result == "published"

    assert world.crawl().entries() == world.rebuilt().entries()


def test_a_full_run_over_other_code_than_that_of_the_winner_is_refused() -> None:
    world = world_of()
    slow = started(world, full=True)
    world.rows[0]["priority"] = 0.9
    world.source_settings = {"priority": None}
    world.build()
    world.rows[0]["lastmod"] = "2026-01-14"
    world.build()
    world.source_settings = {}
    with pytest.raises(ConflictError, match="was changed by generation"):
        committed(world, slow)


def test_an_incremental_run_still_loses_to_the_one_that_commits_first() -> None:
    world = world_of()
    world.rows[0]["priority"] = 0.9
    slow = started(world)
    world.rows[29]["priority"] = 0.9
    world.build()
    with pytest.raises(ConflictError, match="was changed by generation 2"):
        committed(world, slow)


def test_a_layout_that_changes_meanwhile_stays_a_partition() -> None:
    """Ranges that were cut or joined since the plan stay as the other run made them."""
    world = world_of()
    slow = started(world, full=True)
    world.rows.extend(row(10 * n + 3) for n in range(1, 9))
    del world.rows[14:24]
    assert world.build().result == "published"

    committed(world, slow)

    assert world.crawl().entries() == world.rebuilt().entries()
    assert world.build().result == "unchanged"


def test_a_full_run_that_dies_after_its_commit_is_finished_by_its_retry() -> None:
    rows = [row(10 * n, lastmod="2026-01-01T00:00:00Z") for n in range(1, 31)]
    world = World(rows, settings={"change_detection": "watermark"})
    world.build()
    world.clock.advance(timedelta(hours=1))
    world.rows[20]["priority"] = 0.9
    key, receipts = started(world, full=True)
    world.rows[2]["lastmod"] = world.clock.now().isoformat()
    assert world.build().result == "published"
    faults = Faults().on("put", "manifest.json.gz", Fault.CRASH_AFTER, area="state")
    with pytest.raises(SimulatedCrash):
        stages.publish(world.sitemap(FaultyStore(world.config, faults)), key, receipts, clock=world.clock)

    assert stages.publish(world.sitemap(), key, receipts, clock=world.clock).result == "published"

    assert world.crawl().entries() == world.rebuilt().entries()
    assert world.build().result == "unchanged"


@pytest.mark.parametrize("settings", [{}, {"gone": timedelta(days=30)}])
def test_a_full_run_leaves_a_section_that_another_run_published_first_to_it(settings: dict[str, Any]) -> None:
    world = world_of(**settings)
    more = [row(1_000 + n) for n in range(3)]
    both = replace(world.sitemap(), sections=[*world.sitemap().sections, Section("more", MemorySourceConfig(more))])
    planned = stages.plan(both, RunRequest(full=True), clock=world.clock)
    keys = [stages.write(both, planned.key, b.number, clock=world.clock).receipt_key for b in planned.batches]
    world.rows[0]["priority"] = 0.7
    build(both, clock=world.clock)
    before = world.crawl().entries()

    report = stages.publish(both, planned.key, keys, clock=world.clock)

    assert (report.result, report.generation) == ("unchanged", 2)
    assert any("section 'more': another run published it first" in warning for warning in report.warnings)
    assert world.crawl().entries() == before


def test_a_full_run_says_that_more_generations_were_published_than_the_history_keeps(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = world_of(history=2)
    slow = started(world, full=True)
    for at in range(3):
        world.rows[at * 5]["priority"] = 0.7
        world.build()
    with pytest.raises(ConflictError, match="was changed by generation 4"):
        committed(world, slow)
    assert "they are more than Sitemap(history=…) keeps" in caplog.text


def test_a_first_full_run_does_not_lose_to_the_run_that_publishes_first() -> None:
    world = World([row(10 * n) for n in range(1, 31)])
    more = [row(1_000 + n) for n in range(3)]
    both = replace(world.sitemap(), sections=[*world.sitemap().sections, Section("more", MemorySourceConfig(more))])
    planned = stages.plan(both, RunRequest(full=True), clock=world.clock)
    keys = [stages.write(both, planned.key, b.number, clock=world.clock).receipt_key for b in planned.batches]
    build(both, sections=["pages"], clock=world.clock)

    report = stages.publish(both, planned.key, keys, clock=world.clock)

    assert (report.result, report.generation) == ("published", 2)
    assert any("section 'pages': another run published it first" in warning for warning in report.warnings)
    assert world.crawl().locs() == {each["loc"] for each in (*world.rows, *more)}
