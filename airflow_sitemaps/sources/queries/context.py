"""A source in the form that its queries need: what is selected from it, and the ordered query of the rows of a span."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from airflow_sitemaps.protocol.columnar.lastmod import to_utc
from airflow_sitemaps.sources import groups, row_values
from airflow_sitemaps.sources.columns import NUMBERS, Kind, Output
from airflow_sitemaps.sources.dialects.value_sql import ascending
from airflow_sitemaps.sources.queries.key_spans import nested_case, span_condition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_sitemaps.sources.columns import Column, ColumnMapping
    from airflow_sitemaps.sources.dialects.base import Dialect
    from airflow_sitemaps.sources.queries.key_spans import KeySpan
    from airflow_sitemaps.sources.row_values import LocMapping
    from airflow_sitemaps.sources.statements.binds import Binds, Statement
    from airflow_sitemaps.sources.statements.relation import Relation

MICROS = pa.timestamp("us")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The select list of one source, for one dialect.

    ``timezone``, an IANA name, is assumed for times without one. ``lastmod_unit`` of a number: ``s``, ``ms`` or ``us``
    since the Unix epoch. ``grouped``: the ``alternates`` column holds a group's members (see ``groups``), not records.
    """

    dialect: Dialect
    mapping: ColumnMapping
    location: LocMapping
    timezone: str
    lastmod_unit: str | None = None
    grouped: bool = False

    def outputs(self, *, objects: bool) -> list[Output]:
        """Return every selected column but the range's number, which depends on the statement."""
        outputs = []
        if not self.dialect.hashes_here:
            outputs.append(
                Output(name="row_hash", sql=self.dialect.row_hash(self.mapping.emitted), type=self.dialect.hash_type)
            )
        for number, column in enumerate(self.mapping.key):
            kind = pa.int64() if column.kind is Kind.INTEGER else pa.string()
            outputs.append(Output(name=f"key_{number}", sql=self.dialect.key_value(column), type=kind))
        for number, column in enumerate(self.mapping.loc):
            outputs.append(Output(name=f"loc_{number}", sql=self.dialect.emit_raw(column), type=pa.string()))
        outputs += [self._field(name, column, objects=objects) for name, column in self.mapping.fields]
        return outputs

    def _field(self, name: str, column: Column, *, objects: bool) -> Output:
        if name == "lastmod" and column.kind in self.dialect.time_kinds:
            if objects and column.kind is not Kind.DATE:
                sql, kind = self.dialect.micros_sql.format(self.dialect.emit_lastmod(column)), MICROS
            else:
                sql = self.dialect.emit_lastmod(column)
                kind = pa.date32() if column.kind is Kind.DATE else MICROS
            return Output(name=name, sql=sql, type=kind)
        if name == "lastmod":
            return Output(name=name, sql=self.dialect.emit_lastmod(column), type=pa.string())
        if name == "priority" and column.kind in NUMBERS and not self.dialect.hashes_here:
            return Output(name=name, sql=self.dialect.emit_number(column), type=pa.float64())
        return Output(name=name, sql=self.dialect.emit_raw(column), type=pa.string())

    def hashes(self, raw: pa.RecordBatch) -> pa.Array:
        """Return the row hashes of a batch, as selected, or computed in this process if the database has no hash."""
        if not self.dialect.hashes_here:
            return raw["row_hash"]
        names = [f"loc_{number}" for number in range(len(self.mapping.loc))]
        return row_values.row_hashes([raw[name] for name in (*names, *(name for name, _ in self.mapping.fields))])

    def batch(self, raw: pa.RecordBatch, places: pa.Array) -> pa.RecordBatch:
        """Return the columns that ``ports.Source`` defines. The raw ``range_no`` is an index into ``places``."""
        # The names are those of the template, which may differ in case from the database's.
        locs = {name: raw[f"loc_{number}"] for number, name in enumerate(self.location.columns)}
        columns = {
            "range": places.take(raw["range_no"]),
            "row_hash": self.hashes(raw),
            "key": row_values.key_column([raw[f"key_{number}"] for number in range(len(self.mapping.key))]),
            "loc": self.location.expand(locs),
        }
        for name, column in self.mapping.fields:
            columns[name] = self._moments(raw[name], column) if name == "lastmod" else raw[name]
        if self.grouped:
            columns["alternates"] = groups.alternates(raw["alternates"], columns["loc"], self.location)
        return pa.RecordBatch.from_pydict(columns)

    def _moments(self, values: pa.Array, column: Column) -> pa.Array:
        if self.lastmod_unit is not None and pa.types.is_string(values.type):
            return row_values.moments_of_numbers(values, self.lastmod_unit)
        if not pa.types.is_timestamp(values.type):
            return values
        values = values.cast(MICROS) if values.type.tz is None else values.cast(pa.timestamp("us", "UTC")).cast(MICROS)
        zone = "UTC" if column.kind is Kind.ZONED else self.timezone
        return to_utc(values, zone)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryContext:
    """One source in one dialect.

    ``name`` is for messages. ``unique`` (the database enforces it) and ``indexed`` (an index leads with the key) only
    select between equivalent statements. The version of ``versioned`` tells whether the source's rows changed.
    """

    dialect: Dialect
    relation: Relation
    selection: Selection
    name: str
    unique: bool = False
    indexed: bool = False
    versioned: Relation | None = None

    @property
    def mapping(self) -> ColumnMapping:
        """The columns that make an entry."""
        return self.selection.mapping

    @property
    def names(self) -> list[str]:
        """The names of the key's columns in the statements: ``k0``, ``k1``, …."""
        return [f"k{number}" for number in range(len(self.mapping.key))]

    @property
    def ordered_key(self) -> str:
        """The select list of the values by which the key's columns are ordered."""
        return ", ".join(f"{self.dialect.key_order(c)} AS k{n}" for n, c in enumerate(self.mapping.key))

    @property
    def canonical_key(self) -> str:
        """The select list of the canonical values of the key's columns."""
        return ", ".join(f"{self.dialect.key_value(c)} AS k{n}" for n, c in enumerate(self.mapping.key))

    @property
    def key_order(self) -> str:
        """The ORDER BY list of the key."""
        return ascending([self.dialect.key_order(column) for column in self.mapping.key])

    @property
    def from_item(self) -> str:
        """The relation for ``FROM``, called ``src``."""
        return self.relation.from_item(self.dialect)


