"""PostgreSQL: hashtextextended, row values, width_bucket. The tests run it live."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import ClassVar

import sqlalchemy as sa

from airflow_sitemaps.shards.ranges import Key
from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.dialects import postgresql_readers
from airflow_sitemaps.sources.dialects.base import Dialect, OpenTransaction, are_exact_doubles
from airflow_sitemaps.sources.driver import Binds, Rows, Statement, guarded, named_cursor
from airflow_sitemaps.sources.queries import Relation
from airflow_sitemaps.sources.queries.context import QueryContext, SpanReader
from airflow_sitemaps.sources.user_texts import name_parts

FIXED_WIDTH = frozenset({Kind.INTEGER, Kind.UUID, Kind.TIMESTAMP, Kind.ZONED, Kind.DATE})
"""Kinds whose arrays ``width_bucket`` searches in steps of equal length. It must walk arrays of texts and decimals."""

MASK_BITS = 31
"""The number of columns whose NULLs one integer encodes."""
TEXT_HASH = 'pg_catalog.hashtextextended({value} COLLATE pg_catalog."C", {seed})'
BYTES_HASH = TEXT_HASH.format(value="pg_catalog.encode(pg_catalog.{send}({{value}}), 'hex')", seed="{{seed}}")
# PostgreSQL's hash of a bigint XORs its upper half into its lower half. XOR with the seed keeps all 64 bits.
BIGINT_HASH = "pg_catalog.hashint8extended({value}, {seed} OPERATOR(pg_catalog.#) {value})"
# PostgreSQL's hash of a float equates -0 and 0, which have different texts.
FLOAT_HASH = (
    "pg_catalog.hashfloat8extended(CASE {value} WHEN 0 THEN 1 ELSE {value} END, {seed} OPERATOR(pg_catalog.#)"
    " CASE {value} WHEN 0 THEN pg_catalog.hashtext(CAST({value} AS text)) ELSE 0 END)"
)
STEPS = {
    "smallint": ("pg_catalog.hashint4extended({value}, {seed})", "0"),
    "integer": ("pg_catalog.hashint4extended({value}, {seed})", "0"),
    "bigint": (BIGINT_HASH, "0"),
    "real": (FLOAT_HASH, "0"),
    "double precision": (FLOAT_HASH, "0"),
    "uuid": ("pg_catalog.uuid_hash_extended({value}, {seed})", "'00000000-0000-0000-0000-000000000000'"),
    # The hashes of times fold like that of a bigint, and have no integer to combine with the seed.
    "date": (BYTES_HASH.format(send="date_send"), "'epoch'"),
    "timestamp without time zone": (BYTES_HASH.format(send="timestamp_send"), "'epoch'"),
    "timestamp with time zone": (BYTES_HASH.format(send="timestamptz_send"), "'epoch'"),
}
"""The seeded hash of a value, and the value that stands for NULL, by type. Values of other types are hashed as texts."""

INDEXES = """
SELECT ARRAY(SELECT CAST(a.attname AS text) FROM unnest(CAST(i.indkey AS smallint[])) WITH ORDINALITY AS k (number, place)
  LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
  WHERE k.place <= i.indnkeyatts ORDER BY k.place), i.indisunique AND i.indimmediate
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits h JOIN pg_catalog.pg_class c ON c.oid = h.inhparent
    WHERE h.inhparent = i.indrelid AND c.relkind = 'r')
FROM pg_catalog.pg_index i WHERE i.indrelid = to_regclass(:relation) AND i.indisvalid AND i.indpred IS NULL
"""
IDENTITY = """
SELECT c.oid, CASE WHEN c.relkind = 'v' THEN pg_get_viewdef(c.oid) END,
  ARRAY(SELECT CAST(relid AS oid) FROM pg_catalog.pg_partition_tree(c.oid) ORDER BY 1)
