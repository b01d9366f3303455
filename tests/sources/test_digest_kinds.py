"""Digests of an older expression are recognised by their kind, and replaced without writing a file again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_sitemaps import Guards, MemoryStore, Section, ShardPolicy, Sitemap, SqlSource
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.sources.dialects.base import Dialect
from airflow_sitemaps.sources.dialects.postgresql import PostgreSQL
from airflow_sitemaps.testing import crawl
from tests.support.source_sessions import connected, create

if TYPE_CHECKING:
    import pytest

BASE = "https://www.example.com/"


def test_a_newer_row_hash_rewrites_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    base = connected("postgresql", "kept", monkeypatch)
    create(base, "kept", {"id": "integer", "slug": "text", "lm": "zoned"})
    base.run("INSERT INTO kept SELECT i, 'p' || i, TIMESTAMPTZ '2024-01-01 00:00:00Z' FROM generate_series(1, 40) i")
    config = MemoryStore(base_url=BASE)
    section = Section("pages", SqlSource("kept", table="kept", key="id", loc=BASE + "{slug}", lastmod="lm"))
    sitemap = Sitemap(config, [section], shards=ShardPolicy(max_urls=10), guards=Guards(min_rows=10**6))
    with monkeypatch.context() as older:
        older.setattr(PostgreSQL, "row_hash", Dialect.row_hash)
        older.setattr(PostgreSQL, "hash_version", "hashtextextended/1")
        build(sitemap)
    before = crawl(config.open()).files
    report = build(sitemap)
    assert (report.shards.rewritten, report.shards.created, report.shards.removed) == (0, 0, 0)
    assert crawl(config.open()).files == before
    assert build(sitemap).result == "unchanged"
