"""The EXPLAIN of MySQL and MariaDB: rows of the one table of a source, with the bytes of its statistics.

The bytes are those of the clustered index (``DATA_LENGTH``), which InnoDB counts in pages. MySQL 8 keeps the number for
``information_schema_stats_expiry`` seconds, a day by default.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from airflow_sitemaps.shards.scan_estimate import ScanEstimate
from airflow_sitemaps.sources.statements.table_name import name_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow_sitemaps.sources.queries.context import QueryContext
    from airflow_sitemaps.sources.statements.binds import Statement

WHOLE: Final = frozenset({"ALL", "index"})
"""The ways to read every row of a table or of an index."""
SIZE: Final = sa.text(
    """
SELECT DATA_LENGTH, TABLE_ROWS FROM information_schema.TABLES
WHERE TABLE_SCHEMA = COALESCE(:base, DATABASE()) AND TABLE_NAME = :name AND TABLE_TYPE = 'BASE TABLE'
"""
)


def estimate(context: QueryContext, connection: sa.Connection, statement: Statement) -> ScanEstimate | None:
    """Return the bytes of a query's rows, or None if the source is more than one table.

    Args:
        context: The source.
        connection: A connection in a transaction.
        statement: The query.
    """
    if context.versioned is None or context.versioned.table is None:
        return None
    *base, name = [part.text for part in name_parts(context.versioned.table)]
    size = connection.execute(SIZE, {"base": base[-1] if base else None, "name": name}).first()
    if size is None or size[0] is None:
        return None
    clause, values = statement
    plan = json.loads(connection.execute(sa.text(f"EXPLAIN FORMAT=JSON {clause.text}"), values).scalar_one())
    shares = (_share(table, int(size[1] or 0)) for table in _tables(plan))
    return ScanEstimate(byte_size=round(int(size[0]) * sum(shares)), basis="EXPLAIN and information_schema.TABLES")


def _tables(node: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the scans of tables in a plan, without those of derived tables."""
    if isinstance(node, list):
        for each in node:
            yield from _tables(each)
    elif isinstance(node, dict):
        if "access_type" in node and not str(node.get("table_name", "")).startswith("<"):
            yield node
        for each in node.values():
            yield from _tables(each)


def _share(table: Mapping[str, Any], rows: int) -> float:
    """Return the share of a table's rows that a scan reads."""
    read = table.get("rows_examined_per_scan", table.get("rows"))
    if table["access_type"] in WHOLE or read is None or rows <= 0:
        return 1.0
    return min(1.0, float(read) / rows)
