"""Titles, descriptions and media in feeds: from columns, from the page's own video or article, kept over runs."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import feedparser
import pytest
from lxml import etree

from airflow_sitemaps import Section, Sitemap
from airflow_sitemaps.pipeline import build, rollback
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.protocol.feeds import FEED_ENTRIES, MEDIA_NAMESPACE, FeedText, newest_texts
from airflow_sitemaps.testing import MemorySourceConfig
from tests.support.environment import BASE, FREE, World, row

VIDEO = {
    "thumbnail_loc": "https://img.example.com/t.jpg",
    "title": "A film & more",
    "description": "What it shows",
    "content_loc": "https://img.example.com/v.mp4",
    "player_loc": "https://img.example.com/player?v=1&a=2",
    "duration": 60,
}


@pytest.fixture
def world() -> World:
    world = World(
        [
            row(n, lastmod=f"2026-01-{n:02d}T08:00:00+00:00", title=f"Page {n} <b>", description=None, videos=None)
            for n in range(1, 15)
        ],
        settings={"feeds": ("atom", "rss", "mrss")},
        source_settings={"title": "title", "description": "description", "videos": "videos"},
    )
    world.rows[13]["description"] = " Said \n in short "
    return world


def titles(world: World, name: str = "recent.rss") -> list[str]:
    return [entry.title for entry in feedparser.parse(world.public()[name][0]).entries]


@pytest.mark.parametrize("name", ["recent.atom", "recent.rss", "recent-media.rss"])
def test_columns_give_titles_and_descriptions(world: World, name: str) -> None:
    world.build()
    feed = feedparser.parse(world.public()[name][0])
    assert not feed.bozo
    assert [entry.title_detail.value for entry in feed.entries] == ["Page 14 <b>", "Page 13 <b>"]
    assert feed.entries[0].summary == "Said in short"
    assert "summary" not in feed.entries[1]


def test_texts_stay_when_their_shard_is_not_read_again(world: World) -> None:
    world.build()
    world.clock.advance(timedelta(hours=1))
    world.rows[2].update(lastmod="2026-01-15T12:30:00+00:00", title="Third")
    assert world.build().shards.rewritten == 1
    assert titles(world) == ["Third", "Page 14 <b>", "Page 13 <b>"]
    world.clock.advance(timedelta(days=1))
    assert world.build().shards.rewritten == 0
    assert titles(world) == ["Third", "Page 14 <b>"]
    assert world.build().result == "unchanged"


def test_a_rollback_brings_the_texts_of_its_generation(world: World) -> None:
    world.build()
    world.clock.advance(timedelta(hours=1))
    for each in world.rows:
        each["title"] = "Broken"
    world.build()
    assert titles(world) == ["Broken"] * 2
    rollback(world.sitemap(), 1, clock=world.clock)
    assert titles(world) == ["Page 14 <b>", "Page 13 <b>"]


def test_a_rollback_to_a_generation_without_feeds_keeps_the_texts(world: World) -> None:
    settings, world.settings = world.settings, {}
    world.build()
    world.settings = settings
    world.clock.advance(timedelta(hours=1))
    world.build(full=True)
    before = titles(world)
    rollback(world.sitemap(), 1, clock=world.clock)
    assert titles(world) == before == ["Page 14 <b>", "Page 13 <b>"]


def test_a_changed_title_reaches_the_feed_though_no_file_changes(world: World) -> None:
    world.build()
    shards = {name: kept for name, kept in world.public().items() if name.startswith("pages")}
    world.rows[13].update(title="Renamed", description=None)
    assert world.build().result == "published"
    assert titles(world) == ["Renamed", "Page 13 <b>"]
    assert b"Said in short" not in world.public()["recent.rss"][0]
    assert {name: kept for name, kept in world.public().items() if name.startswith("pages")} == shards
    world.rows[13].update(title=None)
    world.build()
    assert titles(world) == [f"{BASE}p/14", "Page 13 <b>"]


def test_a_page_without_columns_shows_the_texts_of_its_video_and_the_media(world: World) -> None:
    world.rows[13].update(title="", description=None, videos=json.dumps(VIDEO))
    world.build()
    assert titles(world, "recent.atom") == ["A film & more", "Page 13 <b>"]
    item = etree.fromstring(world.public()["recent-media.rss"][0]).find("channel/item")
    media = f"{{{MEDIA_NAMESPACE}}}"
    assert item.findtext(f"{media}title") == "A film & more"
    assert item.findtext(f"{media}description") == "What it shows"
    assert item.find(f"{media}thumbnail").get("url") == VIDEO["thumbnail_loc"]
    content = item.find(f"{media}content")
    assert dict(content.attrib) == {"url": VIDEO["content_loc"], "medium": "video", "duration": "60"}
    assert content.find(f"{media}player").get("url") == VIDEO["player_loc"]
    assert content.findtext(f"{media}title") == "A film & more"
    assert content.findtext(f"{media}description") == "What it shows"
    assert content.find(f"{media}thumbnail").get("url") == VIDEO["thumbnail_loc"]
    feed = feedparser.parse(world.public()["recent-media.rss"][0])
    assert feed.entries[0].media_content[0]["url"] == VIDEO["content_loc"]


def test_an_item_has_the_texts_of_the_shard_of_its_entry(world: World) -> None:
    world.rows[0].update(loc=f"{BASE}p/14", lastmod=world.rows[13]["lastmod"], title="First shard")
    world.rows[12].update(loc=f"{BASE}p/14", title="Last shard")  # unsettled: it is read in each run
    world.build()
    assert titles(world) == ["First shard"]
    again = world.build()
    assert (again.result, again.rows_read > 0) == ("unchanged", True)
    assert titles(world) == ["First shard"]
    world.rows[0].update(lastmod="2026-01-01T08:00:00+00:00", title="Old")
    assert world.build().result == "published"
    assert titles(world) == ["Last shard"]
    assert world.build().result == "unchanged"
    world.build(full=True)
    assert titles(world) == ["Last shard"]


def test_an_item_has_the_texts_of_the_section_of_its_entry(world: World) -> None:
    rows = {name: [row(1, lastmod="2026-01-15T08:00:00+00:00", title=name)] for name in ("first", "second")}
    sections = [
        Section(name, MemorySourceConfig(rows[name], key="id", clock=world.clock.now, lastmod="lastmod", title="title"))
        for name in rows
    ]
    sitemap = Sitemap(world.config, sections, guards=FREE, feeds=("rss",))
    build(sitemap, clock=world.clock)
    rows["second"][0]["title"] = "changed"
    build(sitemap, clock=world.clock)
    assert titles(world) == ["first"]


def test_titles_that_are_hostile_are_written_as_text(world: World) -> None:
    world.rows[13].update(title="\x00]]>&lt;" + "x" * 9_999, description="\n")
    world.build()
    (title, _) = titles(world)
    assert title.endswith("…")
    feed = etree.fromstring(world.public()["recent.rss"][0])
    assert len(feed.findtext("channel/item/title")) == 300


def test_sources_without_columns_keep_their_fingerprint() -> None:
    world = World([row(1)])
    assert not {"title", "description"} & set(world.sitemap().sections[0].source.identity())


def test_the_newest_texts_are_kept() -> None:
    texts = [FeedText(loc=f"{n:04d}", moment=f"2026-01-01T00:00:{n % 60:02d}Z") for n in range(FEED_ENTRIES + 100)]
    newest = newest_texts([*texts, FeedText(loc="0059", moment="2000-01-01")])
    assert len(newest) == FEED_ENTRIES
    assert newest[0].moment.endswith("59Z")
    assert newest[0].loc == "0059"
    of_other_shard = [replace(text, lower=(9,)) for text in texts]
    assert {text.loc for text in newest_texts([*texts, *of_other_shard])} == {text.loc for text in newest}
    assert len(newest_texts([*texts, *of_other_shard])) == 2 * FEED_ENTRIES


def test_a_damaged_feed_only_loses_the_texts_of_unchanged_shards(world: World) -> None:
    world.build()
    world.clock.advance(timedelta(hours=1))
    manifest = StateRepository(world.store.state).manifest()
    assert manifest is not None
    for file in manifest.extras:
        kept = world.config.state.objects[file.body]
        world.config.state.objects[file.body] = replace(kept, body=kept.body[: len(kept.body) // 2])
    world.rows[2].update(lastmod="2026-01-15T12:30:00+00:00", title="Third")
    assert world.build().result == "published"
    assert titles(world) == ["Third", f"{BASE}p/14", f"{BASE}p/13"]
