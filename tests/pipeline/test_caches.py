"""Freshness through caches: headers, the order of shards, purge and index, lastmod that always moves on."""

from __future__ import annotations

import traceback
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from airflow_sitemaps.errors import StoreError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.pipeline.publish.rollback import rollback
from airflow_sitemaps.ports import INDEX_CACHE_CONTROL, SHARD_CACHE_CONTROL
from airflow_sitemaps.testing import FakeClock
from tests.support.environment import BASE, World, row

if TYPE_CHECKING:
    from collections.abc import Sequence


def world_of(rows: int = 12) -> World:
    return World([row(number) for number in range(rows)], settings={"feeds": ["atom"], "recent": timedelta(days=3)})


@pytest.mark.parametrize("copies", [False, True])
def test_shards_are_revalidated_and_indexes_and_feeds_may_be_kept(copies: bool) -> None:
    world = world_of(60)
    world.config.copies = copies
    for item in world.rows:
        item["lastmod"] = world.clock.now()
    world.build()
    headers = {name: o.cache_control for name, o in world.config.public.objects.items()}
    assert headers["sitemap.xml"] == headers["recent.atom"] == INDEX_CACHE_CONTROL
    shards = {name: header for name, header in headers.items() if name not in ("sitemap.xml", "recent.atom")}
    assert "recent.xml.gz" in shards
    assert set(shards.values()) == {SHARD_CACHE_CONTROL}


# ---------------------------------------------------------------- purge


def purging(world: World, *failures: Exception) -> list[tuple[list[str], set[str]]]:
    """Give the store a hook; returns its calls with the addresses and what the public index listed then."""
    calls: list[tuple[list[str], set[str]]] = []
    problems = list(failures)

    def purge(addresses: Sequence[str]) -> None:
        index = world.config.public.objects.get("sitemap.xml")
        calls.append((list(addresses), set() if index is None else {index.info.etag}))
        if problems:
            raise problems.pop(0)

    world.config.purge = purge
    return calls


def test_changed_addresses_are_purged_between_shards_and_index() -> None:
    world = World([row(number) for number in range(12)], section_settings={"path": "de/"})
    world.build()
    before = world.config.public.objects["sitemap.xml"].info.etag
    calls = purging(world)
    world.rows[1]["priority"] = 0.9
    world.rows.append(row(20))
    world.build()
    after = world.config.public.objects["sitemap.xml"].info.etag
    assert before != after
    assert calls == [
        ([f"{BASE}de/pages-00001.xml.gz", f"{BASE}de/pages-00003.xml.gz"], {before}),
        ([f"{BASE}sitemap.xml"], {after}),
    ]
    world.build()
    assert len(calls) == 2, "an unchanged run purges nothing"


def test_a_purge_that_fails_is_reported_where_shards_are_revalidated(caplog: pytest.LogCaptureFixture) -> None:
    world = World([row(number) for number in range(12)])
    calls = purging(world, StoreError("the network is down"), StoreError("again"))
    assert world.build().result == "published"
    assert len(calls) == 2
    assert "the network is down" in caplog.text
    assert "caches serve the old indexes until they expire" in caplog.text
    assert world.crawl().locs() == {item["loc"] for item in world.rows}


@pytest.mark.parametrize("needed", [False, True])
def test_the_text_of_a_hooks_exception_is_shown_nowhere(needed: bool, caplog: pytest.LogCaptureFixture) -> None:
    """It may quote the request, with the token of the CDN."""
    world = World([row(number) for number in range(12)])
    purging(world, *[RuntimeError("401 for https://cdn.example/?key=s3cr3t, Bearer s3cr3t")] * 2)
    shown = ""
    if needed:
        world.config.shard_cache_control = "max-age=300"
        with pytest.raises(StoreError) as failed:
            world.build()
        shown = "".join(traceback.format_exception(failed.value))
    else:
        shown = str(world.build())
    assert "RuntimeError at test_caches.py, line " in shown + caplog.text
    assert "s3cr3t" not in shown + caplog.text


def test_a_purge_that_is_needed_and_fails_leaves_the_index_and_is_repeated() -> None:
    world = World([row(number) for number in range(12)])
    calls = purging(world)
    world.config.shard_cache_control = "max-age=300"
    world.build()
    before = world.config.public.objects["sitemap.xml"].info.etag
    calls += purging(world, RuntimeError("no"), RuntimeError("no"))
    world.rows[1]["priority"] = 0.9
    for _ in range(2):
        with pytest.raises(StoreError, match="the index was not replaced"):
            world.build()
        assert world.config.public.objects["sitemap.xml"].info.etag == before
        assert world.crawl().locs() == {item["loc"] for item in world.rows}
    calls = purging(world)
    world.build()
    assert calls[0][0] == [f"{BASE}pages-00001.xml.gz"]
    assert world.config.public.objects["sitemap.xml"].info.etag != before


# ---------------------------------------------------------------- lastmod


def lastmod(world: World) -> str:
    moment = world.crawl().lastmods["pages-00001.xml.gz"]
    assert moment is not None
    return moment


def test_lastmod_moves_on_for_two_commits_of_one_second_and_for_slow_clocks() -> None:
    world = World([row(number) for number in range(12)])
    world.build()
    seen = [lastmod(world)]
    for number, step in enumerate((timedelta(0), timedelta(0), timedelta(minutes=-5), timedelta(seconds=301))):
        world.clock.advance(step)
        world.rows[1]["priority"] = 0.1 * (number + 1)
        world.build()
        seen.append(lastmod(world))
    assert seen == sorted(set(seen))
    assert len(seen) == 5


def test_lastmod_moves_on_for_a_rollback_and_for_a_repair_by_a_slow_worker() -> None:
    world = World([row(number) for number in range(12)])
    world.build()
    world.rows[1]["priority"] = 0.9
    world.clock.advance(timedelta(hours=1))
    world.build()
    seen = [lastmod(world)]
    slow = FakeClock(world.clock.now() - timedelta(minutes=30))
    rollback(world.sitemap(), 1, clock=slow)
    seen.append(lastmod(world))
    world.config.public.delete("pages-00001.xml.gz")
    slow = FakeClock(world.clock.now() - timedelta(minutes=29))
    world.rows[1]["priority"] = None
    build(world.sitemap(), clock=slow)
    seen.append(lastmod(world))
    assert seen == sorted(set(seen))
    assert len(seen) == 3
