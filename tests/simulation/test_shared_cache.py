"""The model of a shared cache: it finds what the defaults prevent."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_sitemaps.shards import manifest
from tests.simulation.shared_cache import CachedCrawler, CacheHistory, SharedCache, lifetime
from tests.support.environment import BASE, World, row

FIVE_MINUTES = "public, max-age=300, must-revalidate"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("max-age=300", 300), ("max-age=300, s-maxage=60", 60), ("no-cache, max-age=300", 0), ("", 0), ("public", 0)],
)
def test_lifetimes_are_those_of_rfc_9111(header: str, seconds: int) -> None:
    assert lifetime(header) == timedelta(seconds=seconds)


@pytest.mark.parametrize("seed", range(40))
def test_no_crawler_is_left_behind_by_the_defaults(seed: int) -> None:
    assert not CacheHistory(seed).missed()


@pytest.mark.parametrize("seed", [19, 20, 24, 73])
def test_one_lifetime_for_index_and_shards_leaves_crawlers_behind_and_a_purge_does_not(seed: int) -> None:
    assert CacheHistory(seed, cache_control=FIVE_MINUTES, shard_cache_control=FIVE_MINUTES).missed()
    assert not CacheHistory(seed, cache_control=FIVE_MINUTES, shard_cache_control=FIVE_MINUTES, purge=True).missed()


@pytest.mark.parametrize("moves_on", [True, False])
def test_a_lastmod_that_stays_leaves_crawlers_behind(moves_on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two commits within one second."""
    if not moves_on:
        monkeypatch.setattr(manifest, "later", lambda now, before: now)
    world = World([row(number) for number in range(4)])
    crawler = CachedCrawler(SharedCache(world.config.public, world.clock.now))
    world.build()
    crawler.visit()
    world.rows[0]["loc"] = f"{BASE}another"
    world.build()
    world.clock.advance(timedelta(days=1))
    crawler.visit()
    assert (f"{BASE}another" in crawler.known()) is moves_on
