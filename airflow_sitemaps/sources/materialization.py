"""The rows of an expensive query, stored in a table of a schema for the duration of a run.

A table such as ``sitemap_rows_20240501120000_products_1f…`` is named by creation time, section and a random part. In
Airflow each plan stores the rows of its own moment, and the other tasks of the run read the table that it names.
Outside Airflow, each session creates and drops its own. The first session after a day drops what a crash left behind.
"""

from __future__ import annotations

import re
import secrets
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.sources.connections.driver import WAIT_BOUND, translated
from airflow_sitemaps.sources.statements.binds import guarded, literal
from airflow_sitemaps.sources.statements.relation import Relation
from airflow_sitemaps.sources.statements.user_texts import NamePart, name_parts, written_name
from airflow_sitemaps.waits import waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from airflow_sitemaps.sources.columns import Column
    from airflow_sitemaps.sources.dialects.base import Dialect

PREFIX: Final = "sitemap_rows_"
NAME: Final = re.compile(rf"{PREFIX}(\d{{14}})_(\w+)", re.IGNORECASE)
LIFETIME: Final = timedelta(days=1)
"""The age at which a table expires. It is longer than any run, so an older table is left over from a crash."""
STAMP: Final = "%Y%m%d%H%M%S"


SECTION_CHARACTERS: Final = 16
"""The characters of the section in a table's name, which with that of its index keeps PostgreSQL's limit of 63."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRows:
    """A table of stored rows, named without its schema. ``shared``: the tasks of a run share it."""

    name: str
    shared: bool

    def __str__(self) -> str:
        """Return the text that a plan keeps: the name, or "" if no other task reads the table."""
        return self.name if self.shared else ""

    @property
    def moment(self) -> datetime:
        """The database's time at which the query began to run, in whole seconds."""
        return _created_at(self.name)


class Materialization:
    """The stored rows of sections in one schema."""

    def __init__(self, engine: sa.Engine, dialect: Dialect, schema: str, *, what: str) -> None:
        self._engine = engine
        self._dialect = dialect
        self._schema = name_parts(schema)
        self._what = what

    def store(
        self,
        relation: Relation,
        columns: Sequence[Column],
        key: Sequence[Column],
        now: datetime,
        name: str,
    ) -> Relation:
        """Return a stored table. Create it unless it exists, and drop expired tables."""
        with self._writing("storing the query's rows") as connection:
            existing = None
            for other, created_at in self._there(connection):
                if other.lower() == name.lower():
                    existing = other
                elif now - created_at > LIFETIME:
                    connection.execute(sa.text(f"DROP TABLE {self._qualified(other)}"))
            if existing is None:
                existing = name
                self._make(connection, relation, columns, key, existing)
        return Relation(table=written_name((*self._schema, NamePart(existing, is_quoted=True))))

    def drop(self, name: str) -> None:
        """Drop a table if it exists."""
        with self._writing("dropping the stored rows") as connection:
            for other, _created_at in self._there(connection):
                if other.lower() == name.lower():
                    connection.execute(sa.text(f"DROP TABLE {self._qualified(other)}"))

    def _there(self, connection: sa.Connection) -> list[tuple[str, datetime]]:
        names = sa.inspect(connection).get_table_names(schema=self._schema[-1].text)
        return [(name, _created_at(name)) for name in sorted(names) if NAME.fullmatch(name) is not None]

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
        return self._dialect.table_name((*self._schema, NamePart(name, is_quoted=True)))

    @contextmanager
    def _writing(self, doing: str) -> Iterator[sa.Connection]:
        what, failed = f"{self._what}: {doing}", SourceConfigurationError
        with (
            waiting(what, WAIT_BOUND),
            translated(self._engine, f"{what} failed", failed),
            self._engine.begin() as connection,
        ):
            for sql in (*self._dialect.users_sql, *self._dialect.writable_sql):
                connection.exec_driver_sql(sql)
            yield connection


def new_name(section: str, now: datetime) -> str:
    """Return a name that no other table of stored rows has."""
    shown = re.sub(r"\W", "_", section)[:SECTION_CHARACTERS]
    return f"{PREFIX}{now.astimezone(timezone.utc).strftime(STAMP)}_{shown}_{secrets.token_hex(6)}"


def check_name(name: str) -> str:
    """Return the name that a plan keeps. It becomes part of statements, so any other text is refused."""
    if NAME.fullmatch(name) is None:
        raise SourceConfigurationError(
            f"the plan names the table of stored rows {name!r}, which is not valid: run the plan task again"
        )
    return name


def _created_at(name: str) -> datetime:
    return datetime.strptime(name[len(PREFIX) :][:14], STAMP).replace(tzinfo=timezone.utc)
