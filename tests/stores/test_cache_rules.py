"""Cache-Control of shards: revalidated, or purged; anything else is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_sitemaps import LocalStore, MemoryStore, S3Store
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.ports import INDEX_CACHE_CONTROL, SHARD_CACHE_CONTROL, is_revalidated

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
