"""A query that is dear to run once per range, stored in a table of a schema for as long as a run lasts.

The table is named by section and run, with the time of its making: ``sitemap_rows_20240501120000_products_1f…``. In
Airflow, where the run has a name, all tasks of the run share one table; elsewhere each session makes its own, and drops
it. What a crash left behind is dropped by whoever comes a day later.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.sources.connect import translated
from airflow_sitemaps.sources.literals import literal
from airflow_sitemaps.sources.relation import Relation, name_parts
from airflow_sitemaps.sources.statement import guarded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from airflow_sitemaps.sources.columns import Column
    from airflow_sitemaps.sources.dialects.base import Dialect

PREFIX: Final = "sitemap_rows_"
NAME: Final = re.compile(rf"{PREFIX}(\d{{14}})_(\w+)", re.IGNORECASE)
LIFETIME: Final = timedelta(days=1)
"""Longer than any run; an older table was left by a crash."""
STAMP: Final = "%Y%m%d%H%M%S"


class Materialized:
    """The stored rows of one section in one schema. ``run`` empty: of this session alone."""

    def __init__(self, engine: sa.Engine, dialect: Dialect, schema: str, *, section: str, run: str, what: str) -> None:
        self._engine = engine
        self._dialect = dialect
        self._schema = name_parts(schema)
        self._what = what
        token = hashlib.sha256(run.encode()).hexdigest()[:12] if run else secrets.token_hex(6)
        self._suffix = re.sub(r"\W", "_", section)[:24] + "_" + token
        self.shared = bool(run)

    def table(self, relation: Relation, columns: Sequence[Column], key: Sequence[Column], now: datetime) -> Relation:
        """The stored table, made now unless a task of the same run has made it; expired ones are dropped.

        Raises:
            SourceConfigurationError: the schema is not there, or may not be written to.
        """
        with self._writing("storing the query's rows") as connection:
            found = None
            for name, made in self._there(connection):
                if self.shared and name.lower().endswith(self._suffix.lower()):
                    found = name
                elif now - made > LIFETIME:
                    connection.execute(sa.text(f"DROP TABLE {self._qualified(name)}"))
            if found is None:
                found = PREFIX + now.astimezone(timezone.utc).strftime(STAMP) + "_" + self._suffix
                self._make(connection, relation, columns, key, found)
        return Relation(table=".".join('"' + part.replace('"', '""') + '"' for part in (*self._schema, found)))

    def drop(self) -> None:
        """Drop this section's table, where it is there."""
        with self._writing("dropping the stored rows") as connection:
            for name, _made in self._there(connection):
                if name.lower().endswith(self._suffix.lower()):
                    connection.execute(sa.text(f"DROP TABLE {self._qualified(name)}"))

    def _there(self, connection: sa.Connection) -> list[tuple[str, datetime]]:
        names = sa.inspect(connection).get_table_names(schema=self._schema[-1])
        found = [(name, match) for name in names if (match := NAME.fullmatch(name)) is not None]
        return [
            (name, datetime.strptime(match[1], STAMP).replace(tzinfo=timezone.utc)) for name, match in sorted(found)
        ]

    def _make(
        self, connection: sa.Connection, relation: Relation, columns: Sequence[Column], key: Sequence[Column], name: str
    ) -> None:
        quoted = ", ".join(dict.fromkeys(self._dialect.column(column) for column in columns))
        rows = relation.binds().statement(f"SELECT {quoted} FROM {relation.from_item(self._dialect)}")
        make: Callable[..., sa.Dialect] = type(self._engine.dialect)
        plain = make(paramstyle="named")
        table = self._qualified(name)
        # CREATE TABLE AS takes no binds in most databases.
        connection.execute(sa.text(self._dialect.create_as(table, guarded(literal(rows, plain)))))
        if self._dialect.prefers_hops:
            ordered = ", ".join(self._dialect.quote(column.name) for column in key)
            connection.execute(sa.text(self._dialect.create_index(self._dialect.quote(f"{name}_k"), table, ordered)))

    def _qualified(self, name: str) -> str:
        return ".".join(self._dialect.quote_table(part) for part in (*self._schema, name))

    @contextmanager
    def _writing(self, doing: str) -> Iterator[sa.Connection]:
        what = f"{self._what}: {doing} failed"
        with translated(self._engine, what, SourceConfigurationError), self._engine.begin() as connection:
            for sql in self._dialect.writable_sql:
                connection.exec_driver_sql(sql)
            yield connection