FROM pg_catalog.pg_class c WHERE c.oid = to_regclass(:relation)
"""
LOCKABLE = """
SELECT relkind IN ('r', 'p') AND has_table_privilege(oid, 'SELECT') FROM pg_catalog.pg_class WHERE oid = to_regclass(:relation)
"""
SHARE = """
SELECT MAX(total) FROM (SELECT SUM(common.share) AS total FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_stats s ON s.schemaname = n.nspname AND s.tablename = c.relname AND s.attname = :column
  CROSS JOIN unnest(CAST(CAST(s.most_common_vals AS text) AS text[]), s.most_common_freqs) AS common (value, share)
WHERE c.oid = to_regclass(:relation) AND common.value = ANY(:given) AND s.n_distinct BETWEEN 1 AND :most GROUP BY s.inherited) totals
"""
FEW_OTHERS = 20
"""Most values besides those of a list, for a shared survey to digest their rows too: each has a sum in each range."""
OLDEST_TRANSACTION = """
SELECT CAST(l.transactionid AS text),
  CASE WHEN l.pid IS NULL THEN 'prepared transaction ' || p.gid ELSE concat('process ', l.pid, ' ', a.state) END,
  CAST(EXTRACT(EPOCH FROM clock_timestamp() - COALESCE(a.xact_start, p.prepared)) AS double precision)
FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
  LEFT JOIN pg_catalog.pg_prepared_xacts p ON p.transaction = l.transactionid
WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted ORDER BY age(l.transactionid) DESC LIMIT 1
"""


class PostgreSQL(Dialect):
    """PostgreSQL 13 and later."""

    name: ClassVar[str] = "postgresql"
    drivers: ClassVar[tuple[tuple[str, str], ...]] = (
        ("postgresql+psycopg", "psycopg"), ("postgresql+psycopg2", "psycopg2"),
    )  # fmt: skip

    max_binds: ClassVar[int] = 30_000
    max_statement_bytes: ClassVar[int] = 4_000_000
    max_case: ClassVar[int] = 500
    row_values: ClassVar[bool] = True
    prefers_hops: ClassVar[bool] = True
    sorted_union: ClassVar[bool] = True
    binds_lists: ClassVar[bool] = True

    null_sql: ClassVar[str] = "NOT ({} IS NOT NULL)"
    """A composite value with a NULL field is neither NULL nor NOT NULL."""
    begin_sql: ClassVar[tuple[str, ...]] = ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",)
    lock_sql: tuple[str, ...] = ()
    session_sql: ClassVar[tuple[str, ...]] = (
        # JIT compilation of a nested CASE with thousands of boundaries takes minutes, while running it is fast.
        ("SELECT set_config('TimeZone', 'UTC', true), set_config('DateStyle', 'ISO, YMD', true),"
         " set_config('IntervalStyle', 'iso_8601', true), set_config('extra_float_digits', '1', true),"
         " set_config('bytea_output', 'hex', true), set_config('standard_conforming_strings', 'on', true),"
         " set_config('jit', 'off', true)"),
    )  # fmt: skip
    now_sql: ClassVar[str] = "SELECT clock_timestamp()"
    indexes_sql: ClassVar[str | None] = INDEXES
    identity_sql: ClassVar[str | None] = IDENTITY

    # By an index that leads with the column, PostgreSQL reads all rows in the index's order, at twice the cost of a scan
    group_sql: ClassVar[str] = "COALESCE({0}, {0})"
    hash_version: ClassVar[str] = "hash-extended-chain/3"
    # Under the C collation: a nondeterministic one hashes ``Foo`` like ``foo``
    hash_sql: ClassVar[str] = TEXT_HASH.format(value="{}", seed="0")
    # PostgreSQL sums bigints as a numeric, which cannot overflow
    checksum_sql: ClassVar[str] = "CAST(pg_catalog.SUM({}) AS text)"
    byte_length_sql: ClassVar[str] = "CAST(octet_length({}) AS text)"
    modulo_sql: ClassVar[str] = "({}) % {}"
    members_sql: ClassVar[str] = "CAST(json_agg(json_build_array({texts}) ORDER BY {orders}) AS text)"

    text_type: ClassVar[str] = "text"
    # PostgreSQL's own text output, compared and hashed by its bytes
    text_sql: ClassVar[str] = '(CAST({} AS text) COLLATE "C")'
    number_sql: ClassVar[str] = "CAST({} AS double precision)"
    micros_sql: ClassVar[str] = "CAST(EXTRACT(EPOCH FROM {}) * 1000000 AS bigint)"
    lastmod_ends: ClassVar[Mapping[Kind, tuple[str, str]]] = {
        Kind.DATE: ("CAST('0001-01-01' AS date)", "CAST('9999-12-31' AS date)"),
        Kind.TIMESTAMP: ("CAST('0001-01-01 00:00:00' AS timestamp without time zone)",
                         "CAST('9999-12-31 23:59:59.999999' AS timestamp without time zone)"),
        Kind.ZONED: ("CAST('0001-01-01 00:00:00+00' AS timestamp with time zone)",
                     "CAST('9999-12-31 23:59:59.999999+00' AS timestamp with time zone)"),
    }  # fmt: skip
    returns_bytes: ClassVar[bool] = True
    lists_texts: ClassVar[bool] = False
    listed_part_sql: ClassVar[str] = "given.part ->> {at}"
    listed_rows_sql: ClassVar[str] = (
        "SELECT {parts}, CAST(given.place AS integer) - 1 AS place"
        " FROM pg_catalog.jsonb_array_elements(CAST({given} AS jsonb)) WITH ORDINALITY AS given(part, place)"
    )

    def own_reader(self, context: QueryContext, engine: sa.Engine) -> AbstractContextManager[SpanReader] | None:
        return postgresql_readers.opened(context, engine)

    def opening_sql(self, *, reads: bool = False) -> tuple[str, ...]:
        """Return the statements of ``Dialect.opening_sql``. Isolation and locks come before the first query of the package.

        The user's statements may hold a query, and must not change the isolation: it is set before and after them.
        """
        again = self.begin_sql if self.users_sql else ()
        return (*self.begin_sql, *self.users_sql, *again, *(self.lock_sql if reads else ()), *self.session_sql)

    def hold(self, connection: sa.Connection, table: str) -> None:
        """Let transactions that read a table lock it first: a snapshot that is older than a TRUNCATE sees it empty."""
        name = self.table_name(name_parts(table))
        if connection.execute(sa.text(LOCKABLE), {"relation": name}).scalar_one_or_none():
            self.lock_sql = (f"LOCK TABLE {name} IN ACCESS SHARE MODE",)

    def share(self, connection: sa.Connection, table: str | None, column: str, values: Sequence[object]) -> float:
        if table is None:
            return 0.0
        name = column[1:-1].replace('""', '"') if column.startswith('"') else column.lower()
        given: dict[str, object] = {"relation": self.table_name(name_parts(table)), "column": name}
        given |= {"given": list(map(str, values)), "most": len(values) + FEW_OTHERS}
        return connection.execute(sa.text(SHARE), given).scalar_one() or 0.0

    def oldest_transaction(self, connection: sa.Connection) -> OpenTransaction | None:
        """Return the transaction that holds back ``pg_snapshot_xmin``."""
        row = connection.execute(sa.text(OLDEST_TRANSACTION)).first()
        if row is None:
            return None
        age = None if row[2] is None else timedelta(seconds=row[2])
        return OpenTransaction(name=row[0], description=row[1].strip(), age=age)

    def describe(self, connection: sa.Connection, relation: Relation, names: Sequence[str]) -> dict[str, Column]:
        """Return types and collations by an outer join with an empty result, which needs no row."""
        empty = f"SELECT src.* FROM {relation.from_item(self)} WHERE false"
        with connection.execute(*relation.binds().statement(empty)) as result:
            all_names = list(result.keys())
        columns = {name: Column(name=name, kind=Kind.OTHER) for name in all_names}
        wanted = [name for name in all_names if name in set(names)]
        types = self._of_columns(connection, relation, "CAST(pg_catalog.pg_typeof({}) AS text)", wanted)
        texts = [name for name in wanted if self.kind(types[name]) is Kind.TEXT]
        collations = self._of_columns(connection, relation, "pg_catalog.pg_collation_for({})", texts)
        for name, type_name in types.items():
            columns[name] = Column(
                name=name,
                kind=self.kind(type_name),
                # A plain "character" means one character, and a plain "bit" one bit.
                type_name=guarded({"character": "bpchar", "bit": '"bit"'}.get(type_name, type_name)),
                collation=guarded(collations.get(name) or ""),
            )
        return columns

    def _of_columns(
        self, connection: sa.Connection, relation: Relation, function: str, names: Sequence[str]
    ) -> dict[str, str]:
        if not names:
            return {}
        asked = ", ".join(function.format(f"src.{self.quote(name)}") for name in names)
        nothing = f"(SELECT * FROM {relation.from_item(self)} LIMIT 0) src"
        statement = relation.binds().statement(f"SELECT {asked} FROM (SELECT 1) one LEFT JOIN {nothing} ON true")
        return dict(zip(names, connection.execute(*statement).one(), strict=True))

    def compares_alike(self, column: Column, other: Column) -> bool:
        """Return whether the values of two columns compare by one rule. Those of a ``citext`` do so without case."""
        are_alike = (column.type_name == "citext") == (other.type_name == "citext")
        return are_alike and super().compares_alike(column, other)

    def listed_key(self, column: Column, text: str) -> str:
        collation = f" COLLATE {column.collation}" if column.collation else ""
        return f"CAST({text} AS {column.type_name or 'text'}){collation}"

    def buckets(self, columns: Sequence[Column], keys: Sequence[Key], binds: Binds) -> str | None:
        """Return a binary search in an array of the boundaries, or None if slow. It is twice as fast among doubles."""
        if len(columns) != 1 or columns[0].kind not in FIXED_WIDTH:
            return None
        row, cut = self.key_order(columns[0]), "b.k0"
        if are_exact_doubles(keys):
            row, cut = (self.number_sql.format(value) for value in (row, cut))
        array = (
            f"(SELECT pg_catalog.array_agg({cut} ORDER BY b.place) FROM ({self.boundary_rows(columns, keys, binds)}) b)"
        )
        return f"pg_catalog.width_bucket({row}, {array})"

    def row_hash(self, columns: Sequence[Column]) -> str:
        """Return SQL for a chain of hashes, one per column, by the hash function of the column's type.

        Each hash is seeded with the one before it. Nothing is concatenated, so neighbouring columns cannot be confused,
        and numbers and times need no text. The chain takes less CPU time than one hash of a text of the row.

        A row with a NULL has a chain of its own, because the masks and defaults of NULL take a quarter of the time. Its
        first seeds encode which columns are NULL, so that the values that replace NULL are not confused with it.
        """
        values = [self.column(column) for column in columns]
        chain, chain_with_null = "0", "0"
        for start in range(0, len(values), MASK_BITS):
            bits = enumerate(values[start : start + MASK_BITS])
            mask = " + ".join(f"CASE WHEN {value} IS NULL THEN {1 << place} ELSE 0 END" for place, value in bits)
            chain_with_null = f"pg_catalog.hashint4extended({mask}, {chain_with_null})"
        for column, value in zip(columns, values, strict=True):
            step, default = STEPS.get(column.type_name, (None, "''"))
            if step is None:
                step, value = TEXT_HASH, self.as_text(value, column)  # noqa: PLW2901
            chain = step.format(value=value, seed=chain)
            chain_with_null = step.format(value=f"COALESCE({value}, {default})", seed=chain_with_null)
        has_null = " OR ".join(f"{value} IS NULL" for value in values)
        return f"CASE WHEN {has_null} THEN {chain_with_null} ELSE {chain} END"

    def emit_number(self, column: Column) -> str:
        """Return SQL for a number as a float. A numeric outside the range of floats becomes infinity, or zero."""
        value = self.column(column)
        number = super().emit_number(column)
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
