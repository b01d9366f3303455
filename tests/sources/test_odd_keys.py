"""Keys of odd types: each orders its rows by one order, finds every row once, or is refused with the cast that helps."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps import Guards, MemoryStore, Section, ShardPolicy, Sitemap, SqlSource
from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.shards.ranges import KeyRange, cut
from airflow_sitemaps.testing import crawl
from tests.support.databases import NAMES
from tests.support.source_sessions import BACKENDS, connected, create, live, read, session

if TYPE_CHECKING:
    from tests.support.databases import Database

BASE = "https://www.example.com/"
ROWS = 60

KEYS = {
    ("mariadb", "BINARY(16)"): [f"UNHEX(MD5('{n}'))" for n in range(ROWS)],
    ("mariadb", "VARBINARY(20)"): [f"UNHEX(MD5('{n}'))" for n in range(ROWS)],
    ("mariadb", "BIT(10)"): [f"{n * 7}" for n in range(ROWS)],
    ("mariadb", "BIGINT UNSIGNED"): [f"{18446744073709551615 - n * 3}" for n in range(ROWS)],
    ("mariadb", "ENUM('z','m','a','k')"): [f"'{'zmak'[n % 4]}'" for n in range(ROWS)],
    ("mariadb", "TIME"): [f"'{'-' if n % 2 else ''}{n * 13}:10:{n % 60:02d}'" for n in range(ROWS)],
    ("mariadb", "FLOAT"): [f"{n}.1" for n in range(ROWS)],
    ("mariadb", "DOUBLE"): [f"{n * 1.1e-3!r}" for n in range(ROWS)] + ["1e300", "-1e300"],
    ("mariadb", "DECIMAL(40, 0)"): [f"{n}000000000000000000000000000000000000" for n in range(1, ROWS + 1)],
    ("mariadb", "DECIMAL(40, 38)"): [f"0.{n:038d}" for n in range(ROWS)],
    ("mariadb", "YEAR"): [f"{1950 + n}" for n in range(ROWS)],
    ("sqlite", "REAL"): [f"{1_700_000_000 + n / 1000!r}" for n in range(ROWS)] + ["9e999", "-9e999", "1e300", "0.1"],
    ("postgresql", "double precision"): [f"{1_700_000_000 + n / 1000!r}" for n in range(ROWS)]
    + ["'Infinity'", "1e-300"],
    ("postgresql", "numeric"): [f"{n}.5" for n in range(ROWS)] + ["1e400", "1e-400", "'NaN'"],
    ("postgresql", "bit(8)"): [f"B'{n:08b}'" for n in range(ROWS)],
    ("postgresql", "bit varying"): [f"B'{n:b}'" for n in range(ROWS)],
    ("postgresql", "interval"): [f"'{n} hours'" for n in range(ROWS)],
    ("postgresql", "inet"): [f"'10.0.{n}.1'" for n in range(ROWS)],
    ("postgresql", "time"): [f"'{n % 24}:{n:02d}'" for n in range(ROWS)],
    ("clickhouse", "Float64"): [f"{1_700_000_000 + n / 1000!r}" for n in range(ROWS)] + ["1e300", "1e-300"],
    ("clickhouse", "String"): [f"unhex('ff{n:02x}253431c3')" for n in range(ROWS)] + ["'100 %'", "'%41'", "'A'"],
    ("clickhouse", "DateTime('America/New_York')"): [f"{1_762_000_000 + n * 1_200}" for n in range(ROWS)],
    ("clickhouse", "Int128"): [f"{n}00000000000000000000" for n in range(1, ROWS + 1)],
    ("clickhouse", "UInt64"): [f"{18446744073709551615 - n}" for n in range(ROWS)],
    ("clickhouse", "IPv4"): [f"'10.0.{n}.1'" for n in range(ROWS)],
    ("clickhouse", "UUID"): [f"'{n:08d}-0000-4000-8000-00000000000{n % 10}'" for n in range(ROWS)],
    ("clickhouse", "Enum8('z' = 1, 'm' = 2, 'a' = 3, 'k' = 4)"): [f"'{'zmak'[n % 4]}'" for n in range(ROWS)],
    ("clickhouse", "LowCardinality(String)"): [f"'it''s {n}'" for n in range(ROWS)],
    ("duckdb", "DOUBLE"): [f"{1_700_000_000 + n / 1000!r}" for n in range(ROWS)] + ["'Infinity'", "1e-300"],
    ("duckdb", "HUGEINT"): [f"{n} * 100000000000000000000::HUGEINT" for n in range(ROWS)],
    ("duckdb", "UBIGINT"): [f"{18446744073709551615 - n}" for n in range(ROWS)],
    ("duckdb", "TIMESTAMP_NS"): [f"'2024-01-01 00:00:00.{n:09d}'" for n in range(ROWS)],
    ("duckdb", "ENUM('z','m','a','k')"): [f"'{'zmak'[n % 4]}'" for n in range(ROWS)],
    ("duckdb", "TIME"): [f"'{n % 24}:{n:02d}:00'" for n in range(ROWS)],
    ("trino", "DOUBLE"): [f"{1_700_000_000 + n / 1000!r}" for n in range(ROWS)] + ["1e300", "1e-300", "'NaN'"],
    ("trino", "REAL"): [f"{n}.1" for n in range(ROWS)],
    ("redshift", "DOUBLE"): [f"{1_700_000_000 + n / 1000!r}" for n in range(ROWS)] + ["1e300", "1e-300", "-1e300"],
    ("bigquery", "DOUBLE"): [f"{1_700_000_000 + n / 1000!r}" for n in range(ROWS)] + ["1e300", "1e-300", "'NaN'"],
    # As DuckDB writes them into the files that Spark reads.
    ("databricks", "DOUBLE"): [f"{1_700_000_000 + n / 1000!r}" for n in range(ROWS)] + ["1e300", "1e-300", "-1e300"],
    ("databricks", "FLOAT"): [f"{n}.1" for n in range(ROWS)],
    ("databricks", "DECIMAL(38, 0)"): [f"{n}00000000000000000000" for n in range(1, ROWS + 1)],
    ("databricks", "BLOB"): [f"unhex(md5('{n}'))" for n in range(ROWS)],
    ("databricks", "TIMESTAMPTZ"): [f"'2024-01-01 00:00:00.{n:06d}+00'" for n in range(ROWS)],
}
NO_INDEXES = ("clickhouse", "databricks", "trino", "bigquery", "redshift")
CASES = [
    (name, kind, indexed) for name, kind in KEYS for indexed in (False, True) if not indexed or name not in NO_INDEXES
]


def fill(base: Database, kind: str, values: list[str]) -> None:
    create(base, "odd_keys", {"k": f"={kind}", "slug": "text"})
    rows = ", ".join(f"({value}, 'p{n}')" for n, value in enumerate(values))
    base.run(f"INSERT INTO odd_keys VALUES {rows}")


@pytest.mark.parametrize(("name", "kind", "indexed"), CASES)
def test_every_row_is_found_once(name: str, kind: str, indexed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    base, values = live(name), KEYS[name, kind]
    fill(base, kind, values)
    if indexed:
        base.run("CREATE INDEX odd_keys_k ON odd_keys (k)")
    check(base, values, monkeypatch)


@pytest.mark.parametrize("column", ["utf8mb4", "latin1"])
def test_a_key_of_text_in_a_database_of_another_character_set(column: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server without configuration creates its databases in latin1 up to MariaDB 11.5."""
    base = live("mariadb")
    base.run("CREATE DATABASE IF NOT EXISTS western CHARACTER SET latin1")
    western = replace(base, url=base.url.replace("/test?", "/western?"))
    values = [f"'{letter}{n:02d}'" for n in range(20) for letter in ("éß€" if column == "latin1" else "日Ж😀")]
    fill(western, f"VARCHAR(40) CHARACTER SET {column}", values)
    check(western, values, monkeypatch)


