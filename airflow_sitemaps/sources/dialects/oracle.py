"""Oracle: STANDARD_HASH. The empty text is NULL in Oracle. The tests only compile its statements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.dialects.base import Dialect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TYPE_NAMES = {
    "DB_TYPE_BINARY_DOUBLE": Kind.NUMBER,
    "DB_TYPE_BINARY_FLOAT": Kind.NUMBER,
    "DB_TYPE_VARCHAR": Kind.TEXT,
    "DB_TYPE_NVARCHAR": Kind.TEXT,
    "DB_TYPE_CHAR": Kind.TEXT,
    "DB_TYPE_NCHAR": Kind.TEXT,
    "DB_TYPE_CLOB": Kind.TEXT,
    "DB_TYPE_DATE": Kind.TIMESTAMP,  # Oracle's DATE has a time
    "DB_TYPE_TIMESTAMP": Kind.TIMESTAMP,
    "DB_TYPE_TIMESTAMP_TZ": Kind.ZONED,
    "DB_TYPE_TIMESTAMP_LTZ": Kind.ZONED,
    "DB_TYPE_RAW": Kind.BINARY,
    "DB_TYPE_JSON": Kind.JSON,
}
LARGEST_WHOLE = 18
"""The largest number of digits that always fits into 64 bits."""


class Oracle(Dialect):
    """Oracle 12.2 and later, with oracledb."""

    name: ClassVar[str] = "oracle"
    hash_version: ClassVar[str] = "sha2-64/1"

    folds_names: ClassVar[bool] = True
    max_binds: ClassVar[int] = 1_000
    max_statement_bytes: ClassVar[int] = 500_000
    max_case: ClassVar[int] = 200

    session_sql: ClassVar[tuple[str, ...]] = (
        (
            "ALTER SESSION SET TIME_ZONE = 'UTC' NLS_NUMERIC_CHARACTERS = '.,' NLS_DATE_FORMAT = 'YYYY-MM-DD HH24:MI:SS'"
            " NLS_TIMESTAMP_FORMAT = 'YYYY-MM-DD HH24:MI:SS.FF6' NLS_TIMESTAMP_TZ_FORMAT = 'YYYY-MM-DD HH24:MI:SS.FF6 TZH:TZM'"
            # ORDER BY follows NLS_SORT and comparisons follow NLS_COMP: they agree only if both are BINARY.
            " NLS_SORT = BINARY NLS_COMP = BINARY"
        ),
    )
    begin_sql: ClassVar[tuple[str, ...]] = ("SET TRANSACTION READ ONLY",)
    now_sql: ClassVar[str] = "SELECT SYS_EXTRACT_UTC(SYSTIMESTAMP) FROM DUAL"
    from_nothing: ClassVar[str] = " FROM DUAL"

    cast_types: ClassVar[Mapping[Kind, str]] = {
        Kind.INTEGER: "NUMBER",
        Kind.NUMBER: "NUMBER",
        Kind.TIMESTAMP: "TIMESTAMP",
        Kind.ZONED: "TIMESTAMP WITH TIME ZONE",
        Kind.BINARY: "RAW(2000)",
    }
    text_type: ClassVar[str] = "VARCHAR2(4000)"
    float_type: ClassVar[str] = "BINARY_DOUBLE"

    def kind_of(self, description: Sequence[object]) -> Kind:
        """Return the kind by oracledb's name of the type, and that of a NUMBER by its precision and scale."""
        name = getattr(description[1], "name", str(description[1]))
        if name == "DB_TYPE_NUMBER":
            precision, scale = description[4], description[5]
            whole = scale == 0 and isinstance(precision, int) and 0 < precision <= LARGEST_WHOLE
            return Kind.INTEGER if whole else Kind.NUMBER
        return TYPE_NAMES.get(name, Kind.OTHER)

    def as_text(self, expression: str, column: Column) -> str:
        """Return SQL for a text in the formats that the session sets."""
        if column.kind is Kind.TEXT:
            return expression
        if column.kind is Kind.JSON:
            return f"JSON_SERIALIZE({expression})"
        if column.kind is Kind.BINARY:
            return f"RAWTOHEX({expression})"
        if column.kind is Kind.ZONED:
            return f"TO_CHAR({expression} AT TIME ZONE 'UTC')"
        return f"TO_CHAR({expression})"

    def byte_length(self, text: str) -> str:
        """Return SQL for the number of bytes."""
        return f"TO_CHAR(LENGTHB({text}))"

    def or_mark(self, value: str, marked: str) -> str:
        """Test for NULL by CASE, because ``||`` treats NULL as an empty text."""
        return f"CASE WHEN {value} IS NULL THEN '|' ELSE {marked} END"

    def hash_of(self, text: str) -> str:
        """Return SQL for the first 64 bits of SHA-256, as an unsigned number."""
        # Each X of Oracle's number format is a hexadecimal digit.
        return f"TO_NUMBER(SUBSTR(RAWTOHEX(STANDARD_HASH({text}, 'SHA256')), 1, 16), 'XXXXXXXXXXXXXXXX')"

    def hash_type(self) -> Any:
        """Return uint64: the hash is unsigned."""
        return pa.uint64()

    def checksum(self, hashes: str) -> str:
        """Return SQL for the exact sum: a NUMBER has 38 digits."""
        return f"TO_CHAR(SUM({hashes}))"

    def limit(self, rows: int, offset: int = 0, *, ordered: bool = True) -> str:
        """Return the long form of standard SQL."""
        return f" OFFSET {offset:d} ROWS FETCH NEXT {rows:d} ROWS ONLY"

    def emit_lastmod(self, column: Column) -> str:
        """Return SQL for a moment in UTC, without its zone."""
        value = self.column(column)
        return f"SYS_EXTRACT_UTC({value})" if column.kind is Kind.ZONED else super().emit_lastmod(column)

    def binary_order(self, column: Column) -> str:
        """Return SQL that orders rows by bytes, whatever the column's collation."""
        return f"NLSSORT({self.emit_text(column)}, 'NLS_SORT=BINARY')"
