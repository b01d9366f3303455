"""A source in the form that its queries need: its columns, what is selected, and the ordered query of a span's rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy import exc

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.protocol.columnar.lastmod import to_utc
from airflow_sitemaps.shards.ranges import PATIENT
from airflow_sitemaps.sources import queries, row_values
from airflow_sitemaps.sources.columns import NUMBERS, Column, Kind, Output
from airflow_sitemaps.sources.dialects.value_sql import ascending
from airflow_sitemaps.sources.driver import Binds, Statement, is_passing
from airflow_sitemaps.sources.queries import Relation
from airflow_sitemaps.sources.queries.key_spans import KeySpan, bucket_number, span_condition
from airflow_sitemaps.sources.user_texts import loc_columns, name_parts, nearest

if TYPE_CHECKING:
    from airflow_sitemaps.sources.dialects.base import Dialect

MICROS = pa.timestamp("us")

SpanReader = Callable[["KeySpan"], Generator[pa.RecordBatch, None, None]]
"""Yields the rows of a span, with the bucket's number as the first column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryContext:
    """One source in one dialect.

    An entry has columns for its key, its URL (``loc``) and each optional part (``fields``); others make the ``page``.
    ``template`` is that of the URL, or the name of its column.
    ``name`` is for messages. ``timezone``, an IANA name, is assumed for times without one. ``lastmod_unit`` of a number:
    ``s``, ``ms`` or ``us`` since the Unix epoch. ``grouped``: the ``alternates`` column holds a group's members (see
    ``groups``), not records. ``unique`` (the database enforces it) and ``indexed`` (an index leads with the key) only
    select between equivalent statements. The version of ``versioned`` tells whether the source's rows changed.
    """

    name: str
    dialect: Dialect
    relation: Relation
    template: str
    timezone: str
    key: tuple[Column, ...]
    loc: tuple[Column, ...]
    fields: Mapping[str, Column] = field(default_factory=dict)
    page: tuple[Column, ...] = ()
    lastmod_unit: str | None = None
    grouped: bool = False
    unique: bool = False
    indexed: bool = False
    versioned: Relation | None = None

    # ------------------------------------------------------------ parts of statements

    @property
    def emitted(self) -> tuple[Column, ...]:
        """All columns on which an entry depends, in the order in which they are hashed."""
        columns = (*self.loc, *self.fields.values())
        return (*columns, *(column for column in self.page if column not in columns))

    @property
    def urgent(self) -> tuple[Column, ...]:
        """The columns whose changes do not wait, in the order in which they are hashed."""
        return (*self.loc, *(column for name, column in self.fields.items() if name not in PATIENT))

    @property
    def names(self) -> list[str]:
        """The names of the key's columns in the statements: ``k0``, ``k1``, …."""
        return [f"k{number}" for number in range(len(self.key))]

    @property
    def ordered_key(self) -> str:
        """The select list of the values by which the key's columns are ordered."""
        return ", ".join(f"{self.dialect.key_order(c)} AS k{n}" for n, c in enumerate(self.key))

    @property
    def canonical_key(self) -> str:
        """The select list of the canonical values of the key's columns."""
        return ", ".join(f"{self.dialect.key_output(c)} AS k{n}" for n, c in enumerate(self.key))

    @property
    def key_order(self) -> str:
        """The ORDER BY list of the key."""
        return ascending([self.dialect.key_order(column) for column in self.key])

    @property
    def row_order(self) -> str:
        """The ORDER BY list of the rows: the key, and if it is not unique all emitted bytes, to keep their order."""
        if self.unique:
            return self.key_order
        return f"{self.key_order}, {self.dialect.binary_orders(self.emitted)}"

    @property
    def from_item(self) -> str:
        """The relation for ``FROM``, called ``src``."""
        return self.relation.from_item(self.dialect)

    # ------------------------------------------------------------ rows

    def outputs(self, *, objects: bool) -> list[Output]:
        """Return every selected column but the range's number, which depends on the statement."""
        outputs = []
        if not self.dialect.hashes_here:
            row_hash = self.dialect.row_hash(self.emitted)
            outputs.append(Output(name="row_hash", sql=row_hash, type=self.dialect.hash_type))
        for number, column in enumerate(self.key):
            kind = pa.int64() if column.kind is Kind.INTEGER else pa.string()
            outputs.append(Output(name=f"key_{number}", sql=self.dialect.key_output(column), type=kind))
        for number, column in enumerate(self.loc):
            outputs.append(Output(name=f"loc_{number}", sql=self.dialect.emit_raw(column), type=pa.string()))
        outputs += [self._field(name, column, objects=objects) for name, column in self.fields.items()]
        page = self.page
        if page and not self.dialect.hashes_here:
            outputs.append(Output(name="fingerprint", sql=self.dialect.row_hash(page), type=self.dialect.hash_type))
        elif page:
            raws = zip(self._page, map(self.dialect.emit_raw, page), strict=True)
            outputs += [Output(name=name, sql=sql, type=pa.string()) for name, sql in raws]
        return outputs

    @property
    def _page(self) -> list[str]:
        """The names of the columns that make the page in statements, where this process hashes them."""
        return [f"page_{number}" for number in range(len(self.page))]

    def _field(self, name: str, column: Column, *, objects: bool) -> Output:
        if name == "lastmod":
            sql, kind = self.dialect.emit_lastmod(column), pa.string()
            if column.kind in self.dialect.time_kinds:
                kind = pa.date32() if column.kind is Kind.DATE else MICROS
                sql = self.dialect.micros_sql.format(sql) if objects and kind is MICROS else sql
            return Output(name=name, sql=sql, type=kind)
        if name == "priority" and column.kind in NUMBERS and not self.dialect.hashes_here:
            return Output(name=name, sql=self.dialect.emit_number(column), type=pa.float64())
        return Output(name=name, sql=self.dialect.emit_raw(column), type=pa.string())

    def hashes(self, raw: pa.RecordBatch, *, urgent: bool = False) -> pa.Array:
        """Return the row hashes of a batch, as selected. If the database has no hash: of all or of the urgent columns."""
        if not self.dialect.hashes_here:
            return raw["row_hash"]
        names = [f"loc_{number}" for number in range(len(self.loc))]
        names += [name for name in self.fields if not (urgent and name in PATIENT)]
        names += [] if urgent else self._page
        return row_values.row_hashes([raw[name] for name in names])

    def batch(self, raw: pa.RecordBatch, places: pa.Array) -> pa.RecordBatch:
        """Return the columns that ``ports.Source`` defines. The raw ``range_no`` is an index into ``places``."""
        # The names are those of the template, which may differ in case from the database's.
        locs = {name: raw[f"loc_{number}"] for number, name in enumerate(loc_columns(self.template))}
        columns = {
            "range": places.take(raw["range_no"]),
            "row_hash": self.hashes(raw),
            "key": row_values.key_column([raw[f"key_{number}"] for number in range(len(self.key))]),
            "loc": row_values.urls_of(self.template, locs),
        }
        if self.page:
            here = self.dialect.hashes_here
            own = row_values.row_hashes([raw[name] for name in self._page]) if here else raw["fingerprint"]
            columns["fingerprint"] = own
        for name, column in self.fields.items():
            columns[name] = self._moments(raw[name], column) if name == "lastmod" else raw[name]
        if self.grouped:
            columns["alternates"] = queries.alternates(raw["alternates"], columns["loc"], self.template)
        return pa.RecordBatch.from_pydict(columns)

    def _moments(self, values: pa.Array, column: Column) -> pa.Array:
        if self.lastmod_unit is not None and pa.types.is_string(values.type):
            return row_values.moments_of_numbers(values, self.lastmod_unit)
        if not pa.types.is_timestamp(values.type):
            return values
        zone = "UTC" if column.kind is Kind.ZONED else self.timezone
        return to_utc(values, zone)


