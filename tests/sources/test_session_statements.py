"""Statements of the user's that open each connection: time-outs, warehouses, roles."""

from __future__ import annotations

import re
import time

import pytest

from airflow_sitemaps.errors import SourceConfigurationError, SourceError
from airflow_sitemaps.shards.ranges import KeyRange, cut
from airflow_sitemaps.sources.sql import SqlSource
from tests.sources.test_compiled import dialect_of, stub
from tests.support.source_sessions import live, read, session

SHOWN = {
    "postgresql": ("SET statement_timeout = '10min'", "current_setting('statement_timeout')", "10min"),
    "duckdb": ("SET max_expression_depth = 777", "CAST(current_setting('max_expression_depth') AS VARCHAR)", "777"),
    "mariadb": ("SET SESSION max_statement_time = 600", "CAST(@@max_statement_time AS CHAR)", "600.000000"),
}
"""By database a setting, SQL for its value, and that value."""


@pytest.mark.parametrize("reader", ["auto", "cursor"])
@pytest.mark.parametrize("name", SHOWN)
def test_a_setting_holds_for_every_statement_of_every_reader(name: str, reader: str) -> None:
    setting, shown, value = SHOWN[name]
    with session(
        live(name), query=f"SELECT 1 AS id, {shown} AS slug", key="id", loc="slug", session=[setting], reader=reader
    ) as source:
        before = source.survey([KeyRange(None, None)]).digests
        _counts, _sums, order = read(source, [KeyRange(None, None)])
        assert [loc for _place, _key, loc in order] == [value]
        assert source.survey([KeyRange(None, None)]).digests == before


@pytest.mark.parametrize("reader", ["auto", "cursor"])
@pytest.mark.parametrize("name", ["postgresql", "mariadb"])
def test_a_percent_sign_in_a_setting_is_one(name: str, reader: str) -> None:
    setting, shown = {
        "postgresql": ("SET application_name = 'maps 100%'", "current_setting('application_name')"),
        "mariadb": ("SET @maps = 'maps 100%'", "@maps"),
    }[name]
    query = f"SELECT 1 AS id, CAST({shown} AS CHAR(20)) AS slug"
    with session(live(name), query=query, key="id", loc="slug", session=[setting], reader=reader) as source:
        _counts, _sums, order = read(source, [KeyRange(None, None)])
    assert [loc.strip() for _place, _key, loc in order] == ["maps 100%"]


@pytest.mark.parametrize("reader", ["auto", "cursor"])
def test_a_query_may_set_what_policies_of_rows_read(reader: str) -> None:
    setting = "SELECT set_config('shop.tenant', '42', false)"
    query = "SELECT 1 AS id, current_setting('shop.tenant') AS slug"
    with session(live("postgresql"), query=query, key="id", loc="slug", session=[setting], reader=reader) as source:
        assert source.survey([KeyRange(None, None)]).digests[0].rows == 1
        assert [loc for _place, _key, loc in read(source, [KeyRange(None, None)])[2]] == ["42"]


@pytest.mark.parametrize("reader", ["auto", "cursor"])
@pytest.mark.parametrize("setting", ["SET TRANSACTION READ WRITE", "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"])
def test_a_transaction_is_one_snapshot_that_only_reads_whatever_users_set(setting: str, reader: str) -> None:
    shown = "current_setting('transaction_read_only') || ' ' || current_setting('transaction_isolation')"
    query = f"SELECT 1 AS id, {shown} AS slug"
    with session(live("postgresql"), query=query, key="id", loc="slug", session=[setting], reader=reader) as source:
        assert [loc for _place, _key, loc in read(source, [KeyRange(None, None)])[2]] == ["on repeatable read"]


def test_the_reason_of_a_lost_connection_is_said() -> None:
    base = live("postgresql")
    base.run(
        "DROP TABLE IF EXISTS idle",
        "CREATE TABLE idle AS SELECT n AS id, 'p' || n AS slug FROM generate_series(1, 100000) n",
    )
    others = "FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'"
    with session(base, table="idle", key="id", loc="slug", reader="cursor") as source:
        rows = source.read([KeyRange(None, None)])
        next(iter(rows))
        while base.rows(f"SELECT pg_terminate_backend(pid) {others}"):
            time.sleep(0.02)
        with pytest.raises(SourceError, match="terminating connection due to administrator command"):
            list(rows)
    base.run("DROP TABLE idle")


