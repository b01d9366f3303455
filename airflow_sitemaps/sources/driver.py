"""What passes between this package and a driver: statements and their values, labels, rows, and errors without secrets."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from math import isfinite
from typing import Any, Final
from urllib.parse import quote, quote_plus

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy import exc

from airflow_sitemaps.errors import SitemapError, SourceConfigurationError, SourceError

# ---------------------------------------------------------------- statements and their values

PLACEHOLDER: Final = re.compile(r"(?<![:\w\\]):(\w+)(?![:\w])|:")
"""A placeholder as SQLAlchemy's ``text`` reads it, or any other colon."""
ESCAPED: Final = re.compile(r"\\:|(?<![:\w\\]):(\w+)(?![:\w])")
"""An escaped colon, or a placeholder."""
PREFIX: Final = "sitemap_"
TYPED: Final = ("postgresql", "redshift", "duckdb")
"""The dialects whose drivers bind a date with its type, so that ``:day - interval '1 day'`` is a date."""

Statement = tuple[sa.TextClause, dict[str, Any]]
"""The arguments of ``Connection.execute``: the text and its values."""


@dataclass(slots=True)
class Binds:
    """The values of one statement, by the names in its text. Mutable: a statement adds values as it is built."""

    values: dict[str, Any] = field(default_factory=dict)

    def add(self, value: Any) -> str:
        """Bind a value and return its placeholder."""
        name = f"{PREFIX}{len(self.values)}"
        self.values[name] = value
        return f":{name}"

    def statement(self, sql: str) -> Statement:
        """Return the text with the values that it uses."""
        used = {match.group(1) for match in PLACEHOLDER.finditer(sql)} & self.values.keys()
        # ``bindparams`` copies each value. With thousands of values, that takes longer than the survey.
        return sa.text(sql), {name: self.values[name] for name in used}


def guarded(text: str, names: Iterable[str] = ()) -> str:
    """Escape colons of identifiers, casts and literals: all but those that begin a known placeholder."""
    placeholders = set(names)

    def keep_or_escape(match: re.Match[str]) -> str:
        return match.group(0) if match.group(1) in placeholders else "\\" + match.group(0)

    return PLACEHOLDER.sub(keep_or_escape, text)


def literal(statement: Statement, dialect: sa.Dialect, text_literal: Callable[[str], str]) -> str:
    """Return a statement as final SQL with its values as literals.

    The text is scanned once: SQLAlchemy's ``literal_binds`` also unescapes the colons inside the values. ``dialect``
    must not double percent signs. ``text_literal`` writes texts, because some of SQLAlchemy's dialects double percent
    signs (BigQuery), and others leave backslashes that begin an escape (ClickHouse), with which a value could end its
    literal.
    """
    clause, values = statement

    def written(match: re.Match[str]) -> str:
        if match.group(1) is None:
            return ":"
        value = values[match.group(1)]
        if isinstance(value, str):
            return text_literal(value)
        clause: sa.ColumnElement[Any] = sa.literal(value)
        if isinstance(value, (float, Decimal)) and not isfinite(value) and dialect.name in TYPED:
            clause = sa.cast(sa.literal(str(value)), sa.Double())
        if isinstance(value, date) and dialect.name in TYPED:
            clause = sa.cast(clause, sa.DateTime(timezone=True) if getattr(value, "tzinfo", None) else clause.type)
        text = str(clause.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))
        return f"({text})" if text.startswith("-") else text  # two minus signs begin a comment

    return ESCAPED.sub(written, clause.text)


log = logging.getLogger(__name__)

WAIT_BOUND: Final = "The time-outs of the database and its driver apply"


def setup(connection: sa.Connection, statements: Iterable[str]) -> None:
    """Execute statements as they are written. The driver looks for no parameters in them: a percent sign stays one."""
    for sql in statements:
        connection.exec_driver_sql(sql, execution_options={"no_parameters": True})


# ---------------------------------------------------------------- labels

OPTION: Final = "airflow_sitemaps_label"
QUERIES: Final = ("SELECT", "WITH", "CREATE", "INSERT")
"""The first words of statements that get a comment. Statements that set up a session stay unchanged."""
UNSAFE: Final = re.compile(r"[^\w.:+= -]")
"""Characters that a comment must not contain: they could end it, or a driver could read them as a bind."""


def labelled(engine: sa.Engine, origin: str, section: str) -> sa.Engine:
    """Return the engine with a comment before each query, which names the DAG run in the warehouse's query history."""
    words = " ".join(f"airflow-sitemaps {origin} section={section}".split())
    other = engine.execution_options(**{OPTION: f"/* {UNSAFE.sub('_', words)} */"})
    if OPTION not in engine.get_execution_options():  # else it has the listener of the engine
        sa.event.listen(other, "before_cursor_execute", _before, retval=True)
    return other


def with_label(engine: sa.Engine | sa.Connection, statement: str) -> str:
    """Return a statement with its engine's comment, and log it, for cursors that SQLAlchemy does not see."""
    if not statement.lstrip().upper().startswith(QUERIES):
        return statement
    log.debug("%s", statement)
    label = engine.get_execution_options().get(OPTION)
    return f"{label} {statement}" if label else statement


