"""PostgreSQL: hashtextextended, row values, width_bucket. The tests run it live."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, ClassVar

from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.dialects.base import Dialect
from airflow_sitemaps.sources.readers.streams import named_cursor
from airflow_sitemaps.sources.statements.binds import Binds, guarded

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    import sqlalchemy as sa

    from airflow_sitemaps.shards.key import Key
    from airflow_sitemaps.sources.readers.streams import Rows
    from airflow_sitemaps.sources.statements.binds import Statement
    from airflow_sitemaps.sources.statements.relation import Relation

FIXED_WIDTH = frozenset({Kind.INTEGER, Kind.UUID, Kind.TIMESTAMP, Kind.ZONED, Kind.DATE})
"""Kinds whose arrays ``width_bucket`` searches in steps of equal length. It must walk arrays of texts and decimals."""

FIRST = {Kind.DATE: "0001-01-01", Kind.TIMESTAMP: "0001-01-01 00:00:00", Kind.ZONED: "0001-01-01 00:00:00+00"}
LAST = {
    Kind.DATE: "9999-12-31",
    Kind.TIMESTAMP: "9999-12-31 23:59:59.999999",
    Kind.ZONED: "9999-12-31 23:59:59.999999+00",
}


INDEXES = """
SELECT ARRAY(SELECT CAST(a.attname AS text) FROM unnest(CAST(i.indkey AS smallint[])) WITH ORDINALITY AS k (number, place)
  LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
  WHERE k.place <= i.indnkeyatts ORDER BY k.place), i.indisunique AND i.indimmediate
