"""DuckDB: MD5, ASOF join, its own Arrow reader. The tests run it live."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.dialects.base import Dialect
from airflow_sitemaps.sources.statements.binds import guarded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import sqlalchemy as sa

    from airflow_sitemaps.shards.key import Key
    from airflow_sitemaps.sources.statements.binds import Binds
    from airflow_sitemaps.sources.statements.relation import Relation

ENDS = {
    Kind.DATE: ("DATE '0001-01-01'", "DATE '9999-12-31'"),
    Kind.TIMESTAMP: ("TIMESTAMP '0001-01-01 00:00:00'", "TIMESTAMP '9999-12-31 23:59:59.999999'"),
    Kind.ZONED: ("TIMESTAMPTZ '0001-01-01 00:00:00+00'", "TIMESTAMPTZ '9999-12-31 23:59:59.999999+00'"),
}


class DuckDB(Dialect):
    """DuckDB 1.3 and later, with duckdb-engine."""

    name: ClassVar[str] = "duckdb"
    hash_version: ClassVar[str] = "md5-hash/1"
    live: ClassVar[bool] = True

    max_binds: ClassVar[int] = 30_000
    max_statement_bytes: ClassVar[int] = 4_000_000
    max_case: ClassVar[int] = 500
    sorted_union: ClassVar[bool] = True
    joins_ranges: ClassVar[bool] = True

    # The time zone is a setting of the connection. DuckDB has read-only files but no read-only transactions.
    begin_sql: ClassVar[tuple[str, ...]] = ("SET TimeZone = 'UTC'",)
    now_sql: ClassVar[str] = "SELECT make_timestamp(epoch_us(get_current_timestamp()))"

    kinds: ClassVar[Mapping[str, Kind]] = {
        "tinyint": Kind.INTEGER,
        "smallint": Kind.INTEGER,
        "integer": Kind.INTEGER,
        "bigint": Kind.INTEGER,
        "utinyint": Kind.INTEGER,
        "usmallint": Kind.INTEGER,
        "uinteger": Kind.INTEGER,
        "ubigint": Kind.NUMBER,
        "hugeint": Kind.NUMBER,
        "uhugeint": Kind.NUMBER,
        "decimal": Kind.NUMBER,
        "float": Kind.NUMBER,
        "double": Kind.NUMBER,
        "varchar": Kind.TEXT,
        "uuid": Kind.UUID,
        "date": Kind.DATE,
        "timestamp": Kind.TIMESTAMP,
        "timestamp_s": Kind.TIMESTAMP,
        "timestamp_ms": Kind.TIMESTAMP,
        "timestamp_ns": Kind.TIMESTAMP,
        "timestamp with time zone": Kind.ZONED,
        "boolean": Kind.BOOLEAN,
        "json": Kind.JSON,
        "blob": Kind.BINARY,
    }
    float_type: ClassVar[str] = "DOUBLE"

    def __init__(self, dialect: sa.Dialect) -> None:
        """Keep the version of DuckDB, which is part of the digest's kind."""
        super().__init__(dialect)
        import duckdb  # noqa: PLC0415 - optional

        # DuckDB does not guarantee that its hash is the same in two versions.
        self._version = duckdb.__version__

    @property
    def digest_kind(self) -> str:
        """The name of the row hash, with DuckDB's own version."""
        return f"{super().digest_kind}/{self._version}"

    def describe(self, connection: sa.Connection, relation: Relation, names: Sequence[str]) -> dict[str, Column]:
        """Return names and types from a result's description."""
        sql = f"SELECT src.* FROM {relation.from_item(self)} WHERE false"
        with connection.execute(*relation.binds().statement(sql)) as result:
            described = result.cursor.description if result.cursor is not None else ()
        return {
            str(name): Column(name=str(name), kind=self.kind(str(code)), type_name=guarded(str(code)))
            for name, code, *_rest in described or ()
        }

    def rank_at_once(self, columns: Sequence[Column]) -> int | None:
        """Return None: any number of keys fits into one list per column."""
        return None

    def boundary_rows(self, columns: Sequence[Column], keys: Sequence[Key], binds: Binds) -> str:
        """Return a query that unnests one list per key column, side by side."""
        lists = [binds.add([key[number] for key in keys]) for number in range(len(columns))]
        parts = [f"unnest({given}) AS v{number}" for number, given in enumerate(lists)]
        values = ", ".join(
            f"{self.key_bind(column, f'v{number}')} AS k{number}" for number, column in enumerate(columns)
        )
        places = f"unnest(range({len(keys):d})) AS place"
        return f"SELECT {values}, place FROM (SELECT {', '.join(parts)}, {places}) given"

    def bucket_rows(
        self, columns: Sequence[Column], keys: Sequence[Key], from_item: str, where: str, measures: str, binds: Binds
    ) -> str | None:
        """Return an ASOF join. It takes one inequality, so it serves only keys of one column."""
        if len(columns) != 1:
            return None
        key = self.key_order(columns[0])
        return (
            f"SELECT COALESCE(place + 1, 0) AS bucket, newest, row_hash FROM"
            f" (SELECT {key} AS row_key, {measures} FROM {from_item} WHERE {where}) measured"
            f" ASOF LEFT JOIN ({self.boundary_rows(columns, keys, binds)}) given ON row_key >= k0"
        )

    def as_text(self, expression: str, column: Column) -> str:
        """Return SQL for the text of DuckDB's own cast, or for the JSON of a list, a struct or a map."""
        if column.type_name.endswith("]") or column.type_name.startswith(("STRUCT(", "MAP(")):
            expression = f"to_json({expression})"
        return f"CAST({expression} AS VARCHAR)"

    def key_value(self, column: Column) -> str:
        """Return SQL for an integer, or for the text that a cast to the column's type reads."""
        value = self.column(column)
        return value if column.kind is Kind.INTEGER else f"CAST({value} AS VARCHAR)"

    def members(self, group: Column, columns: Sequence[Column], from_item: str, where: str, most: int) -> str:
        """Write the members by a list of lists of texts."""
        texts = ", ".join(self.emit_text(column) for column in columns)
        members = f"CAST(to_json(list([{texts}] ORDER BY {self.binary_orders(columns)})) AS VARCHAR)"
        return self.aggregated(members, group, from_item, where, most)

    def byte_length(self, text: str) -> str:
        """Return SQL for the number of bytes."""
        return f"CAST(strlen({text}) AS VARCHAR)"

    def hash_of(self, text: str) -> str:
        """Return SQL for 64 bits of the MD5 of the text's bytes, which no collation affects.

        DuckDB's hash of a text differs little between similar texts: changes of two characters, eight bytes apart, have only
        256 results. Its ``md5_number_lower`` takes three times as long as ``md5_number``.
        """
        return f"hash(md5_number(encode({text})))"

    def hash_type(self) -> Any:
        """Return uint64: the hash is unsigned."""
        return pa.uint64()

    def checksum(self, hashes: str) -> str:
        """Return SQL for the exact sum: the sum of UBIGINT is a HUGEINT."""
        return f"CAST(SUM({hashes}) AS VARCHAR)"

    def modulo(self, expression: str, divisor: int) -> str:
        """Return SQL for the remainder of a division."""
        return f"({expression}) % {divisor:d}"

    def binary_order(self, column: Column) -> str:
        """Return SQL that orders rows by bytes, whatever the column's collation."""
        return f"encode({self.as_text(self.column(column), column)})"

    def emit_lastmod(self, column: Column) -> str:
        """Return SQL for a time, clamped to the years 1 to 9999: Arrow's readers refuse infinity and other years."""
        if column.kind not in ENDS:
            return self.emit_text(column)
        first, last = ENDS[column.kind]
        value = self.column(column)
        if column.kind is Kind.TIMESTAMP:
            # A TIMESTAMP_NS cannot hold the year 9999, so it cannot be compared with it.
            value = f"CAST({value} AS TIMESTAMP)"
        return f"CASE WHEN {value} < {first} THEN {first} WHEN {value} > {last} THEN {last} ELSE {value} END"

    def emit_bytes(self, column: Column) -> str:
        """Return SQL for the bytes themselves."""
        return self.column(column)

    def emit_micros(self, column: Column) -> str:
        """Return SQL for the microseconds since 1970."""
        return f"epoch_us({self.emit_lastmod(column)})"
