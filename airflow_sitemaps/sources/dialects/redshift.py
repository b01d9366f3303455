"""Redshift: FARMFINGERPRINT64. The tests run its statements transpiled, not on Redshift itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.dialects.base import Dialect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OIDS = {
    16: Kind.BOOLEAN,
    20: Kind.INTEGER,
    21: Kind.INTEGER,
    23: Kind.INTEGER,
    25: Kind.TEXT,
    700: Kind.NUMBER,
    701: Kind.NUMBER,
    1042: Kind.TEXT,
    1043: Kind.TEXT,
    1082: Kind.DATE,
    1114: Kind.TIMESTAMP,
    1184: Kind.ZONED,
    1700: Kind.NUMBER,
    4000: Kind.JSON,  # SUPER
}
"""The kind of each type, by its number in the wire protocol."""


class Redshift(Dialect):
    """Redshift, with sqlalchemy-redshift."""

    name: ClassVar[str] = "redshift"
    hash_version: ClassVar[str] = "farmfingerprint64/1"
    enforces_keys: ClassVar[bool] = False
    escapes_backslash: ClassVar[bool] = True
    joins_ranges: ClassVar[bool] = True
    sorts_in_parts: ClassVar[bool] = True

    max_binds: ClassVar[int] = 10_000
    max_statement_bytes: ClassVar[int] = 1_000_000
    max_case: ClassVar[int] = 300

    session_sql: ClassVar[tuple[str, ...]] = ("SET timezone TO 'UTC'", "SET datestyle TO 'ISO, YMD'")
    begin_sql: ClassVar[tuple[str, ...]] = ("SET TRANSACTION READ ONLY",)
    now_sql: ClassVar[str] = "SELECT GETDATE()"

    cast_types: ClassVar[Mapping[Kind, str]] = {
        **Dialect.cast_types,
        Kind.NUMBER: "DECIMAL(38, 18)",
        Kind.TIMESTAMP: "TIMESTAMP",
        Kind.ZONED: "TIMESTAMPTZ",
    }

    # A plain VARCHAR has 256 bytes.
    text_type: ClassVar[str] = "VARCHAR(65535)"

    def kind_of(self, description: Sequence[object]) -> Kind:
        """Return the kind by the wire protocol's number of the type."""
        return OIDS.get(int(str(description[1])), Kind.OTHER)

    def type_of(self, description: Sequence[object]) -> str:
        """Return the own type of a float, which may not fit into a decimal."""
        return {700: "FLOAT4", 701: "FLOAT8"}.get(int(str(description[1])), "")

    def as_text(self, expression: str, column: Column) -> str:
        """Return SQL for the text of Redshift's own casts, and for SUPER as JSON."""
        if column.kind is Kind.JSON:
            return f"JSON_SERIALIZE({expression})"
        return super().as_text(expression, column)

    def byte_length(self, text: str) -> str:
        """Return SQL for the number of bytes."""
        return f"CAST(OCTET_LENGTH({text}) AS VARCHAR(20))"

    def members(self, group: Column, columns: Sequence[Column], from_item: str, where: str, most: int) -> str:
        """Write the arrays as texts, joined in order. The texts of a group must have fewer than 65,535 bytes."""
        texts = ", ".join(self.emit_text(column) for column in columns)
        joined = f"LISTAGG(JSON_SERIALIZE(ARRAY({texts})), ',') WITHIN GROUP (ORDER BY {self.binary_orders(columns)})"
        return self.aggregated(f"'[' || {joined} || ']'", group, from_item, where, most)

    def hash_of(self, text: str) -> str:
        """Return SQL for the fingerprint of open-source FarmHash, which never changes."""
        return f"FARMFINGERPRINT64({text})"
