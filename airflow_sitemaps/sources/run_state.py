"""The state that a run reads: an earlier one of a table, or the rows of a query, stored in a table for the run.

A plan chooses the state and keeps its text; the other tasks of the run read the same one. A table of stored rows, such as
``sitemap_rows_20240501120000_products_1f…``, is named by creation time, section and a random part. Outside Airflow, each
session creates and drops its own. The first session after a day drops what a crash left behind.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from airflow_sitemaps.errors import SourceConfigurationError, SourceError
from airflow_sitemaps.sources.driver import WAIT_BOUND, guarded, literal, setup, translated
from airflow_sitemaps.sources.queries import Relation
from airflow_sitemaps.sources.user_texts import NamePart, name_parts, written_name
from airflow_sitemaps.waits import waiting

if TYPE_CHECKING:
    from airflow_sitemaps.sources.columns import Column
    from airflow_sitemaps.sources.dialects.base import Dialect
    from airflow_sitemaps.sources.queries.context import QueryContext
    from airflow_sitemaps.sources.source_settings import SourceSettings

log = logging.getLogger(__name__)

PREFIX: Final = "sitemap_rows_"
NAME: Final = re.compile(rf"{PREFIX}(\d{{14}})_\w+", re.IGNORECASE)
STAMP: Final = "%Y%m%d%H%M%S"
SECTION_CHARACTERS: Final = 16
"""The characters of the section in a table's name, which with that of its index keeps PostgreSQL's limit of 63."""
LIFETIME: Final = timedelta(days=1)
"""The age at which a table expires. It is longer than any run, so an older table is left over from a crash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """A state that all queries of a run read.

    ``moment`` is the database's time when it was chosen, in whole seconds for stored rows. ``version`` numbers the table's
    version, where the database does. ``stored`` names the table of stored rows, without its schema, and ``shared`` says
    whether other tasks read it.
    """

    moment: datetime
    version: int | None = None
    stored: str = ""
    shared: bool = True

    def __str__(self) -> str:
        """Return the text that a plan keeps, which ``parse`` reads back. It is empty if no other task reads the state."""
        if self.stored:
            return self.stored if self.shared else ""
        return self.moment.isoformat() + ("" if self.version is None else f" {self.version}")

    @classmethod
    def parse(cls, text: str, *, stored: bool = False) -> RunState:
        """Read the text of a plan. It becomes part of statements, so any other text is refused."""
        moment, _, version = text.partition(" ")
        try:
            if stored:
                state = cls(moment=_created_at(text), stored=text)
            else:
                state = cls(moment=datetime.fromisoformat(moment), version=int(version) if version else None)
        except ValueError:
            state = None
        if state is None or state.moment.tzinfo is None or (state.version or 0) < 0:
            what = "the table of stored rows" if stored else "the table's state"
            raise SourceConfigurationError(
                f"the plan names {what} {text!r}, which is not valid: run the plan task again"
            )
        return state

    @classmethod
    def of_new_rows(cls, section: str, now: datetime, *, shared: bool) -> RunState:
        """Return a state with a name that no other table of stored rows has."""
        shown = re.sub(r"\W", "_", section)[:SECTION_CHARACTERS]
        name = f"{PREFIX}{now.astimezone(timezone.utc).strftime(STAMP)}_{shown}_{secrets.token_hex(6)}"
        return cls(moment=_created_at(name), stored=name, shared=shared)

    def as_of(self, dialect: Dialect) -> str:
        """Return what follows a table's name to read its earlier state, or refuse a database without time travel."""
        if not dialect.as_of_sql:
            raise SourceConfigurationError(
                f"as_of='plan' is not supported for the database {dialect.name!r}: omit it. To read one state for the whole "
                "run, give the rows as query= with materialize=, which stores them first"
            )
        moment = self.moment.astimezone(timezone.utc).isoformat(" ", "microseconds")
        return dialect.as_of_sql.format(moment=moment, version=self.version)


def _created_at(name: str) -> datetime:
    """Return the time in the name of a table of stored rows, or raise ``ValueError`` for another name."""
    match = NAME.fullmatch(name)
    if match is None:
        raise ValueError(name)
    return datetime.strptime(match[1], STAMP).replace(tzinfo=timezone.utc)


