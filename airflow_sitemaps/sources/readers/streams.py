"""Rows of a statement as drivers stream them, some thousands at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.sources.connections.statement_labels import with_label

if TYPE_CHECKING:
    from collections.abc import Generator

    import sqlalchemy as sa

    from airflow_sitemaps.sources.statements.binds import Statement

Rows = Sequence[Sequence[Any]]

CURSOR_ROWS: Final = 16_384
CURSOR_NAME: Final = "airflow_sitemaps_rows"


def partitions(connection: sa.Connection, statement: Statement) -> Generator[Rows, None, None]:
    """Yield rows as SQLAlchemy streams them, from any driver."""
    options = {"stream_results": True, "yield_per": CURSOR_ROWS}
    with connection.execute(*statement, execution_options=options) as result:
        yield from result.partitions(CURSOR_ROWS)


def named_cursor(connection: sa.Connection, statement: Statement, **options: Any) -> Generator[Rows, None, None]:
    """Yield rows of the driver's own server-side cursor (psycopg, psycopg2), at half the cost of SQLAlchemy's rows.

    Args:
        options: Options of the cursor's ``execute``.
    """
    text, values = statement
    compiled = text.compile(dialect=connection.dialect)
    driver: Any = connection.connection.driver_connection
    with driver.cursor(CURSOR_NAME) as cursor:
        cursor.execute(with_label(connection, compiled.string), compiled.construct_params(values), **options)
        while rows := cursor.fetchmany(CURSOR_ROWS):
            yield rows
