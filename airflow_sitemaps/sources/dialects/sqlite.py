"""SQLite: no hash and no fixed types. This process reads the rows in key order and hashes them. The tests run it live."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import sqlalchemy as sa

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.sources.columns import NUMBERS, Column, Kind
from airflow_sitemaps.sources.dialects.base import Dialect
from airflow_sitemaps.sources.row_values import HASH_KIND
from airflow_sitemaps.sources.user_texts import name_parts

if TYPE_CHECKING:
    from airflow_sitemaps.sources.driver import Binds
    from airflow_sitemaps.sources.queries import Relation

VALUE_KINDS = {"integer": Kind.INTEGER, "real": Kind.NUMBER, "text": Kind.TEXT, "blob": Kind.BINARY}


class SQLite(Dialect):
    """SQLite 3.31 and later."""

    name: ClassVar[str] = "sqlite"
    drivers: ClassVar[tuple[tuple[str, str], ...]] = (("sqlite", "sqlite3"),)
    is_file: ClassVar[bool] = True
    hash_version: ClassVar[str] = HASH_KIND
    hashes_here: ClassVar[bool] = True

    max_binds: ClassVar[int] = 30_000
    max_statement_bytes: ClassVar[int] = 900_000
    max_case: ClassVar[int] = 500
    row_values: ClassVar[bool] = True
    prefers_hops: ClassVar[bool] = True
    sorted_union: ClassVar[bool] = True
    binds_lists: ClassVar[bool] = True

    session_sql: ClassVar[tuple[str, ...]] = ("PRAGMA query_only = ON",)
    writable_sql: ClassVar[tuple[str, ...]] = ("PRAGMA query_only = OFF",)
    begin_sql: ClassVar[tuple[str, ...]] = ("BEGIN",)
    now_sql: ClassVar[str] = "SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
    # A table that is made again may have the page and the text of the first one. Each change of the schema has a number.
    identity_sql: ClassVar[str | None] = "SELECT schema_version FROM pragma_schema_version"

    text_type: ClassVar[str] = "TEXT"
    text_sql: ClassVar[str] = "CAST({} AS TEXT)"
    number_sql: ClassVar[str] = "CAST({} AS REAL)"
    time_kinds: ClassVar[frozenset[Kind]] = frozenset()
    binary_order_sql: ClassVar[str] = "{} COLLATE BINARY"
    modulo_sql: ClassVar[str] = "({}) % {}"
    lists_texts: ClassVar[bool] = False
    listed_part_sql: ClassVar[str] = "json_extract(given.value, '$[{at}]')"
    listed_rows_sql: ClassVar[str] = "SELECT {parts}, given.key AS place FROM json_each({given}) given"

    def describe(self, connection: sa.Connection, relation: Relation, names: Sequence[str]) -> dict[str, Column]:
        """Return integer kinds from the declared types, and other kinds from the values, which may have any type."""
        from_item = relation.from_item(self)
        with connection.execute(*relation.binds().statement(f"SELECT src.* FROM {from_item} WHERE 0")) as result:
            all_names = list(result.keys())
        whole = self._declared_whole(connection, relation)
        columns = {name: Column(name=name, kind=Kind.OTHER) for name in all_names}
        for name in set(names) & columns.keys():
            kind = Kind.INTEGER if name in whole else self._kind_of_values(connection, relation, name)
            columns[name] = Column(name=name, kind=kind)
        return columns

    def is_repeated(self, connection: sa.Connection, relation: Relation, name: str, columns: Collection[str]) -> bool:
        return relation.table is None and f"{name}:1".casefold() in map(str.casefold, columns)

    def _declared_whole(self, connection: sa.Connection, relation: Relation) -> set[str]:
        """Return the columns of a table that are declared as integers, and so sort as numbers."""
        if relation.table is None:
            return set()
        *schema, table = name_parts(relation.table)
        inside = f"{self.quote(schema[-1].text)}." if schema else ""
        rows = connection.execute(sa.text(f"PRAGMA {inside}table_xinfo({self.quote(table.text)})"))
        return {str(row[1]) for row in rows if "INT" in str(row[2]).upper()}

    def _kind_of_values(self, connection: sa.Connection, relation: Relation, name: str) -> Kind:
        """Return the kind of the first value. Numbers are whole only if none of them has a fraction."""
        column = f"src.{self.quote(name)}"
        start = f"SELECT typeof({column}) FROM {relation.from_item(self)} WHERE"
        first = relation.binds().statement(f"{start} {column} IS NOT NULL LIMIT 1")
        kind = VALUE_KINDS.get(str(connection.execute(*first).scalar()), Kind.OTHER)
        if kind is Kind.INTEGER:
            fraction = relation.binds().statement(f"{start} typeof({column}) = 'real' LIMIT 1")
            kind = Kind.INTEGER if connection.execute(*fraction).scalar() is None else Kind.NUMBER
        return kind

    def check_key(self, connection: sa.Connection, from_item: str, binds: Binds, columns: Sequence[Column]) -> None:
        """Refuse a key column of bytes, and one that holds both numbers and texts, which compare otherwise when they are bound."""
        for column in columns:
            value = self.column(column)
            sql = f"SELECT DISTINCT typeof({value}) FROM {from_item} WHERE {value} IS NOT NULL"
            types = {str(row[0]) for row in connection.execute(*binds.statement(sql))}
            kinds = {"number" if each in ("integer", "real") else each for each in types}
            if len(kinds) > 1 or (column.kind is Kind.INTEGER and types - {"integer"}):
                raise SourceConfigurationError(
                    f"the key column {column.name!r} holds values of several types ({', '.join(sorted(types))}), or of another "
                    "than its declared one, which have no one order: cast it to one type in a query"
                )
            if "blob" in types:
                raise SourceConfigurationError(
                    f"the key column {column.name!r} holds bytes, which SQLite does not compare with text: write "
                    f"hex({column.name}) AS {column.name} in a query"
                )

    def compares_alike(self, column: Column, other: Column) -> bool:
        """Return whether the values of two columns compare by one rule. All numbers do, and a column has no type."""
        return {column.kind, other.kind} <= NUMBERS or super().compares_alike(column, other)

    def key_value(self, column: Column) -> str:
        """Return SQL for the stored number or text. Python writes a float exactly, and SQLite reads ``9e999`` as infinity."""
        value = self.column(column)
        if column.kind is not Kind.NUMBER:
            return value
        largest = "1.7976931348623157e308"
        return f"CASE WHEN {value} > {largest} THEN '9e999' WHEN {value} < -{largest} THEN '-9e999' ELSE {value} END"

    def key_bind(self, column: Column, placeholder: str) -> str:
        """Cast a number with a fraction from its text. Other values are compared under the column's own affinity."""
        return f"CAST({placeholder} AS NUMERIC)" if column.kind is Kind.NUMBER else placeholder

    @contextmanager
    def reading(self, connection: sa.Connection) -> Iterator[None]:
        """Make the driver return texts as bytes, because a text that is not UTF-8 fails the whole run inside the driver."""
        driver: Any = connection.connection.dbapi_connection
        before = driver.text_factory
        driver.text_factory = bytes
        try:
            yield
        finally:
            driver.text_factory = before

    def create_index(self, name: str, table: str, columns: str) -> str:
        """Return a statement that names the schema with the index: SQLite does not accept it with the table."""
        schema, _, bare = table.rpartition(".")
        return f"CREATE INDEX {schema + '.' if schema else ''}{name} ON {bare} ({columns})"

    def members(self, group: Column, columns: Sequence[Column], from_item: str, where: str, most: int) -> str:
        """Write the members by a window: aggregates have no ORDER BY before SQLite 3.44. NULL is not quoted, text is.

        A window repeats the whole array for each row of its group, so large groups are excluded from it.
        """
        key = self.column(group)
        texts = ", ".join(self.emit_text(column) for column in columns)
        window = f"PARTITION BY {key} ORDER BY {self.binary_orders(columns)}"
        sizes = f"SELECT {key} FROM {from_item} WHERE {where} GROUP BY {key} HAVING COUNT(*)"
        return (
            f"SELECT DISTINCT {key} AS member_of, json_group_array(json_array({texts})) OVER ({window} "
            f"ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS members FROM {from_item} WHERE {where}"
            f" AND {key} IN ({sizes} <= {most:d}) UNION ALL SELECT large.*, '#large' FROM ({sizes} > {most:d}) large"
        )
