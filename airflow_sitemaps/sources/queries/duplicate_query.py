"""URLs that several rows share, whatever their keys, found on request by one query over the whole source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from airflow_sitemaps.ports import Duplicate
from airflow_sitemaps.sources.readers.cursor import array_of

if TYPE_CHECKING:
    import sqlalchemy as sa

    from airflow_sitemaps.sources.queries.context import QueryContext


def find(context: QueryContext, connection: sa.Connection, most: int) -> list[Duplicate]:
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
