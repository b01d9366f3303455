"""Trino: xxhash64. The tests run its statements transpiled, not on Trino itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.dialects.base import Dialect
from airflow_sitemaps.sources.dialects.key_sql import are_exact_doubles
from airflow_sitemaps.sources.statements.binds import guarded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_sitemaps.shards.key import Key
    from airflow_sitemaps.sources.statements.binds import Binds


class Trino(Dialect):
    """Trino and Starburst, with the trino package."""

    name: ClassVar[str] = "trino"
    hash_version: ClassVar[str] = "xxhash64/1"
    enforces_keys: ClassVar[bool] = False
    lists_keys: ClassVar[bool] = True
    joins_ranges: ClassVar[bool] = True
    sorts_in_parts: ClassVar[bool] = True
    float_key: ClassVar[str] = "IF(IS_NAN({value}), CAST('Infinity' AS DOUBLE), {value})"

    # query.max-length is 1,000,000 characters, and the statement contains the values.
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

    def type_of(self, description: Sequence[Any]) -> str:
        """Return the own type of a number. As a decimal, a float has another value, and a large one does not fit."""
        name = str(description[1])
        return guarded(name) if self.kind(name) is Kind.NUMBER else ""

    def as_text(self, expression: str, column: Column) -> str:
        """Return SQL for the text of Trino's own casts, with moments in UTC, whatever the session's zone."""
        if column.kind is Kind.JSON:
            return f"JSON_FORMAT({expression})"
        if column.kind is Kind.BINARY:
            return f"TO_HEX({expression})"
        if column.kind is Kind.ZONED:
            return f"CAST({expression} AT TIME ZONE 'UTC' AS VARCHAR)"
        return f"CAST({expression} AS VARCHAR)"

    def boundary_rows(self, columns: Sequence[Column], keys: Sequence[Key], binds: Binds) -> str:
        """Return a query of all keys in one JSON bind."""
        given = self.key_list(columns, keys, binds)
        parts = ", ".join(f"{self.listed_key(c, f'part[{n + 1}]')} AS k{n}" for n, c in enumerate(columns))
        rows = f"UNNEST(CAST(JSON_PARSE({given}) AS ARRAY(ARRAY(VARCHAR)))) WITH ORDINALITY AS given(part, ordinal)"
        return f"SELECT {parts}, ordinal - 1 AS place FROM {rows}"

    def buckets(self, columns: Sequence[Column], keys: Sequence[Key], binds: Binds) -> str | None:
        """Return a binary search for an integer key whose boundaries a double holds exactly: WIDTH_BUCKET takes doubles."""
        if len(columns) != 1 or not are_exact_doubles(keys):
            return None
        ends = binds.add(json.dumps([key[0] for key in keys]))
        return f"WIDTH_BUCKET(CAST({self.key_order(columns[0])} AS DOUBLE), CAST(JSON_PARSE({ends}) AS ARRAY(DOUBLE)))"

    def key_bind(self, column: Column, placeholder: str) -> str:
        """Return SQL that turns a canonical value into the column's type, bytes from hexadecimal digits."""
        return f"FROM_HEX({placeholder})" if column.kind is Kind.BINARY else super().key_bind(column, placeholder)

    def limit(self, rows: int, offset: int = 0, *, ordered: bool = True) -> str:
        """Return the limit with OFFSET first, as Trino requires."""
        return f" OFFSET {offset:d} LIMIT {rows:d}"

    def members(self, group: Column, columns: Sequence[Column], from_item: str, where: str, most: int) -> str:
        """Return the query for the members of groups. Each member is an array as JSON text; these texts are sorted and joined."""
        texts = ", ".join(self.emit_text(column) for column in columns)
        listed = f"ARRAY_AGG(JSON_FORMAT(CAST(ARRAY[{texts}] AS JSON)))"
        return self.aggregated(f"'[' || ARRAY_JOIN(ARRAY_SORT({listed}), ',') || ']'", group, from_item, where, most)

    def hash_of(self, text: str) -> str:
        """Return SQL for the eight bytes of xxhash64, read as a signed integer."""
        return f"FROM_BIG_ENDIAN_64(XXHASH64(TO_UTF8({text})))"

    def emit_lastmod(self, column: Column) -> str:
        """Return SQL for a moment in UTC, to the microsecond."""
        value = self.column(column)
        if column.kind is Kind.ZONED:
            return f"CAST({value} AT TIME ZONE 'UTC' AS TIMESTAMP(6))"
        return super().emit_lastmod(column)
