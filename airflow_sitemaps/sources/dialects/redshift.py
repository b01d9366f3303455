"""Redshift: FARMFINGERPRINT64; its statements are only compiled in the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.dialects.base import Dialect

if TYPE_CHECKING:
    from collections.abc import Sequence

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
"""The wire protocol's numbers of types."""


class Redshift(Dialect):
    """Redshift, by sqlalchemy-redshift."""

    name: ClassVar[str] = "redshift"
    hash_version: ClassVar[str] = "farmfingerprint64/1"

    max_binds: ClassVar[int] = 10_000
    max_statement_bytes: ClassVar[int] = 1_000_000
    max_case: ClassVar[int] = 300

    session_sql: ClassVar[tuple[str, ...]] = ("SET timezone TO 'UTC'", "SET datestyle TO 'ISO, YMD'")
    begin_sql: ClassVar[tuple[str, ...]] = ("SET TRANSACTION READ ONLY",)
    now_sql: ClassVar[str] = "SELECT GETDATE()"

    # Plain VARCHAR means 256 bytes.
    text_type: ClassVar[str] = "VARCHAR(65535)"

    def kind_of(self, description: Sequence[object]) -> Kind:
        """By the wire protocol's numbers."""
        return OIDS.get(int(str(description[1])), Kind.OTHER)

    def as_text(self, expression: str, column: Column) -> str:
        """Text by Redshift's own casts; SUPER as JSON."""
        if column.kind is Kind.JSON:
            return f"JSON_SERIALIZE({expression})"
        return super().as_text(expression, column)

    def byte_length(self, text: str) -> str:
        """Bytes."""
        return f"CAST(OCTET_LENGTH({text}) AS VARCHAR(20))"

    def hash_of(self, text: str) -> str:
        """The fingerprint of open-source FarmHash; it never changes."""
        return f"FARMFINGERPRINT64({text})"
