"""Versions of tables, by the engines that keep exact ones: each change of a row changes the version, or there is none."""

from __future__ import annotations

import json

import pytest

from airflow_sitemaps import Guards, MemoryStore, Section, ShardPolicy, Sitemap, SqlSource
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.sources.queries import is_fixed
from airflow_sitemaps.sources.session import SqlSession
from airflow_sitemaps.testing import crawl
from tests.support.databases import NAMES, Database
from tests.support.source_sessions import live, session

BASE = "https://www.example.com/"
SOURCE = {"key": "k", "loc": "s"}

CHANGES = (
    "INSERT INTO versions (k, s) VALUES (1000, 'new')",
    "ALTER TABLE versions UPDATE s = 'x' WHERE k = 3 SETTINGS mutations_sync = 1",
    "ALTER TABLE versions DELETE WHERE k = 4 SETTINGS mutations_sync = 1",
    "ALTER TABLE versions ADD COLUMN d Int64 DEFAULT 7",
    "ALTER TABLE versions MODIFY COLUMN d Int64 DEFAULT 8",
    "ALTER TABLE versions DROP PARTITION tuple()",
)


@pytest.fixture
def base() -> Database:
    if "clickhouse" not in NAMES:
        pytest.skip("clickhouse is not here: `make test-warehouses`")
    found = live("clickhouse")
    found.run(
        "DROP TABLE IF EXISTS versions",
        "CREATE TABLE versions (k Int64, s String) ENGINE = MergeTree ORDER BY k",
        "INSERT INTO versions SELECT number, concat('p', toString(number)) FROM numbers(100)",
    )
    return found


def version(base: Database, table: str = "versions", **arguments: object) -> str | None:
    with session(base, table=table, **{**SOURCE, **arguments}) as source:
        return source.table_version()


def test_each_change_of_a_clickhouse_table_is_another_version(base: Database) -> None:
    seen = [version(base)]
    assert seen[0] is not None
    assert version(base) == seen[0]
    for change in CHANGES:
        base.run(change)
        seen.append(version(base))
        assert version(base) == seen[-1]
    assert seen[-1] is None  # no part is left
    assert len(set(seen)) == len(seen)


def test_rows_that_the_parts_do_not_tell_have_no_version(base: Database) -> None:
    base.run("DELETE FROM versions WHERE k = 5")
    assert version(base) is None
    base.run("OPTIMIZE TABLE versions FINAL")
    assert version(base) is not None
    base.run("ALTER TABLE versions ADD COLUMN at DateTime DEFAULT now()")
    assert version(base) is None
    base.run("ALTER TABLE versions DROP COLUMN at SETTINGS mutations_sync = 1", "DROP VIEW IF EXISTS seen")
    assert version(base) is not None
    base.run("CREATE VIEW seen AS SELECT * FROM versions")
    assert version(base, table="seen") is None


def test_the_condition_and_its_values_are_part_of_the_version(base: Database) -> None:
    conditions = [{"where": "k < 50"}, {"where": "k < 60"}, {"where": "k < :most", "parameters": {"most": 70}}, {"where": "k < :most", "parameters": {"most": 71}}]  # fmt: skip
    found = [version(base, **condition) for condition in ({}, *conditions)]
    assert None not in found
    assert len(set(found)) == len(found)
    assert version(base, where="k < toUInt32(now())") is None


def test_a_query_has_no_version(base: Database) -> None:
    with session(base, query="SELECT * FROM versions", **SOURCE) as source:
        assert source.table_version() is None


def test_a_run_without_a_load_scans_nothing(base: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"sqlalchemy_url": base.url}
    monkeypatch.setenv("AIRFLOW_CONN_VERSIONS", json.dumps({"conn_type": "generic", "extra": extra}))
    config = MemoryStore(base_url=BASE)
    section = Section("pages", SqlSource("versions", table="versions", key="k", loc=BASE + "{s}"))
    sitemap = Sitemap(config, [section], shards=ShardPolicy(max_urls=20), guards=Guards.disabled())
    surveys: list[int] = []
    real = SqlSession.survey
    monkeypatch.setattr(SqlSession, "survey", lambda self, ranges: surveys.append(len(ranges)) or real(self, ranges))
    assert build(sitemap).urls == 100
    assert surveys
    surveys.clear()
    assert build(sitemap).result == "unchanged"
    assert not surveys
    base.run("ALTER TABLE versions UPDATE s = 'x' WHERE k = 3 SETTINGS mutations_sync = 1")
    assert build(sitemap).result == "published"
    assert surveys
    assert BASE + "x" in crawl(config.open()).locs()


@pytest.mark.parametrize("where", ["k IN featured", "k GLOBAL IN featured", "k NOT IN featured"])
def test_a_condition_that_reads_another_table_has_no_version(base: Database, where: str) -> None:
    base.run("DROP TABLE IF EXISTS featured", "CREATE TABLE featured (k Int64) ENGINE = Memory")
    assert version(base, where="k IN (1, 2)") is not None
    assert version(base, where=where) is None


@pytest.mark.parametrize("name", ["sqlite", "duckdb"])
def test_a_database_without_an_exact_version_has_none(name: str) -> None:
    base = live(name)
    base.run("DROP TABLE IF EXISTS versions", "CREATE TABLE versions (k INTEGER, s VARCHAR(20))")
    assert version(base) is None


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (None, True),
        ("live = 1 AND kind IN ('a', 'now()') AND NOT (x > 2 OR y LIKE '%select%')", True),
        ('"current_date" = 1 -- now()', True),
        ("published_at <= now()", False),
        ("published_at <= CURRENT_TIMESTAMP", False),
        ("id IN (SELECT id FROM other)", False),
        ("lower(kind) = 'a'", False),
        ("day < SYSDATE", False),
        ("day < today", False),
        ("kind = 'it''s' AND day < now ()", False),
        ("day < date 'today'", False),
        ("day < TIMESTAMP ' Now UTC'", False),
        (r"folder <> '\' AND day < now() AND kind <> 'x'", False),
        (r"folder <> '\' AND kind <> 'x'", True),
        (r"kind <> 'it\'s' AND day < now() AND kind <> 'x'", False),
        ("locale = :locale AND _fivetran_deleted = FALSE AND src.price BETWEEN -1.5 AND 2e3", True),
        ("NOT live AND NOT(a) AND b IS NOT NULL AND c NOT IN (-1, 2) AND day >= DATE '2024-01-01'", True),
        ("id IN featured", False),
        ("id IN (featured)", False),
        ('id IN "featured"', False),
        ("id IN shop.featured", False),
        ("id NOT IN featured", False),
        ("id GLOBAL IN featured", False),
        ("id IN (TABLE featured)", False),
        ("id IN (1, 2) AND id IN/**/featured", False),
        ("(id, kind) IN featured", False),
        ("id = (TABLE featured)", False),
        ("EXISTS (FROM featured)", False),
        ("id = ANY (ids)", False),
        ("id > 1) UNION ALL (SELECT * FROM featured", False),
        ("id > 1 LIMIT 5", False),
        ("live = 1 AND 'open", False),
        ("id = @last", False),
        ("", False),
    ],
)
def test_only_a_condition_on_columns_and_constants_is_fixed(condition: str | None, expected: bool) -> None:
    assert is_fixed(condition) is expected
