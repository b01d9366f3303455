"""How rows reach this process: Arrow from the driver where it has it, else a streaming cursor."""

from __future__ import annotations

import gc
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from airflow_sitemaps.sources.selection import Output

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    import sqlalchemy as sa

    from airflow_sitemaps.sources.dialects.base import Dialect
    from airflow_sitemaps.sources.statement import Statement

    Rows = Sequence[Sequence[Any]]

CURSOR_ROWS: Final = 16_384
CURSOR_NAME: Final = "airflow_sitemaps_rows"
BATCH_ROWS: Final = 65_536


def bucket_output(sql: str) -> Output:
    """The first column of every statement that reads rows."""
    return Output(name="range_no", sql=sql, type=pa.int32())


def from_cursor(
    connection: sa.Connection, dialect: Dialect, statement: Statement, outputs: Sequence[Output]
) -> Generator[pa.RecordBatch, None, None]:
    """Rows by a server-side cursor where the driver has one: memory holds a few thousand rows at a time."""
    with closing(dialect.rows(connection, statement)) as parts:
        while (batch := _next_batch(parts, outputs)) is not None:
            yield batch


def _next_batch(parts: Iterator[Rows], outputs: Sequence[Output]) -> pa.RecordBatch | None:
    """The next part's rows as columns; None at the end."""
    with _uncollected():
        rows = next(parts, None)
        if rows is None:
            return None
        # Columns beyond the outputs only serve to order the rows.
        columns = [
            array_of(values, output.type) for values, output in zip(zip(*rows, strict=True), outputs, strict=False)
        ]
        return pa.RecordBatch.from_arrays(columns, names=[output.name for output in outputs])


@contextmanager
def _uncollected() -> Iterator[None]:
    """No garbage is collected meanwhile, some tens of milliseconds.

    Rows are tuples made by the thousand: they hold no cycles and are gone soon, and yet the collector would look
    through them again and again, for twice the time that reading and converting them takes.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def partitions(connection: sa.Connection, statement: Statement) -> Generator[Rows, None, None]:
    """Rows as SQLAlchemy streams them, from any driver."""
    options = {"stream_results": True, "yield_per": CURSOR_ROWS}
    with connection.execute(*statement, execution_options=options) as result:
        yield from result.partitions(CURSOR_ROWS)


def named_cursor(connection: sa.Connection, statement: Statement, **how: Any) -> Generator[Rows, None, None]:
    """Rows as the driver's own server-side cursor gives them (psycopg, psycopg2): half of what SQLAlchemy's rows cost.

    ``how`` are options of the cursor's ``execute``.
    """
    text, values = statement
    compiled = text.compile(dialect=connection.dialect)
    driver: Any = connection.connection.driver_connection
    with driver.cursor(CURSOR_NAME) as cursor:
        cursor.execute(compiled.string, compiled.construct_params(values), **how)
        while rows := cursor.fetchmany(CURSOR_ROWS):
            yield rows


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """One column of Python objects as an array of a type.

    Drivers give Decimal for integers, bytes for texts, integers for microseconds since 1970.
    """
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


def _text(value: Any) -> str:
    """A text that UTF-8 can hold: what cannot be read or written becomes U+FFFD, which the rules then judge."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode("utf-8", "replace")
    return str(value).encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def fitted(batch: pa.RecordBatch, outputs: Sequence[Output]) -> pa.RecordBatch:
    """A driver's own batch with the types that are wanted (drivers hand out enums, large texts, views)."""
    columns = []
    for column, output in zip(batch.columns, outputs, strict=True):
        if pa.types.is_timestamp(column.type) and column.type.tz is not None:
            columns.append(column.cast(pa.timestamp("us", "UTC")).cast(output.type))
        else:
            columns.append(column if column.type == output.type else column.cast(output.type))
    return pa.RecordBatch.from_arrays(columns, names=[output.name for output in outputs])
