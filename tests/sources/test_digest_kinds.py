"""Digests of an older expression are recognised by their kind, and replaced without writing a file again."""

from __future__ import annotations

import pytest

from airflow_sitemaps import Guards, MemoryStore, Section, ShardPolicy, Sitemap, SqlSource
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.shards.ranges import Digest, KeyRange
from airflow_sitemaps.sources.dialects.base import Dialect
from airflow_sitemaps.sources.dialects.duckdb import DuckDB
from airflow_sitemaps.sources.dialects.postgresql import PostgreSQL
from airflow_sitemaps.testing import crawl
from tests.support.source_sessions import connected, create, live, session

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


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("postgresql", "ALTER COLUMN lm TYPE timestamptz USING lm AT TIME ZONE 'UTC'"),
        ("mariadb", "MODIFY lm timestamp(6)"),
    ],
)
def test_a_column_that_gets_a_time_zone_is_read_again(name: str, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its values keep their bits, and the source's own time zone no longer applies to them."""
    base = connected(name, "zoned_later", monkeypatch)
    create(base, "zoned_later", {"id": "integer", "lm": "timestamp"})
    base.run("INSERT INTO zoned_later VALUES (1, '2024-01-01 12:00:00')")
    config = MemoryStore(base_url=BASE)
    source = SqlSource(
        "zoned_later", table="zoned_later", key="id", loc=BASE + "{id}", lastmod="lm", timezone="Asia/Tokyo"
    )
    sitemap = Sitemap(config, [Section("pages", source)])
    build(sitemap)
    assert [entry[0] for entry in crawl(config.open()).entries()[BASE + "1"]] == ["2024-01-01T03:00:00Z"]

    base.run(f"ALTER TABLE zoned_later {change}")
    build(sitemap)

    assert [entry[0] for entry in crawl(config.open()).entries()[BASE + "1"]] == ["2024-01-01T12:00:00Z"]
    assert build(sitemap, full=True).result == "unchanged"


@pytest.mark.parametrize("kind", ["zoned", "date"])
def test_a_dialect_of_ones_own_whose_rows_are_hashed_here_may_have_times(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``hashes_here`` is for databases without a hash; SQLite, the only one of this package, has texts for times."""
    monkeypatch.setattr(DuckDB, "hashes_here", True)
    base = live("duckdb")
    create(base, "hashed", {"id": "integer", "lm": kind})
    base.run("INSERT INTO hashed VALUES (1, '2024-01-01'), (2, NULL)")
    with session(base, table="hashed", key="id", loc=BASE + "{id}", lastmod="lm") as source:
        whole = [KeyRange(None, None)]
        hashes = [each for batch in source.read(whole) for each in batch.column("row_hash").to_pylist()]
        (digest,) = source.survey(whole).digests
    assert digest == Digest.of(2, digest.newest, sum(hashes))


@pytest.mark.parametrize(
    ("name", "before", "change"),
    [
        ("postgresql", "real", "ALTER COLUMN ratio TYPE double precision"),
        ("mariadb", "float", "MODIFY ratio double"),
    ],
)
def test_a_float_that_gets_more_digits_is_read_again(
    name: str, before: str, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its hash is that of the number, and its text in a URL gets the digits that a real does not show."""
    base = connected(name, "digits", monkeypatch)
    base.run(
        "DROP TABLE IF EXISTS digits",
        f"CREATE TABLE digits (id integer, ratio {before})",
        "INSERT INTO digits VALUES (1, 0.1)",
    )
    config = MemoryStore(base_url=BASE)
    source = SqlSource("digits", table="digits", key="id", loc=BASE + "{ratio}")
    sitemap = Sitemap(config, [Section("pages", source)])
    build(sitemap)
    assert [*crawl(config.open()).entries()] == [BASE + "0.1"]

    base.run(f"ALTER TABLE digits {change}")
    build(sitemap, allow=["churn"])

    assert [*crawl(config.open()).entries()] == [BASE + "0.10000000149011612"]
    assert build(sitemap, full=True).result == "unchanged"
