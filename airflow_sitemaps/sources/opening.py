"""Opening a ``SqlSource``: connect, look at the columns, and say clearly what is wrong."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy import exc

from airflow_sitemaps.errors import SourceConfigurationError, SourceError
from airflow_sitemaps.sources import indexes
from airflow_sitemaps.sources.columns import FIELDS, Column, Mapping
from airflow_sitemaps.sources.connect import engine_of, nearest, translated
from airflow_sitemaps.sources.dialects import dialect_of
from airflow_sitemaps.sources.groups import COLUMN, Grouped
from airflow_sitemaps.sources.location import Location
from airflow_sitemaps.sources.materialized import Materialized
from airflow_sitemaps.sources.relation import Relation, name_parts
from airflow_sitemaps.sources.selection import Selection
from airflow_sitemaps.sources.session import SqlSession, begin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_sitemaps.sources.dialects.base import Dialect
    from airflow_sitemaps.sources.sql import SqlSource


@contextmanager
def opened(config: SqlSource, section: str) -> Iterator[SqlSession]:
    """A session over the source's connection, closed at the end."""
    engine = engine_of(config.conn_id, writing=config.materialize is not None)
    try:
        with session_of(config, section, engine) as session:
            yield session
    finally:
        engine.dispose()


@contextmanager
def session_of(config: SqlSource, section: str, engine: sa.Engine) -> Iterator[SqlSession]:
    """A session over an engine, once the columns have been found and a dear query has been stored."""
    name = f"section {section!r} ({config.describe()})"
    dialect = dialect_of(engine.dialect)
    relation = Relation(
        table=config.table,
        query=config.query_text(),
        where=config.where,
        parameters=dict(config.parameters or {}),
    )
    if config.materialize is None:
        yield _session(config, engine, dialect, relation, name)
        return
    plain = _session(config, engine, dialect, relation, name)
    stored = Materialized(engine, dialect, config.materialize, section=section, run=config.run, what=name)
    columns = (*plain.mapping.key, *plain.mapping.emitted)
    table = stored.table(plain.relation, columns, plain.mapping.key, plain.now())
    try:
        yield _session(config, engine, dialect, table, name, stored=True)
    finally:
        if not stored.shared:
            stored.drop()


def discard(config: SqlSource, section: str) -> None:
    """Drop what the tasks of this run have shared."""
    if config.materialize is None or not config.run:
        return
    engine = engine_of(config.conn_id, writing=True)
    try:
        dialect = dialect_of(engine.dialect)
        Materialized(
            engine, dialect, config.materialize, section=section, run=config.run, what=f"section {section!r}"
        ).drop()
    finally:
        engine.dispose()


def _session(
    config: SqlSource, engine: sa.Engine, dialect: Dialect, base: Relation, name: str, *, stored: bool = False
) -> SqlSession:
    location = Location(config.loc)
    wanted = _wanted(config, location)
    with translated(engine, f"{name}: connecting failed", SourceError), engine.connect() as connection:
        begin(connection, dialect)
        relation = base if stored else _with_groups(config, connection, dialect, base, name)
        columns = _columns(connection, dialect, relation, name, wanted)
        connection.rollback()
        mapping = _mapping(config, location, columns)
        begin(connection, dialect)
        unique, indexed = indexes.of_key(connection, dialect, base, [column.name for column in mapping.key])
        connection.rollback()
    selection = Selection(
        dialect=dialect, mapping=mapping, location=location, timezone=config.timezone,
        grouped=config.group is not None,
    )  # fmt: skip
    return SqlSession(
        engine=engine, dialect=dialect, relation=relation, selection=selection, name=name,
        arrow=config.reader == "auto", unique=unique, indexed=indexed and relation is base,
    )  # fmt: skip


def _with_groups(
    config: SqlSource, connection: sa.Connection, dialect: Dialect, relation: Relation, name: str
) -> Relation:
    """The relation with the members of each row's group, where the source has groups."""
    if config.group is None or config.language is None:
        return relation
    wanted = {
        "group": [config.group], "language": [config.language],
        "loc": list(Location(config.loc).columns), "key": list(config.key_columns),
    }  # fmt: skip
    columns = _columns(connection, dialect, relation, name, wanted)
    return Grouped(
        base=relation,
        group=columns[config.group],
        language=columns[config.language],
        loc=tuple(columns[each] for each in wanted["loc"]),
        key=tuple(columns[each] for each in wanted["key"]),
    )


def _fields(config: SqlSource) -> dict[str, str]:
    """The column of each optional part of an entry, as the user wrote it, or as we add it."""
    fields = {name: getattr(config, name) for name in FIELDS if getattr(config, name) is not None}
    return fields if config.group is None else fields | {"alternates": COLUMN}


def _wanted(config: SqlSource, location: Location) -> dict[str, list[str]]:
    """The columns of each part of the mapping, as the user wrote them."""
    wanted = {"key": list(config.key_columns), "loc": list(location.columns)}
    wanted |= {name: [column] for name, column in _fields(config).items()}
    return wanted


def _columns(
    connection: sa.Connection, dialect: Dialect, relation: Relation, name: str, wanted: dict[str, list[str]]
) -> dict[str, Column]:
    """The relation's columns by the user's names.

    A name is looked up as it is written, then without regard to case where that finds just one: Snowflake and
    Oracle answer in capitals.
    """
    names = {each for part in wanted.values() for each in part}
    try:
        found = _described(connection, dialect, relation, names)
    except exc.DBAPIError as error:
        if error.connection_invalidated:
            raise
        raise SourceConfigurationError(_no_relation(connection, relation, name, error)) from None
    columns = {}
    for part, each in ((part, each) for part, names_of_part in wanted.items() for each in names_of_part):
        column = _named(found, each)
        if column is None:
            raise SourceConfigurationError(
                f"{name}: {part}={each!r}: there is no such column.{nearest(each, found)} "
                "Give one of the columns of the table or query"
            )
        columns[each] = column
    return columns


def _described(connection: sa.Connection, dialect: Dialect, relation: Relation, names: set[str]) -> dict[str, Column]:
    found = dialect.describe(connection, relation, sorted(names))
    real = {column.name for name in names if (column := _named(found, name)) is not None}
    if real != names & found.keys():
        found = dialect.describe(connection, relation, sorted(real))
    return found


def _named(columns: dict[str, Column], name: str) -> Column | None:
    if name in columns:
        return columns[name]
    alike = [column for other, column in columns.items() if other.casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 else None


def _no_relation(connection: sa.Connection, relation: Relation, name: str, error: exc.DBAPIError) -> str:
    """What is wrong with the table or query, with the names of tables that are there."""
    reason = " ".join(str(error.orig).split())[:500]
    hint = "Mend the query, or run it by hand to see more"
    if relation.table is not None:
        connection.rollback()
        hint = "Check the table's name and schema, and that the connection may read it."
        try:
            *schema, table = name_parts(relation.table)
            inspector = sa.inspect(connection)
            place = schema[-1] if schema else None
            names = [*inspector.get_table_names(schema=place), *inspector.get_view_names(schema=place)]
            hint += nearest(table, names)
        except (exc.SQLAlchemyError, NotImplementedError):
            hint += " The tables there could not be listed"
    return f"{name}: the database refuses to read it: {reason}. {hint}"


def _mapping(config: SqlSource, location: Location, columns: dict[str, Column]) -> Mapping:
    key = tuple(columns[each] for each in config.key_columns)
    fields = tuple((each, columns[column]) for each, column in _fields(config).items())
    return Mapping(key=key, loc=tuple(columns[each] for each in location.columns), fields=fields)
