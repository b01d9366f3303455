"""Keys of SQL Server whose collation orders them differently from boundaries: the statement that finds them, and the refusal."""

from __future__ import annotations

from typing import Any

import pytest
import sqlglot

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.driver import Binds
from tests.extension.attic.attic.sql_server import DESCRIBED
from tests.sources.test_compiled import context_of

SLUG = Column(name="slug", kind=Kind.TEXT)


class Server:
    """A connection that answers with the description of columns, as Microsoft documents it."""

    def __init__(self, *rows: tuple[str, str, str]) -> None:
        self.rows = rows
        self.received: list[tuple[str, dict[str, Any]]] = []

    def execute(self, clause: Any, values: dict[str, Any]) -> Server:
        self.received.append((clause.text, values))
        return self

    def all(self) -> list[tuple[str, str, str]]:
        return list(self.rows)


def check(
    server: Server, column: Column = SLUG, from_item: str = "[dbo].[products] src", binds: Binds | None = None
) -> None:
    dialect = context_of("mssql", (column,)).dialect
    dialect.check_key(server, from_item, binds or Binds(), (column,))  # type: ignore[arg-type]


def test_a_varchar_under_a_collation_of_sql_server_is_refused_with_the_cast() -> None:
    server = Server(("id", "int", ""), ("slug", "varchar(200)", "SQL_Latin1_General_CP1_CI_AS"))
    with pytest.raises(
        SourceConfigurationError, match=r"'slug' .*SQL_Latin1_General_CP1_CI_AS.*CONVERT\(NVARCHAR\(400\), slug\)"
    ):
        check(server)
    ((sql, values),) = server.received
    assert values == {"statement": "SELECT src.* FROM [dbo].[products] src"}
    assert sqlglot.parse_one(sql, read="tsql").find(sqlglot.exp.Anonymous) is not None


@pytest.mark.parametrize(
    "described",
    [
        ("slug", "nvarchar(200)", "SQL_Latin1_General_CP1_CI_AS"),
        ("slug", "varchar(200)", "Latin1_General_100_CI_AS_SC_UTF8"),
        ("other", "varchar(200)", "SQL_Latin1_General_CP1_CI_AS"),
    ],
)
def test_other_types_columns_and_collations_are_taken(described: tuple[str, str, str]) -> None:
    check(Server(described))


def test_keys_that_are_no_texts_ask_nothing() -> None:
    server = Server()
    check(server, Column(name="id", kind=Kind.INTEGER))
    assert server.received == []


def test_a_query_is_described_as_it_is_and_one_with_parameters_not_at_all() -> None:
    server, binds = Server(), Binds()
    check(server, from_item="(SELECT slug FROM t WHERE day > '10\\:30') src")
    assert server.received[0][1] == {"statement": "SELECT src.* FROM (SELECT slug FROM t WHERE day > '10:30') src"}
    placeholder = binds.add(5)
    check(server, from_item=f"(SELECT slug FROM t WHERE shop = {placeholder}) src", binds=binds)
    assert len(server.received) == 1


def test_the_description_names_documented_columns() -> None:
    assert all(name in DESCRIBED.text for name in ("name", "system_type_name", "collation_name"))
