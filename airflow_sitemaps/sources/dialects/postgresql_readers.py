"""Readers of PostgreSQL's rows: packed by range over psycopg or ADBC, or as ADBC's Arrow batches.

Packed, the server joins the values of each column of a range into one long value, and its row has a few of them. NumPy
and Arrow take their bytes as they are, so no value of a row becomes an object in this process.

Requires that an index leads with the key: the statement looks up each range by it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from typing import Any, Final

import numpy as np
import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from airflow_sitemaps.errors import SourceError
from airflow_sitemaps.shards.ranges import KeyRange
from airflow_sitemaps.sources import row_values
from airflow_sitemaps.sources.columns import Kind, Output
from airflow_sitemaps.sources.driver import BATCH_ROWS, Statement, literal, redacted, setup, translated, with_label
from airflow_sitemaps.sources.queries.context import QueryContext, SpanReader, rows_statement
from airflow_sitemaps.sources.queries.key_spans import GAP, KeySpan, condition

log = logging.getLogger(__name__)


def opened(context: QueryContext, engine: sa.Engine) -> AbstractContextManager[SpanReader] | None:
    """Return a reader over a connection of its own, or None if the rows come through a cursor one by one."""
    obstacle = packing_obstacle(context, engine)
    if obstacle is None and engine.dialect.driver == "psycopg":
        return _psycopg_reader(context, engine)
    try:
        from adbc_driver_postgresql import dbapi  # noqa: PLC0415 - optional, and imports pandas
    except ImportError:
        return None
    if not _is_recent(version("adbc-driver-postgresql")):
        return None
    connection = _adbc_connection(context, engine, dbapi)
    return None if connection is None else _adbc_reader(context, engine, connection, dbapi, obstacle)


# ---------------------------------------------------------------- packed rows

NARROW: Final = frozenset({"lastmod", "changefreq", "priority"})
"""The fields whose values are short. The long ones of a whole range might not fit into one value, or into memory."""
SERVER: Final = re.compile(r"PostgreSQL (1[3-9]|[2-9]\d)[\w.]*( \((Debian|Ubuntu|Homebrew)[^)]*\))? on ")
"""The versions of PostgreSQL itself. Servers that only speak its protocol name themselves, or an older version."""
ABOUT: Final = "SELECT version(), current_setting('server_encoding')"
SAVEPOINT: Final = "airflow_sitemaps_packed"
TOO_LONG: Final = "54000"
"""The SQLSTATE of a value of more than 1 GB."""
SENT: Final = {Kind.DATE: "date_send", Kind.TIMESTAMP: "timestamp_send", Kind.ZONED: "timestamptz_send"}
LEAST: Final = -(1 << 63)
"""Minus infinity, as ``timestamp_send`` writes it. It stands for NULL, because a selected lastmod is finite."""
LEAST_DAY: Final = -(1 << 31)
NAN: Final = 0x7FF8_0000_0000_DEAD
"""A NaN that no database returns. It stands for NULL."""
DAYS: Final = 10_957
"""Days from 1970 to 2000, from which PostgreSQL counts."""
MICROS: Final = DAYS * 86_400_000_000


def packing_obstacle(context: QueryContext, engine: sa.Engine) -> str | None:
    """Return why the rows of a source cannot be packed, or None."""
    wide = next((name for name in context.fields if name not in NARROW), None)
    if wide is not None:
        return f"the values of {wide} may be long"
    if any(column.kind is Kind.BINARY for column in context.emitted):
        return "a column holds bytes"
    if not context.indexed:
        return "no index leads with the key"
    with context.dialect.transaction(engine, f"{context.name}: asking for the server's version") as connection:
        server, encoding = connection.exec_driver_sql(ABOUT).one()
        if not SERVER.match(server) or encoding != "UTF8":
            return f"the server is {server.partition(',')[0]} in {encoding}"
        clause, values = _packed_statement(context, [], context.outputs(objects=False))
        # The bounds come from a function, so that the plan is the same for all of them.
        lines = [line for (line,) in connection.execute(sa.text(f"EXPLAIN {clause.text}"), values)]
    if not any("Index Cond" in line for line in lines) or any("Seq Scan" in line for line in lines):
        return "the plan reads the whole table for each range"
    return None


Bucket = tuple[int, KeyRange]
"""The number of a bucket in its span, and its range."""


@dataclass(slots=True)
class _PackedReader:
    """Reads the buckets of a span packed, and those with an open end, or too many rows, by another reader.

    ``packed`` yields the rows of a packed statement, ``plain`` reads a span by rows or Arrow batches. ``mark`` marks the state
    of the transaction before a packed statement, to which ``undo`` returns after a failure.
    """

    context: QueryContext
    packed: Callable[[Statement], Generator[Sequence[Any], None, None]]
    plain: SpanReader
    mark: Callable[[], None]
    undo: Callable[[], None]
    is_tired: bool = False

    def read(self, span: KeySpan) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows of a span as ``SpanReader`` defines them."""
        ends = (span.within.lower, *span.cuts, span.within.upper)
        buckets = [(n, KeyRange(*ends[n : n + 2])) for n, place in enumerate(span.places) if place != GAP]
        # The planner must know the bound of a range that is open at its other end: it gets a statement of its own.
        first = int(buckets[0][1].lower is None)
        last = len(buckets) - int(buckets[-1][1].upper is None and len(buckets) > first)
        for group in (buckets[:first], buckets[first:last], buckets[last:]):
            remaining = group
            if group and not self.is_tired:
                remaining = yield from self._packed(group)
            for bucket in remaining:
                yield from self._plain(bucket)

    def _plain(self, bucket: Bucket) -> Generator[pa.RecordBatch, None, None]:
        number, within = bucket
        with closing(self.plain(KeySpan(within=within, cuts=(), places=(0,)))) as batches:
            for batch in batches:
                numbers = pa.array(np.full(batch.num_rows, number, np.int32))
                yield batch.set_column(0, batch.schema.field(0), numbers)

    def _packed(self, buckets: list[Bucket]) -> Generator[pa.RecordBatch, None, list[Bucket]]:
        """Yield the rows of buckets, and return those that remain: from the first one that is too large."""
        outputs = self.context.outputs(objects=False)
        done = 0
        self.mark()
        try:
            statement = _packed_statement(self.context, [within for _, within in buckets], outputs)
            with closing(self.packed(statement)) as rows:
                for place, number, *values in rows:
                    if self.is_tired or number > BATCH_ROWS:
                        self.is_tired = True
                        continue  # ADBC runs no other statement before the end of this one
                    if place != done:
                        raise SourceError(
                            f"{self.context.name}: reading rows failed: range {place} came before range {done}"
                        )
                    if number:
                        yield _unpacked(buckets[place][0], number, values, outputs)
                    done += 1
        except Exception as error:
            # ADBC's stream has only a message, in an error that depends on its release. The plain statement names another cause.
            if getattr(error, "sqlstate", None) != TOO_LONG and not isinstance(error, (pa.ArrowException, OSError)):
                raise
            self.is_tired = True
            self.undo()
        if self.is_tired:
            log.info("%s: reading the other ranges plainly, because one has grown to more than %d rows or 1 GB",
                     self.context.name, BATCH_ROWS)  # fmt: skip
        return buckets[done:]


