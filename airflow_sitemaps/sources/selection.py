"""What is selected to read rows, and how the rows' raw columns become those that ``ports.Source`` promises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from airflow_sitemaps.protocol.zones import to_utc
from airflow_sitemaps.sources import groups, keytext, rowhash
from airflow_sitemaps.sources.columns import Kind

if TYPE_CHECKING:
    from airflow_sitemaps.sources.columns import Column, Mapping
    from airflow_sitemaps.sources.dialects.base import Dialect
    from airflow_sitemaps.sources.location import Location

NUMBERS = frozenset({Kind.INTEGER, Kind.NUMBER})
MICROS = pa.timestamp("us")


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One column of the select list: its name there, its SQL, and the Arrow type it is given."""

    name: str
    sql: str
    type: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The select list of one source, for one dialect; ``objects`` is true for drivers that give Python objects."""

    dialect: Dialect
    mapping: Mapping
    location: Location
    timezone: str
    grouped: bool = False
    """Whether the column of ``alternates`` holds a group's members (see ``groups``), not records."""

    def outputs(self, *, objects: bool) -> list[Output]:
        """Everything but the range's number, which depends on the statement."""
        found = []
        if not self.dialect.hashes_here:
            found.append(
                Output(name="row_hash", sql=self.dialect.row_hash(self.mapping.emitted), type=self.dialect.hash_type())
            )
        for number, column in enumerate(self.mapping.key):
            kind = pa.int64() if column.kind is Kind.INTEGER else pa.string()
            found.append(Output(name=f"key_{number}", sql=self.dialect.key_value(column), type=kind))
        for number, column in enumerate(self.mapping.loc):
            found.append(Output(name=f"loc_{number}", sql=self.dialect.emit_text(column), type=pa.string()))
        found += [self._field(name, column, objects=objects) for name, column in self.mapping.fields]
        return found

    def _field(self, name: str, column: Column, *, objects: bool) -> Output:
        if name == "lastmod" and not self.dialect.lastmod_is_text(column):
            if objects and column.kind is not Kind.DATE:
                sql, kind = self.dialect.emit_micros(column), MICROS
            else:
                sql = self.dialect.emit_lastmod(column)
                kind = pa.date32() if column.kind is Kind.DATE else MICROS
            return Output(name=name, sql=sql, type=kind)
        if name == "lastmod":
            return Output(name=name, sql=self.dialect.emit_lastmod(column), type=pa.string())
        if name == "priority" and column.kind in NUMBERS and not self.dialect.hashes_here:
            return Output(name=name, sql=self.dialect.emit_number(column), type=pa.float64())
        return Output(name=name, sql=self.dialect.emit_text(column), type=pa.string())

    def hashes(self, raw: pa.RecordBatch) -> pa.Array:
        """The row hashes: those selected, or made here."""
        if not self.dialect.hashes_here:
            return raw["row_hash"]
        names = [f"loc_{number}" for number in range(len(self.mapping.loc))]
        return rowhash.row_hashes([raw[name] for name in (*names, *(name for name, _ in self.mapping.fields))])

    def batch(self, raw: pa.RecordBatch, places: pa.Array) -> pa.RecordBatch:
        """The promised columns of raw ones, whose ``range_no`` counts the entries of ``places``."""
        # By the names that the template uses, which may be in other letters than the database's.
        locs = {name: raw[f"loc_{number}"] for number, name in enumerate(self.location.columns)}
        columns = {
            "range": places.take(raw["range_no"]),
            "row_hash": self.hashes(raw),
            "key": keytext.column([raw[f"key_{number}"] for number in range(len(self.mapping.key))]),
            "loc": self.location.expand(locs),
        }
        for name, column in self.mapping.fields:
            columns[name] = self._moments(raw[name], column) if name == "lastmod" else raw[name]
        if self.grouped:
            columns["alternates"] = groups.alternates(raw["alternates"], columns["loc"], self.location)
        return pa.RecordBatch.from_pydict(columns)

    def _moments(self, values: pa.Array, column: Column) -> pa.Array:
        if not pa.types.is_timestamp(values.type):
            return values
        values = values.cast(MICROS) if values.type.tz is None else values.cast(pa.timestamp("us", "UTC")).cast(MICROS)
        zone = "UTC" if column.kind is Kind.ZONED else self.timezone
        return to_utc(values, zone)
