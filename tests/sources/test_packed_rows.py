"""PostgreSQL's rows packed by range are the rows of its cursor: over psycopg and ADBC, of every type and key."""

from __future__ import annotations

import logging
import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings

from airflow_sitemaps.shards.ranges import KeyRange, cut
from airflow_sitemaps.sources.dialects import postgresql_readers
from airflow_sitemaps.sources.session_factory import session_of
from airflow_sitemaps.sources.sql import SqlSource
from tests.sources.test_edges import DB_ROWS
from tests.support.source_sessions import KEYS, ROWS, create, live, postgresql_in, table_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WAYS = {"psycopg": ("psycopg", "auto"), "ADBC": ("psycopg2", "auto"), "cursor": ("psycopg", "cursor")}
"""Names of ways to read to SQLAlchemy's driver and ``reader``."""
PACKED = ("psycopg", "ADBC")
INDEXED = [name for name, key in KEYS.items() if key.indexed]
BY_INDEX = "SET enable_seqscan = off"
"""The plan of a small table reads all of it, which is no plan for packing."""
INDEXED_COLUMNS = (("id",), ("word",), ("word", "id"))
EVERYWHERE = KeyRange(None, None)


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "airflow_sitemaps.sources")
    return caplog


@contextmanager
def opened(way: str, database: str = "", **arguments: Any) -> Iterator[Any]:
    driver, reader = WAYS[way]
    if way == "ADBC":
        pytest.importorskip("adbc_driver_postgresql", reason="adbc-driver-postgresql is not installed")
    url = sa.make_url(live("postgresql").url)
    engine = sa.create_engine(url.set(drivername=f"postgresql+{driver}", database=database or url.database))
    arguments = {"key": "id", "loc": "slug", "session": [BY_INDEX], **arguments}
    try:
        with session_of(SqlSource("test", reader=reader, **arguments), "test", engine) as source:
            yield source
    finally:
        engine.dispose()


def table_from(source: Any, ranges: Sequence[KeyRange]) -> dict[str, list[Any]]:
    batches = list(source.read(ranges))
    assert all(batch.num_rows <= 65_536 for batch in batches)
    table = pa.Table.from_batches(batches)
    return {field.name: [field.type, *map(repr, table[field.name].to_pylist())] for field in table.schema}


def pieces(source: Any, every: int) -> list[KeyRange]:
    return cut(EVERYWHERE, source.boundaries(EVERYWHERE, every))


@pytest.mark.parametrize("key", INDEXED)
@pytest.mark.parametrize("way", PACKED)
def test_every_kind_of_key(way: str, key: str, told: pytest.LogCaptureFixture) -> None:
    live("postgresql")
    arguments = {"key": KEYS[key].names, "lastmod": "lm", "changefreq": "cf", "table": table_of("postgresql", key)}
    with opened("cursor", **arguments) as source:
        ranges = pieces(source, 20)
        some = ranges[1:3] + ranges[-2:-1]
        expected = [table_from(source, each) for each in (ranges, some, ranges[:1], ranges[-1:], [EVERYWHERE])]
        assert len(ranges) > 5
        assert len(expected[0]["loc"]) == ROWS + 1
    told.clear()
    with opened(way, **arguments) as source:
        assert [table_from(source, each) for each in (ranges, some, ranges[:1], ranges[-1:], [EVERYWHERE])] == expected
    assert told.text.count(f"reading packed rows by {way}") == 5


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=DB_ROWS)
def test_every_value(rows: list[dict[str, Any]]) -> None:
    base = live("postgresql")
    if not base.rows("SELECT 1 FROM pg_class WHERE relname = 'packed'"):
        kinds = {"id": "integer", "word": "text", "slug": "text", "lm": "timestamp", "at": "zoned", "weight": "decimal"}
        create(base, "packed", kinds | {"ratio": "float", "day": "date", "flag": "boolean", "mood": "text"})
        base.run(*(f"CREATE INDEX ON packed ({', '.join(columns)})" for columns in INDEXED_COLUMNS))
    base.run("TRUNCATE packed")
    base.insert(
        "packed", [{"id": n, **row} for n, row in enumerate(rows) if row["at"] is None or 1 < row["at"].year < 9999]
    )
    fields = (("at", "weight", "mood"), ("lm", "ratio", "flag"), ("day", "id", "slug"))
    for key, (lastmod, priority, freq) in zip(INDEXED_COLUMNS, fields, strict=True):
        found = []
        for way in WAYS:
            with opened(
                way, table="packed", key=key, loc="https://x.test/{slug}/{flag}", lastmod=lastmod, priority=priority,
                changefreq=freq, timezone="America/New_York",
            ) as source:  # fmt: skip
                found.append([table_from(source, each) for each in ([EVERYWHERE], pieces(source, 3))] if rows else [])
        assert found[0] == found[1] == found[2]


