"""The stylesheet: published beside the shards, named by the indexes, listed by no index."""

from __future__ import annotations

from datetime import timedelta

import pytest
from lxml import etree

from airflow_sitemaps import pipeline
from airflow_sitemaps.errors import RefusedError
from airflow_sitemaps.protocol import markup
from airflow_sitemaps.verification import of_sitemap
from tests.support.environment import BASE, World, row

REFERENCE = b'<?xml-stylesheet type="text/xsl" href="sitemap.xsl"?>'


@pytest.fixture
def world() -> World:
    return World([row(n) for n in range(1, 13)], settings={"stylesheet": True})


def test_the_index_names_a_stylesheet_that_shows_it(world, caplog):
    caplog.set_level("INFO")
    report = world.build()
    index = world.public()["sitemap.xml"][0]
    found = world.config.public.objects["sitemap.xsl"]
    assert REFERENCE in index
    assert found.body == markup.render_stylesheet()
    assert "sitemap.xsl of the last" not in caplog.text
    shown = etree.XSLT(etree.fromstring(found.body))(etree.fromstring(index))
    assert shown.xpath("//a/@href") == [BASE + name for name in world.crawl().files]
    assert report.index_urls == report.robots_urls == (BASE + "sitemap.xml",)
    assert "sitemap.xsl" not in world.crawl().files
    assert of_sitemap(world.sitemap()).verify().failures == ()


def test_it_is_served_as_a_stylesheet(world, monkeypatch):
    kinds: dict[str, str] = {}
    put = type(world.store.public).put

    def keep(self, key, body, **settings):
        kinds[key] = settings["content_type"]
        return put(self, key, body, **settings)

    monkeypatch.setattr(type(world.store.public), "put", keep)
    world.build()
    assert kinds["sitemap.xsl"] == "text/xsl"


def test_it_stays_as_it_is_and_costs_no_generation(world):
    world.build()
    before = world.public()
    world.clock.advance(timedelta(days=9))
    assert world.build().result == "unchanged"
    assert world.public() == before
    world.rows[0]["priority"] = 0.1
    world.build()
    assert world.public()["sitemap.xsl"] == before["sitemap.xsl"]
    assert REFERENCE in world.public()["sitemap.xml"][0]
    pipeline.rollback(world.sitemap(), 1, clock=world.clock)
    assert REFERENCE in world.public()["sitemap.xml"][0]


def test_it_comes_and_goes_with_the_setting_and_shards_stay(world):
    world.settings = {}
    world.build()
    shards = world.shards()
    assert b"xml-stylesheet" not in world.public()["sitemap.xml"][0]
    world.settings = {"stylesheet": True}
    assert world.build().result == "published"
    assert REFERENCE in world.public()["sitemap.xml"][0]
    assert {name: kept for name, kept in world.shards().items() if name != "sitemap.xsl"} == shards
    assert world.build().result == "unchanged"
    world.settings = {}
    assert world.build().result == "published"
    assert b"xml-stylesheet" not in world.public()["sitemap.xml"][0]
    assert world.build().result == "unchanged"
    world.clock.advance(timedelta(days=3))
    world.build()
    assert world.shards() == shards


def test_recent_entries_can_be_added_to_it(world):
    for each in world.rows:
        each["lastmod"] = "2026-01-15T08:00:00+00:00"
    world.build()
    world.settings = {"stylesheet": True, "recent": timedelta(days=3)}
    assert world.build().result == "published"
    assert "recent.xml.gz" in world.crawl().files
    assert world.build().result == "unchanged"


def test_a_broken_stylesheet_is_repaired(world):
    world.build()
    world.store.public.delete("sitemap.xsl")
    assert "sitemap.xsl" in " ".join(world.build().drift)
    assert world.public()["sitemap.xsl"][0] == markup.render_stylesheet()
    assert world.build().result == "unchanged"


def test_every_index_names_it(world):
    world.settings |= {"index": "per_section"}
    world.build()
    assert REFERENCE in world.public()["sitemap-pages.xml"][0]


def test_a_stylesheet_alone_is_no_sitemap(world):
    world.rows.clear()
    with pytest.raises(RefusedError, match="no section would have any URL"):
        world.build(allow=("empty:pages",))