def _packed_statement(context: QueryContext, ranges: Sequence[KeyRange], outputs: Sequence[Output]) -> Statement:
    """Return the query of one range, or of closed ones: the place of each, its number of rows, and each column's values."""
    dialect, key = context.dialect, context.key
    binds = context.relation.binds()
    packs = ", ".join(pack for number, output in enumerate(outputs) for pack in _packs(f"q.c{number}", output, context))
    select = ", ".join(f"{output.sql} AS c{number}" for number, output in enumerate(outputs))
    order = context.row_order

    def packed(where: str) -> str:
        rows = f"SELECT {select} FROM {context.from_item} WHERE {where} ORDER BY {order} LIMIT {BATCH_ROWS + 1}"
        return f"(SELECT count(*), {packs} FROM ({rows}) q) a"

    if len(ranges) == 1:
        return binds.statement(f"SELECT 0, a.* FROM {packed(condition(dialect, key, ranges[0], binds))}")
    bounds = dialect.boundary_rows((*key, *key), [(*r.lower, *r.upper) for r in ranges if r.lower and r.upper], binds)
    names = ", ".join(dialect.key_order(column) for column in key)
    lower, upper = (", ".join(f"b.k{n + start}" for n in range(len(key))) for start in (0, len(key)))
    terms = [f"{dialect.column(column)} IS NOT NULL" for column in key]
    terms += [f"({names}) >= ({lower})", f"({names}) < ({upper})"]
    ordered = f"(SELECT * FROM ({bounds}) given ORDER BY place) b"
    return binds.statement(f"SELECT b.place, a.* FROM {ordered} CROSS JOIN LATERAL {packed(' AND '.join(terms))}")