EDGES = (
    ("NULL", "NULL", "NULL", "NULL", "NULL"),
    ("''", "'infinity'", "'-infinity'", "'infinity'", "'NaN'"),
    (r"E'\x01\n\t\r'", "'-infinity'", "'infinity'", "'-infinity'", "'-0'"),
    ("'🦊 l''été ''\"\\'", "'4713-01-01 BC'", "'294276-12-31 23:59:59.999999'", "'5874897-12-31'", "'Infinity'"),
    ("'日本'", "'1969-12-31 23:59:59.999999'", "'2000-01-01'", "'2000-01-01'", "'5e-324'"),
    (
        "repeat('é', 3000)",
        "'1999-12-31 23:59:59.999999+05:30'",
        "'1999-12-31 23:59:59.999999'",
        "'1970-01-01'",
        "'-Infinity'",
    ),
)


@pytest.mark.parametrize("way", PACKED)
@pytest.mark.parametrize("lastmod", ["zoned", "plain", "day"])
def test_the_ends_of_types(way: str, lastmod: str) -> None:
    base = live("postgresql")
    rows = [f"({n * 10}, {', '.join(values)})" for n, values in enumerate(EDGES)]
    base.run(
        "DROP TABLE IF EXISTS ends",
        "CREATE TABLE ends (id bigint PRIMARY KEY, slug text, zoned timestamptz, plain timestamp, day date, weight double precision)",
        f"INSERT INTO ends VALUES {', '.join(rows)}",
    )
    found = []
    for each in (way, "cursor"):
        with opened(each, table="ends", lastmod=lastmod, priority="weight") as source:
            # Between the ranges are gaps, and some of the ranges are empty.
            ranges = [KeyRange((at,), (at + 5,)) for at in range(-10, 70, 5) if at % 20 != 5]
            found.append([table_from(source, given) for given in (ranges, [EVERYWHERE])])
    assert found[0] == found[1]
    assert len(found[0][1]["loc"]) == len(EDGES) + 1
    assert found[0][1]["priority"][3] == repr(-0.0)
    assert math.isnan(float(found[0][1]["priority"][2]))


@pytest.mark.parametrize("way", PACKED)
@pytest.mark.parametrize("trouble", ["too many rows", "a value of 1 GB"])
def test_ranges_that_outgrew_a_value_are_read_plainly(
    way: str, trouble: str, monkeypatch: pytest.MonkeyPatch, told: pytest.LogCaptureFixture
) -> None:
    live("postgresql")
    table = table_of("postgresql", "integer")
    with opened("cursor", table=table, lastmod="lm") as source:
        ranges = [
            KeyRange(None, (-470,)),
            KeyRange((-470,), (-440,)),
            KeyRange((-440,), (-200,)),
            KeyRange((-200,), None),
        ]
        expected = table_from(source, ranges)
    if trouble == "too many rows":
        monkeypatch.setattr(postgresql_readers, "BATCH_ROWS", 11)
    else:
        packs = postgresql_readers._packs

        def too_long(value: str, output: Any, context: Any) -> list[str]:
            """A text of 1 GB in the place of the texts of a range that has more than eleven rows."""
            texts, *lengths = packs(value, output, context)
            if output.name == "loc_0":
                long = "pg_catalog.convert_to(repeat('x', CASE WHEN count(*) > 11 THEN 1073741823 ELSE 0 END), 'UTF8')"
                texts = f"CASE WHEN count(*) > 11 THEN {long} ELSE {texts} END"
            return [texts, *lengths]

        monkeypatch.setattr(postgresql_readers, "_packs", too_long)
    with opened(way, table=table, lastmod="lm") as source:
        assert table_from(source, ranges) == expected
    assert told.text.count("reading the other ranges plainly") == 1