def rows_statement(context: QueryContext, span: KeySpan, outputs: Sequence[Output]) -> tuple[Statement, list[Output]]:
    """Write the query of a span's rows. The first column of the result is the bucket's number."""
    binds = context.relation.binds()
    bucket = bucket_number(context, span, binds)
    columns = [Output(name="range_no", sql=bucket, type=pa.int32()), *outputs]
    select = ", ".join(f"{column.sql} AS {column.name}" for column in columns)
    where = span_condition(context.dialect, context.mapping.key, span, binds)
    sql = f"SELECT {select} FROM {context.from_item} WHERE {where} ORDER BY {ascending(row_order(context))}"
    return binds.statement(sql), columns


def bucket_number(context: QueryContext, span: KeySpan, binds: Binds) -> str:
    """Return SQL for the number of a row's bucket within a span."""
    if not span.cuts:
        return "0"
    search = context.dialect.buckets(context.mapping.key, span.cuts, binds)
    return search or nested_case(context.dialect, context.mapping.key, span.cuts, binds)


def row_order(context: QueryContext) -> list[str]:
    """Return the ORDER BY list: the key, and if it is not unique all emitted bytes, to keep the order of its rows."""
    order = [context.dialect.key_order(column) for column in context.mapping.key]
    if not context.unique:
        order += [context.dialect.binary_order(column) for column in context.mapping.emitted]
    return order
