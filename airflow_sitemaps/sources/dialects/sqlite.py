"""SQLite: no hash and no fixed types; rows are read in key order and hashed in this process. Run live in the tests."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import sqlalchemy as sa

from airflow_sitemaps.sources import rowhash
from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.dialects.base import Dialect
from airflow_sitemaps.sources.relation import name_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_sitemaps.shards.key import Key
    from airflow_sitemaps.sources.relation import Relation
    from airflow_sitemaps.sources.statement import Binds

VALUE_KINDS = {"integer": Kind.INTEGER, "real": Kind.NUMBER, "text": Kind.TEXT, "blob": Kind.BINARY}


class SQLite(Dialect):
    """SQLite 3.31 and later."""

    name: ClassVar[str] = "sqlite"
    hash_version: ClassVar[str] = rowhash.KIND
    hashes_here: ClassVar[bool] = True
    live: ClassVar[bool] = True

    max_binds: ClassVar[int] = 30_000
    max_statement_bytes: ClassVar[int] = 900_000
    max_case: ClassVar[int] = 500
    row_values: ClassVar[bool] = True
    prefers_hops: ClassVar[bool] = True
    sorted_union: ClassVar[bool] = True

    session_sql: ClassVar[tuple[str, ...]] = ("PRAGMA query_only = ON",)
    writable_sql: ClassVar[tuple[str, ...]] = ("PRAGMA query_only = OFF",)
    begin_sql: ClassVar[tuple[str, ...]] = ("BEGIN",)
    now_sql: ClassVar[str] = "SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"

    text_type: ClassVar[str] = "TEXT"
    float_type: ClassVar[str] = "REAL"

    def describe(self, connection: sa.Connection, relation: Relation, names: Sequence[str]) -> dict[str, Column]:
        """Kinds from declared types that mean whole numbers, else from the values: any value may be of any type."""
        from_item = relation.from_item(self)
        with connection.execute(*relation.binds().statement(f"SELECT src.* FROM {from_item} WHERE 0")) as result:
            found = list(result.keys())
        whole = self._declared_whole(connection, relation)
        columns = {name: Column(name=name, kind=Kind.OTHER) for name in found}
        for name in set(names) & columns.keys():
            kind = Kind.INTEGER if name in whole else self._kind_of_values(connection, relation, name)
            columns[name] = Column(name=name, kind=kind)
        return columns

    def _declared_whole(self, connection: sa.Connection, relation: Relation) -> set[str]:
        """The columns of a table that are declared as integers, and so sort as numbers."""
        if relation.table is None:
            return set()
        *schema, table = name_parts(relation.table)
        inside = f"{self.quote(schema[-1])}." if schema else ""
        rows = connection.execute(sa.text(f"PRAGMA {inside}table_xinfo({self.quote(table)})"))
        return {str(row[1]) for row in rows if "INT" in str(row[2]).upper()}

    def _kind_of_values(self, connection: sa.Connection, relation: Relation, name: str) -> Kind:
        """The kind of the first value; numbers are whole only where no fraction stands among them."""
        column = f"src.{self.quote(name)}"
        start = f"SELECT typeof({column}) FROM {relation.from_item(self)} WHERE"
        first = relation.binds().statement(f"{start} {column} IS NOT NULL LIMIT 1")
        kind = VALUE_KINDS.get(str(connection.execute(*first).scalar()), Kind.OTHER)
        if kind is Kind.INTEGER:
            fraction = relation.binds().statement(f"{start} typeof({column}) = 'real' LIMIT 1")
            kind = Kind.INTEGER if connection.execute(*fraction).scalar() is None else Kind.NUMBER
        return kind

    def key_value(self, column: Column) -> str:
        """Integers and texts as they are stored; a fraction as its shortest text."""
        value = self.column(column)
        return f"CAST({value} AS TEXT)" if column.kind is Kind.NUMBER else value

    def key_bind(self, column: Column, placeholder: str) -> str:
        """Fractions come back from their text; other values are compared under the column's own affinity."""
        return f"CAST({placeholder} AS NUMERIC)" if column.kind is Kind.NUMBER else placeholder

    @contextmanager
    def reading(self, connection: sa.Connection) -> Iterator[None]:
        """Texts as bytes: one that is no UTF-8 would else fail the whole run inside the driver."""
        driver: Any = connection.connection.dbapi_connection
        before = driver.text_factory
        driver.text_factory = bytes
        try:
            yield
        finally:
            driver.text_factory = before

    def create_index(self, name: str, table: str, columns: str) -> str:
        """SQLite names the schema with the index, not with the table."""
        schema, _, bare = table.rpartition(".")
        return f"CREATE INDEX {schema + '.' if schema else ''}{name} ON {bare} ({columns})"

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
            f"{self.key_bind(column, f'json_extract(given.value, {chr(39)}$[{number}]{chr(39)})')} AS k{number}"
            for number, column in enumerate(columns)
        )
        return f"SELECT {parts}, given.key AS place FROM json_each({given}) given"

    def emit_lastmod(self, column: Column) -> str:
        """Always the text that is stored."""
        return self.emit_text(column)

    def lastmod_is_text(self, column: Column) -> bool:
        """Always."""
        return True

    def members(self, group: Column, columns: Sequence[Column], from_item: str, where: str) -> str:
        """By a window, since aggregates have no ORDER BY before SQLite 3.44; NULL is not quoted, text is."""
        key = self.column(group)
        texts = ", ".join(self.emit_text(column) for column in columns)
        window = f"PARTITION BY {key} ORDER BY {self.binary_orders(columns)}"
        return (
            f"SELECT DISTINCT {key} AS member_of, json_group_array(json_array({texts})) OVER ({window} "
            f"ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS members FROM {from_item} WHERE {where}"
        )

    def binary_order(self, column: Column) -> str:
        """Bytes, whatever the column's collation."""
        return f"{self.emit_text(column)} COLLATE BINARY"