@pytest.mark.parametrize("way", PACKED)
def test_a_reader_that_stops_early_leaves_no_query(way: str) -> None:
    base = live("postgresql")
    with opened(way, table=table_of("postgresql", "integer")) as source:
        batches = source.read(pieces(source, 10))
        assert next(batches).num_rows
        batches.close()
        assert source.survey([EVERYWHERE]).digests[0].rows == ROWS
    busy = "SELECT count(*) FROM pg_stat_activity WHERE state <> 'idle' AND query LIKE '%string_agg%' AND pid <> pg_backend_pid()"
    assert base.rows(busy) == [(0,)]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"images": "cf"}, "the values of images may be long"),
        ({"query": "SELECT * FROM {table}"}, "no index leads with the key"),
        ({"key": "part"}, "no index leads with the key"),
        ({"session": []}, "the plan reads the whole table for each range"),
    ],
)
def test_what_is_not_packed_says_why(arguments: dict[str, Any], reason: str, told: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("adbc_driver_postgresql", reason="adbc-driver-postgresql is not installed")
    live("postgresql")
    table = table_of("postgresql", "integer")
    query = arguments.pop("query", None)
    given = {"query": query.format(table=table)} if query else {"table": table}
    with opened("psycopg", **given, **arguments) as source:
        assert sum(batch.num_rows for batch in source.read([EVERYWHERE])) == ROWS
    assert f"reading Arrow batches by ADBC, because {reason}" in told.text


def test_bytes_are_not_packed(told: pytest.LogCaptureFixture) -> None:
    base = live("postgresql")
    base.run(
        "DROP TABLE IF EXISTS of_bytes",
        "CREATE TABLE of_bytes (id integer PRIMARY KEY, slug bytea)",
        "INSERT INTO of_bytes VALUES (1, convert_to('é', 'UTF8'))",
    )
    with opened("psycopg", table="of_bytes") as source:
        assert table_from(source, [EVERYWHERE])["loc"][1:] == ["'é'"]
    assert "because a column holds bytes" in told.text


def test_an_index_that_does_not_order_the_key_is_not_used(told: pytest.LogCaptureFixture) -> None:
    base = live("postgresql")
    base.run(
        "DROP TABLE IF EXISTS hashed",
        "CREATE TABLE hashed (id integer, slug text)",
        "INSERT INTO hashed SELECT n, 'p' || n FROM generate_series(1, 100) n",
        "CREATE INDEX ON hashed USING hash (id)",
    )
    with opened("psycopg", table="hashed") as source:
        assert len(table_from(source, pieces(source, 10))["loc"]) == 101
    assert "because the plan reads the whole table for each range" in told.text


def test_another_encoding_is_not_packed(told: pytest.LogCaptureFixture) -> None:
    with postgresql_in("LATIN1") as url:
        engine = sa.create_engine(url)
        with engine.begin() as connection:
            connection.execute(sa.text("CREATE TABLE pages (id integer PRIMARY KEY, slug text)"))
            connection.execute(sa.text("INSERT INTO pages VALUES (1, 'caf\u00e9'), (2, 'b')"))
        engine.dispose()
        with opened("psycopg", url.database or "", table="pages") as source:
            assert table_from(source, [EVERYWHERE])["loc"][1:] == ["'café'", "'b'"]
    assert "because the server is PostgreSQL" in told.text
    assert "in LATIN1" in told.text


@pytest.mark.parametrize(
    ("version", "is_itself"),
    [
        ("PostgreSQL 13.0 on x86_64-pc-linux-musl, compiled by gcc (Alpine 9.3.0) 9.3.0, 64-bit", True),
        ("PostgreSQL 16.3 (Debian 16.3-1.pgdg120+1) on x86_64-pc-linux-gnu, compiled by gcc, 64-bit", True),
        ("PostgreSQL 17.2 (Ubuntu 17.2-1.pgdg24.04+1) on aarch64-unknown-linux-gnu, compiled by gcc", True),
        ("PostgreSQL 18beta1 on x86_64-pc-linux-gnu, compiled by gcc (GCC) 13.3.0, 64-bit", True),
        ("PostgreSQL 9.6.24 on x86_64-pc-linux-gnu, compiled by gcc", False),
        ("PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC gcc (GCC) 3.4.2 20041017, Redshift 1.0.78890", False),
        ("PostgreSQL 15.2-YB-2.25.1.0-b0 on x86_64-pc-linux-gnu, compiled by clang version 17.0.6", False),
        ("PostgreSQL 12.12 (Greenplum Database 7.1.0 build commit:e7c2) on x86_64-pc-linux-gnu", False),
        ("CockroachDB CCL v24.1.0 (x86_64-pc-linux-gnu, built 2024/05/15, go1.22.2)", False),
        ("PostgreSQL 9.5 on x86_64-unknown-linux-gnu (Materialize v0.26.0)", False),
    ],
)  # fmt: skip
def test_only_postgresql_itself_packs(version: str, is_itself: bool) -> None:
    assert bool(postgresql_readers.SERVER.match(version)) is is_itself
