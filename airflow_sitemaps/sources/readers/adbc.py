"""PostgreSQL by ADBC: binary COPY to Arrow in batches of 4 MB, without a Python object per row."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy.dialects import postgresql

from airflow_sitemaps.errors import SourceError
from airflow_sitemaps.sources.connections.driver_errors import redacted, translated
from airflow_sitemaps.sources.connections.statement_labels import with_label
from airflow_sitemaps.sources.connections.transaction import read_transaction
from airflow_sitemaps.sources.queries.row_query import rows_statement
from airflow_sitemaps.sources.readers.cursor import fitted
from airflow_sitemaps.sources.statements.literals import literal

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from contextlib import AbstractContextManager

    import pyarrow as pa
    import sqlalchemy as sa

    from airflow_sitemaps.sources.queries.context import QueryContext
    from airflow_sitemaps.sources.queries.key_spans import KeySpan
    from airflow_sitemaps.sources.readers.cursor import SpanReader

log = logging.getLogger(__name__)

BATCH_BYTES: Final = 4 * 1024 * 1024
SLOW_RELEASES: Final = ("1.9.", "1.10.", "1.11.", "1.12.", "1.13.")
BATCH_HINT: Final = "adbc.postgresql.batch_size_hint_bytes"
WHERE_AM_I: Final = (
    "SELECT current_database(), current_user, CAST(pg_postmaster_start_time() AS text), current_setting('search_path'), "
    "CASE current_setting('server_encoding') WHEN 'SQL_ASCII' THEN current_setting('client_encoding') END"
)
"""What must be equal for two connections to read the same rows. A server without an encoding converts no text."""


def reader(context: QueryContext, engine: sa.Engine) -> AbstractContextManager[SpanReader] | None:
    """Return a reader over one connection, or None if ADBC is not installed or cannot reach the same database."""
    try:
        from adbc_driver_postgresql import dbapi  # noqa: PLC0415 - optional, and imports pandas
    except ImportError:
        return None
    _warn_of_slow_wheel()
    connection = _connection(context, engine, dbapi)
    return None if connection is None else _reader(context, engine, connection, dbapi)


@cache
def _warn_of_slow_wheel() -> None:
    """Warn once in each process if the installed wheel reads at half the speed (docs/performance.md)."""
    release = version("adbc-driver-postgresql")
    if release.startswith(SLOW_RELEASES):
        log.warning(
            "adbc-driver-postgresql %s is built without optimization: reading takes about twice the CPU time. If "
            "your constraints allow it, install another release, such as 1.8",
            release,
        )


def address(url: sa.URL) -> str:
    """Return an engine's URL in the form that libpq reads, in which a socket's folder is not a host."""
    url = url.set(drivername="postgresql")
    if url.host and url.host.startswith("/"):
        url = url.set(host="").update_query_dict({"host": url.host})
    return url.render_as_string(hide_password=False)


def _connection(context: QueryContext, engine: sa.Engine, dbapi: Any) -> Any | None:
    """Connect to the same server, database and role as the engine, or return None.

    An engine may need more than its URL says, such as a token or a proxy. ADBC then fails to connect or reaches another
    database, and the cursor reads the rows.
    """
    try:
        connection = dbapi.connect(address(engine.url))
    except dbapi.Error as error:
        log.info("%s: reading through a cursor, because ADBC cannot connect: %s", context.name, redacted(engine, error))
        return None
    try:
        with connection.cursor() as cursor:
            # ADBC takes every text for UTF-8, whatever the encoding of the database.
            cursor.execute("SET client_encoding = 'UTF8'")
            for sql in context.dialect.opening_sql():
                cursor.execute(sql.replace("SET LOCAL", "SET"))
            cursor.execute(WHERE_AM_I)
            here = tuple(cursor.fetchone())
        with read_transaction(engine, context.dialect, f"{context.name}: finding the server's name") as other:
            there = tuple(other.exec_driver_sql(WHERE_AM_I).one())
    except dbapi.Error as error:
        log.info("%s: reading through a cursor, because ADBC failed: %s", context.name, redacted(engine, error))
        connection.close()
        return None
    if here != there:
        log.info(
            "%s: reading through a cursor, because ADBC reached another database, role, search_path or encoding",
            context.name,
        )
        connection.close()
        return None
    return connection


@contextmanager
def _reader(context: QueryContext, engine: sa.Engine, connection: Any, dbapi: Any) -> Iterator[SpanReader]:
    columns = context.selection.outputs(objects=False)
    plain = postgresql.dialect(paramstyle="named")  # type: ignore[no-untyped-call]
    log.info("%s: reading Arrow batches by ADBC", context.name)

    def rows_of(span: KeySpan) -> Generator[pa.RecordBatch, None, None]:
        statement, outputs = rows_statement(context, span, columns)
        failure = f"{context.name}: reading rows failed"
        with translated(engine, failure, SourceError, dbapi.Error), connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**{BATCH_HINT: str(BATCH_BYTES)})
            # ADBC streams by COPY, which takes no binds. standard_conforming_strings is on.
            cursor.execute(with_label(engine, literal(statement, plain, context.dialect.text_literal)))
            with cursor.fetch_record_batch() as batches:
                for batch in batches:
                    yield fitted(batch, outputs)

    try:
        yield rows_of
    finally:
        connection.close()
