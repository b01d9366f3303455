"""SQL for names and values: their types, their canonical texts, their hashes, and how they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.sources.columns import BOUNDED, TIMES, Column, Kind
from airflow_sitemaps.sources.driver import guarded

if TYPE_CHECKING:
    import sqlalchemy as sa

    from airflow_sitemaps.sources.user_texts import NamePart

NAMES_OF_KINDS = {
    Kind.INTEGER: "tinyint smallint int integer bigint int8 int16 int32 int64",
    Kind.NUMBER: "decimal numeric bignumeric float real double|double precision|float32 float64 uint64",
    Kind.TEXT: "text string varchar char character|character varying|name citext fixedstring",
    Kind.DATE: "date date32",
    Kind.TIMESTAMP: "timestamp datetime|timestamp without time zone",
    Kind.ZONED: "|timestamp with time zone",
    Kind.BOOLEAN: "bool boolean",
    Kind.UUID: "uuid",
    Kind.JSON: "json jsonb",
    Kind.BINARY: "binary varbinary bytes bytea blob",
}
KINDS: dict[object, Kind] = {
    name: kind
    for kind, names in NAMES_OF_KINDS.items()
    for part, group in enumerate(names.split("|"))
    for name in ([group] if part % 2 else group.split())
}
"""The kind of each type by its name, where databases agree on it."""


class ValueSql:
    """SQL of names and values. In a template, ``{}`` is the expression that it is applied to."""

    name: ClassVar[str] = "generic"
    """The name of the database, which is part of the digest's kind."""
    folds_names: ClassVar[bool] = False
    """Whether an unquoted table name in lower case refers to a name in upper case."""
    escapes_backslash: ClassVar[bool] = False
    """Whether a backslash begins an escape in a string literal."""

    hash_version: ClassVar[str] = ""
    """The name and version of the row hash's expression. It changes whenever the expression changes."""
    hashes_here: ClassVar[bool] = False
    """Whether the engine has no hash function, so that this process reads and hashes the rows."""
    group_sql: ClassVar[str] = "{}"
    """A column in GROUP BY. It keeps the column's comparison of values."""
    hash_sql: ClassVar[str] = ""
    """The 64-bit hash of a text's bytes, which is never NULL."""
    hash_type: ClassVar[Any] = pa.int64()
    """The Arrow type of the row hash: int64, or uint64 if the database's hash is unsigned."""
    checksum_sql: ClassVar[str] = "SUM(CAST({} AS DECIMAL(38, 0)))"
    """The sum of hashes, in a type that cannot overflow."""
    or_mark_sql: ClassVar[str] = "COALESCE({marked}, '|')"
    """The marked text of a ``value``, or the mark ``|`` alone for NULL. ``marked`` is NULL if the value is."""
    byte_length_sql: ClassVar[str] = "CAST(LENGTH({}) AS VARCHAR)"
    """The length of a text, itself as a text. In bytes or in characters: both keep neighbouring values apart."""
    character_length_sql: ClassVar[str] = "LENGTH({})"
    """The number of characters of a text; some databases count bytes."""

    kinds: ClassVar[Mapping[object, Kind]] = KINDS
    """The kind of each type, by its name in lower case without arguments, or by the driver's code of it."""
    cast_types: ClassVar[Mapping[Kind, str]] = {
        Kind.INTEGER: "BIGINT", Kind.DATE: "DATE", Kind.TIMESTAMP: "TIMESTAMP",
        Kind.ZONED: "TIMESTAMP WITH TIME ZONE", Kind.BOOLEAN: "BOOLEAN", Kind.UUID: "UUID",
    }  # fmt: skip
    """The type that a bound key part is cast to if the column's own type name is unknown."""
    own_types: ClassVar[Mapping[object, str]] = {}
    """The type of a column to which it is cast in its place, by the name or the driver's code as in ``kinds``."""
    null_sql: ClassVar[str] = "{} IS NULL"
    """A condition that a column is NULL."""
    text_type: ClassVar[str] = "VARCHAR"
    """The type of texts in the casts of key parts."""
    text_sql: ClassVar[str] = "CAST({} AS VARCHAR)"
    """The canonical text of a value. Two texts are equal exactly if the values are."""
    text_sql_of: ClassVar[Mapping[Kind, str]] = {}
    """The canonical text of the kinds for which it differs from ``text_sql``."""
    number_sql: ClassVar[str] = "CAST({} AS DOUBLE PRECISION)"
    """A number as a 64-bit float."""
    time_kinds: ClassVar[frozenset[Kind]] = TIMES
    """The kinds of a lastmod that is read as a time. Any other is read as a text."""
    lastmod_sql_of: ClassVar[Mapping[Kind, str]] = {}
    """A lastmod as a value that Arrow reads unchanged, for the kinds whose column is not such a value."""
    lastmod_ends: ClassVar[Mapping[Kind, tuple[str, str]]] = {}
    """The ends of the years 1 to 9999, to which a lastmod is clamped: no reader holds infinity or other years."""
    micros_sql: ClassVar[str] = "{}"
    """A time, for drivers that return Python objects. Microseconds since 1970 are faster to convert."""
    returns_bytes: ClassVar[bool] = False
    """Whether a column of bytes is selected as bytes, which this process decodes."""
    binary_order_sql: ClassVar[str] = "{}"
    """The expression that orders a canonical text by its bytes, whatever the column's collation."""
    members_sql: ClassVar[str] = ""
    """The aggregate of ``members``: a JSON array of the arrays of ``{texts}``, ordered by ``{orders}``."""
    member_text_sql: ClassVar[str] = "{}"
    """A text of ``members_sql``, which cannot be NULL."""
    modulo_sql: ClassVar[str] = "MOD({}, {})"

    def __init__(self, dialect: sa.Dialect) -> None:
        """Keep the identifier quoting of an engine's dialect."""
        self._preparer = dialect.identifier_preparer

    # ------------------------------------------------------------ names and texts

    def quote(self, name: str) -> str:
        """Quote an identifier for ``sqlalchemy.text``: always, as SQLAlchemy's lists of reserved words lag behind."""
        return self._guarded(self._preparer.quote_identifier(name))

    def quote_table(self, part: NamePart) -> str:
        """Quote one part of a table's name. If the database folds case, a plain part is quoted only if it has to be."""
        if self.folds_names and not part.is_quoted:
            return self._guarded(self._preparer.quote(part.text))
        return self.quote(part.text)

    def _guarded(self, quoted: str) -> str:
        if getattr(self._preparer, "_double_percents", False):
            # ``text`` doubles percent signs, so they must be single here.
            quoted = quoted.replace("%%", "%")
        return guarded(quoted)

    def table_name(self, table: Sequence[NamePart]) -> str:
        """Return a whole table name, quoted."""
        return ".".join(self.quote_table(part) for part in table)

    def column(self, column: Column) -> str:
        """Return the SQL name of a column of the source, which every statement calls ``src``."""
        return f"src.{self.quote(column.name)}"

    def text_literal(self, value: str) -> str:
        """Return a text as a SQL literal."""
        if self.escapes_backslash:
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        return "'" + value.replace("'", "''") + "'"

    # ------------------------------------------------------------ types

    def kind(self, type_name: str) -> Kind:
        """Return the kind of a type such as ``VARCHAR(20)`` or ``timestamp(3) with time zone``."""
        lowered = type_name.strip().lower()
        if lowered in self.kinds:
            return self.kinds[lowered]
        head, _, rest = lowered.partition("(")
        return self.kinds.get((head.strip() + rest.partition(")")[2]).strip(), Kind.OTHER)

    def kind_of(self, description: Sequence[Any]) -> Kind:
        """Return the kind by PEP 249's description of a column: name, type code, …, precision, scale."""
        code = description[1]
        return self.kinds.get(code, Kind.OTHER) if isinstance(code, int) else self.kind(str(code))

    def type_of(self, description: Sequence[Any]) -> str:
        """Return the SQL of a column's own type, to which its boundaries are cast. "": that of ``cast_types``."""
        code = description[1]
        return self.own_types.get(code if isinstance(code, int) else str(code).lower(), "")

    # ------------------------------------------------------------ hashes

    @property
    def digest_kind(self) -> str:
        """The name of the row hash. Digests of different kinds are never compared."""
        return f"{self.name}/{self.hash_version}"

    def as_text(self, expression: str, column: Column) -> str:
        """Return SQL for the canonical text of a value."""
        return self.text_sql_of.get(column.kind, self.text_sql).format(expression)

    def hash_text(self, column: Column) -> str:
        """Return SQL for the text of a value in the row hash, for a database whose canonical text of the type is rounded."""
        return self.as_text(self.column(column), column)

    def concat(self, parts: Sequence[str]) -> str:
        """Return SQL that concatenates texts. No text may be NULL."""
        return " || ".join(parts)

    def row_hash(self, columns: Sequence[Column]) -> str:
        """Return SQL for the hash of all emitted columns.

        A value of a ``BOUNDED`` kind ends with ``|``, any other is preceded by its length and ``:``, and NULL is ``|``
        alone. Read from the left, two different rows never have the same text.
        """
        if not self.hash_sql:
            raise SourceConfigurationError(
                f"the database {self.name!r} is not known to this package: it has no row hash for it. "
                "Use one of the databases in the documentation, page Databases."
            )
        parts = []
        for column in columns:
            value = self.hash_text(column)
            marked = [value, "'|'"] if column.kind in BOUNDED else [self.byte_length_sql.format(value), "':'", value]
            parts.append(self.or_mark_sql.format(value=value, marked=self.concat(marked)))
        return self.hash_sql.format(self.concat(parts) if len(parts) > 1 else parts[0])

    # ------------------------------------------------------------ the columns that a query returns

    def binary_order(self, column: Column) -> str:
        """Return the expression that orders rows of one key by an emitted column: the bytes of its text."""
        return self.binary_order_sql.format(self.as_text(self.column(column), column))

    def binary_orders(self, columns: Sequence[Column]) -> str:
        """Return the ``binary_order`` of each column, as an ORDER BY list."""
        return ascending([self.binary_order(column) for column in columns])

    def emit_text(self, column: Column) -> str:
        """Return SQL for a column as the text that goes into an entry."""
        return self.as_text(self.column(column), column)

    def emit_raw(self, column: Column) -> str:
        """Return SQL for a column as the driver is to return it: the bytes of a column of bytes, or a text."""
        if column.kind is Kind.BINARY and self.returns_bytes:
            return self.column(column)
        return self.emit_text(column)

    def raw_text(self, expression: str, column: Column) -> str:
        """Return SQL for a canonical text as the driver is to return it: bytes, if it fails on what is not UTF-8."""
        return self.as_text(expression, column)

    def emit_comparable(self, column: Column) -> str:
        """Return SQL that converts a column to a type that MIN and MAX accept."""
        return self.emit_text(column) if column.kind is Kind.BINARY else self.emit_raw(column)

    def emit_number(self, column: Column) -> str:
        """Return SQL for a number as a 64-bit float."""
        return self.number_sql.format(self.column(column))

    def emit_lastmod(self, column: Column) -> str:
        """Return SQL for a lastmod as a value that Arrow reads unchanged: a time, or a text (``time_kinds``)."""
        if column.kind not in TIMES:
            return self.emit_text(column)
        value = self.lastmod_sql_of.get(column.kind, "{}").format(self.column(column))
        if column.kind not in self.lastmod_ends:
            return value
        first, last = self.lastmod_ends[column.kind]
        return f"CASE WHEN {value} < {first} THEN {first} WHEN {value} > {last} THEN {last} ELSE {value} END"

    # ------------------------------------------------------------ groups

    def members(self, group: Column, columns: Sequence[Column], from_item: str, where: str, most: int) -> str:
        """Write a query of each group as ``member_of`` and of its ``members``: a JSON array of arrays of texts.

        Equal values of ``group`` make a group. Members are in a fixed order, so that equal groups have equal texts.
        More than ``most`` are ``#large``. Without a suitable aggregate, ``SourceConfigurationError`` is raised.
        """
        if not self.members_sql:
            raise SourceConfigurationError(
                f"group= is not supported for the database {self.name!r}: collect the versions in the query as JSON, and "
                "name that column in alternates="
            )
        key = self.column(group)
        texts, orders = self.member_texts(columns), self.binary_orders(columns)
        members = self.members_sql.format(texts=texts, orders=orders)
        bounded = f"CASE WHEN COUNT(*) > {most:d} THEN '#large' ELSE {members} END"
        return f"SELECT {key} AS member_of, {bounded} AS members FROM {from_item} WHERE {where} GROUP BY {key}"

    def member_texts(self, columns: Sequence[Column]) -> str:
        """Return the ``{texts}`` of ``members_sql``."""
        return ", ".join(self.member_text_sql.format(self.emit_text(column)) for column in columns)


def select_list(outputs: Mapping[str, str]) -> str:
    """Return a SELECT list of expressions by their names in the result."""
    return ", ".join(f"{sql} AS {name}" for name, sql in outputs.items())


def ascending(expressions: Sequence[str]) -> str:
    """Return an ORDER BY list. The order is stated, because DuckDB's ``default_order`` can be descending."""
    return ", ".join(f"{expression} ASC" for expression in expressions)
