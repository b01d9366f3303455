"""SQL Server: HASHBYTES. The tests only compile its statements.

https://learn.microsoft.com/en-us/sql/relational-databases/system-functions/change-tracking-current-version-transact-sql
https://learn.microsoft.com/en-us/sql/relational-databases/system-functions/change-tracking-min-valid-version-transact-sql
https://learn.microsoft.com/en-us/sql/relational-databases/collations/collation-and-unicode-support
https://learn.microsoft.com/en-us/sql/relational-databases/system-stored-procedures/sp-describe-first-result-set-transact-sql
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import sqlalchemy as sa

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.dialects.base import Dialect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_sitemaps.sources.driver import Binds
    from airflow_sitemaps.sources.user_texts import NamePart

PYTHON_TYPES = {
    "str": Kind.TEXT,
    "int": Kind.INTEGER,
    "float": Kind.NUMBER,
    "Decimal": Kind.NUMBER,
    "date": Kind.DATE,
    "datetime": Kind.TIMESTAMP,
    "bool": Kind.BOOLEAN,
    "UUID": Kind.UUID,
    "bytearray": Kind.BINARY,
    "bytes": Kind.BINARY,
}
"""The kind of each Python type by which pyodbc describes a column. A datetimeoffset has no entry and is read as text."""


TRACKED: Final = sa.text(
    """
SELECT CONVERT(VARCHAR(30), t.object_id), CONVERT(VARCHAR(30), t.create_date, 126),
  CONVERT(VARCHAR(30), t.modify_date, 126), CHANGE_TRACKING_CURRENT_VERSION(),
  CHANGE_TRACKING_MIN_VALID_VERSION(t.object_id),
  (SELECT SUM(p.rows) FROM sys.partitions p WHERE p.object_id = t.object_id AND p.index_id IN (0, 1))
FROM sys.tables t JOIN sys.change_tracking_tables c ON c.object_id = t.object_id
WHERE t.object_id = OBJECT_ID(:name)
  AND NOT EXISTS (SELECT 1 FROM sys.computed_columns k WHERE k.object_id = t.object_id)
  AND NOT EXISTS (SELECT 1 FROM sys.security_predicates p WHERE p.target_object_id = t.object_id)
"""
)
"""A table without computed columns, and without a security policy, by which rows change while the table does not."""


def version_of(connection: sa.Connection, parts: Sequence[str]) -> str | None:
    """Return the version of a table, or None if its changes are not tracked.

    The version is that of the database, so a change of another tracked table changes it too. ``TRUNCATE`` is not
    tracked as a change of rows: it sets their number to 0, which is part of the version with the least valid version.

    Args:
        parts: The parts of the table's name, quoted. One of another database has no version.
    """
    if len(parts) > 2:
        return None
    row = connection.execute(TRACKED, {"name": ".".join(parts)}).first()
    return None if row is None or None in tuple(row) else " ".join(map(str, row))


DESCRIBED: Final = sa.text(
    "SELECT name, system_type_name, collation_name FROM sys.dm_exec_describe_first_result_set(:statement, NULL, 0)"
    " WHERE collation_name IS NOT NULL"
)
"""The collations of a query's columns (SQL Server 2012 and later)."""

CODEPAGE_TYPES: Final = ("varchar", "char", "text")
"""The types whose texts are in the collation's code page. Those of nvarchar follow one rule under every collation."""


def codepage_collations(connection: sa.Connection, from_item: str, binds: Binds) -> dict[str, str]:
    """Return the ``SQL_…`` collation of each column that has one and a type of ``CODEPAGE_TYPES``.

    A query with parameters has no description without the types of these, so its columns are not known.
    """
    text, values = binds.statement(f"SELECT src.* FROM {from_item}")
    if values:
        return {}
    rows = connection.execute(DESCRIBED, {"statement": text.text.replace("\\:", ":")}).all()
    return {
        str(name): str(collation)
        for name, type_name, collation in rows
        if str(type_name).partition("(")[0] in CODEPAGE_TYPES and str(collation).startswith("SQL_")
    }


