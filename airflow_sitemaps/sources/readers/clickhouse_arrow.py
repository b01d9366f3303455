"""ClickHouse's Arrow stream, by clickhouse-connect."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_sitemaps.errors import SourceError
from airflow_sitemaps.sources.connections.driver_errors import translated
from airflow_sitemaps.sources.connections.transaction import read_transaction
from airflow_sitemaps.sources.queries.row_query import rows_statement
from airflow_sitemaps.sources.readers.clickhouse_stream import client_of, query_of
from airflow_sitemaps.sources.readers.cursor import fitted

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from contextlib import AbstractContextManager

    import pyarrow as pa
    import sqlalchemy as sa

    from airflow_sitemaps.sources.queries.context import QueryContext
    from airflow_sitemaps.sources.queries.key_spans import KeySpan
    from airflow_sitemaps.sources.readers.cursor import SpanReader

log = logging.getLogger(__name__)


def reader(context: QueryContext, engine: sa.Engine) -> AbstractContextManager[SpanReader] | None:
    """Return a reader over one connection, or None if the engine's driver is not clickhouse-connect."""
    if engine.dialect.name != "clickhousedb":
        log.info("%s: reading through a cursor, because only clickhouse-connect streams Arrow", context.name)
        return None
    return _reader(context, engine)


@contextmanager
def _reader(context: QueryContext, engine: sa.Engine) -> Iterator[SpanReader]:
    outputs = context.selection.outputs(objects=True)
    what = f"{context.name}: reading rows"
    with read_transaction(engine, context.dialect, what) as connection:
        client: Any = client_of(connection)
        log.info("%s: reading Arrow batches by query_arrow_stream", context.name)

        def rows_of(span: KeySpan) -> Generator[pa.RecordBatch, None, None]:
            statement, columns = rows_statement(context, span, outputs)
            # Texts come as bytes: a String need not be UTF-8.
            query = query_of(connection, statement)
            with (
                translated(engine, f"{what} failed", SourceError),
                client.query_arrow_stream(*query, use_strings=False) as batches,
            ):
                for batch in batches:
                    yield fitted(batch, columns)

        yield rows_of