def earlier_state(settings: SourceSettings, engine: sa.Engine, dialect: Dialect, name: str) -> RunState:
    """Return the state of the table that the plan chose, for a plan the present one."""
    if settings.state != "plan":
        return RunState.parse(settings.state)
    RunState(moment=datetime.now(timezone.utc), version=0).as_of(dialect)  # refuses a database without time travel
    what = f"{name}: choosing the state to read"
    with waiting(what, WAIT_BOUND), dialect.transaction(engine, what) as connection:
        moment = dialect.time(connection)
        version = dialect.travel_version(connection, name_parts(settings.table or ""))
        return RunState(moment=moment, version=version)


class StoredRows:
    """The tables of stored rows in one schema."""

    def __init__(self, engine: sa.Engine, dialect: Dialect, schema: str, *, what: str) -> None:
        self._engine = engine
        self._dialect = dialect
        self._schema = name_parts(schema)
        self._what = what

    def store(self, state: RunState, context: QueryContext, now: datetime) -> Relation:
        """Return the table of a state. Create it unless it exists, and drop expired tables."""
        with self._writing("storing the query's rows") as connection:
            existing, expired = None, list[str]()
            for other, created_at in self._there(connection):
                if other.lower() == state.stored.lower():
                    existing = other
                elif now - created_at > LIFETIME:
                    expired.append(other)
            if existing is None:
                self._make(connection, context, state.stored)
        for other in expired:
            try:  # another role may own the table, or another run has just dropped it
                with self._writing("dropping expired rows") as connection:
                    connection.execute(sa.text(f"DROP TABLE {self._qualified(other)}"))
            except (SourceError, SourceConfigurationError) as error:
                log.info("%s; the run does not need that table", error)
        if existing is None and self._dialect.prefers_hops:
            self._index(context.key, state.stored)
        existing = existing or state.stored
        return Relation(table=written_name((*self._schema, NamePart(existing, is_quoted=True))))

    def drop(self, state: RunState) -> None:
        """Drop the table of a state if it exists."""
        with self._writing("dropping the stored rows") as connection:
            for other, _created_at in self._there(connection):
                if other.lower() == state.stored.lower():
                    connection.execute(sa.text(f"DROP TABLE {self._qualified(other)}"))

    def _there(self, connection: sa.Connection) -> list[tuple[str, datetime]]:
        names = sa.inspect(connection).get_table_names(schema=self._schema[-1].text)
        return [(name, _created_at(name)) for name in sorted(names) if NAME.fullmatch(name) is not None]

    def _make(self, connection: sa.Connection, context: QueryContext, name: str) -> None:
        dialect, relation = self._dialect, context.relation
        columns = ", ".join(dict.fromkeys(dialect.column(column) for column in (*context.key, *context.emitted)))
        rows = relation.binds().statement(f"SELECT {columns} FROM {relation.from_item(dialect)}")
        make: Callable[..., sa.Dialect] = type(self._engine.dialect)
        # Most databases accept no binds in CREATE TABLE AS.
        query = guarded(literal(rows, make(paramstyle="named"), dialect.text_literal))
        table = self._qualified(name)
        connection.execute(sa.text(dialect.create_as(table, query)))

    def _index(self, key: Sequence[Column], name: str) -> None:
        """Create an index on the key, unless the database refuses one: no index holds a long text."""
        quote = self._dialect.quote
        ordered = ", ".join(quote(column.name) for column in key)
        try:
            with self._writing("creating the index of the stored rows") as connection:
                sql = self._dialect.create_index(quote(f"{name}_k"), self._qualified(name), ordered)
                connection.execute(sa.text(sql))
        except (SourceConfigurationError, SourceError) as error:
            log.info("%s; the rows are read without it", error)

    def _qualified(self, name: str) -> str:
        return self._dialect.table_name((*self._schema, NamePart(name, is_quoted=True)))

    @contextmanager
    def _writing(self, doing: str) -> Iterator[sa.Connection]:
        what, failed = f"{self._what}: {doing}", SourceConfigurationError
        text = f"{what} failed (the schema must exist, and the connection may create tables in it)"
        with waiting(what, WAIT_BOUND), translated(self._engine, text, failed), self._engine.begin() as connection:
            dialect = self._dialect
            setup(connection, (*dialect.users_sql, *dialect.session_sql, *dialect.writable_sql))
            yield connection
