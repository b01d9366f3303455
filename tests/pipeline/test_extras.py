"""What changed lately, in one small file and in feeds."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta, timezone

import feedparser
import pytest

from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.pipeline.status import robots
from airflow_sitemaps.protocol.reader import read
from tests.support.environment import BASE, World, row


@pytest.fixture
def world() -> World:
    world = World(
        [row(n, lastmod=f"2026-01-{n:02d}T08:00:00+00:00") for n in range(1, 15)],
        settings={"recent": timedelta(days=3), "feeds": ("atom", "rss", "mrss")},
        source_settings={"images": "images"},
    )
    for each in world.rows:
        each["images"] = f'[{{"loc": "https://img.example.com/{each["id"]}.jpg?a=1&b=2"}}]'
    return world


def recent_locs(world: World) -> list[str]:
    return [e.loc for e in read(world.public()["recent.xml.gz"][0]).entries]


def test_recent_entries_stand_in_one_file_newest_first(world, caplog):
    with caplog.at_level("INFO"):
        world.build()
    assert "recent.xml.gz, recent.atom, recent.rss, recent-media.rss of the last 3 days: 2 URLs" in caplog.text
    assert recent_locs(world) == [f"{BASE}p/{n}" for n in (14, 13)]
    recent = read(world.public()["recent.xml.gz"][0])
    assert not recent.problems
    assert recent.entries[0].extensions["images"][0]["loc"] == "https://img.example.com/14.jpg?a=1&b=2"
    assert next(iter(world.crawl().files)) == "recent.xml.gz"


def test_a_change_moves_recent_and_leaves_other_shards(world):
    world.build()
    world.clock.advance(timedelta(hours=1))
    world.rows[2]["lastmod"] = "2026-01-15T12:30:00+00:00"
    report = world.build()
    assert report.shards.rewritten == 1
    assert recent_locs(world)[0] == BASE + "p/3"


def test_an_entry_leaves_when_its_time_is_over_though_nothing_changed(world):
    world.build()
    shards = {n: kept for n, kept in world.public().items() if n.startswith("pages")}
    world.clock.advance(timedelta(days=1))
    report = world.build()
    assert report.result == "published"
    assert report.shards.kept == report.shards.total
    assert recent_locs(world) == [f"{BASE}p/14"]
    assert {n: kept for n, kept in world.public().items() if n.startswith("pages")} == shards
    assert world.build().result == "unchanged"
    world.clock.advance(timedelta(days=9))
    world.build()
    assert "recent.xml.gz" not in world.crawl().files
    assert world.build().result == "unchanged"


def test_an_entry_dated_at_the_end_of_time_stays(world):
    world.rows[:] = [{**world.rows[0], "lastmod": "9999-12-30T08:00:00+00:00"}]
    world.settings |= {"rules": {"lastmod-future": "keep"}}
    assert world.build().result == "published"
    assert recent_locs(world) == [f"{BASE}p/1"]
    world.clock.advance(timedelta(days=9))
    assert world.build().result == "unchanged"


@pytest.mark.parametrize("name", ["recent.atom", "recent.rss", "recent-media.rss"])
def test_feeds_are_read_back_by_feedparser(world, name):
    report = world.build()
    feed = feedparser.parse(world.public()[name][0])
    assert not feed.bozo
    assert [entry.link for entry in feed.entries] == recent_locs(world)
    assert next(entry.updated if "atom" in name else entry.published for entry in feed.entries).startswith(
        "2026-01-14T08:00" if "atom" in name else "Wed, 14 Jan 2026 08:00"
    )
    assert BASE + name in report.robots_urls
    assert report.index_urls == (BASE + "sitemap.xml",)


def test_robots_names_index_and_feeds(world):
    assert robots(world.sitemap()) == ()
    world.build()
    assert robots(world.sitemap()) == tuple(
        BASE + name for name in ("sitemap.xml", "recent.atom", "recent.rss", "recent-media.rss")
    )


def test_a_broken_feed_is_repaired(world):
    world.build()
    good = world.public()["recent.rss"][0]
    world.store.public.delete("recent.rss")
    report = world.build()
    assert report.result == "published"
    assert "recent.rss" in " ".join(report.drift)
    assert world.public()["recent.rss"][0] == good
    assert world.build().result == "unchanged"


def test_extras_go_when_the_code_no_longer_wants_them(world):
    world.build()
    world.settings = {}
    assert world.build().result == "published"
    assert "recent.xml.gz" not in world.crawl().files
    world.clock.advance(timedelta(days=3))
    world.build()
    assert set(world.public()) == {*world.crawl().files, "sitemap.xml"}


def test_a_repaired_file_has_a_later_lastmod(world):
    """A crawler may have read the file of the other program, and comes back only for a later ``lastmod``."""
    world.build()
    before = world.crawl().lastmods["recent.xml.gz"]
    world.store.public.delete("recent.xml.gz")
    world.clock.advance(timedelta(seconds=90))
    assert world.build().result == "published"
    assert world.crawl().lastmods["recent.xml.gz"] > before
    assert world.build().result == "unchanged"


def test_a_file_that_returns_has_a_later_lastmod_than_before_whatever_the_clocks_show(world):
    settings = world.settings
    world.clock.advance(timedelta(minutes=5))  # a worker whose clock is fast
    world.build()
    before = world.crawl().lastmods["recent.xml.gz"]
    world.clock.advance(-timedelta(minutes=5))
    world.settings = {}
    assert world.build().result == "published"
    world.settings = settings
    assert world.build().result == "published"
    assert world.crawl().lastmods["recent.xml.gz"] > before
    assert world.build().result == "unchanged"


def test_recent_entries_that_the_code_wants_later_are_listed_though_no_row_changes(world):
    settings = world.settings
    world.settings = {"feeds": settings["feeds"]}
    world.build()
    assert "recent.xml.gz" not in world.public()
    world.settings = settings  # the same age as that of feeds without ``recent``
    assert world.build().result == "published"
    assert recent_locs(world) == [f"{BASE}p/{n}" for n in (14, 13)]
    assert world.build().result == "unchanged"


def test_another_age_of_recent_entries_changes_the_files_though_no_row_changes(world):
    world.build()
    assert len(recent_locs(world)) == 2
    world.settings = {**world.settings, "recent": timedelta(days=5)}
    assert world.build().result == "published"
    assert recent_locs(world) == [f"{BASE}p/{n}" for n in (14, 13, 12, 11)]
    assert world.build().result == "unchanged"


def test_another_age_that_lists_the_same_entries_is_recorded_once(world):
    world.rows[:] = world.rows[12:]
    world.build()
    world.settings = {**world.settings, "recent": timedelta(days=9)}
    world.build()
    assert world.build().result == "unchanged"


def test_recent_entries_that_the_code_wants_later_wait_until_there_is_one(world):
    settings = world.settings
    world.settings = {"feeds": settings["feeds"]}
    world.clock.advance(timedelta(days=9))
    world.build()
    world.settings = settings
    assert world.build().result == "unchanged"


def test_recent_entries_are_read_from_the_public_files_whose_bodies_are_lost(world):
    world.build()
    world.clock.advance(timedelta(hours=1))
    for file in StateRepository(world.store.state).manifest().sections["pages"].files():
        del world.config.state.objects[file.body]
    world.rows[0]["lastmod"] = "2026-01-15T12:30:00+00:00"
    assert world.build().result == "published"
    assert recent_locs(world) == [f"{BASE}p/{n}" for n in (1, 14, 13)]


def test_a_damaged_body_of_an_unchanged_shard_only_omits_its_entries(world, caplog):
    world.build()
    world.clock.advance(timedelta(hours=1))
    manifest = StateRepository(world.store.state).manifest()
    body = manifest.sections["pages"].shards[-1].file.body
    kept = world.config.state.objects[body]
    world.config.state.objects[body] = replace(kept, body=kept.body[:-20] + bytes(20))
    world.rows[0]["lastmod"] = "2026-01-15T12:30:00+00:00"
    assert world.build().result == "published"
    assert recent_locs(world) == [f"{BASE}p/1"]
    assert f"{body} is missing or damaged" in caplog.text
    world.build(rebuild=[manifest.sections["pages"].shards[-1].file.name])
    assert recent_locs(world) == [f"{BASE}p/{n}" for n in (1, 14, 13)]


def test_a_date_is_recent_from_its_midnight_in_the_sections_zone() -> None:
    world = World(
        [row(n, lastmod=date(2026, 1, n)) for n in range(1, 15)],
        settings={"recent": timedelta(days=3), "feeds": ("rss",)},
        source_settings={"timezone": "America/Los_Angeles"},
    )
    begins = datetime(2026, 1, 12, 8, tzinfo=timezone.utc)  # the 12th in Los Angeles
    world.clock.advance(begins + timedelta(days=2, hours=23) - world.clock.now())
    world.build()
    assert recent_locs(world) == [f"{BASE}p/{n}" for n in (14, 13, 12)]
    recheck_at = StateRepository(world.store.state).manifest().recheck_at
    assert recheck_at == begins + timedelta(days=3, seconds=1)
    world.clock.advance(timedelta(hours=2))
    world.build()
    assert recent_locs(world) == [f"{BASE}p/{n}" for n in (14, 13)]
