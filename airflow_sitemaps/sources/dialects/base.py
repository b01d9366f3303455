"""The base class of the dialects: standard SQL. Each database overrides the parts in which it differs.

A dialect has three parts. Each is a class that extends the previous part: ``value_sql``, ``key_sql``, and the connections,
sessions and statements here. What is only another text is an attribute; what depends on more is a method.

Attributes and methods that give SQL take expressions that are already quoted. They give text for ``sqlalchemy.text``. Column
names and users' texts in it are guarded, so that a colon in them is not a placeholder.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_sitemaps.errors import SourceConfigurationError, SourceError
from airflow_sitemaps.sources.columns import Column
from airflow_sitemaps.sources.connections.driver import CURSOR_ROWS, STREAMED, partitions, translated
from airflow_sitemaps.sources.dialects.key_sql import KeySql

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from contextlib import AbstractContextManager
    from datetime import timedelta

    import pyarrow as pa
    import sqlalchemy as sa

    from airflow_sitemaps.sources.connections.driver import Rows
    from airflow_sitemaps.sources.statements.binds import Statement
    from airflow_sitemaps.sources.statements.relation import Relation
    from airflow_sitemaps.sources.statements.user_texts import NamePart


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedState:
    """A state of a table in the past, which all queries of one run read.

    Attributes:
        moment: The database's time when the state was chosen.
        version: The number of the table's version, where the database numbers them. Default: None.
    """

    moment: datetime
    version: int | None = None

    def __str__(self) -> str:
        """Return the text that a plan keeps, which ``parse`` reads back."""
        return self.moment.isoformat() + ("" if self.version is None else f" {self.version}")

    @classmethod
    def parse(cls, text: str) -> PinnedState:
        """Read the text of a plan. It becomes part of statements, so only a moment and a number are taken.

        Raises:
            SourceConfigurationError: The text is another.
        """
        moment, _, version = text.partition(" ")
        try:
            state = cls(moment=datetime.fromisoformat(moment), version=int(version) if version else None)
        except ValueError:
            state = None
        if state is None or state.moment.tzinfo is None or (state.version or 0) < 0:
            raise SourceConfigurationError(
                f"the plan names the table's state {text!r}, which is not valid: run the plan task again"
            )
        return state

    def literal(self) -> str:
        """Return the moment in UTC as the text of a SQL literal: ``2026-01-31 10:00:00.000000+00:00``."""
        return self.moment.astimezone(timezone.utc).isoformat(" ", "microseconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction of another session that has written and has not ended.

    Its ``age`` is how long it has been open, or None if the role may not see it.
    """

    name: str
    description: str
    age: timedelta | None


