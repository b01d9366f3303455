"""The select list that reads rows, and the conversion of its raw columns into those of ``ports.Source``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from airflow_sitemaps.protocol.columnar.lastmod import to_utc
from airflow_sitemaps.sources import groups, row_values
from airflow_sitemaps.sources.columns import NUMBERS, Kind, Output

if TYPE_CHECKING:
    from airflow_sitemaps.sources.columns import Column, ColumnMapping
    from airflow_sitemaps.sources.dialects.base import Dialect
    from airflow_sitemaps.sources.row_values import LocMapping

MICROS = pa.timestamp("us")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The select list of one source, for one dialect.

    Attributes:
        dialect: The database's SQL.
        mapping: The columns that make up an entry.
        location: The column or template of the URL.
        timezone: The IANA name of the time zone to assume for times that have none.
        lastmod_unit: The unit of a numeric lastmod: ``s``, ``ms`` or ``us`` since the Unix epoch. Default: None.
        grouped: Whether the ``alternates`` column holds a group's members (see ``groups``), not records. Default: False.
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
        """Return the columns that ``ports.Source`` defines.

        Args:
            raw: A batch of the selected columns. Its ``range_no`` is an index into ``places``.
        """
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