def _before(connection: sa.Connection, _cursor: Any, statement: str, parameters: Any, *_: Any) -> tuple[str, Any]:
    return with_label(connection, statement), parameters


# ---------------------------------------------------------------- rows

Rows = Sequence[Sequence[Any]]

CURSOR_ROWS: Final = 16_384
CURSOR_NAME: Final = "airflow_sitemaps_rows"
STREAMED: Final = {"stream_results": True, "yield_per": CURSOR_ROWS}
BATCH_ROWS: Final = 65_536


def partitions(connection: sa.Connection, statement: Statement) -> Generator[Rows, None, None]:
    """Yield rows as SQLAlchemy streams them, from any driver."""
    with connection.execute(*statement, execution_options=STREAMED) as result:
        yield from result.partitions(CURSOR_ROWS)


def named_cursor(connection: sa.Connection, statement: Statement, **options: Any) -> Generator[Rows, None, None]:
    """Yield rows of the driver's own server-side cursor (psycopg, psycopg2), at half the cost of SQLAlchemy's rows."""
    text, values = statement
    compiled = text.compile(dialect=connection.dialect)
    driver: Any = connection.connection.driver_connection
    with driver.cursor(CURSOR_NAME) as cursor:
        cursor.execute(with_label(connection, compiled.string), compiled.construct_params(values), **options)
        while rows := cursor.fetchmany(CURSOR_ROWS):
            yield rows


# ---------------------------------------------------------------- errors

MESSAGE_CHARACTERS: Final = 500

SECRET_NAMES: Final = re.compile("pass|pwd|token|secret|key|credential|sig", re.IGNORECASE)

PASSING_STATES: Final = ("08", "40", "53", "55P03", "57", "58")
LOCKED: Final = ("database is locked", "database table is locked")  # of SQLite, whose codes Python 3.10 hides
PASSING_NUMBERS: Final = {1205, 1213, 1317, 1969, 3024, *range(2000, 2100)}  # of MySQL and MariaDB

FOREIGN: Final = (pa.ArrowException, OverflowError, UnicodeError, OSError)
"""Errors that drivers raise besides those of PEP 249: of Arrow's streams, of values that no type holds, of sockets."""


@contextmanager
def translated(
    engine: sa.Engine, what: str, error_type: type[SourceError | SourceConfigurationError], *more: type[Exception]
) -> Iterator[None]:
    """Translate a driver's errors into errors that name the step and hide the password.

    Errors of a driver's package that PEP 249 does not know (Trino, BigQuery), and all that pass, raise ``SourceError``.
    ``more`` are errors of a driver that the engine does not use.
    """
    try:
        yield
    except SitemapError:
        raise
    except exc.DBAPIError as error:
        kind = SourceError if is_passing(error) else error_type
        raise kind(f"{what}: {redacted(engine, error.orig)}") from None
    except Exception as error:
        dbapi = engine.dialect.loaded_dbapi
        # SQLAlchemy passes on errors of a driver's own cursor, and the Warning of Python 3.10's sqlite3.
        passed_on = (dbapi.Error, getattr(dbapi, "Warning", dbapi.Error))
        is_known = isinstance(error, (exc.SQLAlchemyError, *passed_on, *more, *FOREIGN))
        if not is_known and type(error).__module__.partition(".")[0] != dbapi.__name__.partition(".")[0]:
            raise
        kind = error_type if is_known and not isinstance(error, OSError) else SourceError
        raise kind(f"{what}: {redacted(engine, error)}") from None


def is_passing(error: exc.DBAPIError) -> bool:
    """Return whether a retry may help: after a broken connection, a time-out, a deadlock or a shutdown."""
    has_no_code = error.connection_invalidated or isinstance(getattr(error.orig, "__context__", None), OSError)
    if has_no_code or str(error.orig).startswith(LOCKED) or "connection refused" in str(error.orig).lower():
        return True
    first = next(iter(getattr(error.orig, "args", ())), None)
    given = first.get("C") if isinstance(first, dict) else getattr(error.orig, "pgcode", None)  # of redshift_connector
    state = getattr(error.orig, "sqlstate", None) or given or ""
    return str(state).startswith(PASSING_STATES) or (isinstance(first, int) and first in PASSING_NUMBERS)


def redacted(engine: sa.Engine, error: Any) -> str:
    """Return an error's type and message in one line, without secrets, cut at ``MESSAGE_CHARACTERS`` characters."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    for secret in _secrets(engine.url):
        for form in {secret, quote(secret, safe=""), quote_plus(secret)}:
            text = text.replace(form, "***")
    return text if len(text) <= MESSAGE_CHARACTERS else text[:MESSAGE_CHARACTERS] + " …"


def _secrets(url: sa.URL) -> Iterator[str]:
    if url.password:
        yield str(url.password)
    for name, value in url.query.items():
        if SECRET_NAMES.search(name):
            yield from (part for part in ([value] if isinstance(value, str) else value) if part)
