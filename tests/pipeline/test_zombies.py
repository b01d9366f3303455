"""Histories that chance makes too seldom: each plays one by hand, at the very operation that matters."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import feedparser
import pytest

from airflow_sitemaps import Guards, pipeline
from airflow_sitemaps.errors import GuardError, IncompleteError, StoreError
from airflow_sitemaps.pipeline import build, stages
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.ports import Overwrite, PutOutcomeError
from airflow_sitemaps.stores.memory import MemoryObjects
from tests.simulation.faults import Fault, Faults, FaultyStore, SimulatedCrash
from tests.support.environment import World, row


def world_of(number: int, **kwargs) -> World:
    return World([row(10 * n) for n in range(1, number + 1)], **kwargs)


def faulty(world: World, faults: Faults):
    return world.sitemap(FaultyStore(world.config, faults))


def test_a_late_put_of_a_content_that_came_back_does_not_replace_the_newer_one():
    """A → B → A: were the third content equal in its bytes to the first, a late put over the first would hold again."""
    world = world_of(5)
    world.build()
    faults = Faults().on("put", "pages-00001.xml.gz", Fault.LATE)
    world.rows[0]["priority"] = 0.1
    build(faulty(world, faults), clock=world.clock)
    world.rows[0]["priority"] = None
    world.build()
    kept = world.public()["pages-00001.xml.gz"]
    assert faults.on_the_way == 1
    assert faults.land() == []
    assert world.public()["pages-00001.xml.gz"] == kept
    assert world.crawl().entries() == world.rebuilt().entries()


@pytest.mark.parametrize("name", ["recent.atom", "recent.rss", "recent-media.rss"])
def test_a_late_put_of_a_feed_that_came_back_does_not_replace_the_newer_one(name: str):
    """Feeds are not compressed, so a comment at the end makes their bytes differ."""
    world = world_of(5, settings={"feeds": ("atom", "rss", "mrss"), "recent": timedelta(days=400)})
    lastmod = (world.clock.now() - timedelta(days=2)).isoformat()
    for entry in world.rows:
        entry["lastmod"] = lastmod
    world.build()
    faults = Faults().on("put", name, Fault.LATE)
    world.rows[0]["lastmod"] = (world.clock.now() - timedelta(days=1)).isoformat()
    build(faulty(world, faults), clock=world.clock)
    world.rows[0]["lastmod"] = lastmod
    world.build()
    kept = world.public()[name]
    assert faults.on_the_way == 1
    assert faults.land() == []
    assert world.public()[name] == kept
    assert not feedparser.parse(kept[0]).bozo
    assert len(feedparser.parse(kept[0]).entries) == 5


def test_the_grace_of_what_departed_begins_when_its_generation_is_promoted():
    """A crash between commit and index; days later another run finishes it: crawlers learned of the old until then."""
    world = world_of(10)
    world.build()
    world.rows.append(row(11))
    with pytest.raises(SimulatedCrash):
        build(faulty(world, Faults().on("put", "sitemap.xml", Fault.CRASH_BEFORE)), clock=world.clock)
    old = set(world.crawl().files)
    world.clock.advance(timedelta(days=5))
    world.build()
    assert "pages-00001.xml.gz" in old - set(world.crawl().files)
    assert old <= set(world.public())
    world.clock.advance(timedelta(days=3))
    world.build()
    assert set(world.public()) == {*world.crawl().files, "sitemap.xml"}


def test_a_body_that_is_gone_at_the_commit_stops_it():
    world = world_of(10)
    planned = stages.plan(world.sitemap(), clock=world.clock)
    receipt = stages.write(world.sitemap(), planned.key, 0, clock=world.clock).receipt_key
    for key in [key for key in world.config.state.objects if "/bodies/" in key][:1]:
        world.store.state.delete(key)
    with pytest.raises(IncompleteError, match="is not there"):
        stages.publish(world.sitemap(), planned.key, [receipt], clock=world.clock)
    assert world.public() == {}
    world.build()
    assert world.crawl().locs() == world.rebuilt().locs()


def test_a_body_that_a_lagging_listing_omits_is_there(monkeypatch):
    """Many bodies are listed by folder. Not every store lists at once what was put."""
    world = world_of(100)
    real = MemoryObjects.list
    monkeypatch.setattr(
        MemoryObjects, "list", lambda self, prefix="": (i for i in real(self, prefix) if not i.key.startswith("runs/"))
    )
    assert world.build().urls == 100


def test_a_body_that_is_lost_after_the_commit_is_made_again_by_the_next_run():
    """Nothing can finish such a promotion; were it tried first, every later run would fail for ever."""
    world = world_of(10)
    world.build()
    world.rows[0]["priority"] = 0.3
    with pytest.raises(SimulatedCrash):
        build(faulty(world, Faults().on("put", "pages-*", Fault.CRASH_BEFORE, area="public")), clock=world.clock)
    newest = max(key for key in world.config.state.objects if "/bodies/" in key)
    world.store.state.delete(newest)
    report = world.build()
    assert report.result == "published"
    assert world.crawl().entries() == world.rebuilt().entries()
    assert world.build().result == "unchanged"


def test_a_section_that_is_rolled_back_away_and_returns_goes_on_counting():
    world = world_of(10)
    world.build()
    world.rows.append(row(11))
    world.build()
    names = set(world.public())
    pipeline.rollback(world.sitemap(), 1, clock=world.clock)
    world.build()
    fresh = set(world.public()) - names
    assert all(name.startswith("pages-0000") and name > "pages-00004" for name in fresh)


def test_a_publish_that_finds_no_answer_says_so_and_its_retry_finishes():
    world = world_of(10)
    faults = Faults().on("put", "manifest.json.gz", Fault.UNAVAILABLE, times=4)
    planned = stages.plan(world.sitemap(), clock=world.clock)
    receipt = stages.write(world.sitemap(), planned.key, 0, clock=world.clock).receipt_key
    with pytest.raises(StoreError, match="outcome unknown"):
        stages.publish(faulty(world, faults), planned.key, [receipt], clock=world.clock)
    assert world.public() == {}
    assert stages.publish(faulty(world, faults), planned.key, [receipt], clock=world.clock).urls == 10


def test_two_first_runs_at_once_take_each_other_for_no_stranger():
    world = world_of(10)
    first = True

    def rival(call) -> None:
        nonlocal first
        if call.verb == "get" and call.key == "manifest.json.gz" and first:
            first = False
            world.build()

    faults = Faults(after=rival)
    assert build(faulty(world, faults), clock=world.clock).urls == 10
    assert world.crawl().locs() == world.rebuilt().locs()


def test_an_allowed_shrinking_is_not_refused_again_the_next_day():

    world = world_of(100, guards=Guards(min_rows=50))
    world.build()
    del world.rows[20:]
    world.build(allow=["shrink:pages=0.8"])
    world.clock.advance(timedelta(days=1))
    assert world.build().result == "unchanged"
    world.rows[0]["priority"] = 0.2
    assert world.build().urls == 20


def test_a_foreign_file_at_a_new_name_is_passed_over():
    world = world_of(10)
    world.store.public.put("pages-00001.xml.gz", b"x", mode=Overwrite(), metadata={}, content_type="text/plain")
    world.build()
    assert world.store.public.get("pages-00001.xml.gz").body == b"x"
    assert world.crawl().locs() == world.rebuilt().locs()


def test_a_rollback_to_fewer_urls_is_the_new_measure():
    world = world_of(60, guards=Guards(min_rows=50))
    world.build()
    world.rows.extend(row(1000 + n) for n in range(40))
    world.build()
    del world.rows[60:]
    pipeline.rollback(world.sitemap(), 1, clock=world.clock)
    assert world.build().result == "unchanged"


def test_an_allowed_shrinking_that_changes_nothing_else_is_remembered():
    world = world_of(100, guards=Guards(min_rows=50, max_shrink=0.1))
    world.build()
    for _ in range(2):
        del world.rows[-8:]
        world.guards = Guards(min_rows=50, max_shrink=0.5)
        world.build()
    world.guards = Guards(min_rows=50, max_shrink=0.1)
    with pytest.raises(GuardError, match=r"from 100 \(the most of the last seven days; 84 are published\) to 84"):
        world.build()
    world.build(allow=["shrink:pages"])
    assert world.build().result == "unchanged"


def test_a_clock_that_is_set_back_in_the_middle_of_a_run_does_no_harm():
    world = world_of(10)
    back = Faults(before=lambda call: world.clock.advance(timedelta(hours=-1)))
    assert build(faulty(world, back), clock=world.clock).urls == 10


def test_a_report_that_was_not_written_is_not_taken_for_the_earlier_one(monkeypatch):
    """A retry reports the same run again, and the store answers 503 once."""
    world = World([row(1)])
    report = replace(world.build(), result="refused")
    world.clock.advance(timedelta(minutes=1))
    again = replace(report, result="published", finished_at=world.clock.now().isoformat())
    state, real, failures = (
        StateRepository(world.store.state),
        MemoryObjects.put,
        [PutOutcomeError("503", definite=False)],
    )
    state.write_report(report)

    def put(self, key, body, **headers):
        if failures:
            raise failures.pop()
        return real(self, key, body, **headers)

    monkeypatch.setattr(MemoryObjects, "put", put)
    state.write_report(again)
    assert state.read_report(report.run).result == "published"
