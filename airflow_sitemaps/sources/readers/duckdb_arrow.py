"""DuckDB's own reader of Arrow record batches."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_sitemaps.errors import SourceError
from airflow_sitemaps.sources.connections.driver_errors import translated
from airflow_sitemaps.sources.connections.transaction import read_transaction
from airflow_sitemaps.sources.queries.row_query import rows_statement
from airflow_sitemaps.sources.readers.cursor import BATCH_ROWS, fitted

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    import pyarrow as pa
    import sqlalchemy as sa

    from airflow_sitemaps.sources.queries.context import QueryContext
    from airflow_sitemaps.sources.queries.key_spans import KeySpan
    from airflow_sitemaps.sources.readers.cursor import SpanReader

log = logging.getLogger(__name__)


@contextmanager
def reader(context: QueryContext, engine: sa.Engine) -> Iterator[SpanReader]:
    """Yield a reader over one connection."""
    columns = context.selection.outputs(objects=False)
    what = f"{context.name}: reading rows"
    with read_transaction(engine, context.dialect, what) as connection:
        log.info("%s: reading Arrow batches by DuckDB's own reader", context.name)
        driver: Any = connection.connection.dbapi_connection

        def rows_of(span: KeySpan) -> Generator[pa.RecordBatch, None, None]:
            (clause, values), outputs = rows_statement(context, span, columns)
            compiled: Any = clause.compile(dialect=engine.dialect)
            with translated(engine, f"{what} failed", SourceError):
                rows = driver.sql(compiled.string, params=[values[name] for name in compiled.positiontup or ()])
                # The method has another name before DuckDB 1.4.
                make = getattr(rows, "to_arrow_reader", None) or rows.fetch_arrow_reader
                for batch in make(BATCH_ROWS):
                    yield fitted(batch, outputs)

        yield rows_of
