"""Databricks: xxhash64. The tests run its statements through Spark, not on Databricks itself.

https://docs.databricks.com/en/delta/history.html and https://docs.databricks.com/en/delta/table-details.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final

import sqlalchemy as sa

from airflow_sitemaps.sources.columns import Kind
from airflow_sitemaps.sources.dialects.base import Warehouse
from airflow_sitemaps.sources.dialects.value_sql import KINDS
from airflow_sitemaps.sources.driver import BATCH_ROWS

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_sitemaps.sources.user_texts import NamePart

HIDING: Final = ("row filter", "column mask")
"""Parts of a table's description that make its rows depend on something else."""


class Databricks(Warehouse):
    """Databricks SQL and Spark 3.4 and later, with databricks-sqlalchemy."""

    name: ClassVar[str] = "databricks"
    arrow_method: ClassVar[str] = "fetchmany_arrow"
    writes_integers: ClassVar[bool] = True
    escapes_backslash: ClassVar[bool] = True

    # A statement has at most 256 named parameters.
    max_binds: ClassVar[int] = 250
    max_statement_bytes: ClassVar[int] = 500_000
    max_case: ClassVar[int] = 1_000

    hash_version: ClassVar[str] = "xxhash64/1"
    # Of the text's bytes, which no collation affects
    hash_sql: ClassVar[str] = "XXHASH64(CAST({} AS BINARY))"
    checksum_sql: ClassVar[str] = "CAST(SUM(CAST({} AS DECIMAL(38, 0))) AS STRING)"
    byte_length_sql: ClassVar[str] = "CAST(OCTET_LENGTH({}) AS STRING)"
    session_sql: ClassVar[tuple[str, ...]] = ("SET TIME ZONE 'UTC'",)
    now_sql: ClassVar[str] = "SELECT current_timestamp()"
    # Delta refuses a time after the table's newest commit
    as_of_sql: ClassVar[str] = "VERSION AS OF {version:d}"
    # Spark's aggregates have no ORDER BY
    members_sql: ClassVar[str] = "CONCAT('[', ARRAY_JOIN(SORT_ARRAY(COLLECT_LIST(TO_JSON(ARRAY({texts})))), ','), ']')"

    kinds: ClassVar[Mapping[object, Kind]] = {
        **KINDS, "timestamp": Kind.ZONED, "timestamp_ntz": Kind.TIMESTAMP,
        **dict.fromkeys(("variant", "struct", "array", "map"), Kind.JSON),
    }  # fmt: skip
    cast_types: ClassVar[Mapping[Kind, str]] = {
        Kind.INTEGER: "BIGINT", Kind.NUMBER: "DECIMAL(38, 18)", Kind.DATE: "DATE", Kind.TIMESTAMP: "TIMESTAMP_NTZ",
        Kind.ZONED: "TIMESTAMP", Kind.BOOLEAN: "BOOLEAN", Kind.BINARY: "BINARY",
    }  # fmt: skip
    text_type: ClassVar[str] = "STRING"
    # Moments are in the session's zone, UTC
    text_sql: ClassVar[str] = "CAST({} AS STRING)"
    text_sql_of: ClassVar[Mapping[Kind, str]] = {Kind.JSON: "TO_JSON({})", Kind.BINARY: "HEX({})"}
    number_sql: ClassVar[str] = "CAST({} AS DOUBLE)"
    key_bind_of: ClassVar[Mapping[Kind, str]] = {Kind.BINARY: "UNHEX({})"}
    listed_part_sql: ClassVar[str] = "part[{at}]"
    listed_rows_sql: ClassVar[str] = (
        "SELECT {parts}, place FROM (SELECT POSEXPLODE(FROM_JSON({given}, 'array<array<string>>')) AS (place, part)) given"
    )

    @classmethod
    def hook_engine(cls, connection: Any, hook: Any) -> sa.Engine:
        """Create an engine with the SQL hook: the connection's type maps to the hook of the REST API."""
        hook_type = import_module("airflow.providers.databricks.hooks.databricks_sql").DatabricksSqlHook
        return super().hook_engine(connection, hook_type(databricks_conn_id=connection.conn_id))

    def arrow_batches(self, cursor: Any) -> Iterator[pa.RecordBatch] | None:
        """Return the batches of ``fetchmany_arrow``, or None if the result is not in Arrow.

        https://docs.databricks.com/en/dev-tools/python-sql-connector.html
        """
        fetch = getattr(cursor, "fetchmany_arrow", None)
        if fetch is None:
            return None
        first = fetch(BATCH_ROWS)

        def batches() -> Iterator[pa.RecordBatch]:
            table = first
            while table.num_rows:
                yield from table.to_batches()
                table = fetch(BATCH_ROWS)

        return batches()

    def type_of(self, description: Sequence[Any]) -> str:
        """Return the own type of a number. As a decimal, a float has another value, and a large one does not fit."""
        name = str(description[1]).lower()
        if name == "decimal" and description[4]:
            return f"DECIMAL({int(description[4])}, {int(description[5] or 0)})"
        return name.upper() if name in ("float", "double") else ""

    def travel_version(self, connection: sa.Connection, table: Sequence[NamePart]) -> int | None:
        history = sa.text(f"DESCRIBE HISTORY {self.table_name(table)} LIMIT 1")
        return int(connection.execute(history).mappings().one()["version"])

    def table_version(self, connection: sa.Connection, table: Sequence[NamePart]) -> str | None:
        """Return a Delta table's newest commit, or None for another kind of table or with filters or masks.

        Commits of a table that was created again begin at 0, so its identity is part of the version.
        """
        name = self.table_name(table)
        detail = connection.execute(sa.text(f"DESCRIBE DETAIL {name}")).mappings().one()
        if str(detail["format"]).lower() != "delta":
            return None
        described: Sequence[Any] = connection.execute(sa.text(f"DESCRIBE TABLE EXTENDED {name}")).all()
        if any(word in str(row[0]).lower() for row in described for word in HIDING):
            return None
        return f"{detail['id']} {self.travel_version(connection, table)}"
