"""From a connection id of Airflow to an engine of SQLAlchemy, and from a driver's error to one of ours."""

from __future__ import annotations

import difflib
import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, quote_plus

import sqlalchemy as sa
from sqlalchemy import exc

from airflow_sitemaps.errors import SourceConfigurationError, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ENVIRONMENT: Final = "AIRFLOW_CONN_"
MESSAGE_CHARACTERS: Final = 500
NO_URL: Final = (ValueError, TypeError, KeyError)
"""What SQLAlchemy and drivers raise over a URL that is none: a port that is no number, an argument nobody knows."""

SECRET_NAMES: Final = re.compile("pass|pwd|token|secret|key|credential|sig", re.IGNORECASE)
"""Names of query parameters of a URL whose values are not told."""


def engine_of(conn_id: str, *, writing: bool = False) -> sa.Engine:
    """The engine of an Airflow connection: of its own hook, or of the ``sqlalchemy_url`` in its extra.

    ``writing``: a table is to be made there.

    Raises:
        SourceConfigurationError: there is no such connection, or nothing that can open it.
    """
    from airflow.sdk import BaseHook  # noqa: PLC0415 - Airflow takes seconds to import
    from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException  # noqa: PLC0415

    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise SourceConfigurationError(_no_connection(conn_id)) from None
    url = connection.extra_dejson.get("sqlalchemy_url")
    try:
        engine: sa.Engine = (
            _engine_of_url(str(url), writing=writing) if url else BaseHook.get_hook(conn_id).get_sqlalchemy_engine()
        )
    except (AirflowException, ImportError, AttributeError, NotImplementedError, exc.ArgumentError, *NO_URL) as error:
        # The error's own text may hold the URL, or a piece of it that was a password: only its kind is told.
        reason = f"{type(error).__name__}: {error}" if isinstance(error, ImportError) else type(error).__name__
        raise SourceConfigurationError(
            f"connection {conn_id!r} (type {connection.conn_type!r}) gives no SQLAlchemy engine ({reason}). Install the "
            'provider or driver of that type, or name the engine in the connection\'s extra: {"sqlalchemy_url": '
            '"dialect+driver://…"}'
        ) from None
    return engine


def _engine_of_url(url: str, *, writing: bool) -> sa.Engine:
    """The engine of a URL. A DuckDB file is opened for reading where that works.

    DuckDB lets several processes read one file, but only one write it; and a process that has it open for writing
    may not open it for reading too.
    """
    parsed = sa.make_url(url)
    if (
        writing
        or parsed.drivername.split("+")[0] != "duckdb"
        or parsed.database in (None, "", ":memory:")
        or parsed.query
    ):
        return sa.create_engine(parsed)
    engine = sa.create_engine(parsed.update_query_dict({"access_mode": "read_only"}))
    try:
        with engine.connect():
            return engine
    except exc.DBAPIError:
        engine.dispose()
        return sa.create_engine(parsed)


def _no_connection(conn_id: str) -> str:
    known = sorted(name[len(ENVIRONMENT) :].lower() for name in os.environ if name.startswith(ENVIRONMENT))
    near = nearest(conn_id.lower(), known)
    return (
        f"connection {conn_id!r} is not defined in Airflow.{near} Define it with `airflow connections add`, in the UI, "
        f"or as the environment variable {ENVIRONMENT}{conn_id.upper()}"
    )


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence with the names most like one that is not there; empty when there is none to tell of."""
    names = list(dict.fromkeys(known))
    if not names:
        return ""
    folded = {candidate.casefold(): candidate for candidate in reversed(names)}
    close = [folded[match] for match in difflib.get_close_matches(name.casefold(), folded, n=5, cutoff=0.5)]
    if close:
        return f" Did you mean {', '.join(map(repr, close))}?"
    shown = ", ".join(map(repr, sorted(names)[:20]))
    return f" There {'is' if len(names) == 1 else 'are'} {shown}{', …' if len(names) > 20 else ''}."


@contextmanager
def translated(
    engine: sa.Engine, what: str, error_type: type[SourceError | SourceConfigurationError]
) -> Iterator[None]:
    """Turn the driver's errors into ours, with what was being done, and without the password.

    A connection that broke is a ``SourceError`` whatever was being done.
    """
    try:
        yield
    except exc.DBAPIError as error:
        kind = SourceError if error.connection_invalidated else error_type
        raise kind(f"{what}: {redacted(engine, error.orig)}") from None
    except exc.SQLAlchemyError as error:
        raise error_type(f"{what}: {redacted(engine, error)}") from None
    except _driver_errors(engine) as error:
        raise error_type(f"{what}: {redacted(engine, error)}") from None


def _driver_errors(engine: sa.Engine) -> tuple[type[Exception], ...]:
    """What comes through SQLAlchemy as it is: errors of a driver's own cursor, and PEP 249's Warning.

    Python 3.10's sqlite3 refuses a second statement by the latter.
    """
    dbapi = engine.dialect.loaded_dbapi
    return (dbapi.Error, getattr(dbapi, "Warning", dbapi.Error))


def redacted(engine: sa.Engine, error: Any) -> str:
    """An error's own words in one line, shortened, without the connection's password and tokens."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    for secret in _secrets(engine.url):
        for form in {secret, quote(secret, safe=""), quote_plus(secret)}:
            text = text.replace(form, "***")
    return text if len(text) <= MESSAGE_CHARACTERS else text[:MESSAGE_CHARACTERS] + " …"


def _secrets(url: sa.URL) -> Iterator[str]:
    """The password of a URL, wherever in it that stands."""
    if url.password:
        yield str(url.password)
    for name, value in url.query.items():
        if SECRET_NAMES.search(name):
            yield from (part for part in ([value] if isinstance(value, str) else value) if part)
