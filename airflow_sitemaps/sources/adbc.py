"""PostgreSQL by ADBC: COPY in binary to Arrow, in batches of 4 MB, without a Python object per row."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy.dialects import postgresql

from airflow_sitemaps.errors import SourceError
from airflow_sitemaps.sources.connect import redacted
from airflow_sitemaps.sources.literals import literal
from airflow_sitemaps.sources.reading import fitted

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from contextlib import AbstractContextManager

    import pyarrow as pa
    import sqlalchemy as sa

    from airflow_sitemaps.sources.dialects.base import Reader
    from airflow_sitemaps.sources.intervals import Run
    from airflow_sitemaps.sources.session import SqlSession

log = logging.getLogger(__name__)

BATCH_BYTES: Final = 4 * 1024 * 1024
BATCH_HINT: Final = "adbc.postgresql.batch_size_hint_bytes"
WHERE_AM_I: Final = (
    "SELECT current_database(), current_user, CAST(pg_postmaster_start_time() AS text), current_setting('search_path')"
)


def reader(session: SqlSession) -> AbstractContextManager[Reader] | None:
    """A reader over one connection, or None where ADBC is not installed or cannot reach the same database."""
    try:
        from adbc_driver_postgresql import dbapi  # noqa: PLC0415 - optional, and imports pandas
    except ImportError:
        return None
    connection = _connect(session, dbapi)
    return None if connection is None else _reader(session, connection, dbapi)


def address(url: sa.URL) -> str:
    """An engine's URL as libpq reads it: a socket's folder is no host."""
    url = url.set(drivername="postgresql")
    if url.host and url.host.startswith("/"):
        url = url.set(host="").update_query_dict({"host": url.host})
    return url.render_as_string(hide_password=False)


def _connect(session: SqlSession, dbapi: Any) -> Any | None:
    """A connection to the very server, database and role that the engine is connected to.

    An engine may be made with more than its URL says (a token, a proxy): then ADBC fails here, or arrives elsewhere,
    and the cursor reads.
    """
    url = address(session.engine.url)
    try:
        connection = dbapi.connect(url)
    except dbapi.Error as error:
        log.info("%s: reading by cursor, since ADBC cannot connect: %s", session.name, redacted(session.engine, error))
        return None
    try:
        with connection.cursor() as cursor:
            for sql in session.dialect.begin_sql:
                cursor.execute(sql.replace("SET LOCAL", "SET"))
            cursor.execute(WHERE_AM_I)
            here = tuple(cursor.fetchone())
        with session.transaction("asking where it is") as other:
            there = tuple(other.exec_driver_sql(WHERE_AM_I).one())
    except dbapi.Error as error:
        log.info("%s: reading by cursor, since ADBC failed: %s", session.name, redacted(session.engine, error))
        connection.close()
        return None
    if here != there:
        log.info("%s: reading by cursor, since ADBC reached another database, role or search_path", session.name)
        connection.close()
        return None
    return connection


@contextmanager
def _reader(session: SqlSession, connection: Any, dbapi: Any) -> Iterator[Reader]:
    columns = session.selection.outputs(objects=False)
    plain = postgresql.dialect(paramstyle="named")  # type: ignore[no-untyped-call]

    def rows_of(run: Run) -> Generator[pa.RecordBatch, None, None]:
        statement, outputs = session.rows_statement(run, columns)
        try:
            with connection.cursor() as cursor:
                cursor.adbc_statement.set_options(**{BATCH_HINT: str(BATCH_BYTES)})
                # ADBC streams by COPY, which takes no binds; standard_conforming_strings is on.
                cursor.execute(literal(statement, plain))
                with cursor.fetch_record_batch() as batches:
                    for batch in batches:
                        yield fitted(batch, outputs)
        except (dbapi.Error, OSError) as error:
            raise SourceError(f"{session.name}: reading rows failed: {redacted(session.engine, error)}") from None

    try:
        yield rows_of
    finally:
        connection.close()
