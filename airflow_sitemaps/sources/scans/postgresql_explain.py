"""PostgreSQL's EXPLAIN: the tables and partitions of a plan, each with the bytes of its pages.

A table that is scanned whole counts with its heap and TOAST. A scan by an index counts with its share of the rows; if a
filter follows the index, or several workers scan, the share is unknown and the whole table counts. A table that one plan
scans in several places counts each time.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from airflow_sitemaps.shards.scan_estimate import ScanEstimate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow_sitemaps.sources.queries.context import QueryContext
    from airflow_sitemaps.sources.statements.binds import Statement

BY_INDEX: Final = frozenset({"Index Scan", "Index Only Scan", "Bitmap Heap Scan"})
ELSEWHERE: Final = frozenset({"Foreign Scan", "Custom Scan"})
"""Scans of which PostgreSQL does not know the bytes."""
SIZE: Final = sa.text(
    """
SELECT pg_catalog.pg_relation_size(c.oid)
  + COALESCE(pg_catalog.pg_relation_size(NULLIF(c.reltoastrelid, 0)), 0), c.reltuples
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = :space AND c.relname = :name
"""
)


def estimate(context: QueryContext, connection: sa.Connection, statement: Statement) -> ScanEstimate | None:
    """Return the bytes of the pages that a query's plan reads, or None if it reads more than PostgreSQL's own tables.

    Args:
        context: The source.
        connection: A connection in a transaction. An error does not end the transaction.
        statement: The query.
    """
    clause, values = statement
    with connection.begin_nested():
        answer = connection.execute(sa.text(f"EXPLAIN (VERBOSE, FORMAT JSON) {clause.text}"), values).scalar_one()
        plans = json.loads(answer) if isinstance(answer, str) else answer
        nodes = [node for each in plans for node in _nodes(each["Plan"])]
        if any(node["Node Type"] in ELSEWHERE for node in nodes):
            return None
        byte_size = sum(_bytes(connection, node) for node in nodes if "Relation Name" in node)
    return ScanEstimate(byte_size=byte_size, basis="PostgreSQL EXPLAIN, pages of tables and TOAST")


def _nodes(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)


def _bytes(connection: sa.Connection, node: Mapping[str, Any]) -> int:
    """Return the bytes that one scan of a plan reads. A scan of an index alone reads the index."""
    space = node["Schema"]
    table = connection.execute(SIZE, {"space": space, "name": node["Relation Name"]}).one()
    size, rows = int(table[0]), float(table[1])
    if node["Node Type"] == "Index Only Scan":
        size = int(connection.execute(SIZE, {"space": space, "name": node["Index Name"]}).one()[0])
    if node["Node Type"] not in BY_INDEX or rows <= 0 or "Filter" in node or node.get("Parallel Aware"):
        return size
    return round(size * min(1.0, float(node["Plan Rows"]) / rows))
