"""ClickHouse's EXPLAIN ESTIMATE: rows to read after the primary key and partitions pruned, with the bytes of their columns.

The bytes are uncompressed, as ``max_bytes_to_read`` counts them. Where the source is a whole table, they are those of the
columns of the section; else those of all columns. Small parts count with all columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from airflow_sitemaps.shards.scan_estimate import ScanEstimate
from airflow_sitemaps.sources.statements.table_name import name_parts

if TYPE_CHECKING:
    from airflow_sitemaps.sources.queries.context import QueryContext
    from airflow_sitemaps.sources.statements.binds import Statement

COLUMNS: Final = sa.text(
    """
SELECT column, sum(column_data_uncompressed_bytes) FROM system.parts_columns
WHERE active AND part_type = 'Wide' AND database = :base AND table = :name GROUP BY column
"""
)
PARTS: Final = sa.text(
    """
SELECT sum(rows), sumIf(data_uncompressed_bytes, part_type != 'Wide') FROM system.parts
WHERE active AND database = :base AND table = :name
"""
)
"""The rows of a table, and the bytes of its small parts, which ClickHouse does not count by column."""
ENGINE: Final = sa.text(
    "SELECT engine FROM system.tables WHERE database = if(:base = '', currentDatabase(), :base) AND name = :name"
)
BASIS: Final = "ClickHouse EXPLAIN ESTIMATE, uncompressed"


def estimate(context: QueryContext, connection: sa.Connection, statement: Statement) -> ScanEstimate | None:
    """Return the bytes of the rows that a query reads from MergeTree tables, or None if it may read another kind of table.

    Args:
        context: The source.
        connection: A connection of the engine.
        statement: The query.
    """
    if not _is_merge_tree(context, connection):
        return None
    clause, values = statement
    byte_size = 0.0
    for base, name, _parts, rows, _marks in connection.execute(sa.text(f"EXPLAIN ESTIMATE {clause.text}"), values):
        total, small = map(int, connection.execute(PARTS, {"base": base, "name": name}).one())
        sizes = connection.execute(COLUMNS, {"base": base, "name": name}).all()
        wanted = _columns(context)
        whole = small + sum(int(size) for column, size in sizes if wanted is None or column in wanted)
        byte_size += whole * int(rows) / max(total, 1)
    return ScanEstimate(byte_size=round(byte_size), basis=BASIS)


def _is_merge_tree(context: QueryContext, connection: sa.Connection) -> bool:
    """Return whether the source is one table of the MergeTree family. A query may read tables that have no estimate."""
    if context.versioned is None or context.versioned.table is None:
        return False
    *base, name = [part.text for part in name_parts(context.versioned.table)]
    engine = connection.execute(ENGINE, {"base": base[-1] if base else "", "name": name}).scalar()
    return str(engine).endswith("MergeTree")


def _columns(context: QueryContext) -> set[str] | None:
    """Return the columns that the section reads. None: a condition may read any."""
    if context.versioned is not context.relation or context.relation.where is not None:
        return None
    return {column.name for column in (*context.mapping.key, *context.mapping.emitted)}
