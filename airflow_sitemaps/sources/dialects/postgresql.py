"""PostgreSQL: hashtextextended, row values, width_bucket; run live in the tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, ClassVar

from airflow_sitemaps.sources import adbc, reading
from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.dialects.base import Dialect
from airflow_sitemaps.sources.statement import Binds, guarded

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from contextlib import AbstractContextManager

    import sqlalchemy as sa

    from airflow_sitemaps.shards.key import Key
    from airflow_sitemaps.sources.dialects.base import Reader
    from airflow_sitemaps.sources.reading import Rows
    from airflow_sitemaps.sources.relation import Relation
    from airflow_sitemaps.sources.session import SqlSession
    from airflow_sitemaps.sources.statement import Statement

FIXED_WIDTH = frozenset({Kind.INTEGER, Kind.UUID, Kind.TIMESTAMP, Kind.ZONED, Kind.DATE})
"""Kinds whose arrays ``width_bucket`` searches in steps of equal length: texts and decimals it must walk."""

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
    hash_version: ClassVar[str] = "hashtextextended/1"
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
        # A nested CASE of thousands of boundaries is compiled for minutes and run in a blink.
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
        """Types and collations by an outer join with nothing: the types are known without a row."""
        empty = f"SELECT src.* FROM {relation.from_item(self)} WHERE false"
        with connection.execute(*relation.binds().statement(empty)) as result:
            found = list(result.keys())
        columns = {name: Column(name=name, kind=Kind.OTHER) for name in found}
        wanted = [name for name in found if name in set(names)]
        types = self._of_columns(connection, relation, "CAST(pg_typeof({}) AS text)", wanted)
        texts = [name for name in wanted if self.kind(types[name]) is Kind.TEXT]
        collations = self._of_columns(connection, relation, "pg_collation_for({})", texts)
        for name, type_name in types.items():
            columns[name] = Column(
                name=name,
                kind=self.kind(type_name),
                # Plain "character" would mean one character.
                type_name=guarded("bpchar" if type_name == "character" else type_name),
                collation=guarded(collations.get(name) or ""),
            )
        return columns

    def _of_columns(
        self, connection: sa.Connection, relation: Relation, function: str, names: Sequence[str]
    ) -> dict[str, str]:
        """A function of each column's type."""
        if not names:
            return {}
        asked = ", ".join(function.format(f"src.{self.quote(name)}") for name in names)
        nothing = f"(SELECT * FROM {relation.from_item(self)} LIMIT 0) src"
        statement = relation.binds().statement(f"SELECT {asked} FROM (SELECT 1) one LEFT JOIN {nothing} ON true")
        return dict(zip(names, connection.execute(*statement).one(), strict=True))

    def rank_at_once(self, columns: Sequence[Column]) -> int | None:
        """Any number: they are one bind."""
        return None

    def modulo(self, expression: str, divisor: int) -> str:
        """The remainder of a division."""
        return f"({expression}) % {divisor:d}"

    def boundary_rows(self, columns: Sequence[Column], keys: Sequence[Key], binds: Binds) -> str:
        """One JSON bind, whatever their number."""
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
        """The number of boundaries at or below a row's key, by binary search in an array; None where that is slow."""
        if len(columns) != 1 or columns[0].kind not in FIXED_WIDTH:
            return None
        array = f"(SELECT array_agg(b.k0 ORDER BY b.place) FROM ({self.boundary_rows(columns, keys, binds)}) b)"
        return f"width_bucket({self.key_order(columns[0])}, {array})"

    def as_text(self, expression: str, column: Column) -> str:
        """Text by PostgreSQL's own output, compared and hashed by its bytes."""
        return f'(CAST({expression} AS text) COLLATE "C")'

    def members(self, group: Column, columns: Sequence[Column], from_item: str, where: str) -> str:
        """By ``json_agg``; its arrays are built of texts."""
        texts = ", ".join(self.emit_text(column) for column in columns)
        members = f"CAST(json_agg(json_build_array({texts}) ORDER BY {self.binary_orders(columns)}) AS text)"
        return self.aggregated(members, group, from_item, where)

    def byte_length(self, text: str) -> str:
        """Bytes."""
        return f"CAST(octet_length({text}) AS text)"

    def hash_of(self, text: str) -> str:
        """hashtextextended under the C collation: a nondeterministic one would hash ``Foo`` like ``foo``."""
        return f'hashtextextended({text} COLLATE "C", 0)'

    def checksum(self, hashes: str) -> str:
        """The sum of bigints is a numeric, exact."""
        return f"CAST(SUM({hashes}) AS text)"

    def emit_lastmod(self, column: Column) -> str:
        """Times clamped to the years 1 to 9999: infinity, and years that no driver can hold."""
        if column.kind not in FIRST:
            return self.emit_text(column)
        value = self.column(column)
        kind = column.type_name
        first, last = (f"CAST('{ends[column.kind]}' AS {kind})" for ends in (FIRST, LAST))
        return f"CASE WHEN {value} < {first} THEN {first} WHEN {value} > {last} THEN {last} ELSE {value} END"

    def emit_micros(self, column: Column) -> str:
        """The same as microseconds since 1970, for drivers that give Python objects."""
        return f"CAST(EXTRACT(EPOCH FROM {self.emit_lastmod(column)}) * 1000000 AS bigint)"

    def rows(self, connection: sa.Connection, statement: Statement) -> Generator[Rows, None, None]:
        """By the driver's own named cursor, in binary where it can."""
        if connection.dialect.driver == "psycopg":
            return reading.named_cursor(connection, statement, binary=True)
        if connection.dialect.driver == "psycopg2":
            return reading.named_cursor(connection, statement)
        return super().rows(connection, statement)

    def arrow_reader(self, session: SqlSession) -> AbstractContextManager[Reader] | None:
        """By ADBC, where it is installed."""
        return adbc.reader(session)
