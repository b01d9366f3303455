"""The key ranges in which rows with some property are, such as a recent lastmod; and URLs that several rows share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timezone
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

import pyarrow as pa

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.ports import Duplicate
from airflow_sitemaps.sources.columns import NUMBERS, TIMES, Kind
from airflow_sitemaps.sources.connections.record_batches import array_of
from airflow_sitemaps.sources.queries.key_spans import GAP, condition, nested_case, spans
from airflow_sitemaps.sources.row_values import number_of
from airflow_sitemaps.sources.statements.binds import Binds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import sqlalchemy as sa

    from airflow_sitemaps.shards.ranges import KeyRange
    from airflow_sitemaps.sources.columns import Column
    from airflow_sitemaps.sources.queries.context import QueryContext
    from airflow_sitemaps.sources.queries.key_spans import KeySpan

RUNS_AT_MOST: Final = 8

Rows = Callable[[Binds], tuple[str, str]]
"""Writes the relation, called ``src``, and the condition on its rows. It adds their values to the binds."""


def places_of(context: QueryContext, connection: sa.Connection, ranges: Sequence[KeyRange], rows: Rows) -> list[int]:
    """Return the positions of the ranges that hold at least one of the rows, in ascending order."""
    positions: set[int] = set()
    for run in spans(ranges, at_most=RUNS_AT_MOST) if ranges else ():
        quick = _buckets(context, connection, run, rows, whole=True)
        if quick is not None:
            positions |= {run.places[bucket] for bucket in quick}
            continue
        for part in run.split(context.dialect):
            buckets = _buckets(context, connection, part, rows, whole=False) or ()
            positions |= {part.places[bucket] for bucket in buckets}
    return sorted(positions - {GAP})


def _buckets(
    context: QueryContext, connection: sa.Connection, run: KeySpan, rows: Rows, *, whole: bool
) -> set[int] | None:
    """Return the buckets of a span that hold at least one of the rows.

    ``whole`` accepts only the database's own bucket expression, however long the span is. None: it has none.
    """
    dialect, key = context.dialect, context.mapping.key
    binds = context.relation.binds()
    bucket = dialect.buckets(key, run.cuts, binds) if whole and run.cuts else None
    if bucket is None:
        if whole and run.cuts:
            return None
        bucket = nested_case(dialect, key, run.cuts, binds)
    where = condition(dialect, key, run.within, binds)
    from_item, wanted = rows(binds)
    sql = f"SELECT DISTINCT {bucket} AS bucket FROM {from_item} WHERE {where} AND {wanted}"
    return {int(row[0]) for row in connection.execute(*binds.statement(sql))}


TEXT_TIMES = frozenset({Kind.TEXT, Kind.OTHER})
"""The kinds of times in SQLite. They are compared as ISO text, which sorts chronologically."""


def touched(context: QueryContext, connection: sa.Connection, ranges: Sequence[KeyRange], since: datetime) -> list[int]:
    """Return the positions of changed ranges, as ``ports.Source.touched`` defines them."""
    column = _lastmod(context)
    unit = context.selection.lastmod_unit
    bound = _since(column, since, context.selection.timezone) if unit is None else number_of(since, unit)

    def rows(binds: Binds) -> tuple[str, str]:
        return context.from_item, context.dialect.compare((column,), ">=", (bound,), binds)

    return places_of(context, connection, ranges, rows)


def _lastmod(context: QueryContext) -> Column:
    column = context.mapping.field("lastmod")
    if column is not None and context.selection.lastmod_unit is not None and column.kind in NUMBERS:
        return column
    if column is None or column.kind not in TIMES | TEXT_TIMES:
        what = "no lastmod" if column is None else f"a lastmod of type {column.type_name or column.kind.value}"
        raise SourceConfigurationError(
            f"{context.name}: change_detection='watermark' needs a lastmod that is a date or timestamp, indexed; this "
            f"source has {what}. Use change_detection='digest'."
        )
    return column


def _since(column: Column, since: datetime, zone: str) -> str:
    """Return a moment in the format of the column's own values."""
    if column.kind is Kind.ZONED:
        return since.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
    local = since.astimezone(ZoneInfo(zone))
    return local.strftime("%Y-%m-%d" if column.kind is Kind.DATE else "%Y-%m-%d %H:%M:%S")


def duplicates(context: QueryContext, connection: sa.Connection, most: int) -> list[Duplicate]:
    """Return duplicates as ``ports.Source.duplicates`` defines them. Values are compared by bytes, not by a collation."""
    dialect, columns = context.dialect, context.mapping.loc
    binds = context.relation.binds()
    shown = ", ".join(f"MIN({dialect.emit_comparable(column)}) AS l{at}" for at, column in enumerate(columns))
    grouped = ", ".join(dialect.binary_order(column) for column in columns)
    present = " AND ".join(f"{dialect.column(column)} IS NOT NULL" for column in columns)
    sql = (
        f"SELECT COUNT(*) AS rows_found, {shown} FROM {context.from_item} WHERE {present} GROUP BY {grouped}"
        f" HAVING COUNT(*) > 1 ORDER BY 1 DESC, 2 ASC{dialect.limit(most)}"
    )
    with dialect.reading(connection):
        rows = connection.execute(*binds.statement(sql)).all()
    values = {
        column.name: array_of([row[at] for row in rows], pa.string()) for at, column in enumerate(columns, start=1)
    }
    locs = context.selection.location.expand(values).to_pylist() if rows else []
    return [Duplicate(loc=str(loc), rows=int(row[0])) for loc, row in zip(locs, rows, strict=True)]