class SQLServer(Dialect):
    """SQL Server 2016 and later and Azure SQL, with pyodbc."""

    name: ClassVar[str] = "mssql"
    drivers: ClassVar[tuple[tuple[str, str], ...]] = (("mssql+pyodbc", "pyodbc"), ("mssql+pymssql", "pymssql"))

    # The limits are 2,100 parameters and 10 levels of nested CASE. A binary search of 300 boundaries needs 9 levels.
    max_binds: ClassVar[int] = 2_000
    max_statement_bytes: ClassVar[int] = 500_000
    max_case: ClassVar[int] = 300

    hash_version: ClassVar[str] = "sha2-64/1"
    # The first 64 bits of the bytes' SHA-256, as a signed integer
    hash_sql: ClassVar[str] = "CONVERT(BIGINT, SUBSTRING(HASHBYTES('SHA2_256', CONVERT(VARBINARY(MAX), {})), 1, 8))"
    checksum_sql: ClassVar[str] = "CONVERT(VARCHAR(60), SUM(CONVERT(DECIMAL(38, 0), {})))"
    # In UTF-16
    byte_length_sql: ClassVar[str] = "CONVERT(NVARCHAR(20), DATALENGTH({}))"
    # Without spaces at the end
    character_length_sql: ClassVar[str] = "LEN({})"
    modulo_sql: ClassVar[str] = "({}) % {}"
    now_sql: ClassVar[str] = "SELECT SYSUTCDATETIME()"
    # SQL Server 2017 and later
    members_sql: ClassVar[str] = (
        "'[' + STRING_AGG(CONVERT(NVARCHAR(MAX), '[\"' + {texts} + '\"]'), ',') WITHIN GROUP (ORDER BY {orders}) + ']'"
    )

    cast_types: ClassVar[Mapping[Kind, str]] = {
        Kind.INTEGER: "BIGINT",
        Kind.NUMBER: "DECIMAL(38, 10)",
        Kind.DATE: "DATE",
        Kind.TIMESTAMP: "DATETIME2(7)",
        Kind.BOOLEAN: "BIT",
        Kind.UUID: "UNIQUEIDENTIFIER",
    }
    text_type: ClassVar[str] = "NVARCHAR(MAX)"
    number_sql: ClassVar[str] = "CAST({} AS FLOAT)"

    def table_version(self, connection: sa.Connection, table: Sequence[NamePart]) -> str | None:
        """Return the table's definition and the last tracked change as a version."""
        return version_of(connection, [self.quote_table(part).replace("\\:", ":") for part in table])

    def check_key(self, connection: sa.Connection, from_item: str, binds: Binds, columns: Sequence[Column]) -> None:
        """Refuse a ``varchar`` column under a ``SQL_…`` collation, which orders its values differently from boundaries."""
        texts = {column.name for column in columns if column.kind is Kind.TEXT}
        collations = codepage_collations(connection, from_item, binds) if texts else {}
        for name in sorted(texts & collations.keys()):
            raise SourceConfigurationError(
                f"the key column {name!r} is a varchar with the collation {collations[name]}. It orders and equates values differently "
                "from boundaries, which are nvarchar. Cast it in a query, "
                f"CONVERT(NVARCHAR(400), {name}) COLLATE Latin1_General_100_BIN2 AS {name}, or take an integer key"
            )

    def kind_of(self, description: Sequence[Any]) -> Kind:
        """Return the kind by the Python type that pyodbc names.

        Raises:
            SourceConfigurationError: The driver is pymssql, whose numbers of types do not tell integers from floats.
        """
        if isinstance(description[1], int):
            raise SourceConfigurationError(
                f"the driver describes the column {description[0]!r} by a number, as pymssql does. That does not tell "
                'integers from other numbers, or dates from texts. Install pyodbc, and set "sqlalchemy_scheme": '
                '"mssql+pyodbc" or a "sqlalchemy_url" in the connection\'s extra'
            )
        return PYTHON_TYPES.get(getattr(description[1], "__name__", ""), Kind.OTHER)

    def as_text(self, expression: str, column: Column) -> str:
        """Return SQL for the text of a value.

        Times use style 126, which is ISO 8601. A number is written twice: the plain form is exact for decimals, and style 3
        is exact for floats.
        """
        if column.kind is Kind.NUMBER:
            return f"({self._plain(expression)} + '/' + CONVERT(NVARCHAR(50), CONVERT(FLOAT, {expression}), 3))"
        if column.kind is Kind.BINARY:
            return f"CONVERT(NVARCHAR(MAX), {expression}, 2)"
        return f"CONVERT(NVARCHAR(MAX), {expression}, 126)" if column.kind in STYLED else self._plain(expression)

    def _plain(self, expression: str) -> str:
        return f"CONVERT(NVARCHAR(MAX), {expression})"

    def key_value(self, column: Column) -> str:
        """Return SQL for the canonical value, with a decimal in its plain form."""
        return self._plain(self.column(column)) if column.kind is Kind.NUMBER else super().key_value(column)

    def emit_text(self, column: Column) -> str:
        """Return SQL for the text of an entry, with a decimal in its plain form."""
        return self._plain(self.column(column)) if column.kind is Kind.NUMBER else super().emit_text(column)

    def concat(self, parts: Sequence[str]) -> str:
        """Concatenate by ``+``, which yields NULL for NULL. CONCAT treats NULL as an empty text."""
        return "(" + " + ".join(parts) + ")"

    def member_texts(self, columns: Sequence[Column]) -> str:
        """Return the texts of one array, joined."""
        return " + '\",\"' + ".join(f"STRING_ESCAPE({self.emit_text(column)}, 'json')" for column in columns)

    def limit(self, rows: int, offset: int = 0, *, ordered: bool = True) -> str:
        """Return OFFSET and FETCH. They belong to ORDER BY, so a query without one gets one."""
        order = "" if ordered else " ORDER BY (SELECT NULL)"
        return f"{order} OFFSET {offset:d} ROWS FETCH NEXT {rows:d} ROWS ONLY"

    def create_as(self, table: str, rows: str) -> str:
        """Return SQL Server's ``SELECT … INTO``."""
        return f"SELECT * INTO {table} FROM ({rows}) made"

    def binary_order(self, column: Column) -> str:
        """Return SQL that orders rows by bytes, whatever the column's collation."""
        return f"{self.emit_text(column)} COLLATE Latin1_General_100_BIN2"


STYLED = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.OTHER})