@pytest.mark.parametrize("name", ["postgresql", "mariadb"])
def test_a_statement_that_takes_too_long_ends_with_the_reason(name: str) -> None:
    limit, sleep, reason = {
        "postgresql": ("SET statement_timeout = 50", "pg_sleep(30)", "statement timeout"),
        "mariadb": ("SET SESSION max_statement_time = 0.05", "SLEEP(30)", "max_statement_time"),
    }[name]
    base = live(name)
    base.run(
        "DROP TABLE IF EXISTS slow",
        "CREATE TABLE slow (id INTEGER, slug VARCHAR(20))",
        "INSERT INTO slow VALUES (1, 'a')",
    )
    query = f"SELECT id, slug, CAST({sleep} AS CHAR(9)) AS waited FROM slow"
    with (
        session(base, query=query, key="id", loc="slug", changefreq="waited", session=[limit]) as source,
        pytest.raises(SourceError, match=reason),
    ):
        source.survey([KeyRange(None, None)])


def test_a_setting_holds_while_a_query_is_stored() -> None:
    base = live("postgresql")
    base.run("CREATE SCHEMA IF NOT EXISTS scratch_of_session")
    query = "SELECT 1 AS id, current_setting('statement_timeout') AS slug"
    setting = "SET statement_timeout = '11min'"
    with session(
        base, query=query, key="id", loc="slug", session=[setting], materialize="scratch_of_session"
    ) as source:
        _counts, _sums, order = read(source, [KeyRange(None, None)])
    assert [loc for _place, _key, loc in order] == ["11min"]


def test_a_zone_of_the_users_does_not_change_what_is_read() -> None:
    base = live("postgresql")
    query = "SELECT 1 AS id, 'a' AS slug, timestamptz '2026-01-01 00:00+00' AS lm"
    seen = []
    for settings in ((), ("SET TimeZone = 'Asia/Kolkata'", "SET DateStyle = 'German'")):
        with session(base, query=query, key="id", loc="slug", lastmod="lm", session=settings) as source:
            rows = [row for batch in source.read([KeyRange(None, None)]) for row in batch.to_pylist()]
            seen.append((source.survey([KeyRange(None, None)]).digests, rows))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("key", ["id", "part"])
def test_a_descending_order_of_the_users_does_not_change_what_is_read(key: str) -> None:
    base = live("duckdb")
    query = "SELECT i AS id, i // 7 AS part, 'p' || i AS slug FROM range(40) numbers(i)"
    seen = []
    for settings in ((), ("SET default_order = 'DESC'",)):
        with session(base, query=query, key=key, loc="slug", session=settings) as source:
            boundaries = source.boundaries(KeyRange(None, None), 10)
            ranges = cut(KeyRange(None, None), boundaries)
            seen.append((boundaries, source.rank(boundaries), source.survey(ranges).digests, read(source, ranges)))
    assert seen[0] == seen[1]
    assert len(seen[0][0]) > 2


@pytest.mark.parametrize("name", ["snowflake", "oracle", "postgresql"])
def test_the_formats_of_the_package_come_after_the_users_settings(name: str) -> None:
    dialect = dialect_of(stub(name))
    plain = dialect.opening_sql()
    dialect.users_sql = ("USE WAREHOUSE small",)
    opening = dialect.opening_sql()
    assert [*dict.fromkeys(sql for sql in opening if sql != "USE WAREHOUSE small")] == [*plain]
    assert opening.index("USE WAREHOUSE small") < opening.index(dialect.session_sql[0])
    assert dialect_of(stub(name)).opening_sql() == plain


def test_mysql_refuses_values_of_an_unknown_row_of_a_group_and_mariadb_reads_its_views() -> None:
    """MySQL refuses them by default, and knows the columns that depend on a primary key. It reads ``/*M! */`` as a comment."""
    (mode,) = (sql for sql in dialect_of(stub("mysql")).session_sql if "sql_mode" in sql)
    assert re.sub(r"/\*M!.*?\*/", "", mode).split() == ["SET", "SESSION", "sql_mode", "=", "'ONLY_FULL_GROUP_BY'"]
    base = live("mariadb")
    with base.engine().connect() as connection:
        connection.exec_driver_sql(mode)
        assert connection.exec_driver_sql("SELECT @@SESSION.sql_mode").scalar_one() == ""


def test_the_files_do_not_depend_on_settings() -> None:
    arguments = {"table": "pages", "key": "id", "loc": "slug"}
    plain, limited = (SqlSource("mart", session=each, **arguments) for each in ((), ("SET statement_timeout = 1",)))
    assert plain.identity() == limited.identity()


@pytest.mark.parametrize("wrong", ["SET a = 1", [""], [1]])
def test_only_a_list_of_statements_is_taken(wrong: object) -> None:
    with pytest.raises(SourceConfigurationError, match="session="):
        SqlSource("mart", table="pages", key="id", loc="slug", session=wrong)


@pytest.mark.parametrize("name", ["sqlite", "postgresql", "duckdb", "mariadb"])
def test_a_wrong_statement_is_named_by_its_argument(name: str) -> None:
    base = live(name)
    with pytest.raises(SourceError, match="a statement of session= failed"):
        session(base, query="SELECT 1 AS id, 'a' AS slug", key="id", loc="slug", session=["SELEC 1"]).__enter__()
