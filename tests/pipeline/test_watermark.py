"""Change detection by watermark, and by reading everything."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from airflow_sitemaps import Guards, ListSource, MemoryStore, Section, Sitemap, SqlSource, pipeline
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.pipeline.plan import surveys
from airflow_sitemaps.pipeline.plan.surveys import SLICES
from tests.support.environment import World, row


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
    pipeline.rollback(world.sitemap(), 1, clock=world.clock)
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


def test_a_delete_is_found_within_the_promised_runs_though_ranges_are_cut_before_it(world):
    """Each run cuts a range to the left, so that the positions of all later ranges move."""
    world.build()
    world.clock.advance(timedelta(hours=1))
    world.build()
    gone = world.rows.pop(250)["loc"]
    for run in range(SLICES):
        world.clock.advance(timedelta(hours=1))
        world.rows.extend(row(11 + 10 * run + n, lastmod=stamp(world)) for n in range(6))
        world.build()
    assert gone not in world.crawl().locs()
    assert world.crawl().entries() == world.rebuilt().entries()


def test_every_range_is_surveyed_once_within_the_promised_runs(world, monkeypatch):
    surveyed: list[int] = []
    real = surveys._slice
    monkeypatch.setattr(surveys, "_slice", lambda known, number: surveyed.extend(found := real(known, number)) or found)
    world.build()
    for _ in range(SLICES):
        world.clock.advance(timedelta(hours=1))
        assert world.build().result == "unchanged"
    assert set(surveyed) | {59} == set(range(60))  # the last range is surveyed at every run
    assert len(surveyed) <= 3 * SLICES


@pytest.mark.parametrize(("lag", "found"), [(timedelta(minutes=15), False), (timedelta(hours=1), True)])
def test_the_lag_can_be_as_long_as_the_longest_transaction(world, lag, found):
    world.settings["watermark_lag"] = lag
    world.build()
    before = stamp(world)
    world.clock.advance(timedelta(minutes=40))
    world.build()
    world.rows[290]["lastmod"] = before
    world.build()
    assert (world.crawl().entries() == world.rebuilt().entries()) is found


@pytest.mark.parametrize(
    ("last", "now", "earlier"),
    [
        ("2026-10-25T00:40", "2026-10-25T01:20", 60),  # from summer to standard time at 01:00 UTC
        ("2026-10-25T01:20", "2026-10-25T01:50", 60),
        ("2026-10-25T06:00", "2026-10-25T07:00", 0),
        ("2026-07-01T01:00", "2026-07-01T02:00", 0),
        ("2026-03-29T00:40", "2026-03-29T01:20", 0),  # no local time repeats in spring
    ],
)
def test_local_times_that_repeat_in_autumn_are_looked_at_twice(last, now, earlier):
    moments = [datetime.fromisoformat(text).replace(tzinfo=timezone.utc) for text in (last, now)]
    since = surveys.begins_at(moments[0], timedelta(minutes=15), moments[1], "Europe/Berlin")
    assert since == moments[0] - timedelta(minutes=15 + earlier)
    assert surveys.begins_at(moments[0], timedelta(0), moments[1], "UTC") == moments[0]


def test_a_watermark_without_a_column_of_dates_is_refused_when_the_sitemap_is_made():
    store, source = MemoryStore(base_url="https://www.example.com/"), SqlSource("w", table="t", key="id", loc="url")
    with pytest.raises(
        ConfigurationError, match=r"Section\('p'\): change_detection='watermark' needs a column of dates"
    ):
        Sitemap(store, [Section("p", source)], change_detection="watermark")
    with pytest.raises(ConfigurationError, match="give its source lastmod=, or use 'digest'"):
        Sitemap(store, [Section("p", source, change_detection="watermark")])
    for accepted in (replace(source, lastmod="lm"), ListSource(["/a"])):
        Sitemap(store, [Section("p", accepted)], change_detection="watermark")
    Sitemap(store, [Section("p", source, change_detection="digest")], change_detection="watermark")
