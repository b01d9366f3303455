"""The base class of the dialects: standard SQL. Each database overrides the parts in which it differs.

``value_sql`` has the SQL of names and values. Here are that of keys, and connections, sessions and statements. What is
only another text is an attribute; what depends on more is a method.

Attributes and methods that give SQL take expressions that are already quoted. They give text for ``sqlalchemy.text``. Column
names and users' texts in it are guarded, so that a colon in them is not a placeholder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, ClassVar, Final

from airflow_sitemaps.errors import SourceConfigurationError, SourceError
from airflow_sitemaps.quantities import counted
from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.dialects.value_sql import ValueSql, select_list
from airflow_sitemaps.sources.driver import CURSOR_ROWS, STREAMED, Binds, Rows, Statement, partitions, setup, translated

if TYPE_CHECKING:
    import pyarrow as pa
    import sqlalchemy as sa

    from airflow_sitemaps.shards.ranges import Key, KeyPart
    from airflow_sitemaps.sources.queries import Relation
    from airflow_sitemaps.sources.user_texts import NamePart

EXACT_DOUBLES: Final = 1 << 53
"""The integers below this, and above its negative, are doubles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction of another session that has written and has not ended, and its age, if the role may see it."""

    name: str
    description: str
    age: timedelta | None


class Dialect(ValueSql):
    """The SQL of one database. An instance belongs to one engine and holds no connection."""

    drivers: ClassVar[tuple[tuple[str, str], ...]] = ()
    """SQLAlchemy's dialects for the database and the modules they need, in order of preference, without a provider."""
    is_file: ClassVar[bool] = False
    """Whether a connection names a file."""
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
    as_of_sql: ClassVar[str] = ""
    """What follows a table's name to read its state of ``{moment}``, or of ``{version}``; "" without time travel."""
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

    # Each limit is the database's own or a stricter one.
    max_statement_bytes: ClassVar[int] = 200_000
    """The largest size of one statement, in bytes."""
    max_binds: ClassVar[int] = 1_000
    max_case: ClassVar[int] = 200
    """The largest number of boundaries in one nested CASE. The survey splits more of them into key intervals."""
    enforces_keys: ClassVar[bool] = True
    """Whether the database enforces primary keys and unique constraints, not only declares them."""
    row_values: ClassVar[bool] = False
    """Whether the database supports ``(a, b) >= (x, y)`` and uses an index for it."""
    prefers_hops: ClassVar[bool] = False
    """Whether OFFSET from the last boundary is faster than one ``row_number()`` if an index leads with the key."""
    sorted_union: ClassVar[bool] = False
    """Whether the survey merges a long list of boundaries with the rows by one sort, not in key intervals."""
    binds_lists: ClassVar[bool] = False
    """Whether ``boundary_rows`` binds any number of keys as one value."""
    lists_keys: ClassVar[bool] = False
    """Whether it does so, and the value counts towards the size of the statement."""
    listed_rows_sql: ClassVar[str] = ""
    """The query of ``boundary_rows`` over the JSON array ``{given}``; ``{parts}`` are the parts of the keys."""
    listed_part_sql: ClassVar[str] = ""
    """A key's part in ``listed_rows_sql``: ``{at}`` counts the parts from 0, ``{number}`` from 1."""
    lists_texts: ClassVar[bool] = True
    """Whether integers are texts in the JSON array."""
    joins_ranges: ClassVar[bool] = False
    """Whether one statement reads ranges that do not adjoin. It does where each statement costs a start or a scan."""
    sorts_in_parts: ClassVar[bool] = False
    """Whether a window without PARTITION BY is sorted by one process, so that large tables are numbered in parts."""
    writes_integers: ClassVar[bool] = False
    """Whether integers of keys are written into the statement, because it takes few binds."""
    float_key: ClassVar[str] = "{value}"
    """SQL of a float in a key. Where each comparison with NaN is false, it is infinity for NaN, so that NaN has a place."""
    from_nothing: ClassVar[str] = ""
    """The end of a SELECT without a table (Oracle: ``FROM DUAL``)."""
    key_bind_of: ClassVar[Mapping[Kind, str]] = {}
    """How a bound canonical value becomes a value of the column's type, for the kinds for which it is no plain cast."""
    asof_sql: ClassVar[str] = ""
    """An ASOF join of the rows with the ``boundary_rows`` ``{given}``, which takes one inequality: ``bucket_rows``."""
    asof_kinds: ClassVar[frozenset[Kind]] = frozenset(Kind)
    """The kinds of keys that it takes."""

    # ------------------------------------------------------------ keys

    def check_key(self, connection: sa.Connection, from_item: str, binds: Binds, columns: Sequence[Column]) -> None:
        """Refuse key columns whose values have no single order, and name the cast that helps. By default, none."""

    def compares_alike(self, column: Column, other: Column) -> bool:
        """Return whether the values of two columns compare by one rule: they have one kind, and one collation."""
        return column.kind_text() == other.kind_text()

    def key_value(self, column: Column) -> str:
        """Return SQL for the canonical value of a key column: an integer, or a text that ``key_bind`` takes back."""
        value = self._ordered(column)
        return value if column.kind is Kind.INTEGER else self.as_text(value, column)

    def key_output(self, column: Column) -> str:
        """Return ``key_value`` as the driver is to return it: the bytes of a text, if it fails on what is not UTF-8."""
        return self.key_value(column)

    def _ordered(self, column: Column) -> str:
        is_float = column.type_name.lower().startswith(("float", "double", "real"))
        return (self.float_key if is_float else "{value}").format(value=self.column(column))

    def key_bind(self, column: Column, placeholder: str) -> str:
        """Return SQL that turns a bound canonical value, or another expression for one, into the column's type."""
        if column.kind in self.key_bind_of:
            return self.key_bind_of[column.kind].format(placeholder)
        if column.kind in (Kind.TEXT, Kind.OTHER, Kind.INTEGER) and not column.type_name:
            return placeholder
        return f"CAST({placeholder} AS {column.type_name or self.cast_types.get(column.kind, self.text_type)})"

    def key_order(self, column: Column) -> str:
        """Return the ORDER BY expression of a key column."""
        return self._ordered(column)

    def compare(self, columns: Sequence[Column], operator: str, key: Key, binds: Binds) -> str:
        """Return a condition that compares a row's key with a given key by ``>=``, ``<`` or ``>``.

        Without row values, a composite comparison is written out. The leading column's bound is first, for an index.
        """
        values = []
        for column, part in zip(columns, _parts(columns, key), strict=True):
            is_written = self.writes_integers and isinstance(part, int)
            values.append(self.key_bind(column, str(part) if is_written else binds.add(part)))
        names = [self.key_order(column) for column in columns]
        if len(values) == 1:
            return f"{names[0]} {operator} {values[0]}"
        if self.row_values:
            return f"({', '.join(names)}) {operator} ({', '.join(values)})"
        strict = operator[0]
        text = f"{names[-1]} {operator} {values[-1]}"
        for name, value in zip(names[-2::-1], values[-2::-1], strict=True):
            text = f"({name} {strict}= {value} AND ({name} {strict} {value} OR {text}))"
        return text

    # ------------------------------------------------------------ boundaries

    def key_list(self, columns: Sequence[Column], keys: Sequence[Key], binds: Binds) -> str:
        """Bind all keys as one JSON array of arrays, and return its placeholder."""
        rows = [list(_parts(columns, key)) for key in keys]
        if not self.lists_texts:
            return binds.add(json.dumps(rows))
        texts = [[str(part) for part in row] for row in rows]
        return binds.add(json.dumps(texts, separators=(",", ":"), ensure_ascii=False))

    def listed_key(self, column: Column, text: str) -> str:
        """Return SQL that turns a part of ``key_list`` into the column's type."""
        if column.kind is Kind.INTEGER and not column.type_name and self.lists_texts:
            return f"CAST({text} AS {self.cast_types[Kind.INTEGER]})"
        return self.key_bind(column, text)

    def boundary_rows(self, columns: Sequence[Column], keys: Sequence[Key], binds: Binds) -> str:
        """Return a query of the keys as ``k0``, ``k1``, … in the columns' own types, and their ``place``, from 0.

        The keys are one JSON array (``listed_rows_sql``), or SELECTs joined by UNION ALL. The statements around it
        begin with a SELECT from the source, which supplies the types.
        """
        if self.listed_rows_sql:
            given = self.key_list(columns, keys, binds)
            parts = [self.listed_part_sql.format(at=at, number=at + 1) for at in range(len(columns))]
            listed = [f"{self.listed_key(c, parts[n])} AS k{n}" for n, c in enumerate(columns)]
            return self.listed_rows_sql.format(parts=", ".join(listed), given=given)
        selects = []
        for place, key in enumerate(keys):
            values = [
                f"{self.key_bind(column, binds.add(part))} AS k{number}"
                for number, (column, part) in enumerate(zip(columns, _parts(columns, key), strict=True))
            ]
            selects.append(f"SELECT {', '.join(values)}, {place} AS place{self.from_nothing}")
        return " UNION ALL ".join(selects)

    def buckets(self, columns: Sequence[Column], keys: Sequence[Key], binds: Binds) -> str | None:
        """Return SQL for the number of keys at or below a row's key, or None without an efficient expression."""
        return None

    def bucket_rows(
        self,
        columns: Sequence[Column],
        keys: Sequence[Key],
        from_item: str,
        where: str,
        measures: Mapping[str, str],
        binds: Binds,
    ) -> str | None:
        """Return a query of each row's ``bucket`` and measures by an efficient join, or None. Keys are in order."""
        if not self.asof_sql or len(columns) != 1 or columns[0].kind not in self.asof_kinds:
            return None
        key, given = self.key_order(columns[0]), self.boundary_rows(columns, keys, binds)
        names = select_list({name: f"measured.{name}" for name in measures})
        parts = {"from_item": from_item, "where": where, "measures": select_list(measures), "names": names}
        return self.asof_sql.format(key=key, given=given, **parts)

    # ------------------------------------------------------------ connections

    @classmethod
    def hook_engine(cls, connection: Any, hook: Any) -> sa.Engine:
        """Return the engine of Airflow's connection by the hook of the installed provider."""
        engine: sa.Engine = hook.get_sqlalchemy_engine()
        return engine

    def opening_sql(self, *, reads: bool = False) -> tuple[str, ...]:
        """Return the statements that open a read-only transaction. The package's formats come after the user's settings.

        ``reads``: it reads the source's table, and no other transaction that does begins before it ends.
        """
        return (*self.users_sql, *self.session_sql, *self.begin_sql)

    def hold(self, connection: sa.Connection, table: str) -> None:
        """Let transactions that read a table lock it before their snapshot is taken. The default does nothing."""

    def begin(self, connection: sa.Connection, *, reads: bool = False) -> None:
        """Set the session's formats and begin its read-only transaction, as ``opening_sql`` says."""
        setup(connection, self.opening_sql(reads=reads))

    @contextmanager
    def transaction(self, engine: sa.Engine, what: str, *, reads: bool = False) -> Iterator[sa.Connection]:
        """Yield a connection in a read-only transaction, as ``opening_sql`` says. An error of the database becomes a ``SourceError``."""
        with translated(engine, f"{what} failed", SourceError), engine.connect() as connection:
            self.begin(connection, reads=reads)
            try:
                yield connection
            finally:
                with suppress(Exception):  # a first error says why the connection is lost
                    connection.rollback()

    def time(self, connection: sa.Connection) -> datetime:
        """Return the time of the database's clock, in UTC."""
        value = connection.exec_driver_sql(self.now_sql).scalar_one()
        moment: datetime = datetime.fromisoformat(value.replace("Z", "+00:00")) if isinstance(value, str) else value
        return moment.astimezone(timezone.utc) if moment.tzinfo else moment.replace(tzinfo=timezone.utc)

    # ------------------------------------------------------------ what the database knows of a table

    def describe(self, connection: sa.Connection, relation: Relation, names: Sequence[str]) -> dict[str, Column]:
        """Return the columns of a relation by their names, as the description of an empty result has them.

        ``names`` are the columns that the source uses. A dialect may leave the kinds of the others unknown.
        """
        sql = f"SELECT src.* FROM {relation.from_item(self)} WHERE 1 = 0"
        with connection.execute(*relation.binds().statement(sql)) as result:
            columns = [] if result.cursor is None else self.columns_of(result.cursor)
        return {column.name: column for column in columns}

    def is_repeated(self, connection: sa.Connection, relation: Relation, name: str, columns: Collection[str]) -> bool:
        """Return whether a query selects a column twice. Databases refuse that themselves, unless they rename one."""
        return False

    def columns_of(self, cursor: Any) -> list[Column]:
        """Return the columns that a cursor describes."""
        return [
            Column(name=str(entry[0]), kind=self.kind_of(entry), type_name=self.type_of(entry))
            for entry in cursor.description or ()
        ]

    @property
    def keeps_versions(self) -> bool:
        """Whether the database keeps versions of tables. If not, no transaction begins to read one."""
        return type(self).table_version is not Dialect.table_version

    def table_version(self, connection: sa.Connection, table: Sequence[NamePart]) -> str | None:
        """Return an exact version of a table, or None if the database keeps none. Equal versions mean equal rows."""
        return None

    def share(self, connection: sa.Connection, table: str | None, column: str, values: Sequence[object]) -> float:
        """Return the share of a table's rows with one of some values, by its statistics, or 0 if they are unknown."""
        return 0.0

    def scanned_bytes(self, connection: sa.Connection, statement: Statement) -> int:
        """Return the bytes that a query will scan, for a database that ``estimates_scans``."""
        raise NotImplementedError(self.name)

    def oldest_transaction(self, connection: sa.Connection) -> OpenTransaction | None:
        """Return the oldest transaction that has written and is still open. None, the default: the database does not say."""
        return None

    def travel_version(self, connection: sa.Connection, table: Sequence[NamePart]) -> int | None:
        """Return the number of a table's present version, for a database whose time travel needs it."""
        return None

    # ------------------------------------------------------------ reading rows

    def reading(self, connection: sa.Connection) -> AbstractContextManager[None]:
        """Return a context manager with the driver settings for reading rows by a cursor. The default sets nothing."""
        return nullcontext()

    def rows(self, connection: sa.Connection, statement: Statement) -> Generator[Rows, None, None]:
        """Stream the rows of a statement, some thousands at a time."""
        return partitions(connection, statement)

    def own_reader(self, context: Any, engine: sa.Engine) -> AbstractContextManager[Any] | None:
        """Return a reader of spans over a connection of its own, or None if the engine's connections read the rows."""
        return None

    def arrow_rows(
        self, connection: sa.Connection, statement: Statement, tell: Callable[[str], None]
    ) -> Generator[pa.RecordBatch | Rows, None, None]:
        """Stream the Arrow batches of a statement, or its rows if the driver has no Arrow for this result.

        The statement runs through SQLAlchemy, as for a cursor's rows. Only the fetching differs. ``tell`` logs it.
        """
        if not self.arrow_method:
            tell("rows through a cursor")
            yield from self.rows(connection, statement)
            return
        dbapi: Any = connection.dialect.loaded_dbapi
        names = ("NotSupportedError", "ProgrammingError")
        refusals: tuple[type[Exception], ...] = (
            NotImplementedError, *(getattr(dbapi, name) for name in names if hasattr(dbapi, name)),
        )  # fmt: skip
        with connection.execute(*statement, execution_options=STREAMED) as result:
            try:
                batches = self.arrow_batches(result.cursor)
            except refusals:
                batches = None
            if batches is None:
                tell(f"through a cursor, because the driver has no {self.arrow_method} for this result")
                yield from result.partitions(CURSOR_ROWS)
                return
            tell(f"Arrow batches by {self.arrow_method}")
            yield from batches

    def arrow_batches(self, cursor: Any) -> Iterator[pa.RecordBatch] | None:
        """Return the batches of a cursor that ran a statement, or None if the driver has no Arrow for its result."""
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


class Warehouse(Dialect):
    """A database for analyses: it declares keys without enforcing them, and each statement costs a start or a scan."""

    enforces_keys: ClassVar[bool] = False
    lists_keys: ClassVar[bool] = True
    joins_ranges: ClassVar[bool] = True
    sorts_in_parts: ClassVar[bool] = True


def are_exact_doubles(keys: Sequence[Key]) -> bool:
    """Return whether a double holds all parts exactly.

    Another integer's double may be rounded, which keeps the order, so it stays on its side of such a key.
    """
    return all(isinstance(part, int) and abs(part) < EXACT_DOUBLES for key in keys for part in key)


def _parts(columns: Sequence[Column], key: Key) -> Sequence[KeyPart]:
    if len(key) != len(columns):
        raise SourceConfigurationError(
            f"a stored key has {counted(len(key), 'part')} but the source's key has {counted(len(columns), 'column')} "
            f"({', '.join(column.name for column in columns)}): the key was changed; run with full=True"
        )
    return key
