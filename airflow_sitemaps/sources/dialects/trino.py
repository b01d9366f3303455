"""Trino: xxhash64; its statements are only compiled in the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.dialects.base import Dialect

if TYPE_CHECKING:
    from collections.abc import Mapping


class Trino(Dialect):
    """Trino and Starburst, by the trino package."""

    name: ClassVar[str] = "trino"
    hash_version: ClassVar[str] = "xxhash64/1"

    # query.max-length is 1,000,000 characters; values are sent within the statement.
    max_binds: ClassVar[int] = 5_000
    max_statement_bytes: ClassVar[int] = 400_000
    max_case: ClassVar[int] = 300

    now_sql: ClassVar[str] = "SELECT CAST(current_timestamp AT TIME ZONE 'UTC' AS TIMESTAMP(6))"

    kinds: ClassVar[Mapping[str, Kind]] = {
        "tinyint": Kind.INTEGER,
        "smallint": Kind.INTEGER,
        "integer": Kind.INTEGER,
        "bigint": Kind.INTEGER,
        "decimal": Kind.NUMBER,
        "real": Kind.NUMBER,
        "double": Kind.NUMBER,
        "varchar": Kind.TEXT,
        "char": Kind.TEXT,
        "date": Kind.DATE,
        "timestamp": Kind.TIMESTAMP,
        "timestamp with time zone": Kind.ZONED,
        "boolean": Kind.BOOLEAN,
        "uuid": Kind.UUID,
        "json": Kind.JSON,
        "varbinary": Kind.BINARY,
    }
    cast_types: ClassVar[Mapping[Kind, str]] = {
        Kind.INTEGER: "BIGINT",
        Kind.NUMBER: "DECIMAL(38, 18)",
        Kind.DATE: "DATE",
        Kind.TIMESTAMP: "TIMESTAMP(6)",
        Kind.ZONED: "TIMESTAMP(6) WITH TIME ZONE",
        Kind.BOOLEAN: "BOOLEAN",
        Kind.UUID: "UUID",
    }
    float_type: ClassVar[str] = "DOUBLE"

    def as_text(self, expression: str, column: Column) -> str:
        """Text by Trino's own casts; moments in UTC, whatever the session's zone."""
        if column.kind is Kind.JSON:
            return f"JSON_FORMAT({expression})"
        if column.kind is Kind.BINARY:
            return f"TO_HEX({expression})"
        if column.kind is Kind.ZONED:
            return f"CAST({expression} AT TIME ZONE 'UTC' AS VARCHAR)"
        return f"CAST({expression} AS VARCHAR)"

    def limit(self, rows: int, offset: int = 0, *, ordered: bool = True) -> str:
        """OFFSET comes first."""
        return f" OFFSET {offset:d} LIMIT {rows:d}"

    def hash_of(self, text: str) -> str:
        """xxhash64 gives eight bytes, read as a signed integer."""
        return f"FROM_BIG_ENDIAN_64(XXHASH64(TO_UTF8({text})))"

    def emit_lastmod(self, column: Column) -> str:
        """Moments in UTC, to the microsecond."""
        value = self.column(column)
        if column.kind is Kind.ZONED:
            return f"CAST({value} AT TIME ZONE 'UTC' AS TIMESTAMP(6))"
        return super().emit_lastmod(column)
