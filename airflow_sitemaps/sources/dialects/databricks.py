"""Databricks: xxhash64. The tests run its statements through Spark, not on Databricks itself.

https://docs.databricks.com/en/delta/history.html
https://docs.databricks.com/en/delta/table-details.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import sqlalchemy as sa

from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.dialects.base import Dialect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_sitemaps.shards.key import Key
    from airflow_sitemaps.sources.pinned_state import PinnedState
    from airflow_sitemaps.sources.statements.binds import Binds
    from airflow_sitemaps.sources.statements.table_name import NamePart


HIDING: Final = ("row filter", "column mask")
"""Parts of a table's description that make its rows depend on something else."""


def commit_of(connection: sa.Connection, table: str) -> int:
    """Return the number of a Delta table's newest commit."""
    return int(connection.execute(sa.text(f"DESCRIBE HISTORY {table} LIMIT 1")).mappings().one()["version"])


def version_of(connection: sa.Connection, table: str) -> str | None:
    """Return the version of a Delta table, or None if it is another kind of table or has filters or masks.

    The numbers of a table that was dropped and created again begin at 0, so its identity is part of the version.
    """
    detail = connection.execute(sa.text(f"DESCRIBE DETAIL {table}")).mappings().one()
    if str(detail["format"]).lower() != "delta":
        return None
    described: Sequence[sa.Row[tuple[object, ...]]] = connection.execute(
        sa.text(f"DESCRIBE TABLE EXTENDED {table}")
    ).all()
    if any(word in str(row[0]).lower() for row in described for word in HIDING):
        return None
    return f"{detail['id']} {commit_of(connection, table)}"


class Databricks(Dialect):
    """Databricks SQL and Spark 3.4 and later, with databricks-sqlalchemy."""

    name: ClassVar[str] = "databricks"
    hash_version: ClassVar[str] = "xxhash64/1"
    enforces_keys: ClassVar[bool] = False
    lists_keys: ClassVar[bool] = True
    joins_ranges: ClassVar[bool] = True
    sorts_in_parts: ClassVar[bool] = True
    writes_integers: ClassVar[bool] = True
    escapes_backslash: ClassVar[bool] = True

    # A statement has at most 256 named parameters.
    max_binds: ClassVar[int] = 250
    max_statement_bytes: ClassVar[int] = 500_000
    max_case: ClassVar[int] = 1_000

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

    def type_of(self, description: Sequence[Any]) -> str:
        """Return the own type of a number. As a decimal, a float has another value, and a large one does not fit."""
        name = str(description[1]).lower()
        if name == "decimal" and description[4]:
            return f"DECIMAL({int(description[4])}, {int(description[5] or 0)})"
        return name.upper() if name in ("float", "double") else ""

    def travel_version(self, connection: sa.Connection, table: Sequence[NamePart]) -> int | None:
        """Return the number of a Delta table's newest commit."""
        return commit_of(connection, ".".join(self.quote_table(part) for part in table))

    def table_version(self, connection: sa.Connection, table: Sequence[NamePart]) -> str | None:
        """Return the identity and newest commit of a Delta table as a version."""
        return version_of(connection, ".".join(self.quote_table(part) for part in table))

    def as_of(self, state: PinnedState) -> str:
        """Return the version's number: Delta refuses a time after its newest commit."""
        return f"VERSION AS OF {state.version:d}"

    def as_text(self, expression: str, column: Column) -> str:
        """Return SQL for the text of Spark's own casts, with moments in the session's zone, UTC."""
        if column.kind is Kind.JSON:
            return f"TO_JSON({expression})"
        if column.kind is Kind.BINARY:
            return f"HEX({expression})"
        return f"CAST({expression} AS STRING)"

    def boundary_rows(self, columns: Sequence[Column], keys: Sequence[Key], binds: Binds) -> str:
        """Return a query of all keys in one JSON bind."""
        given = self.key_list(columns, keys, binds)
        parts = ", ".join(f"{self.listed_key(c, f'part[{n}]')} AS k{n}" for n, c in enumerate(columns))
        rows = f"SELECT POSEXPLODE(FROM_JSON({given}, 'array<array<string>>')) AS (place, part)"
        return f"SELECT {parts}, place FROM ({rows}) given"

    def key_bind(self, column: Column, placeholder: str) -> str:
        """Return SQL that turns a canonical value into the column's type, bytes from hexadecimal digits."""
        return f"UNHEX({placeholder})" if column.kind is Kind.BINARY else super().key_bind(column, placeholder)

    def byte_length(self, text: str) -> str:
        """Return SQL for the number of bytes."""
        return f"CAST(OCTET_LENGTH({text}) AS STRING)"

    def members(self, group: Column, columns: Sequence[Column], from_item: str, where: str, most: int) -> str:
        """Write the arrays as texts, sorted and joined: Spark's aggregates have no ORDER BY."""
        texts = ", ".join(self.emit_text(column) for column in columns)
        joined = f"ARRAY_JOIN(SORT_ARRAY(COLLECT_LIST(TO_JSON(ARRAY({texts})))), ',')"
        return self.aggregated(f"CONCAT('[', {joined}, ']')", group, from_item, where, most)

    def hash_of(self, text: str) -> str:
        """Return SQL for the hash of the text's bytes, which no collation affects."""
        return f"XXHASH64(CAST({text} AS BINARY))"

    def checksum(self, hashes: str) -> str:
        """Return SQL for the exact sum, as a text."""
        return f"CAST(SUM(CAST({hashes} AS DECIMAL(38, 0))) AS STRING)"
