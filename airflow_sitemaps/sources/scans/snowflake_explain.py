"""Snowflake's EXPLAIN: micro-partitions and bytes after pruning. It compiles the query and needs no running warehouse.

https://docs.snowflake.com/en/sql-reference/sql/explain
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import sqlalchemy as sa

from airflow_sitemaps.shards.scan_estimate import ScanEstimate

if TYPE_CHECKING:
    from airflow_sitemaps.sources.queries.context import QueryContext
    from airflow_sitemaps.sources.statements.binds import Statement


def estimate(context: QueryContext, connection: sa.Connection, statement: Statement) -> ScanEstimate | None:
    """Return the bytes of the micro-partitions that a query might scan, or None if the plan does not say.

    Args:
        context: The source.
        connection: A connection in a session of the source.
        statement: The query.
    """
    clause, values = statement
    plan = json.loads(connection.execute(sa.text(f"EXPLAIN USING JSON {clause.text}"), values).scalar_one())
    stats = plan.get("GlobalStats", {})
    if stats.get("bytesAssigned") is None:
        return None
    partitions, total = stats.get("partitionsAssigned"), stats.get("partitionsTotal")
    return ScanEstimate(
        byte_size=int(stats["bytesAssigned"]),
        basis="Snowflake EXPLAIN",
        partitions=None if partitions is None else int(partitions),
        all_partitions=None if total is None else int(total),
    )
