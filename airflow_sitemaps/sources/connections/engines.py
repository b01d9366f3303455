"""SQLAlchemy engines by the id of an Airflow connection: by the hook of the installed provider, or by the driver alone.

Each provider's hook was tried with the releases named in ``docs/databases.md``.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import exc

from airflow_sitemaps.errors import ConnectionNotFoundError, SourceConfigurationError
from airflow_sitemaps.sources.connections.driver import MESSAGE_CHARACTERS
from airflow_sitemaps.sources.dialects import dialect_of_type
from airflow_sitemaps.sources.statements.user_texts import nearest

ENVIRONMENT: Final = "AIRFLOW_CONN_"
NO_URL: Final = (ValueError, TypeError, KeyError)
"""What SQLAlchemy and drivers raise for an invalid URL, such as a port that is no number or an unknown argument."""

NO_FILE: Final = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
"""The errors of hooks that read a key or a certificate from a file."""

LONGEST_PATH: Final = 200
"""The greatest length of a path that messages show. A longer one may be the key itself, given by mistake."""

UTF8_DRIVERS: Final = frozenset({("postgresql", "psycopg"), ("postgresql", "psycopg2")})
"""Dialects and drivers of PostgreSQL that take libpq's ``client_encoding``."""


def engine_of(conn_id: str, *, writing: bool = False) -> sa.Engine:
    """Return the engine of an Airflow connection.

    The ``sqlalchemy_url`` in its extra has precedence, then the hook of its type, then the driver alone.
    """
    from airflow.sdk import BaseHook  # noqa: PLC0415 - Airflow takes seconds to import

    from airflow_sitemaps.airflow_compat import AirflowException, AirflowNotFoundException  # noqa: PLC0415

    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise ConnectionNotFoundError(_no_connection(conn_id)) from None
    url = connection.extra_dejson.get("sqlalchemy_url")
    try:
        if url:
            return _reading_utf8(_engine_of_url(sa.make_url(str(url)), writing=writing))
        return _reading_utf8(_engine_of_connection(connection, BaseHook, AirflowException, writing=writing))
    # Airflow's hooks raise NotImplementedError if their database has no SQLAlchemy URL.
    except NO_FILE as error:
        named = str(error.filename or "")
        place = f" {named!r}" if named and len(named) < LONGEST_PATH and "{" not in named else ""
        raise SourceConfigurationError(
            f"connection {conn_id!r} (type {connection.conn_type!r}) names a file{place} that cannot be read ({error.strerror or type(error).__name__}). "
            "Correct its path in the connection, and check that the file is on this worker"
        ) from None
    except (AirflowException, ImportError, AttributeError, NotImplementedError, exc.ArgumentError, *NO_URL) as error:
        raise SourceConfigurationError(
            f"no SQLAlchemy engine can be created from connection {conn_id!r} (type {connection.conn_type!r}): "
            f"{_cause(error, connection)}. Install the provider or driver of that type, or name the engine in the "
            'connection\'s extra: {"sqlalchemy_url": "dialect+driver://…"}'
        ) from None


def _reading_utf8(engine: sa.Engine) -> sa.Engine:
    """Let PostgreSQL send text in UTF-8, unless the connection names another encoding.

    A database in SQL_ASCII sends bytes otherwise, and SQLAlchemy cannot even connect. See
    https://www.postgresql.org/docs/current/multibyte.html.
    """

    def ask(_dialect: Any, _record: Any, _arguments: Any, parameters: dict[str, Any]) -> None:
        parameters.setdefault("client_encoding", "utf8")

    if (engine.dialect.name, engine.dialect.driver) in UTF8_DRIVERS:
        sa.event.listen(engine, "do_connect", ask)
    return engine


def _engine_of_connection(connection: Any, hooks: Any, unknown_type: type[Exception], *, writing: bool) -> sa.Engine:
    try:
        hook = hooks.get_hook(connection.conn_id)
    except (unknown_type, ImportError):
        url = plain_url(connection)
        if url is None:
            raise
        return _engine_of_url(url, writing=writing)
    dialect = dialect_of_type(str(connection.conn_type or ""))
    engine: sa.Engine = hook.get_sqlalchemy_engine() if dialect is None else dialect.hook_engine(connection, hook)
    return engine


def plain_url(connection: Any) -> sa.URL | None:
    """Return the URL of a connection without its provider, the extra as its query, or None without a driver.

    ``sqlite:////data/mart.db`` and ``{"conn_type": "sqlite", "host": "/data/mart.db"}`` name the same file.
    """
    dialect = dialect_of_type(str(connection.conn_type or ""))
    name = next((name for name, module in (dialect.drivers if dialect else ()) if _is_installed(module)), None)
    if dialect is None or name is None:
        return None
    query = {key: str(value) for key, value in connection.extra_dejson.items() if isinstance(value, (str, int, float))}
    if dialect.is_file:
        return sa.URL.create(name, database=connection.schema or connection.host or None, query=query)
    return sa.URL.create(
        name,
        username=connection.login or None,
        password=connection.password or None,
        host=connection.host or None,
        port=connection.port,
        database=connection.schema or None,
        query=query,
    )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _cause(error: Exception, connection: Any) -> str:
    """Return an error's message without secrets, or only its type if it may contain any piece of a URL."""
    name = type(error).__name__
    is_of_url = isinstance(error, (exc.ArgumentError, ValueError)) and not isinstance(error, exc.NoSuchModuleError)
    if is_of_url and connection.extra_dejson.get("sqlalchemy_url"):
        return name
    text = " ".join(str(error).split())
    secrets = {str(value) for value in (connection.password, *connection.extra_dejson.values()) if value}
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return f"{name}: {text[:MESSAGE_CHARACTERS]}" if text else name


def _engine_of_url(url: sa.URL, *, writing: bool) -> sa.Engine:
    """Return the engine of a URL. A DuckDB file is opened for reading if possible.

    Several processes can read one DuckDB file, but only one can write it, and that one cannot also open it for reading.
    """
    if writing or url.drivername.split("+")[0] != "duckdb" or url.database in (None, "", ":memory:") or url.query:
        return sa.create_engine(url)
    engine = sa.create_engine(url.update_query_dict({"access_mode": "read_only"}))
    try:
        with engine.connect():
            return engine
    except exc.DBAPIError:
        engine.dispose()
        return sa.create_engine(url)


def _no_connection(conn_id: str) -> str:
    defined = sorted(name[len(ENVIRONMENT) :].lower() for name in os.environ if name.startswith(ENVIRONMENT))
    near = nearest(conn_id.lower(), defined)
    return (
        f"connection {conn_id!r} is not defined in Airflow.{near} Define it with `airflow connections add`, in the UI, "
        f"or as the environment variable {ENVIRONMENT}{conn_id.upper()}"
    )