def rows_statement(
    context: QueryContext,
    span: KeySpan,
    outputs: Sequence[Output],
    newest: Callable[[Binds], tuple[str, str]] | None = None,
) -> tuple[Statement, list[Output]]:
    """Write the query of a span's rows, in ``row_order``. The first column of the result is the bucket's number.

    ``newest`` gives a condition on the rows and the end of the statement, with an order of its own.
    """
    dialect, key = context.dialect, context.key
    binds = context.relation.binds()
    columns = [Output(name="range_no", sql=bucket_number(dialect, key, span, binds), type=pa.int32()), *outputs]
    select = ", ".join(f"{column.sql} AS {column.name}" for column in columns)
    where, end = span_condition(dialect, key, span, binds), f"ORDER BY {context.row_order}"
    if newest is not None:
        wanted, end = newest(binds)
        where = f"{where} AND {wanted}"
    return binds.statement(f"SELECT {select} FROM {context.from_item} WHERE {where} {end}"), columns


# ---------------------------------------------------------------- columns

DENIED: Final = re.compile(r"denied|permission|privilege|not authorized|not granted", re.IGNORECASE)

WHERE_HINT: Final = (
    "The table is there. Correct where=, a condition without WHERE and without a semicolon, and the values of parameters=; "
    "a list is written `id IN :ids`"
)


