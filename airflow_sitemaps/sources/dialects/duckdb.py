"""DuckDB: hash, ASOF join, its own Arrow reader; run live in the tests."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from airflow_sitemaps.errors import SourceError
from airflow_sitemaps.sources import reading
from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.connect import redacted
from airflow_sitemaps.sources.dialects.base import Dialect
from airflow_sitemaps.sources.statement import guarded

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    import sqlalchemy as sa

    from airflow_sitemaps.shards.key import Key
    from airflow_sitemaps.sources.dialects.base import Reader
    from airflow_sitemaps.sources.intervals import Run
    from airflow_sitemaps.sources.relation import Relation
    from airflow_sitemaps.sources.session import SqlSession
    from airflow_sitemaps.sources.statement import Binds

ENDS = {
    Kind.DATE: ("DATE '0001-01-01'", "DATE '9999-12-31'"),
    Kind.TIMESTAMP: ("TIMESTAMP '0001-01-01 00:00:00'", "TIMESTAMP '9999-12-31 23:59:59.999999'"),
    Kind.ZONED: ("TIMESTAMPTZ '0001-01-01 00:00:00+00'", "TIMESTAMPTZ '9999-12-31 23:59:59.999999+00'"),
}


class DuckDB(Dialect):
    """DuckDB 1.3 and later, by duckdb-engine."""

    name: ClassVar[str] = "duckdb"
    hash_version: ClassVar[str] = "hash/1"
    live: ClassVar[bool] = True

    max_binds: ClassVar[int] = 30_000
    max_statement_bytes: ClassVar[int] = 4_000_000
    max_case: ClassVar[int] = 500
    sorted_union: ClassVar[bool] = True

    # A time zone is set on the connection; DuckDB has no read-only transaction (it has read-only files).
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
        super().__init__(dialect)
        import duckdb  # noqa: PLC0415 - optional

        # DuckDB does not promise that its hash stays the same from one version to the next.
        self._version = duckdb.__version__

    @property
    def digest_kind(self) -> str:
        """With DuckDB's own version."""
        return f"{super().digest_kind}/{self._version}"

    def describe(self, connection: sa.Connection, relation: Relation, names: Sequence[str]) -> dict[str, Column]:
        """Names and types of a result's description."""
        sql = f"SELECT src.* FROM {relation.from_item(self)} WHERE false"
        with connection.execute(*relation.binds().statement(sql)) as result:
            described = result.cursor.description if result.cursor is not None else ()
        return {
            str(name): Column(name=str(name), kind=self.kind(str(code)), type_name=guarded(str(code)))
            for name, code, *_rest in described or ()
        }

    def rank_at_once(self, columns: Sequence[Column]) -> int | None:
        """Any number: they are one list per column."""
        return None

    def boundary_rows(self, columns: Sequence[Column], keys: Sequence[Key], binds: Binds) -> str:
        """One list per key column, unnested side by side."""
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
        """An ASOF join, which takes one inequality: so for keys of one column."""
        if len(columns) != 1:
            return None
        key = self.key_order(columns[0])
        return (
            f"SELECT COALESCE(place + 1, 0) AS bucket, newest, row_hash FROM"
            f" (SELECT {key} AS row_key, {measures} FROM {from_item} WHERE {where}) measured"
            f" ASOF LEFT JOIN ({self.boundary_rows(columns, keys, binds)}) given ON row_key >= k0"
        )

    def as_text(self, expression: str, column: Column) -> str:
        """Text by DuckDB's own cast."""
        return f"CAST({expression} AS VARCHAR)"

    def members(self, group: Column, columns: Sequence[Column], from_item: str, where: str) -> str:
        """By a list of lists of texts."""
        texts = ", ".join(self.emit_text(column) for column in columns)
        members = f"CAST(to_json(list([{texts}] ORDER BY {self.binary_orders(columns)})) AS VARCHAR)"
        return self.aggregated(members, group, from_item, where)

    def byte_length(self, text: str) -> str:
        """Bytes."""
        return f"CAST(strlen({text}) AS VARCHAR)"

    def hash_of(self, text: str) -> str:
        """DuckDB's hash of the bytes: of a BLOB, so that no collation has a say."""
        return f"hash(encode({text}))"

    def hash_type(self) -> Any:
        """Unsigned."""
        return pa.uint64()

    def checksum(self, hashes: str) -> str:
        """The sum of UBIGINT is a HUGEINT."""
        return f"CAST(SUM({hashes}) AS VARCHAR)"

    def modulo(self, expression: str, divisor: int) -> str:
        """The remainder of a division."""
        return f"({expression}) % {divisor:d}"

    def binary_order(self, column: Column) -> str:
        """Bytes, whatever the column's collation."""
        return f"encode({self.as_text(self.column(column), column)})"

    def emit_lastmod(self, column: Column) -> str:
        """Times clamped to the years 1 to 9999: infinity, and years that Arrow's readers refuse."""
        if column.kind not in ENDS:
            return self.emit_text(column)
        first, last = ENDS[column.kind]
        value = self.column(column)
        clamped = f"CASE WHEN {value} < {first} THEN {first} WHEN {value} > {last} THEN {last} ELSE {value} END"
        return clamped if column.kind is not Kind.TIMESTAMP else f"CAST({clamped} AS TIMESTAMP)"

    def emit_micros(self, column: Column) -> str:
        """Microseconds since 1970."""
        return f"epoch_us({self.emit_lastmod(column)})"

    def arrow_reader(self, session: SqlSession) -> AbstractContextManager[Reader] | None:
        """By DuckDB's reader."""
        return _reader(session)


@contextmanager
def _reader(session: SqlSession) -> Iterator[Reader]:
    import duckdb  # noqa: PLC0415 - optional

    columns = session.selection.outputs(objects=False)
    with session.transaction("reading rows") as connection:
        driver: Any = connection.connection.dbapi_connection

        def rows_of(run: Run) -> Generator[pa.RecordBatch, None, None]:
            (clause, values), outputs = session.rows_statement(run, columns)
            compiled: Any = clause.compile(dialect=session.engine.dialect)
            try:
                rows = driver.sql(compiled.string, params=[values[name] for name in compiled.positiontup or ()])
                # Before DuckDB 1.4 it had another name.
                make = getattr(rows, "to_arrow_reader", None) or rows.fetch_arrow_reader
                for batch in make(reading.BATCH_ROWS):
                    yield reading.fitted(batch, outputs)
            except duckdb.Error as error:
                raise SourceError(f"{session.name}: reading rows failed: {redacted(session.engine, error)}") from None

        yield rows_of
