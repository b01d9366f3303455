"""Change detection by watermark, and by reading everything."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_sitemaps import Guards
from airflow_sitemaps.pipeline import stages
from airflow_sitemaps.pipeline.watermark import SLICES
from tests.pipeline.world import World, row


@pytest.fixture
def world() -> World:
    rows = [row(10 * n, lastmod="2025-12-01T00:00:00+00:00") for n in range(1, 301)]
    return World(rows, settings={"change_detection": "watermark"})


def stamp(world: World) -> str:
    return world.clock.now().isoformat()


def test_only_ranges_whose_lastmod_moved_are_surveyed(world):
    world.build()
    world.clock.advance(timedelta(hours=1))
    world.rows[120]["lastmod"] = stamp(world)
    world.rows.append(row(1111, lastmod=stamp(world)))
    world.rows.append(row(99_999, lastmod=stamp(world)))
    world.build()
    assert world.crawl().entries() == world.rebuilt().entries()
    assert world.build().result == "unchanged"


def test_deletes_and_silent_updates_are_found_within_a_known_number_of_runs(world):
    world.build()
    del world.rows[77]
    world.rows[200]["priority"] = 0.9
    for _ in range(SLICES):
        world.clock.advance(timedelta(hours=1))
        world.build()
    assert world.crawl().entries() == world.rebuilt().entries()


def test_a_late_transaction_is_found_through_the_lag(world):
    world.build()
    before = stamp(world)
    world.clock.advance(timedelta(minutes=10))
    world.build()
    world.rows[150]["lastmod"] = before
    world.build()
    assert world.crawl().entries() == world.rebuilt().entries()


def test_after_a_rollback_everything_is_surveyed(world):
    world.build()
    world.clock.advance(timedelta(hours=1))
    world.rows[150]["lastmod"] = stamp(world)
    world.build()
    world.clock.advance(timedelta(hours=2))
    assert world.build().result == "unchanged"
    stages.rollback(world.sitemap(), 1, clock=world.clock)
    world.build()
    assert world.crawl().entries() == world.rebuilt().entries()


def test_what_is_read_for_another_reason_is_surveyed_as_well(world):
    """A future date arrives in a range whose rows went silently: the run must not take them for lost under its hands."""
    world.guards = Guards(max_shrink=0.3, min_rows=10**9)
    world.max_urls = 50
    world.rows[160]["lastmod"] = (world.clock.now() + timedelta(days=2)).isoformat()
    world.build()
    world.build()
    del world.rows[151:199]
    world.clock.advance(timedelta(days=3))
    assert world.build().result == "published"
    assert world.crawl().entries() == world.rebuilt().entries()


def test_full_change_detection_reads_everything_and_writes_what_differs():
    world = World([row(n) for n in range(1, 21)], settings={"change_detection": "full"})
    world.build()
    before = world.shards()
    report = world.build()
    assert report.rows_read == 20
    assert report.shards.kept == 4
    assert world.shards() == before
