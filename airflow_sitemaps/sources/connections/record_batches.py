"""Rows as Arrow record batches: those of a cursor or of a driver's Arrow interface, and PostgreSQL's by ADBC."""

from __future__ import annotations

import codecs
import gc
import logging
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy.dialects import postgresql

from airflow_sitemaps.errors import SourceError
from airflow_sitemaps.sources.connections.driver import redacted, translated, with_label
from airflow_sitemaps.sources.queries.context import rows_statement
from airflow_sitemaps.sources.statements.binds import literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    import sqlalchemy as sa

    from airflow_sitemaps.sources.columns import Output
    from airflow_sitemaps.sources.connections.driver import Rows
    from airflow_sitemaps.sources.queries.context import QueryContext
    from airflow_sitemaps.sources.queries.key_spans import KeySpan

SpanReader = Callable[["KeySpan"], Generator[pa.RecordBatch, None, None]]
"""Yields the rows of a span, with the bucket's number as the first column."""


def batches_of(
    stream: Generator[pa.RecordBatch | Rows, None, None], outputs: Sequence[Output]
) -> Generator[pa.RecordBatch, None, None]:
    """Yield rows as batches of the outputs' types, a few thousand rows at a time. The stream is closed at the end."""
    with closing(stream) as parts:
        while (batch := _next_batch(parts, outputs)) is not None:
            yield batch


def _next_batch(parts: Iterator[pa.RecordBatch | Rows], outputs: Sequence[Output]) -> pa.RecordBatch | None:
    with _uncollected():
        rows = next(parts, None)
        if rows is None:
            return None
        if isinstance(rows, pa.RecordBatch):
            return fitted(rows, outputs)
        # Columns after the outputs only order the rows.
        columns = [
            array_of(values, output.type) for values, output in zip(zip(*rows, strict=True), outputs, strict=False)
        ]
        return pa.RecordBatch.from_arrays(columns, names=[output.name for output in outputs])


@contextmanager
def _uncollected() -> Iterator[None]:
    """Pause garbage collection for the block, some tens of milliseconds.

    Rows are tuples, made by the thousand, without cycles and soon freed. The collector still scans them repeatedly,
    which takes twice the time of reading and converting them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Convert a column: drivers return Decimal for integers, bytes for texts, microseconds since 1970 for times."""
    if pa.types.is_string(kind):
        return _texts(values)
    if pa.types.is_timestamp(kind):
        try:
            return pa.array(values, pa.int64()).cast(kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            return _moments(values).cast(kind)
    try:
        return pa.array(values, kind)
    except OverflowError:
        return pa.array([None if value is None else int(value) for value in values], pa.uint64())
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        make = float if pa.types.is_floating(kind) else int
        return pa.array([None if value is None else make(value) for value in values], kind)


def _moments(values: Sequence[Any]) -> pa.Array:
    zoned = any(value.tzinfo is not None for value in values if value is not None)
    moments = pa.array(values, pa.timestamp("us", "UTC" if zoned else None))
    return moments.cast(pa.timestamp("us"))


def _texts(values: Sequence[Any]) -> pa.Array:
    try:
        return pa.array(values, pa.string())
    except (pa.ArrowTypeError, pa.ArrowInvalid, UnicodeEncodeError):
        return pa.array([None if value is None else _text(value) for value in values], pa.string())


BAD_BYTES: Final = "airflow_sitemaps_bad_bytes"


def _marked(error: UnicodeError) -> tuple[str, int]:
    """Write each byte that is not UTF-8 as U+001A (SUBSTITUTE) and its two hexadecimal digits.

    No URL, date or word contains that character, so the rules drop and count the value. The sample shows the bytes, and
    different values stay different.
    """
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "".join(f"\x1a{byte:02X}" for byte in error.object[error.start : error.end]), error.end


codecs.register_error(BAD_BYTES, _marked)


def _text(value: Any) -> str:
    """Return a text that UTF-8 can encode, with every byte that is not UTF-8 marked."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode("utf-8", BAD_BYTES)
    return str(value).encode("utf-8", "surrogatepass").decode("utf-8", BAD_BYTES)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    given = column.type
    if pa.types.is_timestamp(given):
        # Nanoseconds are cut off, as the drivers cut them off in Python's times.
        micros = column if given.unit != "ns" else pc.floor_temporal(column, unit="microsecond")
        return micros.cast(pa.timestamp("us", given.tz and "UTC")).cast(kind)
    if pa.types.is_binary(given) or pa.types.is_large_binary(given) or pa.types.is_binary_view(given):
        try:
            return column.cast(kind)
        except pa.ArrowInvalid:  # a text that is not UTF-8
            return _texts(column.to_pylist())
    if pa.types.is_date(kind) and pa.types.is_integer(given):
        return column.cast(pa.int32()).cast(kind)  # days since 1970
    return column.cast(kind)


def fitted(batch: pa.RecordBatch, outputs: Sequence[Output]) -> pa.RecordBatch:
    """Return a driver's own batch with the outputs' types: drivers return enums, large texts and views."""
    if not batch.num_rows:  # an empty result may have no columns
        return pa.RecordBatch.from_arrays([pa.array([], o.type) for o in outputs], names=[o.name for o in outputs])
    columns = []
    for column, output in zip(batch.columns, outputs, strict=True):
        columns.append(column if column.type == output.type else _cast(column, output.type))
    return pa.RecordBatch.from_arrays(columns, names=[output.name for output in outputs])


log = logging.getLogger(__name__)

BATCH_BYTES: Final = 4 * 1024 * 1024
SLOW_RELEASES: Final = ("1.9.", "1.10.", "1.11.", "1.12.", "1.13.")
BATCH_HINT: Final = "adbc.postgresql.batch_size_hint_bytes"
WHERE_AM_I: Final = (
    "SELECT current_database(), current_user, CAST(pg_postmaster_start_time() AS text), current_setting('search_path'), "
    "CASE current_setting('server_encoding') WHEN 'SQL_ASCII' THEN current_setting('client_encoding') END"
)
"""What must be equal for two connections to read the same rows. A server without an encoding converts no text."""


def adbc_reader(context: QueryContext, engine: sa.Engine) -> AbstractContextManager[SpanReader] | None:
    """Return a reader over one connection, or None if ADBC is not installed or cannot reach the same database."""
    try:
        from adbc_driver_postgresql import dbapi  # noqa: PLC0415 - optional, and imports pandas
    except ImportError:
        return None
    _warn_of_slow_wheel()
    connection = _adbc_connection(context, engine, dbapi)
    return None if connection is None else _adbc_reader(context, engine, connection, dbapi)


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


def _adbc_connection(context: QueryContext, engine: sa.Engine, dbapi: Any) -> Any | None:
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
        with context.dialect.transaction(engine, f"{context.name}: finding the server's name") as other:
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
def _adbc_reader(context: QueryContext, engine: sa.Engine, connection: Any, dbapi: Any) -> Iterator[SpanReader]:
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
