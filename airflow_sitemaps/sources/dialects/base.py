"""The base class of the dialects: standard SQL. Each database overrides the parts in which it differs.

A dialect has four parts. Each is a class that extends the previous part: ``identifier_sql``, ``value_sql``, ``key_sql``, and
the sessions and statements here.

Methods that return SQL take expressions that are already quoted. They return text for ``sqlalchemy.text``. Column names
and users' texts in it are guarded, so that a colon in them is not a placeholder.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.dialects.key_sql import KeySql
from airflow_sitemaps.sources.readers.streams import partitions

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from contextlib import AbstractContextManager

    import sqlalchemy as sa

    from airflow_sitemaps.sources.connections.open_transaction import OpenTransaction
    from airflow_sitemaps.sources.pinned_state import PinnedState
    from airflow_sitemaps.sources.readers.streams import Rows
    from airflow_sitemaps.sources.statements.binds import Statement
    from airflow_sitemaps.sources.statements.relation import Relation
    from airflow_sitemaps.sources.statements.table_name import NamePart


class Dialect(KeySql):
    """The SQL of one database. An instance belongs to one engine and holds no connection."""

    live: ClassVar[bool] = False
    """Whether the tests run against the real database. Otherwise they only compile its statements."""
    max_statement_bytes: ClassVar[int] = 200_000
    """The largest size of one statement, in bytes."""
    enforces_keys: ClassVar[bool] = True
    """Whether the database enforces primary keys and unique constraints, not only declares them."""
    users_sql: tuple[str, ...] = ()
    """The user's own statements, which run before all others on each connection."""
    session_sql: ClassVar[tuple[str, ...]] = ()
    """Statements that run first on each connection. They set time zone and formats, so equal values have equal texts."""
    begin_sql: ClassVar[tuple[str, ...]] = ()
    """Statements that run at the start of each transaction. They make it read-only, with one snapshot."""
    writable_sql: ClassVar[tuple[str, ...]] = ()
    """Statements that run before a materialized table is created or dropped. They undo a read-only ``session_sql``."""
    now_sql: ClassVar[str] = "SELECT CURRENT_TIMESTAMP"
    """A query of the database's time."""
    indexes_sql: ClassVar[str | None] = None
    """A query for the columns and uniqueness of each index of the table ``:relation``.

    If it is None, SQLAlchemy's inspector reads the indexes.
    """
    estimates_scans: ClassVar[bool] = False
    """Whether ``scanned_bytes`` says what a statement will scan."""
    identity_sql: ClassVar[str | None] = None
    """A query whose row differs for another table of the same name: ``:relation``, or ``:name`` in ``:schema``.

    If it is None, the database has no triggers that would stay with the table that was renamed.
    """

    def opening_sql(self) -> tuple[str, ...]:
        """Return the statements that open a read-only transaction. The package's formats come after the user's settings."""
        return (*self.users_sql, *self.session_sql, *self.begin_sql)

    def table_version(self, connection: sa.Connection, table: Sequence[NamePart]) -> str | None:
        """Return an exact version of a table, or None if the database keeps none. Equal versions mean equal rows.

        Args:
            connection: A connection in a transaction.
            table: The parts of the table's name.
        """
        return None

    def scanned_bytes(self, connection: sa.Connection, statement: Statement) -> int:
        """Return the bytes that a query will scan, for a database that ``estimates_scans``.

        Args:
            connection: A connection in a transaction.
            statement: The query.
        """
        raise NotImplementedError(self.name)

    def oldest_transaction(self, connection: sa.Connection) -> OpenTransaction | None:
        """Return the oldest transaction that has written and is still open. None, the default: the database does not say.

        Args:
            connection: A connection in a transaction.
        """
        return None

    def travel_version(self, connection: sa.Connection, table: Sequence[NamePart]) -> int | None:
        """Return the number of a table's present version, for a database whose time travel needs it.

        Args:
            connection: A connection in a transaction.
            table: The parts of the table's name.
        """
        return None

    def as_of(self, state: PinnedState) -> str:
        """Return what follows a table's name to read an earlier state of it.

        Raises:
            SourceConfigurationError: The database has no time travel that this package uses.
        """
        raise SourceConfigurationError(
            f"as_of='plan' is not supported for the database {self.name!r}: omit it. To read one state for the whole run, give "
            "the rows as query= with materialize=, which stores them first"
        )

    def describe(self, connection: sa.Connection, relation: Relation, names: Sequence[str]) -> dict[str, Column]:
        """Return the columns of a relation.

        This implementation reads the description of an empty result. Drivers describe results differently, so most dialects
        override this method.

        Args:
            connection: A connection in a transaction.
            relation: The table or query.
            names: The columns that the source uses. A dialect may leave the kinds of the others unknown.

        Returns:
            Every column, by its name.
        """
        sql = f"SELECT src.* FROM {relation.from_item(self)} WHERE 1 = 0"
        result = connection.execute(*relation.binds().statement(sql))
        described = result.cursor.description if result.cursor is not None else ()
        columns = {
            str(entry[0]): Column(name=str(entry[0]), kind=self.kind_of(entry), type_name=self.type_of(entry))
            for entry in described or ()
        }
        result.close()
        return columns

    def kind_of(self, description: Sequence[Any]) -> Kind:
        """Return the kind of a column from its entry in a result's description.

        Args:
            description: The entry as PEP 249 defines it: name, type code, …, precision, scale.
        """
        return self.kind(str(description[1]))

    def type_of(self, description: Sequence[Any]) -> str:
        """Return the SQL of a column's own type, to which its boundaries are cast.

        Args:
            description: The column's entry in a result's description.

        Returns:
            The type. An empty text, the default, stands for the type of ``cast_types``.
        """
        return ""

    def reading(self, connection: sa.Connection) -> AbstractContextManager[None]:
        """Return a context manager with the driver settings for reading rows by a cursor. The default sets nothing."""
        return nullcontext()

    def rows(self, connection: sa.Connection, statement: Statement) -> Generator[Rows, None, None]:
        """Stream the rows of a statement.

        Yields:
            Some thousands of rows at a time.
        """
        return partitions(connection, statement)

    def limit(self, rows: int, offset: int = 0, *, ordered: bool = True) -> str:
        """Return the end of a query that limits its rows.

        Args:
            rows: The number of rows to return.
            offset: The number of rows to skip before them.
            ordered: Whether the query has an ORDER BY.
        """
        return f" LIMIT {rows:d} OFFSET {offset:d}"

    def members(self, group: Column, columns: Sequence[Column], from_item: str, where: str, most: int) -> str:
        """Write a query of each group as ``member_of`` and of its ``members``: a JSON array of arrays of texts.

        Args:
            group: The column whose equal values make a group.
            columns: The columns whose texts each member's array holds. The members are in a fixed order, so that
                equal groups have equal texts.
            from_item: The relation, called ``src``.
            where: The condition for rows that are in a group.
            most: The largest number of members. ``members`` is ``#large`` for a group that has more.

        Raises:
            SourceConfigurationError: The database has no suitable aggregate.
        """
        raise SourceConfigurationError(
            f"group= is not supported for the database {self.name!r}: collect the versions in the query as JSON, and "
            "name that column in alternates="
        )

    def aggregated(self, members: str, group: Column, from_item: str, where: str, most: int) -> str:
        """Write the query of ``members`` for databases whose aggregate functions can order their rows.

        Args:
            members: SQL of the aggregate.
            group: The column whose value identifies the group.
            from_item: The relation, called ``src``.
            where: The condition for rows that belong to a group.
            most: The largest number of members. A larger group gets the value ``#large``.
        """
        key = self.column(group)
        bounded = f"CASE WHEN COUNT(*) > {most:d} THEN '#large' ELSE {members} END"
        return f"SELECT {key} AS member_of, {bounded} AS members FROM {from_item} WHERE {where} GROUP BY {key}"

    def create_as(self, table: str, rows: str) -> str:
        """Return a statement that creates a table from the rows of a query."""
        return f"CREATE TABLE {table} AS {rows}"

    def create_index(self, name: str, table: str, columns: str) -> str:
        """Return a statement that creates an index of a new table.

        Args:
            name: The index's name, quoted and without the schema.
            table: The table's name, quoted.
            columns: The columns' names, quoted and separated by commas.
        """
        return f"CREATE INDEX {name} ON {table} ({columns})"