class Dialect(KeySql):
    """The SQL of one database. An instance belongs to one engine and holds no connection."""

    live: ClassVar[bool] = False
    """Whether the tests run against the real database. Otherwise they only compile its statements."""
    drivers: ClassVar[tuple[tuple[str, str], ...]] = ()
    """SQLAlchemy's dialects for the database and the modules they need, in order of preference, without a provider."""
    is_file: ClassVar[bool] = False
    """Whether a connection names a file."""
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
    identity_sql: ClassVar[str | None] = None
    """A query whose row differs for another table of the same name: ``:relation``, or ``:name`` in ``:schema``.

    If it is None, the database has no triggers that would stay with the table that was renamed.
    """
    estimates_scans: ClassVar[bool] = False
    """Whether ``scanned_bytes`` says what a statement will scan."""
    limit_sql: ClassVar[str] = " LIMIT {rows} OFFSET {offset}"
    """The end of a query that returns some rows after others."""
    arrow_method: ClassVar[str] = ""
    """The method by which the driver's own cursor returns Arrow batches (``arrow_batches``)."""
    arrow_keeps_times: ClassVar[bool] = False
    """Whether ``arrow_rows`` returns times as times at no cost, so that they are not selected as microseconds."""

    # ------------------------------------------------------------ connections

    @classmethod
    def hook_engine(cls, connection: Any, hook: Any) -> sa.Engine:
        """Return the engine of Airflow's connection by the hook of the installed provider."""
        engine: sa.Engine = hook.get_sqlalchemy_engine()
        return engine

    def opening_sql(self) -> tuple[str, ...]:
        """Return the statements that open a read-only transaction. The package's formats come after the user's settings."""
        return (*self.users_sql, *self.session_sql, *self.begin_sql)

    def begin(self, connection: sa.Connection) -> None:
        """Set the session's formats and begin its read-only transaction."""
        for sql in self.opening_sql():
            connection.exec_driver_sql(sql)

    @contextmanager
    def transaction(self, engine: sa.Engine, what: str) -> Iterator[sa.Connection]:
        """Yield a connection in a read-only transaction, and translate its errors into those of this package.

        Raises:
            SourceError: The database failed.
        """
        with translated(engine, f"{what} failed", SourceError), engine.connect() as connection:
            self.begin(connection)
            try:
                yield connection
            finally:
                if not connection.invalidated:
                    connection.rollback()

    def time(self, connection: sa.Connection) -> datetime:
        """Return the time of the database's clock, in UTC."""
        value = connection.exec_driver_sql(self.now_sql).scalar_one()
        moment: datetime = datetime.fromisoformat(value.replace("Z", "+00:00")) if isinstance(value, str) else value
        return moment.astimezone(timezone.utc) if moment.tzinfo else moment.replace(tzinfo=timezone.utc)

    # ------------------------------------------------------------ what the database knows of a table

    def describe(self, connection: sa.Connection, relation: Relation, names: Sequence[str]) -> dict[str, Column]:
        """Return the columns of a relation by their names, as the description of an empty result has them.

        Args:
            connection: A connection in a transaction.
            relation: The table or query.
            names: The columns that the source uses. A dialect may leave the kinds of the others unknown.
        """
        sql = f"SELECT src.* FROM {relation.from_item(self)} WHERE 1 = 0"
        with connection.execute(*relation.binds().statement(sql)) as result:
            described = result.cursor.description if result.cursor is not None else ()
        return {
            str(entry[0]): Column(name=str(entry[0]), kind=self.kind_of(entry), type_name=self.type_of(entry))
            for entry in described or ()
        }

    def table_version(self, connection: sa.Connection, table: Sequence[NamePart]) -> str | None:
        """Return an exact version of a table, or None if the database keeps none. Equal versions mean equal rows."""
        return None

    def scanned_bytes(self, connection: sa.Connection, statement: Statement) -> int:
        """Return the bytes that a query will scan, for a database that ``estimates_scans``."""
        raise NotImplementedError(self.name)

    def oldest_transaction(self, connection: sa.Connection) -> OpenTransaction | None:
        """Return the oldest transaction that has written and is still open. None, the default: the database does not say."""
        return None

    def travel_version(self, connection: sa.Connection, table: Sequence[NamePart]) -> int | None:
        """Return the number of a table's present version, for a database whose time travel needs it."""
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

    # ------------------------------------------------------------ reading rows

    def reading(self, connection: sa.Connection) -> AbstractContextManager[None]:
        """Return a context manager with the driver settings for reading rows by a cursor. The default sets nothing."""
        return nullcontext()

    def rows(self, connection: sa.Connection, statement: Statement) -> Generator[Rows, None, None]:
        """Stream the rows of a statement, some thousands at a time."""
        return partitions(connection, statement)

    def own_reader(self, context: Any, engine: sa.Engine) -> AbstractContextManager[Any] | None:
        """Return a reader of spans over a connection of its own, or None if the engine's connections read the rows.

        Args:
            context: The source, as its queries need it.
        """
        return None

    def streams_arrow(self, connection: sa.Connection, tell: Callable[[str], None]) -> bool:
        """Return whether ``arrow_rows`` reads rows by the driver's Arrow interface. ``tell`` logs how they are read."""
        return bool(self.arrow_method)

    def arrow_rows(
        self, connection: sa.Connection, statement: Statement, tell: Callable[[str], None]
    ) -> Generator[pa.RecordBatch | Rows, None, None]:
        """Stream the Arrow batches of a statement, or its rows if the driver has no Arrow for this result.

        The statement runs through SQLAlchemy, as for a cursor's rows. Only the fetching differs.
        """
        dbapi: Any = connection.dialect.loaded_dbapi
        names = [name for name in ("NotSupportedError", "ProgrammingError") if hasattr(dbapi, name)]
        with connection.execute(*statement, execution_options=STREAMED) as result:
            batches = self.arrow_batches(result.cursor, (*(getattr(dbapi, n) for n in names), NotImplementedError))
            if batches is None:
                tell(f"through a cursor, because the driver has no {self.arrow_method} for this result")
                yield from result.partitions(CURSOR_ROWS)
                return
            tell(f"Arrow batches by {self.arrow_method}")
            yield from batches

    def arrow_batches(self, cursor: Any, refusals: tuple[type[Exception], ...]) -> Iterator[pa.RecordBatch] | None:
        """Return the batches of a cursor that ran a statement, or None if the driver has no Arrow for its result.

        Args:
            refusals: The exceptions by which a driver says so.
        """
        return None

    # ------------------------------------------------------------ further statements

    def limit(self, rows: int, offset: int = 0, *, ordered: bool = True) -> str:
        """Return the end of a query that limits its rows. ``ordered`` says whether the query has an ORDER BY."""
        return self.limit_sql.format(rows=rows, offset=offset)

    def create_as(self, table: str, rows: str) -> str:
        """Return a statement that creates a table from the rows of a query."""
        return f"CREATE TABLE {table} AS {rows}"

    def create_index(self, name: str, table: str, columns: str) -> str:
        """Return a statement that creates an index of a new table. The index's name is quoted and has no schema."""
        return f"CREATE INDEX {name} ON {table} ({columns})"