def _packs(value: str, output: Output, context: QueryContext) -> list[str]:
    """Return the aggregates that pack a column: its values, and the lengths of texts, of which -1 stands for NULL."""
    if pa.types.is_string(output.type):
        lengths = f"pg_catalog.int4send(COALESCE(octet_length({value}), -1))"
        return [f"pg_catalog.convert_to(string_agg({value}, ''), 'UTF8')", f"string_agg({lengths}, '')"]
    if pa.types.is_integer(output.type):
        return [f"string_agg(pg_catalog.int8send({value}), '')"]
    if pa.types.is_floating(output.type):
        return [f"string_agg(COALESCE(pg_catalog.float8send({value}), pg_catalog.int8send({NAN})), '')"]
    column = context.fields.get(output.name)
    assert column is not None
    null = f"int4send({LEAST_DAY})" if column.kind is Kind.DATE else f"int8send({LEAST})"
    return [f"string_agg(COALESCE(pg_catalog.{SENT[column.kind]}({value}), pg_catalog.{null}), '')"]


def _unpacked(bucket: int, number: int, values: Sequence[Any], outputs: Sequence[Output]) -> pa.RecordBatch:
    """Return the rows of a bucket from the values that ``_packs`` wrote."""
    given = iter(values)
    columns = [_column(given, output.type) for output in outputs]
    names = ["range_no", *(output.name for output in outputs)]
    return pa.RecordBatch.from_arrays([pa.array(np.full(number, bucket, np.int32)), *columns], names=names)


def _column(values: Iterator[Any], kind: pa.DataType) -> pa.Array:
    packed = next(values)
    if pa.types.is_string(kind):
        sizes = np.frombuffer(next(values), ">i4")
        nulls = sizes < 0
        offsets = np.zeros(len(sizes) + 1, np.int32)
        np.cumsum(np.where(nulls, 0, sizes), out=offsets[1:])
        body = pa.py_buffer(packed if packed is not None else b"")
        if offsets[-1] != body.size:
            raise SourceError(f"PostgreSQL sent {body.size} bytes of texts whose lengths are {offsets[-1]} in all")
        validity = pa.array(~nulls).buffers()[1] if nulls.any() else None
        return pa.Array.from_buffers(kind, len(sizes), [validity, pa.py_buffer(offsets), body])
    if pa.types.is_date32(kind):
        days = np.frombuffer(packed, ">i4").astype(np.int32)
        return pa.array(days + np.int32(DAYS), mask=days == LEAST_DAY).view(kind)
    bits = np.frombuffer(packed, ">i8").astype(np.int64)
    if pa.types.is_floating(kind):
        return pa.array(bits.view(np.float64), mask=bits == NAN)
    if pa.types.is_timestamp(kind):
        return pa.array(bits + MICROS, mask=bits == LEAST).view(kind)
    return pa.array(bits)


@contextmanager
def _psycopg_reader(context: QueryContext, engine: sa.Engine) -> Iterator[SpanReader]:
    """Open a reader of packed rows over the engine's own connection. Plain rows come through the same one."""
    dialect, columns = context.dialect, context.outputs(objects=True)
    log.info("%s: reading packed rows by psycopg", context.name)
    with dialect.transaction(engine, f"{context.name}: reading rows", reads=True) as connection:

        def packed(statement: Statement) -> Generator[Sequence[Any], None, None]:
            clause, values = statement
            compiled = clause.compile(dialect=connection.dialect)
            sql, parameters = with_label(connection, compiled.string), compiled.construct_params(values)
            driver: Any = connection.connection.driver_connection
            # The server works on the next row while this process takes one: a named cursor would wait for each.
            with driver.cursor() as cursor, closing(cursor.stream(sql, parameters, binary=True)) as rows:
                yield from rows

        def plain(span: KeySpan) -> Generator[pa.RecordBatch, None, None]:
            statement, outputs = rows_statement(context, span, columns)
            return row_values.batches_of(dialect.rows(connection, statement), outputs)

        savepoint = f"SAVEPOINT {SAVEPOINT}"
        mark, undo = partial(setup, connection, [savepoint]), partial(setup, connection, [f"ROLLBACK TO {savepoint}"])
        yield _PackedReader(context, packed, plain, mark, undo).read


# ---------------------------------------------------------------- ADBC

BATCH_BYTES: Final = 4 * 1024 * 1024
FIRST_RELEASE: Final = (1, 11)
"""Earlier releases of the driver abort the process where a connection ends while it connects, as behind a busy PgBouncer."""
BATCH_HINT: Final = "adbc.postgresql.batch_size_hint_bytes"
WHERE_AM_I: Final = (
    "SELECT current_database(), current_user, CAST(pg_postmaster_start_time() AS text), current_setting('search_path'), "
    "CASE current_setting('server_encoding') WHEN 'SQL_ASCII' THEN current_setting('client_encoding') END"
)
"""What must be equal for two connections to read the same rows. A server without an encoding converts no text."""