def columns_of(
    connection: sa.Connection, dialect: Dialect, relation: Relation, name: str, wanted: dict[str, list[str]]
) -> dict[str, Column]:
    """Return the relation's columns by the user's names, which ``wanted`` has by argument.

    A name is looked up as it is written, then without regard to case if that matches exactly one column: Snowflake
    returns names in upper case.
    """
    names = {each for part in wanted.values() for each in part}
    try:
        described = dialect.describe(connection, relation, sorted(names))
        real = {column.name for name in names if (column := _named(described, name)) is not None}
        if real != names & described.keys():
            described = dialect.describe(connection, relation, sorted(real))
    except exc.DBAPIError as error:
        if is_passing(error):
            raise
        raise SourceConfigurationError(_no_relation(connection, dialect, relation, name, error)) from None
    except (OverflowError, UnicodeError) as error:  # of the driver, which binds the values before it asks the database
        raise SourceConfigurationError(
            f"{name}: parameters= holds a value that the database's driver refuses: {type(error).__name__}: {error}. "
            "Give a value of a type that the database has"
        ) from None
    columns = {}
    for part, each in ((part, each) for part, names_of_part in wanted.items() for each in names_of_part):
        column = _named(described, each)
        if column is None:
            what = f"{name}: {part}={each!r}: "
            if _is_left_out(connection, dialect, relation, each):
                raise SourceConfigurationError(
                    f"{what}SELECT * leaves this column out, as databases do with invisible and computed columns (INVISIBLE, "
                    f"ALIAS, MATERIALIZED). In place of table=, give query='SELECT …, {each} FROM {relation.table}'"
                )
            raise SourceConfigurationError(
                f"{what}there is no such column.{nearest(each, described)} Give one of the columns of the table or query"
            )
        if dialect.is_repeated(connection, relation, column.name, described):
            raise SourceConfigurationError(
                f"{name}: {part}={each!r}: the query selects this column twice. Select it once, or rename one with AS"
            )
        columns[each] = column
    return columns


def _is_left_out(connection: sa.Connection, dialect: Dialect, relation: Relation, name: str) -> bool:
    """Return whether a table has a column that ``SELECT *`` does not return."""
    if relation.table is None:
        return False
    table = Relation(table=relation.table)
    try:
        connection.execute(
            *table.binds().statement(f"SELECT src.{dialect.quote(name)} FROM {table.from_item(dialect)} WHERE 1 = 0")
        )
    except exc.DBAPIError:
        return False
    return True


def _named(columns: dict[str, Column], name: str) -> Column | None:
    if name in columns:
        return columns[name]
    alike = [column for other, column in columns.items() if other.casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 else None


def _no_relation(
    connection: sa.Connection, dialect: Dialect, relation: Relation, name: str, error: exc.DBAPIError
) -> str:
    """Return what is wrong with the table or query, with tables that exist."""
    reason = " ".join(str(error.orig).split())[:500]
    hint = "Correct the query. It is read as a subquery, in which each column needs a name of its own (AS)"
    if unknown := relation.unknown_placeholders():
        hint = f"parameters= has no value for {', '.join(f':{each}' for each in unknown)}, which the SQL seems to name"
    elif DENIED.search(reason):
        role = connection.engine.url.username
        hint = (
            f"The connection's role{f' {role!r}' if role else ''} lacks a permission: GRANT SELECT ON {relation.table or 'the tables'}"
            f"{f' TO {role}' if role else ''}, and USAGE on the schema where the database has it. If it may read only some "
            "columns, name them in query="
        )
    elif relation.table is not None:
        connection.rollback()
        if relation.where:
            with suppress(exc.DBAPIError):
                dialect.begin(connection)
                dialect.describe(connection, Relation(table=relation.table, as_of=relation.as_of), [])
                what = "the database refuses where= or a value of parameters="
                return f"{name}: {what}: {reason.rstrip('.')}. {WHERE_HINT}"
            connection.rollback()
        hint = "Check the table's name and schema, and that the connection may read it."
        try:
            *schema, table = name_parts(relation.table)
            inspector = sa.inspect(connection)
            place = schema[-1].text if schema else None
            names = [*inspector.get_table_names(schema=place), *inspector.get_view_names(schema=place)]
            hint += " A table or view of this name is there" if table.text in names else nearest(table.text, names)
        except (exc.SQLAlchemyError, NotImplementedError):  # SQLAlchemy's answer if a dialect cannot list tables
            hint += " The tables there could not be listed"
    return f"{name}: the database refuses to read it: {reason.rstrip('.')}. {hint}"
