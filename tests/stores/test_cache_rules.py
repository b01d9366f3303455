"""Cache-Control of shards: revalidated, or purged; anything else is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from msgspec import structs

from airflow_sitemaps import LocalStore, MemoryStore, S3Store
from airflow_sitemaps.errors import ConfigurationError, StoreError
from airflow_sitemaps.pipeline.publish import promotion
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.ports import INDEX_CACHE_CONTROL, SHARD_CACHE_CONTROL, is_revalidated
from tests.support.environment import BASE, World, row

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REVALIDATED = [SHARD_CACHE_CONTROL, "no-cache", "max-age=0", "NO-STORE", "private", "public, s-maxage=0, max-age=0"]
KEPT = [
    "",
    "public",
    "must-revalidate",
    INDEX_CACHE_CONTROL,
    "max-age=1",
    "no-cache, max-age=60",
    "s-maxage=60, max-age=0",
    'max-age="60"',
    "max-age=0, stale-while-revalidate=30",
    "max-age=0, stale-if-error=600",
    'no-cache="set-cookie"',
]


@pytest.mark.parametrize("header", REVALIDATED)
def test_headers_with_which_caches_ask_each_time(header: str) -> None:
    assert is_revalidated(header)


@pytest.mark.parametrize("header", KEPT)
def test_headers_with_which_a_cache_may_use_an_old_copy(header: str) -> None:
    assert not is_revalidated(header)


@pytest.mark.parametrize("kind", ["memory", "local", "s3"])
def test_shards_that_are_kept_without_a_purge_are_refused_when_the_store_is_made(kind: str, tmp_path: Path) -> None:
    base_url = "https://www.example.com/"
    makers: dict[str, Callable[..., MemoryStore | LocalStore | S3Store]] = {
        "memory": lambda **settings: MemoryStore(base_url=base_url, **settings),
        "local": lambda **settings: LocalStore(tmp_path, base_url=base_url, **settings),
        "s3": lambda **settings: S3Store("s3://bucket/maps", base_url=base_url, **settings),
    }
    make = makers[kind]
    with pytest.raises(ConfigurationError, match="purge= hook"):
        make(shard_cache_control="max-age=300")
    assert make().shard_cache_control == SHARD_CACHE_CONTROL
    assert make(cache_control="max-age=600").shard_cache_control == SHARD_CACHE_CONTROL
    purged = make(shard_cache_control="max-age=300", purge=lambda addresses: None)
    assert purged.shard_cache_control == "max-age=300"
    if kind != "s3":
        assert purged.open().needs_purge
        assert not make(purge=lambda addresses: None).open().needs_purge


def set_headers(world: World, **settings: Any) -> None:
    for name, value in settings.items():
        setattr(world.config, name, value)


def test_other_headers_reach_every_public_file() -> None:
    purged: list[str] = []
    world = World([row(n) for n in range(1, 13)])
    world.build()
    before = {name: kept.info.etag for name, kept in world.config.public.objects.items()}
    set_headers(world, shard_cache_control="max-age=86400", purge=purged.extend)
    report = world.build()
    assert (report.result, report.generation) == ("published", 2)
    assert any("every public file is put again" in warning for warning in report.warnings)
    objects = world.config.public.objects
    assert {kept.cache_control for name, kept in objects.items() if name != "sitemap.xml"} == {"max-age=86400"}
    assert {address.removeprefix(BASE) for address in purged} == before.keys() == objects.keys()
    assert world.crawl().entries() == world.rebuilt().entries()
    assert world.build().result == "unchanged"


def test_other_headers_reach_the_files_that_a_crash_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run that finishes the promotion does not take the objects with the old headers for its own."""
    world = World([row(n) for n in range(1, 13)])
    world.build()
    set_headers(world, shard_cache_control="no-cache")
    with monkeypatch.context() as broken:
        broken.setattr(promotion, "_promote_file", Mock(side_effect=StoreError("the store failed")))
        with pytest.raises(StoreError):
            world.build()
    assert world.build().result == "published"
    objects = world.config.public.objects
    assert {kept.cache_control for name, kept in objects.items() if name != "sitemap.xml"} == {"no-cache"}


def test_the_headers_of_a_state_that_does_not_record_them_stay() -> None:
    world = World([row(n) for n in range(1, 13)])
    world.build()
    state = StateRepository(world.store.state)
    current = state.current()
    assert current is not None
    state.replace_manifest(structs.replace(current.manifest, headers="", write_id="w"), current)
    set_headers(world, shard_cache_control="no-cache")
    assert world.build().result == "unchanged"
