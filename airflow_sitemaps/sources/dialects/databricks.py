"""Databricks: xxhash64; its statements are only compiled in the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.dialects.base import Dialect

if TYPE_CHECKING:
    from collections.abc import Mapping


class Databricks(Dialect):
    """Databricks SQL and Spark 3.4 and later, by databricks-sqlalchemy."""

    name: ClassVar[str] = "databricks"
    hash_version: ClassVar[str] = "xxhash64/1"

    # A statement has at most 256 named parameters.
    max_binds: ClassVar[int] = 250
    max_statement_bytes: ClassVar[int] = 500_000
    max_case: ClassVar[int] = 200

    session_sql: ClassVar[tuple[str, ...]] = ("SET TIME ZONE 'UTC'",)
    now_sql: ClassVar[str] = "SELECT current_timestamp()"

    kinds: ClassVar[Mapping[str, Kind]] = {
        "tinyint": Kind.INTEGER,
        "smallint": Kind.INTEGER,
        "int": Kind.INTEGER,
        "bigint": Kind.INTEGER,
        "decimal": Kind.NUMBER,
        "float": Kind.NUMBER,
        "double": Kind.NUMBER,
        "string": Kind.TEXT,
        "varchar": Kind.TEXT,
        "char": Kind.TEXT,
        "date": Kind.DATE,
        "timestamp": Kind.ZONED,
        "timestamp_ntz": Kind.TIMESTAMP,
        "boolean": Kind.BOOLEAN,
        "binary": Kind.BINARY,
        "variant": Kind.JSON,
        "struct": Kind.JSON,
        "array": Kind.JSON,
        "map": Kind.JSON,
    }
    cast_types: ClassVar[Mapping[Kind, str]] = {
        Kind.INTEGER: "BIGINT",
        Kind.NUMBER: "DECIMAL(38, 18)",
        Kind.DATE: "DATE",
        Kind.TIMESTAMP: "TIMESTAMP_NTZ",
        Kind.ZONED: "TIMESTAMP",
        Kind.BOOLEAN: "BOOLEAN",
        Kind.BINARY: "BINARY",
    }
    text_type: ClassVar[str] = "STRING"
    float_type: ClassVar[str] = "DOUBLE"

    def as_text(self, expression: str, column: Column) -> str:
        """Text by Spark's own casts, moments in the session's zone, UTC."""
        if column.kind is Kind.JSON:
            return f"TO_JSON({expression})"
        if column.kind is Kind.BINARY:
            return f"HEX({expression})"
        return f"CAST({expression} AS STRING)"

    def byte_length(self, text: str) -> str:
        """Bytes."""
        return f"CAST(OCTET_LENGTH({text}) AS STRING)"

    def hash_of(self, text: str) -> str:
        """Of bytes, so that no collation has a say."""
        return f"XXHASH64(CAST({text} AS BINARY))"

    def checksum(self, hashes: str) -> str:
        """An exact sum, as text."""
        return f"CAST(SUM(CAST({hashes} AS DECIMAL(38, 0))) AS STRING)"
