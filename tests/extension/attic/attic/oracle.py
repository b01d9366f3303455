"""Oracle: STANDARD_HASH. The empty text is NULL in Oracle. The tests only compile its statements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from airflow_sitemaps.sources.columns import Kind
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
    drivers: ClassVar[tuple[tuple[str, str], ...]] = (("oracle+oracledb", "oracledb"),)

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
    limit_sql: ClassVar[str] = " OFFSET {offset} ROWS FETCH NEXT {rows} ROWS ONLY"

    hash_version: ClassVar[str] = "sha2-64/1"
    # The first 64 bits of SHA-256, as an unsigned number. Each X of Oracle's number format is a hexadecimal digit.
    hash_sql: ClassVar[str] = "TO_NUMBER(SUBSTR(RAWTOHEX(STANDARD_HASH({}, 'SHA256')), 1, 16), 'XXXXXXXXXXXXXXXX')"
    hash_type: ClassVar[Any] = pa.uint64()
    # A NUMBER has 38 digits
    checksum_sql: ClassVar[str] = "TO_CHAR(SUM({}))"
    byte_length_sql: ClassVar[str] = "TO_CHAR(LENGTHB({}))"
    # ``||`` treats NULL as an empty text
    or_mark_sql: ClassVar[str] = "CASE WHEN {value} IS NULL THEN '|' ELSE {marked} END"
    binary_order_sql: ClassVar[str] = "NLSSORT({}, 'NLS_SORT=BINARY')"

    cast_types: ClassVar[Mapping[Kind, str]] = {
        Kind.INTEGER: "NUMBER",
        Kind.NUMBER: "NUMBER",
        Kind.TIMESTAMP: "TIMESTAMP",
        Kind.ZONED: "TIMESTAMP WITH TIME ZONE",
        Kind.BINARY: "RAW(2000)",
    }
    text_type: ClassVar[str] = "VARCHAR2(4000)"
    number_sql: ClassVar[str] = "CAST({} AS BINARY_DOUBLE)"
    # In the formats that the session sets
    text_sql: ClassVar[str] = "TO_CHAR({})"
    text_sql_of: ClassVar[Mapping[Kind, str]] = {
        Kind.TEXT: "{}",
        Kind.JSON: "JSON_SERIALIZE({})",
        Kind.BINARY: "RAWTOHEX({})",
        Kind.ZONED: "TO_CHAR({} AT TIME ZONE 'UTC')",
    }
    lastmod_sql_of: ClassVar[Mapping[Kind, str]] = {Kind.ZONED: "SYS_EXTRACT_UTC({})"}

    def kind_of(self, description: Sequence[Any]) -> Kind:
        """Return the kind by oracledb's name of the type, and that of a NUMBER by its precision and scale."""
        name = getattr(description[1], "name", str(description[1]))
        if name == "DB_TYPE_NUMBER":
            precision, scale = description[4], description[5]
            whole = scale == 0 and isinstance(precision, int) and 0 < precision <= LARGEST_WHOLE
            return Kind.INTEGER if whole else Kind.NUMBER
        return TYPE_NAMES.get(name, Kind.OTHER)
