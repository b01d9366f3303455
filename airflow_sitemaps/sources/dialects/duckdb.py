"""DuckDB: MD5, ASOF join, its own Arrow reader. The tests run it live."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import sqlalchemy as sa

from airflow_sitemaps.shards.ranges import Key
from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.dialects.base import Dialect
from airflow_sitemaps.sources.dialects.value_sql import KINDS
from airflow_sitemaps.sources.driver import BATCH_ROWS, Binds, Rows, Statement, guarded

if TYPE_CHECKING:
    from airflow_sitemaps.sources.queries import Relation


class DuckDB(Dialect):
    """DuckDB 1.3 and later, with duckdb-engine."""

    name: ClassVar[str] = "duckdb"
    drivers: ClassVar[tuple[tuple[str, str], ...]] = (("duckdb", "duckdb_engine"),)
    is_file: ClassVar[bool] = True
    arrow_keeps_times: ClassVar[bool] = True

    max_binds: ClassVar[int] = 30_000
    max_statement_bytes: ClassVar[int] = 4_000_000
    max_case: ClassVar[int] = 500
    sorted_union: ClassVar[bool] = True
    # The primary key alone. Other indexes of DuckDB do not serve ranges.
    indexes_sql: ClassVar[str | None] = (
        "SELECT list(name ORDER BY cid), pk FROM pragma_table_info(:relation) WHERE pk GROUP BY pk"
    )
    binds_lists: ClassVar[bool] = True
    joins_ranges: ClassVar[bool] = True

    hash_version: ClassVar[str] = "md5-hash/1"
    # 64 bits of the MD5 of the text's bytes, which no collation affects. DuckDB's hash of a text differs little between
    # similar texts: changes of two characters, eight bytes apart, have only 256 results. Its ``md5_number_lower`` takes
    # three times as long as ``md5_number``.
    hash_sql: ClassVar[str] = "hash(md5_number(encode({})))"
    hash_type: ClassVar[Any] = pa.uint64()
    # The sum of UBIGINT is a HUGEINT
    checksum_sql: ClassVar[str] = "CAST(SUM({}) AS VARCHAR)"
    byte_length_sql: ClassVar[str] = "CAST(strlen({}) AS VARCHAR)"
    modulo_sql: ClassVar[str] = "({}) % {}"
    binary_order_sql: ClassVar[str] = "encode({})"
    # The time zone is a setting of the connection. DuckDB has read-only files but no read-only transactions.
    session_sql: ClassVar[tuple[str, ...]] = ("SET TimeZone = 'UTC'",)
    now_sql: ClassVar[str] = "SELECT make_timestamp(epoch_us(get_current_timestamp()))"
    members_sql: ClassVar[str] = "CAST(to_json(list([{texts}] ORDER BY {orders})) AS VARCHAR)"

    kinds: ClassVar[Mapping[object, Kind]] = {
        **KINDS,
        **dict.fromkeys(("utinyint", "usmallint", "uinteger"), Kind.INTEGER),
        **dict.fromkeys(("ubigint", "hugeint", "uhugeint"), Kind.NUMBER),
        **dict.fromkeys(("timestamp_s", "timestamp_ms", "timestamp_ns"), Kind.TIMESTAMP),
    }
    number_sql: ClassVar[str] = "CAST({} AS DOUBLE)"
    micros_sql: ClassVar[str] = "epoch_us({})"
    # A TIMESTAMP_NS cannot hold the year 9999, so it cannot be compared with it
    lastmod_sql_of: ClassVar[Mapping[Kind, str]] = {Kind.TIMESTAMP: "CAST({} AS TIMESTAMP)"}
    lastmod_ends: ClassVar[Mapping[Kind, tuple[str, str]]] = {
        Kind.DATE: ("DATE '0001-01-01'", "DATE '9999-12-31'"),
        Kind.TIMESTAMP: ("TIMESTAMP '0001-01-01 00:00:00'", "TIMESTAMP '9999-12-31 23:59:59.999999'"),
        Kind.ZONED: ("TIMESTAMPTZ '0001-01-01 00:00:00+00'", "TIMESTAMPTZ '9999-12-31 23:59:59.999999+00'"),
    }
    asof_sql: ClassVar[str] = (
        "SELECT COALESCE(place + 1, 0) AS bucket, {names} FROM"
        " (SELECT {key} AS row_key, {measures} FROM {from_item} WHERE {where}) measured"
        " ASOF LEFT JOIN ({given}) given ON row_key >= k0"
    )
    returns_bytes: ClassVar[bool] = True

    def __init__(self, dialect: sa.Dialect) -> None:
        super().__init__(dialect)
        import duckdb  # noqa: PLC0415 - optional

        # DuckDB does not guarantee that its hash is the same in two versions.
        self._version = duckdb.__version__

    @property
    def digest_kind(self) -> str:
        return f"{super().digest_kind}/{self._version}"

    def arrow_rows(
        self, connection: sa.Connection, statement: Statement, tell: Callable[[str], None]
    ) -> Generator[pa.RecordBatch | Rows, None, None]:
        tell("Arrow batches by DuckDB's own reader")
        clause, values = statement
        driver: Any = connection.connection.dbapi_connection
        compiled: Any = clause.compile(dialect=connection.dialect)
        rows = driver.sql(compiled.string, params=[values[name] for name in compiled.positiontup or ()])
        # The method has another name before DuckDB 1.4.
        make = getattr(rows, "to_arrow_reader", None) or rows.fetch_arrow_reader
        yield from make(BATCH_ROWS)

    def is_repeated(self, connection: sa.Connection, relation: Relation, name: str, columns: Collection[str]) -> bool:
        if relation.query is None or f"{name}_1".casefold() not in map(str.casefold, columns):
            return False
        rows = connection.execute(
            *relation.binds().statement(f"DESCRIBE {guarded(relation.query, relation.parameters)}")
        )
        return [str(row[0]).casefold() for row in rows].count(name.casefold()) > 1

    def type_of(self, description: Sequence[Any]) -> str:
        return guarded(str(description[1]))

    def boundary_rows(self, columns: Sequence[Column], keys: Sequence[Key], binds: Binds) -> str:
        lists = [binds.add([key[number] for key in keys]) for number in range(len(columns))]
        parts = [f"unnest({given}) AS v{number}" for number, given in enumerate(lists)]
        values = ", ".join(
            f"{self.key_bind(column, f'v{number}')} AS k{number}" for number, column in enumerate(columns)
        )
        places = f"unnest(range({len(keys):d})) AS place"
        return f"SELECT {values}, place FROM (SELECT {', '.join(parts)}, {places}) given"

    def as_text(self, expression: str, column: Column) -> str:
        """Return SQL for the text of DuckDB's own cast, or for the JSON of a list, a struct or a map."""
        if column.type_name.endswith("]") or column.type_name.startswith(("STRUCT(", "MAP(")):
            expression = f"to_json({expression})"
        return super().as_text(expression, column)

    def key_value(self, column: Column) -> str:
        value = self.column(column)
        return value if column.kind is Kind.INTEGER else self.text_sql.format(value)
