"""BigQuery's dry run: the bytes that a query would process. It is free and runs nothing.

The number is exact for tables that are not clustered, and an upper bound for clustered tables
(https://cloud.google.com/bigquery/docs/best-practices-costs).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from airflow_sitemaps.shards.scan_estimate import ScanEstimate
from airflow_sitemaps.sources.statements.literals import literal

if TYPE_CHECKING:
    from collections.abc import Callable

    import sqlalchemy as sa

    from airflow_sitemaps.sources.queries.context import QueryContext
    from airflow_sitemaps.sources.statements.binds import Statement


def estimate(context: QueryContext, connection: sa.Connection, statement: Statement) -> ScanEstimate | None:
    """Return the bytes that BigQuery says a query would process.

    Args:
        context: The source.
        connection: A connection of the engine, whose client asks BigQuery.
        statement: The query.
    """
    # As sqlalchemy-bigquery itself finds the client of its connections.
    client = getattr(connection.connection.driver_connection, "_client", None)
    if client is None:
        return None
    make: Callable[..., sa.Dialect] = type(connection.dialect)
    sql = literal(statement, make(paramstyle="named"), context.dialect.text_literal)
    config: Any = import_module("google.cloud.bigquery").QueryJobConfig(dry_run=True, use_query_cache=False)
    job = client.query(sql, job_config=config)
    return ScanEstimate(byte_size=int(job.total_bytes_processed), basis="BigQuery dry run")
