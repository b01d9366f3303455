"""SQL Server: HASHBYTES; its statements are only compiled in the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.dialects.base import Dialect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
"""pyodbc describes columns by the Python types of their values; a datetimeoffset is none of these, and read as text."""


class SQLServer(Dialect):
    """SQL Server 2016 and later and Azure SQL, by pyodbc."""

    name: ClassVar[str] = "mssql"
    hash_version: ClassVar[str] = "sha2-64/1"

    # 2,100 parameters; a CASE may be nested ten deep: halving 300 boundaries needs nine.
    max_binds: ClassVar[int] = 2_000
    max_statement_bytes: ClassVar[int] = 500_000
    max_case: ClassVar[int] = 300

    now_sql: ClassVar[str] = "SELECT SYSUTCDATETIME()"

    cast_types: ClassVar[Mapping[Kind, str]] = {
        Kind.INTEGER: "BIGINT",
        Kind.NUMBER: "DECIMAL(38, 10)",
        Kind.DATE: "DATE",
        Kind.TIMESTAMP: "DATETIME2(7)",
        Kind.BOOLEAN: "BIT",
        Kind.UUID: "UNIQUEIDENTIFIER",
    }
    text_type: ClassVar[str] = "NVARCHAR(MAX)"
    float_type: ClassVar[str] = "FLOAT"

    def kind_of(self, description: Sequence[object]) -> Kind:
        """By the Python type that pyodbc names."""
        return PYTHON_TYPES.get(getattr(description[1], "__name__", ""), Kind.OTHER)

    def as_text(self, expression: str, column: Column) -> str:
        """Style 126 is ISO 8601 for times. A number stands twice: decimals are exact plainly, floats in style 3."""
        if column.kind is Kind.NUMBER:
            return f"({self._plain(expression)} + '/' + CONVERT(NVARCHAR(50), CONVERT(FLOAT, {expression}), 3))"
        if column.kind is Kind.BINARY:
            return f"CONVERT(NVARCHAR(MAX), {expression}, 2)"
        return f"CONVERT(NVARCHAR(MAX), {expression}, 126)" if column.kind in STYLED else self._plain(expression)

    def _plain(self, expression: str) -> str:
        return f"CONVERT(NVARCHAR(MAX), {expression})"

    def key_value(self, column: Column) -> str:
        """A decimal as it is written."""
        return self._plain(self.column(column)) if column.kind is Kind.NUMBER else super().key_value(column)

    def emit_text(self, column: Column) -> str:
        """A decimal as it is written."""
        return self._plain(self.column(column)) if column.kind is Kind.NUMBER else super().emit_text(column)

    def byte_length(self, text: str) -> str:
        """Bytes of UTF-16."""
        return f"CONVERT(NVARCHAR(20), DATALENGTH({text}))"

    def concat(self, parts: Sequence[str]) -> str:
        """``+`` gives NULL for NULL; CONCAT would take it for an empty text."""
        return "(" + " + ".join(parts) + ")"

    def hash_of(self, text: str) -> str:
        """The first 64 bits of SHA-256 of the bytes, as a signed integer."""
        return f"CONVERT(BIGINT, SUBSTRING(HASHBYTES('SHA2_256', CONVERT(VARBINARY(MAX), {text})), 1, 8))"

    def checksum(self, hashes: str) -> str:
        """An exact sum, as text."""
        return f"CONVERT(VARCHAR(60), SUM(CONVERT(DECIMAL(38, 0), {hashes})))"

    def limit(self, rows: int, offset: int = 0, *, ordered: bool = True) -> str:
        """OFFSET belongs to ORDER BY, so there must be one."""
        order = "" if ordered else " ORDER BY (SELECT NULL)"
        return f"{order} OFFSET {offset:d} ROWS FETCH NEXT {rows:d} ROWS ONLY"

    def create_as(self, table: str, rows: str) -> str:
        """SQL Server's own words."""
        return f"SELECT * INTO {table} FROM ({rows}) made"

    def modulo(self, expression: str, divisor: int) -> str:
        """The remainder of a division."""
        return f"({expression}) % {divisor:d}"

    def binary_order(self, column: Column) -> str:
        """Bytes, whatever the column's collation."""
        return f"{self.emit_text(column)} COLLATE Latin1_General_100_BIN2"


STYLED = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.OTHER})