def check(base: Database, values: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that boundaries, digests and builds over the table find each row once."""
    name = base.name
    for backend, (database, reader) in BACKENDS.items():
        if database != name:
            continue
        with session(base, table="odd_keys", key="k", loc="slug", reader=reader) as source:
            boundaries = source.boundaries(KeyRange(None, None), 20)
            assert len(boundaries) >= 2, backend
            assert all(low < high for low, high in pairwise(source.rank(boundaries)))
            ranges = cut(KeyRange(None, None), boundaries)
            digests = source.survey(ranges).digests
            counts, sums, order = read(source, ranges)
            assert sorted(loc for _place, _key, loc in order) == sorted(f"p{n}" for n in range(len(values)))
            assert [(counts[n], sums[n]) for n in range(len(ranges))] == [(d.rows, d.checksum) for d in digests]
            keys = [key for _place, key, _loc in order]
            ranks = source.rank(keys)
            assert ranks == sorted(ranks)
    extra = {"sqlalchemy_url": base.url}
    monkeypatch.setenv("AIRFLOW_CONN_ODD", json.dumps({"conn_type": "generic", "extra": extra}))
    config = MemoryStore(base_url=BASE)
    section = Section("pages", SqlSource("odd", table="odd_keys", key="k", loc=BASE + "{slug}"))
    sitemap = Sitemap(config, [section], shards=ShardPolicy(max_urls=20), guards=Guards(min_rows=10**6))
    assert build(sitemap).urls == len(values)
    assert build(sitemap).result == "unchanged"
    update = "ALTER TABLE odd_keys UPDATE slug" if name == "clickhouse" else "UPDATE odd_keys SET slug"
    wait = " SETTINGS mutations_sync = 1" if name == "clickhouse" else ""
    base.run(f"{update} = 'new' WHERE slug = 'p7'{wait}", "DELETE FROM odd_keys WHERE slug IN ('p1', 'p59')")
    build(sitemap)
    expected = {f"{BASE}p{n}" for n in range(len(values)) if n not in (1, 7, 59)} | {f"{BASE}new"}
    assert crawl(config.open()).locs() == expected


@pytest.mark.parametrize("kind", ["Nullable(Float64)", "Float32"])
def test_a_key_that_is_no_number_comes_last_in_clickhouse(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """ClickHouse sorts NaN after all numbers, but each comparison with it is false."""
    base = connected("clickhouse", "odd", monkeypatch)
    fill(base, kind, [f"{n}" for n in range(11)])
    sitemap = Sitemap(
        MemoryStore(base_url=BASE), [Section("pages", SqlSource("odd", table="odd_keys", key="k", loc=BASE + "{slug}"))],
        shards=ShardPolicy(max_urls=4), guards=Guards.disabled(),
    )  # fmt: skip
    assert build(sitemap).urls == 11
    base.run("INSERT INTO odd_keys VALUES (nan, 'p11'), (inf, 'p12'), (nan, 'p13')")
    assert build(sitemap).urls == 14
    assert crawl(sitemap.store.open()).locs() == {f"{BASE}p{n}" for n in range(14)}
    assert build(sitemap).result == "unchanged"


@pytest.mark.parametrize(
    ("declared", "keys", "types"),
    [("=", "1, '1', 2, 'x'", "integer, text"), ("=INTEGER", "'a0', 'b1'", "text")],
)
def test_a_key_of_numbers_and_texts_is_refused(declared: str, keys: str, types: str) -> None:
    base = live("sqlite")
    create(base, "mixed_keys", {"k": declared, "slug": "text"})
    values = ", ".join(f"({key}, 'a')" for key in keys.split(", "))
    base.run(f"INSERT INTO mixed_keys VALUES {values}")
    message = rf"'k' holds values of several types \({types}\), or of another than its declared"
    with (
        pytest.raises(SourceConfigurationError, match=message),
        session(base, table="mixed_keys", key="k", loc="slug"),
    ):
        pass


def test_a_key_of_bytes_in_sqlite_is_refused_with_the_query_to_write() -> None:
    base = live("sqlite")
    create(base, "bytes_keys", {"k": "=BLOB", "slug": "text"})
    values = ", ".join(f"(x'{n:02x}ff00', 'p{n}')" for n in range(60))
    base.run(f"INSERT INTO bytes_keys VALUES {values}")
    with (
        pytest.raises(SourceConfigurationError, match=r"'k' holds bytes, .*: write hex\(k\) AS k in a query"),
        session(base, table="bytes_keys", key="k", loc="slug"),
    ):
        pass
    query = "SELECT hex(k) AS k, slug FROM bytes_keys"
    with session(base, query=query, key="k", loc="slug") as source:
        ranges = cut(KeyRange(None, None), source.boundaries(KeyRange(None, None), 20))
        assert [digest.rows for digest in source.survey(ranges).digests] == [20, 20, 20]


@pytest.mark.parametrize("name", NAMES)
def test_the_null_column_of_a_composite_key_is_named(name: str) -> None:
    base = live(name)
    create(base, "nullable", {"a": "integer", "b": "text", "slug": "text"})
    rows: list[dict[str, Any]] = [{"a": 1, "b": None, "slug": "x"}, {"a": 2, "b": "y", "slug": "z"}]
    base.insert("nullable", rows)
    with session(base, table="nullable", key=("a", "b"), loc="slug") as source:
        survey = source.survey([KeyRange(None, None)])
    assert survey.null_keys == 1
    assert survey.null_key_samples[0].startswith("x (b is NULL; give a value by COALESCE")


def test_a_null_field_in_a_composite_value_is_a_null_key() -> None:
    """Such a value is neither NULL nor NOT NULL: its row was in no range, and counted nowhere."""
    base = live("postgresql")
    base.run(
        "DROP TABLE IF EXISTS pairs",
        "DROP TYPE IF EXISTS pair",
        "CREATE TYPE pair AS (a integer, b text)",
        "CREATE TABLE pairs (k pair PRIMARY KEY, slug text)",
        "INSERT INTO pairs VALUES (ROW(1, 'a'), 'whole'), (ROW(2, NULL), 'half')",
    )
    with session(base, table="pairs", key="k", loc="slug") as source:
        survey = source.survey([KeyRange(None, None)])
    base.run("DROP TABLE pairs", "DROP TYPE pair")
    assert (survey.digests[0].rows, survey.null_keys, survey.null_key_samples) == (1, 1, ("half",))


@pytest.mark.parametrize("kind", ["DATE", "DATETIME"])
def test_a_zero_date_is_no_null(kind: str) -> None:
    """MariaDB finds a zero date in a NOT NULL column by IS NULL too, and the row was listed and counted as dropped."""
    base = live("mariadb")
    create(base, "zero_dates", {"k": f"={kind} NOT NULL", "slug": "text"})
    base.run("INSERT INTO zero_dates VALUES ('0000-00-00', 'zero'), ('2024-01-01', 'one')")
    with session(base, table="zero_dates", key="k", loc="slug") as source:
        survey = source.survey([KeyRange(None, None)])
    assert (survey.digests[0].rows, survey.null_keys) == (2, 0)
