"""Arrow batches of a driver's own cursor: Snowflake, Databricks and BigQuery.

The statement runs through SQLAlchemy, as for a cursor's rows. Only the fetching differs.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from inspect import signature
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.errors import SourceError
from airflow_sitemaps.sources.connections.driver_errors import translated
from airflow_sitemaps.sources.connections.transaction import read_transaction
from airflow_sitemaps.sources.queries.row_query import rows_statement
from airflow_sitemaps.sources.readers.cursor import BATCH_ROWS, fitted, from_cursor
from airflow_sitemaps.sources.readers.streams import CURSOR_ROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    import pyarrow as pa
    import sqlalchemy as sa

    from airflow_sitemaps.sources.queries.context import QueryContext
    from airflow_sitemaps.sources.queries.key_spans import KeySpan
    from airflow_sitemaps.sources.readers.cursor import SpanReader
    from airflow_sitemaps.sources.readers.streams import Rows

log = logging.getLogger(__name__)


def _snowflake(cursor: Any, refusals: tuple[type[Exception], ...]) -> Iterator[pa.RecordBatch] | None:
    """Return the batches of ``fetch_arrow_batches``, or None if the connector has no Arrow for this result.

    https://docs.snowflake.com/en/developer-guide/python-connector/python-connector-api
    """
    fetch = getattr(cursor, "fetch_arrow_batches", None)
    if fetch is None:
        return None
    # Nanoseconds of 64 bits end in the year 2262.
    has_microseconds = "force_microsecond_precision" in signature(fetch).parameters
    try:
        tables = fetch(force_microsecond_precision=True) if has_microseconds else fetch()
    except refusals:
        return None
    return chain.from_iterable(table.to_batches() for table in tables)


def _databricks(cursor: Any, refusals: tuple[type[Exception], ...]) -> Iterator[pa.RecordBatch] | None:
    """Return the batches of ``fetchmany_arrow``, or None if the result is not in Arrow.

    https://docs.databricks.com/en/dev-tools/python-sql-connector.html
    """
    fetch = getattr(cursor, "fetchmany_arrow", None)
    if fetch is None:
        return None
    try:
        first = fetch(BATCH_ROWS)
    except refusals:
        return None

    def batches() -> Iterator[pa.RecordBatch]:
        table = first
        while table.num_rows:
            yield from table.to_batches()
            table = fetch(BATCH_ROWS)

    return batches()


def _bigquery(cursor: Any, _refusals: tuple[type[Exception], ...]) -> Iterator[pa.RecordBatch] | None:
    """Return the batches of ``RowIterator.to_arrow_iterable``, or None if the cursor holds no such iterator.

    The driver's connection has a client of the Storage API where ``google-cloud-bigquery-storage`` is installed. Without it
    the rows come by the REST API. One stream keeps the order of the rows.

    https://cloud.google.com/python/docs/reference/bigquery/latest/google.cloud.bigquery.table.RowIterator
    """
    rows: Any = getattr(cursor, "_query_rows", None)
    if rows is None:
        job = getattr(cursor, "query_job", None)
        rows = job.result() if job is not None else None
    if not hasattr(rows, "to_arrow_iterable"):
        return None
    storage = getattr(cursor.connection, "_bqstorage_client", None)
    batches: Iterator[pa.RecordBatch] = rows.to_arrow_iterable(bqstorage_client=storage, max_stream_count=1)
    return batches


CURSORS: Final[dict[str, tuple[str, Callable[[Any, tuple[type[Exception], ...]], Iterator[pa.RecordBatch] | None]]]] = {
    "snowflake": ("fetch_arrow_batches", _snowflake),
    "databricks": ("fetchmany_arrow", _databricks),
    "bigquery": ("to_arrow_iterable", _bigquery),
}
"""By dialect: the driver's method, and the function that returns the batches of a cursor that ran a statement."""


@contextmanager
def reader(context: QueryContext, engine: sa.Engine) -> Iterator[SpanReader]:
    """Yield a reader over one connection. If the driver has no Arrow for a result, its rows are read by the cursor."""
    method, batches_of = CURSORS[context.dialect.name]
    outputs = context.selection.outputs(objects=True)
    what = f"{context.name}: reading rows"
    dbapi: Any = engine.dialect.loaded_dbapi
    refusals = tuple(getattr(dbapi, name) for name in ("NotSupportedError", "ProgrammingError") if hasattr(dbapi, name))
    logged: set[str] = set()

    def tell(way: str) -> None:
        if way not in logged:
            logged.add(way)
            log.info("%s: reading %s", context.name, way)

    with read_transaction(engine, context.dialect, what) as connection, context.dialect.reading(connection):

        def rows_of(span: KeySpan) -> Generator[pa.RecordBatch, None, None]:
            statement, columns = rows_statement(context, span, outputs)
            options = {"stream_results": True, "yield_per": CURSOR_ROWS}
            with (
                translated(engine, f"{what} failed", SourceError),
                connection.execute(*statement, execution_options=options) as result,
            ):
                # Drivers that have no Arrow form of a result raise one of these; the cursor then reads the same rows.
                batches = batches_of(result.cursor, (*refusals, NotImplementedError))
                if batches is None:
                    tell(f"through a cursor, because the driver has no {method} for this result")
                    yield from from_cursor(_parts(result), columns)
                    return
                tell(f"Arrow batches by {method}")
                for batch in batches:
                    # An empty result may have no columns.
                    if batch.num_rows:
                        yield fitted(batch, columns)

        yield rows_of


def _parts(result: sa.CursorResult[Any]) -> Generator[Rows, None, None]:
    yield from result.partitions(CURSOR_ROWS)
