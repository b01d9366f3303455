"""Values written into SQL: what stands between the quotes is what the server reads, in each SQLAlchemy."""

from __future__ import annotations

from datetime import datetime

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.engine.default import DefaultDialect

from airflow_sitemaps.sources.dialects import dialect_of
from airflow_sitemaps.sources.driver import literal

plain_text = dialect_of(postgresql.dialect()).text_literal
escaped_text = dialect_of(mysql.dialect()).text_literal


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("a\\:b", "'a\\:b'"),
        ("\\", "'\\'"),
        ("it's :x \\:y", "'it''s :x \\:y'"),
        (7, "7"),
        (datetime(2026, 1, 2, 3), "'2026-01-02 03:00:00'"),
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
