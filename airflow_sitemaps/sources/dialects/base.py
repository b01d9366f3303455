"""The base class of the dialects: standard SQL, of which each database overrides what differs.

Methods that return SQL take expressions that are already quoted. They return text for ``sqlalchemy.text``. Column names
and users' texts in it are guarded, so that a colon in them is not a placeholder.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.sources.columns import BOUNDED, TIMES, Column, Kind
from airflow_sitemaps.sources.readers.streams import partitions
from airflow_sitemaps.sources.statements.binds import Binds, guarded

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from contextlib import AbstractContextManager

    import sqlalchemy as sa

    from airflow_sitemaps.shards.key import Key, KeyPart
    from airflow_sitemaps.sources.readers.streams import Rows
    from airflow_sitemaps.sources.statements.binds import Statement
    from airflow_sitemaps.sources.statements.relation import Relation
    from airflow_sitemaps.sources.statements.table_name import NamePart


class Dialect:
    """The SQL of one database. An instance belongs to one engine and holds no connection.

    Each limit is the database's own or a stricter one. If there are more boundaries than ``max_case``, the survey splits
    them into key intervals.
    """

    name: ClassVar[str] = "generic"
    """The name of the database, which is part of the digest's kind."""
    hash_version: ClassVar[str] = ""
    """The name and version of the row hash's expression. It changes whenever the expression changes."""
    hashes_here: ClassVar[bool] = False
    """Whether the engine has no hash function, so that this process reads and hashes the rows."""
    live: ClassVar[bool] = False
    """Whether the tests run against the real database. Otherwise they only compile its statements."""

    max_binds: ClassVar[int] = 1_000
    """The largest number of binds of one statement."""
    max_statement_bytes: ClassVar[int] = 200_000
    """The largest size of one statement, in bytes."""
    max_case: ClassVar[int] = 200
    """The largest number of boundaries that one nested CASE distinguishes."""
    enforces_keys: ClassVar[bool] = True
    """Whether the database enforces primary keys and unique constraints, not only declares them."""
    escapes_backslash: ClassVar[bool] = False
    """Whether a backslash begins an escape in a text literal."""
    row_values: ClassVar[bool] = False
    """Whether the database supports ``(a, b) >= (x, y)`` and uses an index for it."""
    prefers_hops: ClassVar[bool] = False
    """Whether OFFSET from the last boundary is faster than one ``row_number()`` if an index leads with the key."""

    session_sql: ClassVar[tuple[str, ...]] = ()
    """Statements that run first on each connection. They set time zone and formats, so equal values have equal texts."""
    begin_sql: ClassVar[tuple[str, ...]] = ()
    """Statements that run at the start of each transaction. They make it read-only, with one snapshot."""
    writable_sql: ClassVar[tuple[str, ...]] = ()
    """Statements that run before a materialized table is created or dropped. They undo a read-only ``session_sql``."""
    now_sql: ClassVar[str] = "SELECT CURRENT_TIMESTAMP"
    """A query of the database's time."""

    kinds: ClassVar[Mapping[str, Kind]] = {}
    """The kind of each type, by the database's name of the type in lower case, without arguments."""
    cast_types: ClassVar[Mapping[Kind, str]] = {
        Kind.INTEGER: "BIGINT",
        Kind.TEXT: "VARCHAR",
        Kind.DATE: "DATE",
        Kind.TIMESTAMP: "TIMESTAMP",
        Kind.ZONED: "TIMESTAMP WITH TIME ZONE",
        Kind.BOOLEAN: "BOOLEAN",
        Kind.UUID: "UUID",
    }
    """The type that a bound key part is cast to if the column's own type name is unknown."""
    text_type: ClassVar[str] = "VARCHAR"
    """The type that values are cast to as text."""
    float_type: ClassVar[str] = "DOUBLE PRECISION"
    """The type of a 64-bit float."""

    def __init__(self, dialect: sa.Dialect) -> None:
        """Keep the identifier quoting of an engine's dialect.

        Args:
            dialect: The engine's SQLAlchemy dialect.
        """
        self._preparer = dialect.identifier_preparer

    # ------------------------------------------------------------ names

    folds_names: ClassVar[bool] = False
    """Whether an unquoted table name in lower case refers to a name in upper case."""

    indexes_sql: ClassVar[str | None] = None
    """A query for the columns and uniqueness of each index of the table ``:relation``.

    If it is None, SQLAlchemy's inspector reads the indexes.
    """

    def quote(self, name: str) -> str:
        """Quote an identifier for use in ``sqlalchemy.text``, as the database writes it.

        Every identifier is quoted, because SQLAlchemy's lists of reserved words lag behind the databases.
        """
        return self._guarded(self._preparer.quote_identifier(name))

    def quote_table(self, part: NamePart) -> str:
        """Quote one part of a table's name.

        If the database folds the case of plain names, a part that the user wrote without quotes is quoted only if it has to be.
        """
        if self.folds_names and not part.is_quoted:
            return self._guarded(self._preparer.quote(part.text))
        return self.quote(part.text)

    def _guarded(self, quoted: str) -> str:
        if getattr(self._preparer, "_double_percents", False):
            # ``text`` doubles percent signs, so they must be single here.
            quoted = quoted.replace("%%", "%")
        return guarded(quoted)

    def column(self, column: Column) -> str:
        """Return the SQL name of a column of the source, which every statement calls ``src``."""
        return f"src.{self.quote(column.name)}"

    # ------------------------------------------------------------ types

    @property
    def digest_kind(self) -> str:
        """The name of the row hash. Digests of different kinds are never compared."""
        return f"{self.name}/{self.hash_version}"

    def kind(self, type_name: str) -> Kind:
        """Return the kind of a type.

        Args:
            type_name: The database's name of the type, such as ``VARCHAR(20)`` or ``timestamp(3) with time zone``.

        Returns:
            The kind, or ``Kind.OTHER`` if the type is unknown.
        """
        lowered = type_name.strip().lower()
        if lowered in self.kinds:
            return self.kinds[lowered]
        head, _, rest = lowered.partition("(")
        bare = (head.strip() + rest.partition(")")[2]).strip()
        return self.kinds.get(bare, Kind.OTHER)

    def describe(self, connection: sa.Connection, relation: Relation, names: Sequence[str]) -> dict[str, Column]:
        """Return the columns of a relation.

        This implementation reads the description of an empty result. Drivers disagree on what a description holds, so most
        dialects override it.

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
        columns = {str(entry[0]): Column(name=str(entry[0]), kind=self.kind_of(entry)) for entry in described or ()}
        result.close()
        return columns

    def kind_of(self, description: Sequence[Any]) -> Kind:
        """Return the kind of a column from its entry in a result's description.

        Args:
            description: The entry as PEP 249 defines it: name, type code, …, precision, scale.
        """
        return self.kind(str(description[1]))

    def reading(self, connection: sa.Connection) -> AbstractContextManager[None]:
        """Return a context manager with the driver settings for reading rows by a cursor. The default sets nothing."""
        return nullcontext()

    def rows(self, connection: sa.Connection, statement: Statement) -> Generator[Rows, None, None]:
        """Stream the rows of a statement.

        Yields:
            Some thousands of rows at a time.
        """
        return partitions(connection, statement)

    # ------------------------------------------------------------ keys

    def check_key(self, connection: sa.Connection, from_item: str, binds: Binds, columns: Sequence[Column]) -> None:
        """Refuse key columns whose values have no single order. The default accepts every key.

        Args:
            connection: A connection in a transaction.
            from_item: The relation, called ``src``.
            binds: The values that the relation needs.
            columns: The key's columns.

        Raises:
            SourceConfigurationError: A key column cannot order the rows. The message names the cast that helps.
        """

    def key_value(self, column: Column) -> str:
        """Return SQL for the canonical value of a key column: an integer, or a text that ``key_bind`` takes back."""
        value = self.column(column)
        return value if column.kind is Kind.INTEGER else self.as_text(value, column)

    def key_bind(self, column: Column, placeholder: str) -> str:
        """Return SQL that turns a bound canonical value into the column's type.

        Args:
            column: The key's column.
            placeholder: The placeholder of the value, or another expression for it.
        """
        if column.kind in (Kind.TEXT, Kind.OTHER, Kind.INTEGER) and not column.type_name:
            return placeholder
        return f"CAST({placeholder} AS {column.type_name or self.cast_types.get(column.kind, self.text_type)})"

    def key_order(self, column: Column) -> str:
        """Return the ORDER BY expression of a key column."""
        return self.column(column)

    def compare(self, columns: Sequence[Column], operator: str, key: Key, binds: Binds) -> str:
        """Return a condition that compares a row's key with a given key.

        A composite key is compared as a row value if the database supports it. Otherwise the comparison is written out. The
        bound of the leading column comes first, because an index can use it.

        Args:
            columns: The key's columns.
            operator: ``>=``, ``<`` or ``>``.
            key: The key to compare with.
            binds: The statement's values, to which this method adds those of ``key``.
        """
        values = [self.key_bind(c, binds.add(part)) for c, part in zip(columns, _parts(columns, key), strict=True)]
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

    def boundary_rows(self, columns: Sequence[Column], keys: Sequence[Key], binds: Binds) -> str:
        """Return a query of the keys as ``k0``, ``k1``, … in the columns' own types, and of their positions as ``place``.

        This implementation joins one SELECT per key by UNION ALL. The statements around it begin with a SELECT from the
        source, which supplies the types.

        Args:
            columns: The key's columns.
            keys: The keys. ``place`` counts them from 0.
            binds: The statement's values, to which this method adds those of ``keys``.
        """
        selects = []
        for place, key in enumerate(keys):
            parts = [
                f"{self.key_bind(column, binds.add(part))} AS k{number}"
                for number, (column, part) in enumerate(zip(columns, _parts(columns, key), strict=True))
            ]
            selects.append(f"SELECT {', '.join(parts)}, {place} AS place{self.from_nothing}")
        return " UNION ALL ".join(selects)

    from_nothing: ClassVar[str] = ""
    """The end of a SELECT without a table (Oracle: ``FROM DUAL``)."""

    def limit(self, rows: int, offset: int = 0, *, ordered: bool = True) -> str:
        """Return the end of a query that limits its rows.

        Args:
            rows: The number of rows to return.
            offset: The number of rows to skip before them.
            ordered: Whether the query has an ORDER BY.
        """
        return f" LIMIT {rows:d} OFFSET {offset:d}"

    # ------------------------------------------------------------ hashing

    def as_text(self, expression: str, column: Column) -> str:
        """Return SQL for the canonical text of a value. Two texts are equal exactly if the values are.

        Args:
            expression: The value.
            column: The column that supplies the type.
        """
        return f"CAST({expression} AS {self.text_type})"

    def byte_length(self, text: str) -> str:
        """Return SQL for the length of a text, itself as a text.

        The length may be in bytes or in characters: both keep neighbouring values apart.
        """
        return f"CAST(LENGTH({text}) AS {self.text_type})"

    def concat(self, parts: Sequence[str]) -> str:
        """Return SQL that concatenates texts, none of which is NULL."""
        return " || ".join(parts)

    def or_mark(self, value: str, marked: str) -> str:
        """Return SQL for the marked text of a value, or for the mark ``|`` alone if the value is NULL.

        Args:
            value: The value as text.
            marked: The value with its mark. It is NULL if ``value`` is NULL.
        """
        return f"COALESCE({marked}, '|')"

    def hash_of(self, text: str) -> str:
        """Return SQL for the 64-bit hash of a text's bytes, which is never NULL.

        Raises:
            SourceConfigurationError: The dialect has no hash.
        """
        raise SourceConfigurationError(
            f"the database {self.name!r} is not known to this package: it has no row hash for it. "
            "Use one of the databases in docs/databases.md."
        )

    def row_hash(self, columns: Sequence[Column]) -> str:
        """Return SQL for the hash of all emitted columns.

        NULL, the empty text and neighbouring columns are kept apart. A value of a ``BOUNDED`` kind ends with ``|``. Any other
        value is preceded by its length and ``:``. NULL is ``|`` alone. Read from the left, two different rows never have the
        same text.
        """
        parts = []
        for column in columns:
            value = self.as_text(self.column(column), column)
            if column.kind in BOUNDED:
                parts.append(self.or_mark(value, self.concat([value, "'|'"])))
            else:
                parts.append(self.or_mark(value, self.concat([self.byte_length(value), "':'", value])))
        return self.hash_of(self.concat(parts) if len(parts) > 1 else parts[0])

    def checksum(self, hashes: str) -> str:
        """Return SQL for the sum of hashes, in a type that cannot overflow."""
        return f"SUM(CAST({hashes} AS DECIMAL(38, 0)))"

    # ------------------------------------------------------------ groups

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
            f"group= is not known for the database {self.name!r}: gather the versions in the query, and give the "
            "column that holds them, as JSON, as alternates="
        )

    def aggregated(self, members: str, group: Column, from_item: str, where: str, most: int) -> str:
        """Write the query of ``members`` for an aggregate that orders its rows.

        Args:
            members: The aggregate.
            group: The column whose equal values make a group.
            from_item: The relation, called ``src``.
            where: The condition for rows that are in a group.
            most: The largest number of members. A group that has more gets ``#large``.
        """
        key = self.column(group)
        bounded = f"CASE WHEN COUNT(*) > {most:d} THEN '#large' ELSE {members} END"
        return f"SELECT {key} AS member_of, {bounded} AS members FROM {from_item} WHERE {where} GROUP BY {key}"

    def binary_orders(self, columns: Sequence[Column]) -> str:
        """Return the ``binary_order`` of each column, separated by commas."""
        return ", ".join(self.binary_order(column) for column in columns)

    # ------------------------------------------------------------ reading

    def emit_text(self, column: Column) -> str:
        """Return SQL for a column as the text that goes into an entry."""
        return self.as_text(self.column(column), column)

    def emit_bytes(self, column: Column) -> str:
        """Return SQL for a column of bytes that hold text.

        A dialect whose driver returns bytes selects them as bytes, and this process decodes them. The default is a text.
        """
        return self.emit_text(column)

    def emit_number(self, column: Column) -> str:
        """Return SQL for a number as a 64-bit float."""
        return f"CAST({self.column(column)} AS {self.float_type})"

    def emit_lastmod(self, column: Column) -> str:
        """Return SQL for a lastmod as a value that Arrow reads unchanged; see ``lastmod_is_text``."""
        return self.column(column) if column.kind in TIMES else self.emit_text(column)

    def emit_micros(self, column: Column) -> str:
        """Return SQL for a time, for drivers that return Python objects.

        The value is a time, or the microseconds since 1970, which are faster to convert.
        """
        return self.emit_lastmod(column)

    def hash_type(self) -> Any:
        """Return the Arrow type of the row hash: int64, or uint64 if the database's hash is unsigned."""
        return pa.int64()

    def buckets(self, columns: Sequence[Column], keys: Sequence[Key], binds: Binds) -> str | None:
        """Return SQL for the number of keys at or below a row's key.

        Args:
            columns: The key's columns.
            keys: The keys, in order.
            binds: The statement's values, to which this method adds those of ``keys``.

        Returns:
            The expression, or None if the database has no efficient one.
        """
        return None

    sorted_union: ClassVar[bool] = False
    """Whether the survey merges a long list of boundaries with the rows by one sort, not in key intervals."""

    def bucket_rows(
        self, columns: Sequence[Column], keys: Sequence[Key], from_item: str, where: str, measures: str, binds: Binds
    ) -> str | None:
        """Return a query of each row's ``bucket`` and measures that uses a join of the database's own.

        Args:
            columns: The key's columns.
            keys: The boundaries of the buckets, in order.
            from_item: The relation, called ``src``.
            where: The condition for the rows.
            measures: The select list of the measures: ``newest`` and ``row_hash``.
            binds: The statement's values, to which this method adds those of ``keys``.

        Returns:
            The query, or None if the database has no efficient join.
        """
        return None

    def rank_at_once(self, columns: Sequence[Column]) -> int | None:
        """Return how many keys one statement can order, or None if there is no limit."""
        return max(2, min(self.max_case, self.max_binds // len(columns) - 20))

    def text_literal(self, value: str) -> str:
        """Return a text as a SQL literal."""
        if self.escapes_backslash:
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        return "'" + value.replace("'", "''") + "'"

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

    def modulo(self, expression: str, divisor: int) -> str:
        """Return SQL for the remainder of a division."""
        return f"MOD({expression}, {divisor:d})"

    def lastmod_is_text(self, column: Column) -> bool:
        """Return whether ``emit_lastmod`` yields texts.

        It does so for text columns, and if the values may be invalid times.
        """
        return column.kind not in TIMES

    def binary_order(self, column: Column) -> str:
        """Return the expression that orders rows of one key by an emitted column: the bytes of its text."""
        return self.as_text(self.column(column), column)


def _parts(columns: Sequence[Column], key: Key) -> Sequence[KeyPart]:
    """Return a key's parts, after checking that there are as many as key columns."""
    if len(key) != len(columns):
        raise SourceConfigurationError(
            f"a key has {len(key)} part(s) but the source's key has {len(columns)} column(s) "
            f"({', '.join(column.name for column in columns)}): the key was changed; run with full=True"
        )
    return key
