"""Read-only transactions in a session with fixed formats."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import SourceError
from airflow_sitemaps.sources.connections.driver_errors import translated

if TYPE_CHECKING:
    from collections.abc import Iterator

    import sqlalchemy as sa

    from airflow_sitemaps.sources.dialects.base import Dialect

WAIT_BOUND: Final = "The time-outs of the database and its driver apply"
"""The bound of a statement, for ``waits.waiting``."""


@contextmanager
def read_transaction(engine: sa.Engine, dialect: Dialect, what: str) -> Iterator[sa.Connection]:
    """Yield a connection in a read-only transaction, and translate its errors into those of this package.

    Raises:
        SourceError: The database failed.
    """
    with translated(engine, f"{what} failed", SourceError), engine.connect() as connection:
        begin(connection, dialect)
        try:
            yield connection
        finally:
            if not connection.invalidated:
                connection.rollback()


def begin(connection: sa.Connection, dialect: Dialect) -> None:
    """Set the session's formats and begin its read-only transaction."""
    for sql in dialect.opening_sql():
        connection.exec_driver_sql(sql)


def database_time(connection: sa.Connection, dialect: Dialect) -> datetime:
    """Return the time of the database's clock, in UTC."""
    value = connection.exec_driver_sql(dialect.now_sql).scalar_one()
    moment: datetime = datetime.fromisoformat(value.replace("Z", "+00:00")) if isinstance(value, str) else value
    return moment.astimezone(timezone.utc) if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
