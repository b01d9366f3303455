"""Versions of tables on engines that cannot run here: their statements, over answers as the engines' documentation gives."""

from __future__ import annotations

from typing import Any

import pytest
import sqlglot

from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.user_texts import name_parts
from tests.sources.test_compiled import context_of

SNOWFLAKE = {
    "INFORMATION_SCHEMA.TABLES": [("2026-01-01", "2026-01-02")],
    "POLICY_REFERENCES": [(0,)],
    "LAST_CHANGE_COMMIT_TIME": [(1661920053987000000,)],
}
DATABRICKS = {
    "DESCRIBE DETAIL": [{"format": "delta", "id": "b4bd0a9c"}],
    "DESCRIBE TABLE EXTENDED": [("id", "bigint", None), ("# Detailed Table Information", "", "")],
    "DESCRIBE HISTORY": [{"version": 7}],
}
MSSQL = {"change_tracking_tables": [("5", "2026-01-01T00:00:00", "2026-01-02T00:00:00", 40, 3, 900)]}
CLICKHOUSE = {
    "system.tables": [("MergeTree", "6f1e F0")],
    "system.parts": [(2, 40, "AB")],
    "pages": [(40,)],
    "system.mutations": [(0,)],
}
ANSWERS = {"snowflake": SNOWFLAKE, "databricks": DATABRICKS, "mssql": MSSQL, "clickhouse": CLICKHOUSE}


class Result:
    """The rows of one statement."""

    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def mappings(self) -> Result:
        return self

    def all(self) -> list[Any]:
        return self.rows

    def one(self) -> Any:
        (row,) = self.rows
        return row

    def first(self) -> Any:
        return self.rows[0] if self.rows else None

    def scalar_one(self) -> Any:
        return self.one()[0]


class Engine:
    """A connection that answers each statement by the words in it."""

    def __init__(self, answers: dict[str, list[Any]]) -> None:
        self.answers = answers
        self.received: list[tuple[str, dict[str, Any]]] = []

    def execute(self, clause: Any, values: dict[str, Any] | None = None) -> Result:
        self.received.append((clause.text, values or {}))
        (rows,) = [rows for words, rows in self.answers.items() if words in clause.text]
        return Result(rows)


def version(name: str, engine: Engine, table: str = "mart.pages") -> str | None:
    dialect = context_of(name, (Column(name="id", kind=Kind.INTEGER),)).dialect
    found: str | None = dialect.table_version(engine, name_parts(table))
    return found


@pytest.mark.parametrize("name", ANSWERS)
def test_an_unchanged_table_has_an_equal_version(name: str) -> None:
    first = version(name, Engine(ANSWERS[name]))
    assert first is not None
    assert version(name, Engine(ANSWERS[name])) == first


@pytest.mark.parametrize(
    ("name", "words", "rows"),
    [
        ("snowflake", "LAST_CHANGE_COMMIT_TIME", [(1661920118648000000,)]),
        ("snowflake", "INFORMATION_SCHEMA.TABLES", [("2026-01-01", "2026-03-01")]),  # ALTER TABLE
        ("snowflake", "INFORMATION_SCHEMA.TABLES", [("2026-03-01", "2026-01-02")]),  # another table of the name
        ("databricks", "DESCRIBE HISTORY", [{"version": 8}]),
        ("databricks", "DESCRIBE HISTORY", [{"version": 6}]),  # restored from a copy
        ("databricks", "DESCRIBE DETAIL", [{"format": "delta", "id": "another"}]),
        ("clickhouse", "system.tables", [("MergeTree", "6f1e F1")]),
        ("clickhouse", "system.parts", [(2, 40, "AC")]),
        ("mssql", "change_tracking_tables", [("5", "2026-01-01T00:00:00", "2026-01-02T00:00:00", 41, 3, 900)]),
        (
            "mssql",
            "change_tracking_tables",
            [("5", "2026-01-01T00:00:00", "2026-01-02T00:00:00", 40, 40, 0)],
        ),  # TRUNCATE
        ("mssql", "change_tracking_tables", [("5", "2026-01-01T00:00:00", "2026-03-02T00:00:00", 40, 3, 900)]),
        (
            "mssql",
            "change_tracking_tables",
            [("5", "2026-01-01T00:00:00", "2026-01-02T00:00:00", 40, 3, 0)],
        ),  # TRUNCATE
        ("mssql", "change_tracking_tables", [("6", "2026-01-01T00:00:00", "2026-01-02T00:00:00", 40, 3, 900)]),
    ],
)
def test_each_change_is_another_version(name: str, words: str, rows: list[Any]) -> None:
    after = version(name, Engine({**ANSWERS[name], words: rows}))
    assert after is not None
    assert after != version(name, Engine(ANSWERS[name]))


@pytest.mark.parametrize(
    ("name", "words", "rows"),
    [
        ("snowflake", "INFORMATION_SCHEMA.TABLES", []),  # a view, or a table that others may write
        ("snowflake", "POLICY_REFERENCES", [(1,)]),
        ("snowflake", "LAST_CHANGE_COMMIT_TIME", [(None,)]),
        ("databricks", "DESCRIBE DETAIL", [{"format": "parquet", "id": None}]),
        ("databricks", "DESCRIBE TABLE EXTENDED", [("id", "bigint", None), ("# Row Filter", "", "")]),
        ("databricks", "DESCRIBE TABLE EXTENDED", [("# Column Masks", "", "")]),
        ("clickhouse", "system.tables", [("ReplicatedMergeTree", "6f1e F0")]),  # the survey may reach another replica
        ("clickhouse", "system.tables", [("SharedReplacingMergeTree", "6f1e F0")]),
        ("clickhouse", "system.tables", [("Memory", "6f1e F0")]),
        ("clickhouse", "system.parts", [(2, 39, "AB")]),
        ("clickhouse", "system.mutations", [(1,)]),
        ("mssql", "change_tracking_tables", []),  # not tracked, computed columns, or a security policy
        ("mssql", "change_tracking_tables", [("5", "2026", "2026", None, None, 0)]),  # no permission
    ],
)
def test_a_table_whose_version_would_not_be_exact_has_none(name: str, words: str, rows: list[Any]) -> None:
    assert version(name, Engine({**ANSWERS[name], words: rows})) is None


def test_a_table_of_another_database_has_no_version_on_sql_server() -> None:
    engine = Engine(MSSQL)
    assert version("mssql", engine, "other.dbo.pages") is None
    assert not engine.received


@pytest.mark.parametrize("name", ["snowflake", "mssql"])
def test_every_statement_is_of_its_dialect(name: str) -> None:
    engine = Engine(ANSWERS[name])
    version(name, engine)
    for sql, _values in engine.received:
        assert sqlglot.parse_one(sql, read={"mssql": "tsql"}.get(name, name))


def test_names_are_looked_up_as_snowflake_stores_them() -> None:
    engine = Engine(SNOWFLAKE)
    version("snowflake", engine, 'shop.mart."pages:2026"')
    (tables, names), (policies, whole), (_token, same) = engine.received
    assert "FROM shop.INFORMATION_SCHEMA.TABLES" in tables
    assert names == {"name": "pages:2026", "space": "MART"}
    assert "TABLE(shop.INFORMATION_SCHEMA.POLICY_REFERENCES(" in policies
    assert whole == same == {"whole": 'shop.mart."pages:2026"'}
    alone = Engine(SNOWFLAKE)
    version("snowflake", alone, "pages")
    assert alone.received[0][1] == {"name": "PAGES", "space": None}
