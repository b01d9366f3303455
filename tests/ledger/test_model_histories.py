"""The shortest histories in which an earlier wording of observed dates broke a law, played with the real pipeline.

The model of the ledger found them. Two of its findings are stated limits, and the last tests say what happens there.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_sitemaps import Observed
from airflow_sitemaps.pipeline import build, stages
from airflow_sitemaps.pipeline.request import RunRequest
from airflow_sitemaps.shards import range_actions
from airflow_sitemaps.testing import FakeClock
from tests.ledger.parts import lines, manifest_of
from tests.support.environment import BASE, World, row

HOUR = timedelta(hours=1)
SKEW = timedelta(minutes=5)
EARLY = "2026-01-01"
"""A first date that is earlier than every run."""


def world_of(keys: Any, *, initial: str | None = None, **settings: Any) -> World:
    rows = [row(key, title=f"t{key}", born=EARLY) for key in keys]
    return World(rows, source_settings={"lastmod": Observed("title", initial=initial)}, **settings)


def dates(world: World) -> dict[int, str | None]:
    listed = lines(world)  # checks that each part lists the dates of its shard
    return {int(url.removeprefix(f"{BASE}p/")): line.lastmod for url, line in listed.items()}


def moment(date: str | None) -> datetime:
    return datetime.strptime(date or "", "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)


def run_time(world: World) -> str:
    return f"{world.clock.now() + timedelta(seconds=1):%Y-%m-%dT%H:%M:%SZ}"


def build_by(world: World, skew: timedelta, **request: Any) -> None:
    """Run on workers whose clocks differ from the database's."""
    build(world.sitemap(), clock=FakeClock(world.clock.now() + skew), **request)


@pytest.mark.parametrize("skew", [-SKEW, SKEW])
def test_d1_a_date_stays_though_the_clock_of_a_later_worker_calls_it_future(skew):
    world = world_of([17])
    world.build()
    world.rows[0]["title"] = "x"
    build_by(world, skew)
    before, files = dates(world), world.shards()
    build_by(world, -skew, full=True)
    assert dates(world) == before
    assert world.shards() == files


def test_d2_a_page_that_changes_between_plan_and_reading_is_dated_after_a_fetch_before_the_change():
    world = world_of([24])
    world.build()
    planned = stages.plan(world.sitemap(), RunRequest(full=True), clock=world.clock)
    world.clock.advance(timedelta(seconds=5))
    fetched = world.clock.now()
    world.clock.advance(timedelta(seconds=5))
    world.rows[0]["title"] = "x"
    written = stages.write(world.sitemap(), planned.key, 0, clock=world.clock)
    stages.publish(world.sitemap(), planned.key, [written.receipt_key], clock=world.clock)
    assert moment(dates(world)[24]) > fetched


def test_d2_a_slow_clock_of_the_planning_worker_dates_no_change_before_a_fetch():
    world = world_of([24])
    world.build()
    world.clock.advance(HOUR)
    fetched = world.clock.now()
    world.rows[0]["title"] = "x"
    build_by(world, -SKEW)
    assert moment(dates(world)[24]) > fetched


def test_d2_a_fetch_in_the_second_of_the_change_and_the_run_is_earlier_than_the_date():
    world = world_of([24])
    world.build()
    world.clock.advance(timedelta(milliseconds=400))
    fetched = world.clock.now()
    world.rows[0]["title"] = "x"
    world.clock.advance(timedelta(milliseconds=300))
    world.build()
    assert moment(dates(world)[24]) > fetched


def test_d2_keymove_a_url_that_moves_to_another_range_is_dated_by_the_run_and_not_by_initial():
    world = world_of([6, 22, 28, 31], initial="born", max_urls=2)
    world.build()
    world.clock.advance(HOUR)
    world.rows[3]["title"] = "x"
    world.build()
    second = moment(dates(world)[31])
    world.clock.advance(HOUR)
    world.rows[0]["id"], world.rows[3]["id"] = 31, 6
    world.build()
    assert moment(dates(world)[31]) > second


def test_d2_return_a_url_that_left_and_returns_is_dated_by_the_run_and_not_by_initial():
    world = world_of([5, 9], initial="born")
    world.build()
    assert dates(world)[5] == EARLY
    page = world.rows.pop(0)
    world.build()
    world.clock.advance(HOUR)
    third = run_time(world)
    world.rows.append(page | {"id": 30, "title": "x"})
    world.build()
    assert dates(world) == {9: EARLY, 5: third}


def test_d3_a_slow_clock_of_a_worker_takes_no_date_away():
    world = world_of([30], initial="born")
    world.build()
    assert dates(world)[30] == EARLY
    world.rows[0]["title"] = "x"
    second = run_time(world)
    build_by(world, -SKEW)
    assert dates(world)[30] == second


def test_f1_equal_xml_keeps_the_file_and_records_the_fingerprint():
    """Otherwise the change that kept its date would be dated by the next run that reads the range."""
    world = world_of([39, 40])
    world.build()
    (old,) = manifest_of(world).sections["pages"].shards
    world.rows[0]["title"] = "trimmed"
    world.build(keep_lastmods=["pages"])
    (new,) = manifest_of(world).sections["pages"].shards
    assert new.file == old.file
    assert new.part != old.part
    world.clock.advance(HOUR)
    third = run_time(world)
    world.rows[1]["title"] = "x"
    world.build()
    assert dates(world) == {39: None, 40: third}


def test_l3_dates_do_not_depend_on_how_batches_are_cut(monkeypatch):
    told = []
    for rows in (1, 5, 100):
        monkeypatch.setattr(range_actions, "BATCH_ROWS", rows)
        world = world_of([1, 6, 10, 18, 24, 30], max_urls=2)
        world.build()
        world.clock.advance(HOUR)
        world.rows[1]["id"] = 27
        world.rows[3]["title"] = "x"
        world.rows.append(row(8, title="new", born=EARLY))
        world.build()
        told.append(dates(world))
    assert told[0] == told[1] == told[2]


def test_two_rows_of_one_url_that_swap_keys_date_the_page():
    world = world_of([3])
    world.rows += [row(1, loc=f"{BASE}p/7", title="first"), row(2, loc=f"{BASE}p/7", title="second")]
    world.build()
    world.rows[1]["id"], world.rows[2]["id"] = 2, 1
    world.clock.advance(HOUR)
    second = run_time(world)
    world.build()
    assert dates(world) == {3: None, 7: second}


def test_the_limit_d1_keymove_a_url_that_moves_to_another_range_counts_as_new():
    world = world_of([3, 11, 14, 26, 28, 33, 39], max_urls=3)
    world.build()
    world.rows[-1]["id"] = 7
    second = run_time(world)
    world.build()
    assert {key: date for key, date in dates(world).items() if date} == {39: second}


def test_the_limit_k1_a_key_that_moves_within_its_range_is_recorded_at_the_next_writing():
    world = world_of([1, 3, 17, 32])
    world.build()
    world.rows[0]["id"] = 11
    assert world.build().result == "unchanged"
    assert lines(world)[f"{BASE}p/1"].key == "[1]"
    world.rows[1]["title"] = "x"
    second = run_time(world)
    world.build()
    assert lines(world)[f"{BASE}p/1"].key == "[11]"
    assert dates(world) == {1: None, 3: second, 17: None, 32: None}
