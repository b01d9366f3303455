"""Trino: xxhash64. The tests run its statements transpiled, not on Trino itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import sqlalchemy as sa

from airflow_sitemaps.shards.ranges import Key
from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.dialects.base import Warehouse, are_exact_doubles
from airflow_sitemaps.sources.driver import Binds, guarded


class Trino(Warehouse):
    """Trino and Starburst, with the trino package."""

    name: ClassVar[str] = "trino"
    drivers: ClassVar[tuple[tuple[str, str], ...]] = (("trino", "trino"),)

    # query.max-length is 1,000,000 characters, and the statement contains the values.
    max_binds: ClassVar[int] = 5_000
    max_statement_bytes: ClassVar[int] = 400_000
    max_case: ClassVar[int] = 300

    hash_version: ClassVar[str] = "xxhash64/1"
    hash_sql: ClassVar[str] = "FROM_BIG_ENDIAN_64(XXHASH64(TO_UTF8({})))"
    now_sql: ClassVar[str] = "SELECT CAST(current_timestamp AT TIME ZONE 'UTC' AS TIMESTAMP(6))"
    limit_sql: ClassVar[str] = " OFFSET {offset} LIMIT {rows}"
    members_sql: ClassVar[str] = (
        "'[' || ARRAY_JOIN(ARRAY_SORT(ARRAY_AGG(JSON_FORMAT(CAST(ARRAY[{texts}] AS JSON)))), ',') || ']'"
    )

    cast_types: ClassVar[Mapping[Kind, str]] = {
        **Warehouse.cast_types, Kind.NUMBER: "DECIMAL(38, 18)", Kind.TIMESTAMP: "TIMESTAMP(6)",
        Kind.ZONED: "TIMESTAMP(6) WITH TIME ZONE",
    }  # fmt: skip
    # Moments are in UTC, whatever the session's zone
    text_sql_of: ClassVar[Mapping[Kind, str]] = {
        Kind.JSON: "JSON_FORMAT({})", Kind.BINARY: "TO_HEX({})",
        Kind.ZONED: "CAST({} AT TIME ZONE 'UTC' AS VARCHAR)",
    }  # fmt: skip
    number_sql: ClassVar[str] = "CAST({} AS DOUBLE)"
    lastmod_sql_of: ClassVar[Mapping[Kind, str]] = {Kind.ZONED: "CAST({} AT TIME ZONE 'UTC' AS TIMESTAMP(6))"}
    float_key: ClassVar[str] = "IF(IS_NAN({value}), CAST('Infinity' AS DOUBLE), {value})"
    # The client sends the worker's zone as the session's
    key_bind_of: ClassVar[Mapping[Kind, str]] = {
        Kind.BINARY: "FROM_HEX({})",
        Kind.ZONED: "CAST(REPLACE({}, ' UTC', '') || ' UTC' AS TIMESTAMP(6) WITH TIME ZONE)",
    }
    listed_part_sql: ClassVar[str] = "part[{number}]"
    listed_rows_sql: ClassVar[str] = (
        "SELECT {parts}, ordinal - 1 AS place FROM UNNEST(CAST(JSON_PARSE({given}) AS ARRAY(ARRAY(VARCHAR))))"
        " WITH ORDINALITY AS given(part, ordinal)"
    )

    @classmethod
    def hook_engine(cls, connection: Any, hook: Any) -> sa.Engine:
        """Create an engine over the hook's own connections, which support JWT, certificates, https and session properties."""
        catalog = connection.extra_dejson.get("catalog", "hive")
        url = sa.URL.create(
            "trino", connection.login or None, connection.password or None, connection.host, connection.port, catalog
        )
        return sa.create_engine(url, creator=hook.get_conn)

    def type_of(self, description: Sequence[Any]) -> str:
        """Return the own type of a number. As a decimal, a float has another value, and a large one does not fit."""
        name = str(description[1])
        return guarded(name) if self.kind(name) is Kind.NUMBER else ""

    def buckets(self, columns: Sequence[Column], keys: Sequence[Key], binds: Binds) -> str | None:
        """Return a binary search for an integer key whose boundaries a double holds exactly: WIDTH_BUCKET takes doubles."""
        if len(columns) != 1 or not are_exact_doubles(keys):
            return None
        ends = binds.add(json.dumps([key[0] for key in keys]))
        return f"WIDTH_BUCKET(CAST({self.key_order(columns[0])} AS DOUBLE), CAST(JSON_PARSE({ends}) AS ARRAY(DOUBLE)))"
