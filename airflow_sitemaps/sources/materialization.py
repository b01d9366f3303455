"""The rows of an expensive query, stored in a table of a schema for the duration of a run.

The table's name has the time of its creation, the section and the run:
``sitemap_rows_20240501120000_products_1f…``. In Airflow, where the run has a name, all tasks of the run share one
table. Outside Airflow, each session creates its own table, and drops it. If a crash leaves a table behind, the first
session after a day drops it.
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
from airflow_sitemaps.sources.connections.driver_errors import translated
from airflow_sitemaps.sources.statements.binds import guarded
from airflow_sitemaps.sources.statements.literals import literal
from airflow_sitemaps.sources.statements.relation import Relation
from airflow_sitemaps.sources.statements.table_name import NamePart, name_parts, written_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from airflow_sitemaps.sources.columns import Column
    from airflow_sitemaps.sources.dialects.base import Dialect

PREFIX: Final = "sitemap_rows_"
NAME: Final = re.compile(rf"{PREFIX}(\d{{14}})_(\w+)", re.IGNORECASE)
LIFETIME: Final = timedelta(days=1)
"""The age at which a table expires. It is longer than any run, so an older table is left over from a crash."""
STAMP: Final = "%Y%m%d%H%M%S"
"""The format of the creation time in a table's name."""


class Materialization:
    """The stored rows of one section in one schema.

    Attributes:
        shared: Whether all tasks of a run share the table.
    """

    def __init__(self, engine: sa.Engine, dialect: Dialect, schema: str, *, section: str, run: str, what: str) -> None:
        """Derive the table's name.

        Args:
            engine: The engine of the source's connection, which may write to the schema.
            dialect: The database's SQL.
            schema: The schema that holds the table.
            section: The section's name.
            run: Airflow's name of the run. If it is empty, the table belongs to this session alone.
            what: The source, for messages.
        """
        self._engine = engine
        self._dialect = dialect
        self._schema = name_parts(schema)
        self._what = what
        token = hashlib.sha256(run.encode()).hexdigest()[:12] if run else secrets.token_hex(6)
        self._suffix = re.sub(r"\W", "_", section)[:24] + "_" + token
        self.shared = bool(run)

    def table(self, relation: Relation, columns: Sequence[Column], key: Sequence[Column], now: datetime) -> Relation:
        """Return the stored table. Create it unless a task of the same run has created it, and drop expired tables.

        Args:
            relation: The query whose rows are stored.
            columns: The columns to store.
            key: The key's columns, for an index.
            now: The database's time.

        Raises:
            SourceConfigurationError: The schema does not exist or is not writable.
        """
        with self._writing("storing the query's rows") as connection:
            existing = None
            for name, created_at in self._there(connection):
                if self.shared and name.lower().endswith(self._suffix.lower()):
                    existing = name
                elif now - created_at > LIFETIME:
                    connection.execute(sa.text(f"DROP TABLE {self._qualified(name)}"))
            if existing is None:
                existing = PREFIX + now.astimezone(timezone.utc).strftime(STAMP) + "_" + self._suffix
                self._make(connection, relation, columns, key, existing)
        return Relation(table=written_name((*self._schema, NamePart(existing, is_quoted=True))))

    def drop(self) -> None:
        """Drop this section's table if it exists.

        Raises:
            SourceConfigurationError: The schema does not exist or is not writable.
        """
        with self._writing("dropping the stored rows") as connection:
            for name, _created_at in self._there(connection):
                if name.lower().endswith(self._suffix.lower()):
                    connection.execute(sa.text(f"DROP TABLE {self._qualified(name)}"))

    def _there(self, connection: sa.Connection) -> list[tuple[str, datetime]]:
        names = sa.inspect(connection).get_table_names(schema=self._schema[-1].text)
        matches = [(name, match) for name in names if (match := NAME.fullmatch(name)) is not None]
        return [
            (name, datetime.strptime(match[1], STAMP).replace(tzinfo=timezone.utc)) for name, match in sorted(matches)
        ]

    def _make(
        self, connection: sa.Connection, relation: Relation, columns: Sequence[Column], key: Sequence[Column], name: str
    ) -> None:
        quoted = ", ".join(dict.fromkeys(self._dialect.column(column) for column in columns))
        rows = relation.binds().statement(f"SELECT {quoted} FROM {relation.from_item(self._dialect)}")
        make: Callable[..., sa.Dialect] = type(self._engine.dialect)
        plain = make(paramstyle="named")
        table = self._qualified(name)
        # Most databases accept no binds in CREATE TABLE AS.
        connection.execute(
            sa.text(self._dialect.create_as(table, guarded(literal(rows, plain, self._dialect.text_literal))))
        )
        if self._dialect.prefers_hops:
            ordered = ", ".join(self._dialect.quote(column.name) for column in key)
            connection.execute(sa.text(self._dialect.create_index(self._dialect.quote(f"{name}_k"), table, ordered)))

    def _qualified(self, name: str) -> str:
        return ".".join(self._dialect.quote_table(part) for part in (*self._schema, NamePart(name, is_quoted=True)))

    @contextmanager
    def _writing(self, doing: str) -> Iterator[sa.Connection]:
        what = f"{self._what}: {doing} failed"
        with translated(self._engine, what, SourceConfigurationError), self._engine.begin() as connection:
            for sql in (*self._dialect.users_sql, *self._dialect.writable_sql):
                connection.exec_driver_sql(sql)
            yield connection
