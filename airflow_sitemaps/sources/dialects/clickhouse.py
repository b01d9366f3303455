"""ClickHouse: cityHash64; its statements are only compiled in the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.dialects.base import Dialect

if TYPE_CHECKING:
    from collections.abc import Mapping

WRAPPERS = ("nullable(", "lowcardinality(")


class ClickHouse(Dialect):
    """ClickHouse, by clickhouse-sqlalchemy or clickhouse-connect."""

    name: ClassVar[str] = "clickhouse"
    hash_version: ClassVar[str] = "cityhash64/1"

    # max_query_size is 262,144 bytes by default.
    max_binds: ClassVar[int] = 5_000
    max_statement_bytes: ClassVar[int] = 120_000
    max_case: ClassVar[int] = 300

    now_sql: ClassVar[str] = "SELECT toString(now64(6, 'UTC'))"

    kinds: ClassVar[Mapping[str, Kind]] = {
        "int8": Kind.INTEGER,
        "int16": Kind.INTEGER,
        "int32": Kind.INTEGER,
        "int64": Kind.INTEGER,
        "uint8": Kind.INTEGER,
        "uint16": Kind.INTEGER,
        "uint32": Kind.INTEGER,
        "uint64": Kind.NUMBER,
        "decimal": Kind.NUMBER,
        "float32": Kind.NUMBER,
        "float64": Kind.NUMBER,
        "string": Kind.TEXT,
        "fixedstring": Kind.TEXT,
        "date": Kind.DATE,
        "date32": Kind.DATE,
        "datetime": Kind.ZONED,
        "datetime64": Kind.ZONED,
        "uuid": Kind.UUID,
        "bool": Kind.BOOLEAN,
        "json": Kind.JSON,
    }
    cast_types: ClassVar[Mapping[Kind, str]] = {
        Kind.INTEGER: "Int64",
        Kind.NUMBER: "Decimal(38, 10)",
        Kind.DATE: "Date32",
        Kind.ZONED: "DateTime64(6, 'UTC')",
        Kind.UUID: "UUID",
        Kind.BOOLEAN: "Bool",
    }
    text_type: ClassVar[str] = "String"

    def kind(self, type_name: str) -> Kind:
        """Without the words that say that a value may be NULL or is encoded by a dictionary."""
        lowered = type_name.strip().lower()
        for wrapper in WRAPPERS:
            if lowered.startswith(wrapper):
                return self.kind(lowered[len(wrapper) : -1])
        return super().kind(lowered)

    def as_text(self, expression: str, column: Column) -> str:
        """Text by toString, which keeps NULL (a CAST to String refuses it); moments in UTC."""
        if column.kind is Kind.ZONED:
            return f"toString(toTimeZone({expression}, 'UTC'))"
        return f"toString({expression})"

    def byte_length(self, text: str) -> str:
        """Bytes."""
        return f"toString(length({text}))"

    def hash_of(self, text: str) -> str:
        """cityHash64 of a text, which cannot be NULL here."""
        return f"cityHash64(assumeNotNull({text}))"

    def hash_type(self) -> Any:
        """Unsigned."""
        return pa.uint64()

    def checksum(self, hashes: str) -> str:
        """In 256 bits: sum() of UInt64 wraps silently."""
        return f"toString(SUM(toUInt256({hashes})))"

    def emit_number(self, column: Column) -> str:
        """toFloat64 keeps NULL."""
        return f"toFloat64({self.column(column)})"

    def lastmod_is_text(self, column: Column) -> bool:
        """Moments as text ending in ``Z``: drivers disagree on their zone."""
        return column.kind is not Kind.DATE

    def emit_lastmod(self, column: Column) -> str:
        """A moment to the second, in UTC."""
        if column.kind is Kind.ZONED:
            return f"concat(substring({self.as_text(self.column(column), column)}, 1, 19), 'Z')"
        return super().emit_lastmod(column)
