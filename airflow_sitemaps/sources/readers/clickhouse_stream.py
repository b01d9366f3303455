"""Rows of ClickHouse as clickhouse-connect streams them. Its cursor would hold the whole result in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.sources.connections.statement_labels import with_label
from airflow_sitemaps.sources.readers.streams import partitions

if TYPE_CHECKING:
    from collections.abc import Generator

    import sqlalchemy as sa

    from airflow_sitemaps.sources.readers.streams import Rows
    from airflow_sitemaps.sources.statements.binds import Statement

FORMATS: Final = {"String": "bytes"}
"""A String need not be UTF-8. As a text, clickhouse-connect would return the hexadecimal digits of one that is not."""


def client_of(connection: sa.Connection) -> Any | None:
    """Return clickhouse-connect's client, or None if the driver is another."""
    client = getattr(connection.connection.dbapi_connection, "client", None)
    return client if hasattr(client, "query_row_block_stream") else None


def query_of(connection: sa.Connection, statement: Statement) -> tuple[str, dict[str, Any]]:
    """Return the arguments of the client's queries: the SQL and its values."""
    text, values = statement
    compiled = text.compile(dialect=connection.dialect)
    parameters = dict(compiled.construct_params(values))
    # The client fills in values by Python's % operator, only where there are some.
    sql = compiled.string if parameters else compiled.string.replace("%%", "%")
    return with_label(connection, sql), parameters


def blocks(connection: sa.Connection, statement: Statement) -> Generator[Rows, None, None]:
    """Yield the rows of a statement, a block of ClickHouse at a time."""
    client = client_of(connection)
    if client is None:
        yield from partitions(connection, statement)
        return
    with client.query_row_block_stream(*query_of(connection, statement), query_formats=FORMATS) as stream:
        for block in stream:
            if block:
                yield block
