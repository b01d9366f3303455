"""Snowflake: HASH over bytes; its statements are only compiled in the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.dialects.base import Dialect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TYPE_CODES = {
    1: Kind.NUMBER,  # REAL
    2: Kind.TEXT,
    3: Kind.DATE,
    4: Kind.TIMESTAMP,
    5: Kind.JSON,  # VARIANT
    6: Kind.ZONED,  # TIMESTAMP_LTZ
    7: Kind.ZONED,  # TIMESTAMP_TZ
    8: Kind.TIMESTAMP,  # TIMESTAMP_NTZ
    9: Kind.JSON,  # OBJECT
    10: Kind.JSON,  # ARRAY
    11: Kind.BINARY,
    13: Kind.BOOLEAN,
}
"""The connector's numbers of types; 0 is FIXED, whole when its scale is 0."""


class Snowflake(Dialect):
    """Snowflake, by snowflake-sqlalchemy."""

    name: ClassVar[str] = "snowflake"
    hash_version: ClassVar[str] = "hash/1"

    folds_names: ClassVar[bool] = True
    max_binds: ClassVar[int] = 10_000
    max_statement_bytes: ClassVar[int] = 500_000
    max_case: ClassVar[int] = 500

    session_sql: ClassVar[tuple[str, ...]] = (
        (
            "ALTER SESSION SET TIMEZONE = 'UTC', DATE_OUTPUT_FORMAT = 'YYYY-MM-DD',"
            " TIMESTAMP_NTZ_OUTPUT_FORMAT = 'YYYY-MM-DD HH24:MI:SS.FF9',"
            " TIMESTAMP_LTZ_OUTPUT_FORMAT = 'YYYY-MM-DD HH24:MI:SS.FF9 TZHTZM',"
            " TIMESTAMP_TZ_OUTPUT_FORMAT = 'YYYY-MM-DD HH24:MI:SS.FF9 TZHTZM', BINARY_OUTPUT_FORMAT = 'HEX'"
        ),
    )
    now_sql: ClassVar[str] = "SELECT SYSDATE()"

    cast_types: ClassVar[Mapping[Kind, str]] = {
        Kind.INTEGER: "NUMBER(38, 0)",
        Kind.NUMBER: "NUMBER(38, 18)",
        Kind.DATE: "DATE",
        Kind.TIMESTAMP: "TIMESTAMP_NTZ",
        Kind.ZONED: "TIMESTAMP_TZ",
        Kind.BOOLEAN: "BOOLEAN",
    }
    float_type: ClassVar[str] = "FLOAT"

    def kind_of(self, description: Sequence[object]) -> Kind:
        """By the connector's numbers."""
        code, precision, scale = (int(str(value or 0)) for value in (description[1], description[4], description[5]))
        if code == 0:
            return Kind.INTEGER if scale == 0 and precision <= 18 else Kind.NUMBER
        return TYPE_CODES.get(code, Kind.OTHER)

    def as_text(self, expression: str, column: Column) -> str:
        """Text by the formats that the session sets; JSON as it is written."""
        if column.kind is Kind.JSON:
            return f"TO_JSON({expression})"
        if column.kind is Kind.ZONED:
            return f"TO_VARCHAR(CONVERT_TIMEZONE('UTC', {expression}))"
        return f"TO_VARCHAR({expression})"

    def byte_length(self, text: str) -> str:
        """Bytes."""
        return f"TO_VARCHAR(OCTET_LENGTH({text}))"

    def hash_of(self, text: str) -> str:
        """Of bytes, so that no collation has a say."""
        return f"HASH(TO_BINARY({text}, 'UTF-8'))"

    def checksum(self, hashes: str) -> str:
        """NUMBER(38, 0) holds the sum of more rows than a table can have."""
        return f"TO_VARCHAR(SUM({hashes}))"

    def emit_lastmod(self, column: Column) -> str:
        """Moments in UTC without their zone, which the driver reads alike whatever the session's zone."""
        value = self.column(column)
        return f"CONVERT_TIMEZONE('UTC', {value})" if column.kind is Kind.ZONED else super().emit_lastmod(column)
