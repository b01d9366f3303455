"""BigQuery: FARM_FINGERPRINT. The tests run its statements transpiled, not on BigQuery itself."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.dialects.base import Dialect
from airflow_sitemaps.sources.statements.literals import literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import sqlalchemy as sa

    from airflow_sitemaps.shards.key import Key
    from airflow_sitemaps.sources.pinned_state import PinnedState
    from airflow_sitemaps.sources.statements.binds import Binds, Statement


class BigQuery(Dialect):
    """BigQuery, with sqlalchemy-bigquery."""

    name: ClassVar[str] = "bigquery"
    hash_version: ClassVar[str] = "farm_fingerprint/1"
    enforces_keys: ClassVar[bool] = False
    lists_keys: ClassVar[bool] = True
    joins_ranges: ClassVar[bool] = True
    sorts_in_parts: ClassVar[bool] = True
    escapes_backslash: ClassVar[bool] = True
    float_key: ClassVar[str] = "IF(IS_NAN({value}), CAST('inf' AS FLOAT64), {value})"

    # A query may have 10,000 parameters and 1 MB of unresolved SQL.
    max_binds: ClassVar[int] = 10_000
    max_statement_bytes: ClassVar[int] = 500_000
    max_case: ClassVar[int] = 500

    now_sql: ClassVar[str] = "SELECT CURRENT_TIMESTAMP()"
    estimates_scans: ClassVar[bool] = True

    kinds: ClassVar[Mapping[str, Kind]] = {
        "int64": Kind.INTEGER,
        "integer": Kind.INTEGER,
        "float64": Kind.NUMBER,
        "float": Kind.NUMBER,
        "numeric": Kind.NUMBER,
        "bignumeric": Kind.NUMBER,
        "string": Kind.TEXT,
        "date": Kind.DATE,
        "datetime": Kind.TIMESTAMP,
        "timestamp": Kind.ZONED,
        "bool": Kind.BOOLEAN,
        "boolean": Kind.BOOLEAN,
        "json": Kind.JSON,
        "bytes": Kind.BINARY,
    }
    cast_types: ClassVar[Mapping[Kind, str]] = {
        Kind.INTEGER: "INT64",
        Kind.NUMBER: "BIGNUMERIC",
        Kind.DATE: "DATE",
        Kind.TIMESTAMP: "DATETIME",
        Kind.ZONED: "TIMESTAMP",
        Kind.BOOLEAN: "BOOL",
        Kind.BINARY: "BYTES",
    }
    text_type: ClassVar[str] = "STRING"
    float_type: ClassVar[str] = "FLOAT64"

    def scanned_bytes(self, connection: sa.Connection, statement: Statement) -> int:
        """Return the bytes that a dry run says, which is free: exact for tables that are not clustered, else an upper bound.

        See https://cloud.google.com/bigquery/docs/best-practices-costs.
        """
        # As sqlalchemy-bigquery itself finds the client of its connections.
        client: Any = getattr(connection.connection.driver_connection, "_client", None)
        make: Callable[..., sa.Dialect] = type(connection.dialect)
        sql = literal(statement, make(paramstyle="named"), self.text_literal)
        config: Any = import_module("google.cloud.bigquery").QueryJobConfig(dry_run=True, use_query_cache=False)
        return int(client.query(sql, job_config=config).total_bytes_processed)

    def type_of(self, description: Sequence[Any]) -> str:
        """Return the own type of a float, which may not fit into a BIGNUMERIC."""
        return "FLOAT64" if str(description[1]).upper() in ("FLOAT", "FLOAT64") else ""

    def as_of(self, state: PinnedState) -> str:
        """Return ``FOR SYSTEM_TIME``, which BigQuery keeps for seven days by default."""
        return f"FOR SYSTEM_TIME AS OF TIMESTAMP '{state.literal()}'"

    def as_text(self, expression: str, column: Column) -> str:
        """Return SQL for the text of BigQuery's own casts, with moments in UTC."""
        if column.kind is Kind.JSON:
            return f"TO_JSON_STRING({expression})"
        if column.kind is Kind.BINARY:
            return f"TO_HEX({expression})"
        if column.kind is Kind.ZONED:
            return f"STRING({expression}, 'UTC')"
        return f"CAST({expression} AS STRING)"

    def boundary_rows(self, columns: Sequence[Column], keys: Sequence[Key], binds: Binds) -> str:
        """Return a query of all keys in one JSON bind, each with its position as the last of its texts."""
        place = Column(name="place", kind=Kind.INTEGER)
        given = self.key_list((*columns, place), [(*key, number) for number, key in enumerate(keys)], binds)
        texts = [f"JSON_VALUE(part, '$[{number}]')" for number in range(len(columns) + 1)]
        parts = [f"{self.listed_key(c, text)} AS k{n}" for n, (c, text) in enumerate(zip(columns, texts, strict=False))]
        return f"SELECT {', '.join(parts)}, CAST({texts[-1]} AS INT64) AS place FROM UNNEST(JSON_QUERY_ARRAY({given})) AS part"

    def buckets(self, columns: Sequence[Column], keys: Sequence[Key], binds: Binds) -> str | None:
        """Return a binary search in an array of the boundaries, for a key of one column."""
        if len(columns) != 1:
            return None
        ends = f"ARRAY(SELECT k0 FROM ({self.boundary_rows(columns, keys, binds)}) given ORDER BY place)"
        return f"RANGE_BUCKET({self.key_order(columns[0])}, {ends})"

    def key_bind(self, column: Column, placeholder: str) -> str:
        """Return SQL that turns a canonical value into the column's type, bytes from hexadecimal digits."""
        return f"FROM_HEX({placeholder})" if column.kind is Kind.BINARY else super().key_bind(column, placeholder)

    def byte_length(self, text: str) -> str:
        """Return SQL for the number of bytes."""
        return f"CAST(BYTE_LENGTH({text}) AS STRING)"

    def members(self, group: Column, columns: Sequence[Column], from_item: str, where: str, most: int) -> str:
        """Write the arrays as texts, joined in order: BigQuery has no array of arrays."""
        texts = ", ".join(self.emit_text(column) for column in columns)
        joined = f"STRING_AGG(TO_JSON_STRING([{texts}]), ',' ORDER BY {self.binary_orders(columns)})"
        return self.aggregated(f"CONCAT('[', {joined}, ']')", group, from_item, where, most)

    def hash_of(self, text: str) -> str:
        """Return SQL for the fingerprint of open-source FarmHash, which never changes."""
        return f"FARM_FINGERPRINT({text})"

    def checksum(self, hashes: str) -> str:
        """Return SQL for the exact sum, as a text."""
        return f"CAST(SUM(CAST({hashes} AS BIGNUMERIC)) AS STRING)"