FROM pg_catalog.pg_index i WHERE i.indrelid = to_regclass(:relation) AND i.indisvalid AND i.indpred IS NULL
"""


class PostgreSQL(Dialect):
    """PostgreSQL 13 and later."""

    name: ClassVar[str] = "postgresql"
    hash_version: ClassVar[str] = "hash-extended-chain/2"
    live: ClassVar[bool] = True

    max_binds: ClassVar[int] = 30_000
    max_statement_bytes: ClassVar[int] = 4_000_000
    max_case: ClassVar[int] = 500
    row_values: ClassVar[bool] = True
    prefers_hops: ClassVar[bool] = True
    sorted_union: ClassVar[bool] = True

    begin_sql: ClassVar[tuple[str, ...]] = (
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
        "SET LOCAL TimeZone = 'UTC'",
        "SET LOCAL DateStyle = 'ISO, YMD'",
        "SET LOCAL IntervalStyle = 'iso_8601'",
        "SET LOCAL extra_float_digits = 1",
        "SET LOCAL bytea_output = 'hex'",
        "SET LOCAL standard_conforming_strings = on",
        # JIT compilation of a nested CASE with thousands of boundaries takes minutes, while running it is fast.
        "SET LOCAL jit = off",
    )
    now_sql: ClassVar[str] = "SELECT clock_timestamp()"
    indexes_sql: ClassVar[str | None] = INDEXES

    kinds: ClassVar[Mapping[str, Kind]] = {
        "smallint": Kind.INTEGER,
        "integer": Kind.INTEGER,
        "bigint": Kind.INTEGER,
        "numeric": Kind.NUMBER,
        "real": Kind.NUMBER,
        "double precision": Kind.NUMBER,
        "text": Kind.TEXT,
        "character varying": Kind.TEXT,
        "character": Kind.TEXT,
        "name": Kind.TEXT,
        "citext": Kind.TEXT,
        "uuid": Kind.UUID,
        "date": Kind.DATE,
        "timestamp without time zone": Kind.TIMESTAMP,
        "timestamp with time zone": Kind.ZONED,
        "boolean": Kind.BOOLEAN,
        "json": Kind.JSON,
        "jsonb": Kind.JSON,
        "bytea": Kind.BINARY,
    }
    text_type: ClassVar[str] = "text"
    float_type: ClassVar[str] = "double precision"

    def describe(self, connection: sa.Connection, relation: Relation, names: Sequence[str]) -> dict[str, Column]:
        """Return types and collations by an outer join with an empty result, which needs no row."""
        empty = f"SELECT src.* FROM {relation.from_item(self)} WHERE false"
        with connection.execute(*relation.binds().statement(empty)) as result:
            all_names = list(result.keys())
        columns = {name: Column(name=name, kind=Kind.OTHER) for name in all_names}
        wanted = [name for name in all_names if name in set(names)]
        types = self._of_columns(connection, relation, "CAST(pg_typeof({}) AS text)", wanted)
        texts = [name for name in wanted if self.kind(types[name]) is Kind.TEXT]
        collations = self._of_columns(connection, relation, "pg_collation_for({})", texts)
        for name, type_name in types.items():
            columns[name] = Column(
                name=name,
                kind=self.kind(type_name),
                # A plain "character" means one character.
                type_name=guarded("bpchar" if type_name == "character" else type_name),
                collation=guarded(collations.get(name) or ""),
            )
        return columns

    def _of_columns(
        self, connection: sa.Connection, relation: Relation, function: str, names: Sequence[str]
    ) -> dict[str, str]:
        """Return the result of a function of each column's type, by the column's name."""
        if not names:
            return {}
        asked = ", ".join(function.format(f"src.{self.quote(name)}") for name in names)
        nothing = f"(SELECT * FROM {relation.from_item(self)} LIMIT 0) src"
        statement = relation.binds().statement(f"SELECT {asked} FROM (SELECT 1) one LEFT JOIN {nothing} ON true")
        return dict(zip(names, connection.execute(*statement).one(), strict=True))

    def rank_at_once(self, columns: Sequence[Column]) -> int | None:
        """Return None: any number of keys fits into one bind."""
        return None

    def modulo(self, expression: str, divisor: int) -> str:
        """Return SQL for the remainder of a division."""
        return f"({expression}) % {divisor:d}"

    def boundary_rows(self, columns: Sequence[Column], keys: Sequence[Key], binds: Binds) -> str:
        """Return a query of all keys in one JSON bind."""
        given = binds.add(json.dumps([list(key) for key in keys]))
        parts = ", ".join(
            f"CAST(given.part ->> {number} AS {column.type_name or 'text'})"
            f"{' COLLATE ' + column.collation if column.collation else ''} AS k{number}"
            for number, column in enumerate(columns)
        )
        return (
            f"SELECT {parts}, CAST(given.place AS integer) - 1 AS place"
            f" FROM jsonb_array_elements(CAST({given} AS jsonb)) WITH ORDINALITY AS given(part, place)"
        )

    def buckets(self, columns: Sequence[Column], keys: Sequence[Key], binds: Binds) -> str | None:
        """Return a binary search in an array of the boundaries, or None if that is slow for the key's type."""
        if len(columns) != 1 or columns[0].kind not in FIXED_WIDTH:
            return None
        array = f"(SELECT array_agg(b.k0 ORDER BY b.place) FROM ({self.boundary_rows(columns, keys, binds)}) b)"
        return f"width_bucket({self.key_order(columns[0])}, {array})"

    def as_text(self, expression: str, column: Column) -> str:
        """Return SQL for PostgreSQL's own text output, compared and hashed by its bytes."""
        return f'(CAST({expression} AS text) COLLATE "C")'

    def members(self, group: Column, columns: Sequence[Column], from_item: str, where: str, most: int) -> str:
        """Write the members by ``json_agg`` over arrays of texts."""
        texts = ", ".join(self.emit_text(column) for column in columns)
        members = f"CAST(json_agg(json_build_array({texts}) ORDER BY {self.binary_orders(columns)}) AS text)"
        return self.aggregated(members, group, from_item, where, most)

    def byte_length(self, text: str) -> str:
        """Return SQL for the number of bytes."""
        return f"CAST(octet_length({text}) AS text)"

    def hash_of(self, text: str) -> str:
        """Return SQL for the hash under the C collation: a nondeterministic one hashes ``Foo`` like ``foo``."""
        return f'hashtextextended({text} COLLATE "C", 0)'

    def row_hash(self, columns: Sequence[Column]) -> str:
        """Return SQL for a chain of hashes, one per column, by the hash function of the column's type.

        Each hash is seeded with the hash of the columns before it. Nothing is concatenated, so neighbouring columns cannot
        be confused. Integers and times need no text. The chain takes less than half the CPU time of one hash of a text of
        the row. The first seed encodes which columns are NULL, so that the values that replace NULL are not confused with it.
        """
        nulls = " + ".join(
            f"CASE WHEN {self.column(column)} IS NULL THEN {1 << place} ELSE 0 END"
            for place, column in enumerate(columns)
        )
        chain = f"hashint8extended(CAST({nulls} AS bigint), 0)"
        for column in columns:
            chain = self._chained(column, chain)
        return chain

    def _chained(self, column: Column, seed: str) -> str:
        value = self.column(column)
        if column.kind is Kind.INTEGER:
            return f"hashint8extended(COALESCE(CAST({value} AS bigint), 0), {seed})"
        if column.kind in (Kind.TIMESTAMP, Kind.ZONED):
            # The session's zone is UTC: a moment keeps its order and its identity.
            return f"timestamp_hash_extended(COALESCE(CAST({value} AS timestamp), 'epoch'), {seed})"
        if column.kind is Kind.UUID:
            nil = "00000000-0000-0000-0000-000000000000"
            return f"uuid_hash_extended(COALESCE({value}, '{nil}'), {seed})"
        return f"hashtextextended(COALESCE({self.as_text(value, column)}, '') COLLATE \"C\", {seed})"

    def checksum(self, hashes: str) -> str:
        """Return SQL for the exact sum. PostgreSQL sums bigints as a numeric, which cannot overflow."""
        return f"CAST(SUM({hashes}) AS text)"

    def emit_lastmod(self, column: Column) -> str:
        """Return SQL for a time, clamped to the years 1 to 9999: no driver can hold infinity or other years."""
        if column.kind not in FIRST:
            return self.emit_text(column)
        value = self.column(column)
        kind = column.type_name
        first, last = (f"CAST('{ends[column.kind]}' AS {kind})" for ends in (FIRST, LAST))
        return f"CASE WHEN {value} < {first} THEN {first} WHEN {value} > {last} THEN {last} ELSE {value} END"

    def emit_micros(self, column: Column) -> str:
        """Return SQL for the clamped time in microseconds since 1970, for drivers that return Python objects."""
        return f"CAST(EXTRACT(EPOCH FROM {self.emit_lastmod(column)}) * 1000000 AS bigint)"

    def emit_bytes(self, column: Column) -> str:
        """Return SQL for the bytes themselves."""
        return self.column(column)

    def emit_number(self, column: Column) -> str:
        """Return SQL for a number as a float. A numeric outside the range of floats becomes infinity, or zero."""
        value = self.column(column)
        number = f"CAST({value} AS {self.float_type})"
        if column.type_name != "numeric":
            return number
        return (
            f"CASE WHEN {value} = 'NaN' THEN {number} WHEN {value} > 1e300 THEN 'Infinity'"
            f" WHEN {value} < -1e300 THEN '-Infinity' WHEN abs({value}) < 1e-300 THEN 0 ELSE {number} END"
        )

    def rows(self, connection: sa.Connection, statement: Statement) -> Generator[Rows, None, None]:
        """Stream the rows by the driver's own named cursor, in binary with psycopg."""
        if connection.dialect.driver == "psycopg":
            return named_cursor(connection, statement, binary=True)
        if connection.dialect.driver == "psycopg2":
            return named_cursor(connection, statement)
        return super().rows(connection, statement)
