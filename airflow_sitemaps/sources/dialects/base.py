"""What one database does its own way. A dialect overrides what differs; the rest is standard SQL.

Methods that give SQL take expressions that are already quoted, and return text for ``sqlalchemy.text``: names of
columns and user's texts in it are guarded, so that a colon in them is no placeholder.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.sources import reading
from airflow_sitemaps.sources.columns import BOUNDED, TIMES, Column, Kind
from airflow_sitemaps.sources.statement import Binds, guarded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import sqlalchemy as sa

    from airflow_sitemaps.shards.key import Key, KeyPart
    from airflow_sitemaps.sources.intervals import Run
    from airflow_sitemaps.sources.reading import Rows
    from airflow_sitemaps.sources.relation import Relation
    from airflow_sitemaps.sources.session import SqlSession
    from airflow_sitemaps.sources.statement import Statement


Reader = Callable[["Run"], Generator[pa.RecordBatch, None, None]]
"""Gives the rows of a run, with the bucket's number as their first column."""


class Dialect:
    """One database's SQL. Created for one engine; holds no connection.

    The limits are the database's own or stricter: ``max_binds`` and ``max_statement_bytes`` of one statement, and
    ``max_case``, the boundaries that one nested CASE may tell apart before the survey is done in key intervals.
    """

    name: ClassVar[str] = "generic"
    hash_version: ClassVar[str] = ""
    """Names the row hash's expression; a change of the expression changes it."""
    hashes_here: ClassVar[bool] = False
    """True where the engine has no hash, and rows are read and hashed in this process."""
    live: ClassVar[bool] = False
    """Whether the tests run against the real database, or only compile its statements."""

    max_binds: ClassVar[int] = 1_000
    max_statement_bytes: ClassVar[int] = 200_000
    max_case: ClassVar[int] = 200
    row_values: ClassVar[bool] = False
    """Whether ``(a, b) >= (x, y)`` is understood and uses an index."""
    prefers_hops: ClassVar[bool] = False
    """Whether OFFSET from the last boundary is quicker than one ``row_number()`` where an index leads with the key."""

    session_sql: ClassVar[tuple[str, ...]] = ()
    """Run on each connection before anything else: time zone and formats, so that equal values have equal texts."""
    begin_sql: ClassVar[tuple[str, ...]] = ()
    """Run at the start of each transaction: read-only, one snapshot."""
    writable_sql: ClassVar[tuple[str, ...]] = ()
    """Run before a materialised table is made or dropped, on connections that ``session_sql`` made read-only."""
    now_sql: ClassVar[str] = "SELECT CURRENT_TIMESTAMP"

    kinds: ClassVar[Mapping[str, Kind]] = {}
    """Kinds by the database's names of types, lower case, without their arguments."""
    cast_types: ClassVar[Mapping[Kind, str]] = {
        Kind.INTEGER: "BIGINT",
        Kind.TEXT: "VARCHAR",
        Kind.DATE: "DATE",
        Kind.TIMESTAMP: "TIMESTAMP",
        Kind.ZONED: "TIMESTAMP WITH TIME ZONE",
        Kind.BOOLEAN: "BOOLEAN",
        Kind.UUID: "UUID",
    }
    """What a bound key part is cast to where the column's own type name is not known."""
    text_type: ClassVar[str] = "VARCHAR"
    float_type: ClassVar[str] = "DOUBLE PRECISION"

    def __init__(self, dialect: sa.Dialect) -> None:
        self._preparer = dialect.identifier_preparer

    # ------------------------------------------------------------ names

    folds_names: ClassVar[bool] = False
    """Whether a table's name in small letters means one in capitals, unless it is quoted."""

    indexes_sql: ClassVar[str | None] = None
    """Asks for the indexes of the table ``:relation``: columns, uniqueness; None: SQLAlchemy's inspector asks."""

    def quote(self, name: str) -> str:
        """One identifier as the database itself writes it, always quoted, for use in ``text``.

        Always, because SQLAlchemy's lists of reserved words lag behind the databases.
        """
        return self._guarded(self._preparer.quote_identifier(name))

    def quote_table(self, name: str) -> str:
        """One part of a table's name as a user writes it."""
        return self._guarded(self._preparer.quote(name)) if self.folds_names else self.quote(name)

    def _guarded(self, quoted: str) -> str:
        if getattr(self._preparer, "_double_percents", False):
            # ``text`` doubles percent signs itself.
            quoted = quoted.replace("%%", "%")
        return guarded(quoted)

    def column(self, column: Column) -> str:
        """A column of the source, which every statement calls ``src``."""
        return f"src.{self.quote(column.name)}"

    # ------------------------------------------------------------ types

    @property
    def digest_kind(self) -> str:
        """Names the row hash; digests of different kinds are never compared."""
        return f"{self.name}/{self.hash_version}"

    def kind(self, type_name: str) -> Kind:
        """The kind of a type by the database's name for it: ``VARCHAR(20)``, ``timestamp(3) with time zone``."""
        lowered = type_name.strip().lower()
        if lowered in self.kinds:
            return self.kinds[lowered]
        head, _, rest = lowered.partition("(")
        bare = (head.strip() + rest.partition(")")[2]).strip()
        return self.kinds.get(bare, Kind.OTHER)

    def describe(self, connection: sa.Connection, relation: Relation, names: Sequence[str]) -> dict[str, Column]:
        """The columns of a relation, by name; ``names`` are those that matter.

        Here: an empty result's own description. Drivers disagree on what it holds, so most dialects do better.
        """
        sql = f"SELECT src.* FROM {relation.from_item(self)} WHERE 1 = 0"
        result = connection.execute(*relation.binds().statement(sql))
        described = result.cursor.description if result.cursor is not None else ()
        columns = {str(entry[0]): Column(name=str(entry[0]), kind=self.kind_of(entry)) for entry in described or ()}
        result.close()
        return columns

    def kind_of(self, description: Sequence[Any]) -> Kind:
        """The kind by a column's entry in a result's description (PEP 249): name, type code, …, precision, scale."""
        return self.kind(str(description[1]))

    def reading(self, connection: sa.Connection) -> AbstractContextManager[None]:
        """What a driver needs set while rows are read by its cursor."""
        return nullcontext()

    def rows(self, connection: sa.Connection, statement: Statement) -> Generator[Rows, None, None]:
        """The rows of a statement, some thousands at a time, streamed."""
        return reading.partitions(connection, statement)

    # ------------------------------------------------------------ keys

    def key_value(self, column: Column) -> str:
        """The canonical value of a key column: an integer, or a text that ``key_bind`` takes back."""
        value = self.column(column)
        return value if column.kind is Kind.INTEGER else self.as_text(value, column)

    def key_bind(self, column: Column, placeholder: str) -> str:
        """A bound canonical value as the column's type."""
        if column.kind in (Kind.TEXT, Kind.OTHER, Kind.INTEGER) and not column.type_name:
            return placeholder
        return f"CAST({placeholder} AS {column.type_name or self.cast_types.get(column.kind, self.text_type)})"

    def key_order(self, column: Column) -> str:
        """What rows are ordered by for a key column."""
        return self.column(column)

    def compare(self, columns: Sequence[Column], operator: str, key: Key, binds: Binds) -> str:
        """Rows whose key is ``>=``, ``<`` or ``>`` a key.

        A composite key is compared as a row, or written out with the leading column's own bound first, which is
        what an index can use.
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
        """A query that gives each key as ``k0``, ``k1``, … of the columns' own types, and ``place``, from 0.

        Here: a UNION of SELECTs after an empty look at the source's own types.
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
    """What a SELECT without a table must end with (Oracle: ``FROM DUAL``)."""

    def limit(self, rows: int, offset: int = 0, *, ordered: bool = True) -> str:
        """The end of a query that gives ``rows`` rows after ``offset``; ``ordered``: it has an ORDER BY."""
        return f" LIMIT {rows:d} OFFSET {offset:d}"

    # ------------------------------------------------------------ hashing

    def as_text(self, expression: str, column: Column) -> str:
        """A value in its one stated form: a text that is equal exactly when the value is."""
        return f"CAST({expression} AS {self.text_type})"

    def byte_length(self, text: str) -> str:
        """The number of bytes (or characters: either keeps neighbours apart) of a text, as a text."""
        return f"CAST(LENGTH({text}) AS {self.text_type})"

    def concat(self, parts: Sequence[str]) -> str:
        """Texts, none of them NULL, one after the other."""
        return " || ".join(parts)

    def or_mark(self, value: str, marked: str) -> str:
        """The marked text of a value; for NULL, which makes the whole text NULL, the mark alone."""
        return f"COALESCE({marked}, '|')"

    def hash_of(self, text: str) -> str:
        """The 64-bit hash of a text's bytes, NULL never."""
        raise SourceConfigurationError(
            f"the database {self.name!r} is not known to this package: it has no row hash for it. "
            "Use one of the databases in docs/databases.md."
        )

    def row_hash(self, columns: Sequence[Column]) -> str:
        """The hash of all emitted columns: NULL, the empty text, and neighbouring columns are kept apart.

        A bounded value ends with ``|``, and NULL is that alone; any other is its length, ``:``, and itself, and
        NULL is ``|``. Reading from the left, no two different rows have the same text.
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
        """The sum of hashes, in a type that cannot overflow."""
        return f"SUM(CAST({hashes} AS DECIMAL(38, 0)))"

    # ------------------------------------------------------------ groups

    def members(self, group: Column, columns: Sequence[Column], from_item: str, where: str) -> str:
        """A query that gives each group as ``member_of``, and ``members``: a JSON array of arrays of its rows' texts.

        The rows are in binary order of the columns, so that equal groups give equal texts.
        """
        raise SourceConfigurationError(
            f"group= is not known for the database {self.name!r}: gather the versions in the query, and give the "
            "column that holds them, as JSON, as alternates="
        )

    def aggregated(self, members: str, group: Column, from_item: str, where: str) -> str:
        """``members`` by an aggregate that orders by itself."""
        key = self.column(group)
        return f"SELECT {key} AS member_of, {members} AS members FROM {from_item} WHERE {where} GROUP BY {key}"

    def binary_orders(self, columns: Sequence[Column]) -> str:
        """``binary_order`` of several columns."""
        return ", ".join(self.binary_order(column) for column in columns)

    # ------------------------------------------------------------ reading

    def emit_text(self, column: Column) -> str:
        """A column as the text that goes into an entry."""
        return self.as_text(self.column(column), column)

    def emit_number(self, column: Column) -> str:
        """A number as a float of 64 bits."""
        return f"CAST({self.column(column)} AS {self.float_type})"

    def emit_lastmod(self, column: Column) -> str:
        """A lastmod as a value that Arrow takes as it is; see ``lastmod_form``."""
        return self.column(column) if column.kind in TIMES else self.emit_text(column)

    def emit_micros(self, column: Column) -> str:
        """A time for drivers that give Python objects: as they are, or as microseconds since 1970, which is quicker."""
        return self.emit_lastmod(column)

    def hash_type(self) -> Any:
        """The Arrow type of the row hash: int64, or uint64 where the database's is unsigned."""
        return pa.int64()

    def buckets(self, columns: Sequence[Column], keys: Sequence[Key], binds: Binds) -> str | None:
        """An expression for the number of keys at or below a row's key, when the database has a good one."""
        return None

    sorted_union: ClassVar[bool] = False
    """Whether long lists of boundaries are merged with the rows by one sort, rather than surveyed in intervals."""

    def bucket_rows(
        self, columns: Sequence[Column], keys: Sequence[Key], from_item: str, where: str, measures: str, binds: Binds
    ) -> str | None:
        """Rows (``bucket`` and the measures) by a join of the database's own, when it has a good one."""
        return None

    def rank_at_once(self, columns: Sequence[Column]) -> int | None:
        """How many keys one statement can order; None: any number."""
        return max(2, min(self.max_case, self.max_binds // len(columns) - 20))

    def create_as(self, table: str, rows: str) -> str:
        """A table of a query's rows."""
        return f"CREATE TABLE {table} AS {rows}"

    def create_index(self, name: str, table: str, columns: str) -> str:
        """An index of a table just made; ``name`` is quoted, without the schema."""
        return f"CREATE INDEX {name} ON {table} ({columns})"

    def modulo(self, expression: str, divisor: int) -> str:
        """The remainder of a division."""
        return f"MOD({expression}, {divisor:d})"

    def arrow_reader(self, session: SqlSession) -> AbstractContextManager[Reader] | None:
        """A reader by the driver's own Arrow batches, the bucket's number first; None: read by cursor."""
        return None

    def lastmod_is_text(self, column: Column) -> bool:
        """Whether ``emit_lastmod`` gives texts: always for text columns, and where values may be no real times."""
        return column.kind not in TIMES

    def binary_order(self, column: Column) -> str:
        """What rows of one key are ordered by, for one emitted column: its bytes."""
        return self.as_text(self.column(column), column)


def _parts(columns: Sequence[Column], key: Key) -> Sequence[KeyPart]:
    """A key's parts, once it is sure that there are as many as key columns."""
    if len(key) != len(columns):
        raise SourceConfigurationError(
            f"a key has {len(key)} part(s) but the source's key has {len(columns)} column(s) "
            f"({', '.join(column.name for column in columns)}): the key was changed; run with full=True"
        )
    return key