@cache
def _is_recent(release: str) -> bool:
    """Return whether a release of the driver can be used; warn once in each process if not."""
    numbers = tuple(int(number) for number in re.findall(r"\d+", release)[:2])
    if numbers < FIRST_RELEASE:
        log.warning(
            "reading through a cursor, because adbc-driver-postgresql %s ends the whole process where a connection is lost "
            "while it connects. Install 1.11 or later",
            release,
        )
    return numbers >= FIRST_RELEASE


def address(url: sa.URL) -> str:
    """Return an engine's URL in the form that libpq reads, in which a socket's folder is not a host."""
    url = url.set(drivername="postgresql")
    if url.host and url.host.startswith("/"):
        url = url.set(host="").update_query_dict({"host": url.host})
    place, mark, options = url.render_as_string(hide_password=False).partition("?")
    return place + mark + options.replace("+", "%20")  # which libpq does not read as a space


def _adbc_connection(context: QueryContext, engine: sa.Engine, dbapi: Any) -> Any | None:
    """Connect to the same server, database and role as the engine, or return None.

    An engine may need more than its URL says, such as a token or a proxy. ADBC then fails to connect or reaches another
    database, and the cursor reads the rows.
    """
    connection = None
    try:
        connection = dbapi.connect(address(engine.url))
        _begin(context, connection)
        with connection.cursor() as cursor:
            cursor.execute(WHERE_AM_I)
            here = tuple(cursor.fetchone())
        with context.dialect.transaction(engine, f"{context.name}: finding the server's name") as other:
            there = tuple(other.exec_driver_sql(WHERE_AM_I).one())
        if here == there:
            return connection
        obstacle = "reached another database, role, search_path or encoding"
    except dbapi.Error as error:
        obstacle = f"{'cannot connect' if connection is None else 'failed'}: {redacted(engine, error)}"
    log.info("%s: reading through a cursor, because ADBC %s", context.name, obstacle)
    if connection is not None:
        connection.close()
    return None


def _begin(context: QueryContext, connection: Any) -> None:
    """Begin a transaction with the settings of the section."""
    with connection.cursor() as cursor:
        # ADBC takes every text for UTF-8, whatever the encoding of the database.
        for sql in ("SET client_encoding = 'UTF8'", *context.dialect.opening_sql(reads=True)):
            cursor.execute(sql.replace(", true)", ", false)"))
            cursor.fetchall()


@contextmanager
def _adbc_reader(
    context: QueryContext, engine: sa.Engine, connection: Any, dbapi: Any, obstacle: str | None
) -> Iterator[SpanReader]:
    columns = context.outputs(objects=False)
    plain_sql = postgresql.dialect(paramstyle="named")  # type: ignore[no-untyped-call]
    if obstacle is None:
        log.info("%s: reading packed rows by ADBC", context.name)
    else:
        log.info("%s: reading Arrow batches by ADBC, because %s", context.name, obstacle)

    def batches_of(statement: Statement) -> Generator[pa.RecordBatch, None, None]:
        with connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**{BATCH_HINT: str(BATCH_BYTES)})
            # ADBC streams by COPY, which takes no binds. standard_conforming_strings is on.
            cursor.execute(with_label(engine, literal(statement, plain_sql, context.dialect.text_literal)))
            with cursor.fetch_record_batch() as batches:
                yield from batches

    def plain(span: KeySpan) -> Generator[pa.RecordBatch, None, None]:
        statement, outputs = rows_statement(context, span, columns)
        with closing(batches_of(statement)) as batches:
            for batch in batches:
                yield row_values.fitted(batch, outputs)

    def packed(statement: Statement) -> Generator[Sequence[Any], None, None]:
        with closing(batches_of(statement)) as batches:
            for batch in batches:
                for row in range(batch.num_rows):
                    yield [_taken(column[row]) for column in batch.columns]

    def undo() -> None:
        connection.rollback()  # ADBC returns to no savepoint
        _begin(context, connection)

    rows_of = plain if obstacle is not None else _PackedReader(context, packed, plain, lambda: None, undo).read

    def translating(span: KeySpan) -> Generator[pa.RecordBatch, None, None]:
        failure = f"{context.name}: reading rows failed"
        with translated(engine, failure, SourceError, dbapi.Error), closing(rows_of(span)) as batches:
            yield from batches

    try:
        yield translating
    finally:
        connection.close()


def _taken(value: pa.Scalar) -> Any:
    """Return a number, or the bytes of a value without a copy."""
    return value.as_buffer() if pa.types.is_binary(value.type) and value.is_valid else value.as_py()
