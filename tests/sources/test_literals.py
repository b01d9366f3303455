"""Values written into SQL: what stands between the quotes is what the server reads, in each SQLAlchemy."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.engine.default import DefaultDialect

from airflow_sitemaps.shards.ranges import KeyRange
from airflow_sitemaps.sources.dialects import dialect_of
from airflow_sitemaps.sources.driver import literal
from tests.support.source_sessions import create, live, read, session

plain_text = dialect_of(postgresql.dialect()).text_literal
escaped_text = dialect_of(mysql.dialect()).text_literal


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("a\\:b", "'a\\:b'"),
        ("\\", "'\\'"),
        ("it's :x \\:y", "'it''s :x \\:y'"),
        (7, "7"),
        (-7, "(-7)"),
        (float("-inf"), "CAST('-inf' AS DOUBLE PRECISION)"),
        (Decimal("NaN"), "CAST('NaN' AS DOUBLE PRECISION)"),
        (date(2026, 1, 2), "CAST('2026-01-02' AS DATE)"),
        (datetime(2026, 1, 2, 3), "CAST('2026-01-02 03:00:00' AS TIMESTAMP WITHOUT TIME ZONE)"),
        (
            datetime(2026, 1, 2, 3, tzinfo=timezone.utc),
            "CAST('2026-01-02 03:00:00+00:00' AS TIMESTAMP WITH TIME ZONE)",
        ),
    ],
)
def test_postgresql_reads_backslashes_as_they_are(value: object, written: str) -> None:
    statement = sa.text("SELECT \\:\\:x, :value"), {"value": value}
    assert literal(statement, postgresql.dialect(paramstyle="named"), plain_text) == f"SELECT ::x, {written}"


def test_mysql_has_them_doubled() -> None:
    assert literal((sa.text(":value"), {"value": "\\"}), mysql.dialect(paramstyle="named"), escaped_text) == "'\\\\'"


@pytest.mark.parametrize("name", ["clickhouse", "bigquery", "databricks", "snowflake", "mysql", "redshift"])
def test_no_value_ends_its_literal_where_a_backslash_escapes(name: str) -> None:
    """Percent signs stay single, too: BigQuery's dialect of SQLAlchemy doubles them."""
    dialect = DefaultDialect(paramstyle="named")
    dialect.name = name
    text_literal = dialect_of(dialect).text_literal
    statement = sa.text("SELECT :value"), {"value": "100% \\' OR 1=1 -- "}
    assert literal(statement, dialect, text_literal) == "SELECT '100% \\\\\\' OR 1=1 -- '"


@pytest.mark.parametrize("reader", ["auto", "cursor", "materialize"])
@pytest.mark.parametrize("name", ["sqlite", "postgresql", "duckdb", "mariadb"])
def test_a_parameter_has_the_value_and_the_type_of_a_bind(name: str, reader: str) -> None:
    """Two minus signs begin a comment, and a text minus an interval is no date."""
    base = live(name)
    create(base, "literals", {"id": "integer", "day": "date"})
    base.insert("literals", [{"id": n, "day": date(2026, 1, 1) + timedelta(days=n)} for n in range(20)])
    schema = {"postgresql": "public", "mariadb": "test"}.get(name, "main")
    options = {"materialize": schema} if reader == "materialize" else {"reader": reader}
    interval = " - INTERVAL '3 days'"
    units = {"mariadb": " - INTERVAL 3 DAY", "sqlite": ""}
    where = f"id < 12 -:n\nAND day > :day{units.get(name, interval)}"
    parameters = {"n": -3, "day": date(2026, 1, 10)}
    query = f"SELECT * FROM literals WHERE {where}"
    with session(base, query=query, parameters=parameters, key="id", loc="id", **options) as source:
        _counts, _sums, order = read(source, [KeyRange(None, None)])
    assert [key for _place, key, _loc in order] == [(n,) for n in range(10 if name == "sqlite" else 7, 15)]
