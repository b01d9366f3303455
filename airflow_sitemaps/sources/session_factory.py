"""Sessions over a source's connection: connect, check the columns, and report what is wrong."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy import exc

from airflow_sitemaps.errors import SourceConfigurationError, SourceError
from airflow_sitemaps.sources.columns import ColumnMapping
from airflow_sitemaps.sources.connections.driver import WAIT_BOUND, labelled, translated
from airflow_sitemaps.sources.connections.engines import engine_of
from airflow_sitemaps.sources.dialects import dialect_of
from airflow_sitemaps.sources.dialects.base import PinnedState
from airflow_sitemaps.sources.groups import COLUMN, GroupedRelation
from airflow_sitemaps.sources.materialization import Materialization, StoredRows, check_name, new_name
from airflow_sitemaps.sources.queries.change_log_query import OpenedChangeLog
from airflow_sitemaps.sources.queries.context import QueryContext, Selection
from airflow_sitemaps.sources.queries.described_columns import columns_of
from airflow_sitemaps.sources.row_values import LocMapping
from airflow_sitemaps.sources.session import SqlSession
from airflow_sitemaps.sources.statements.relation import is_fixed, relation_of
from airflow_sitemaps.sources.statements.user_texts import NamePart, name_parts, written_name
from airflow_sitemaps.waits import waiting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_sitemaps.sources.columns import Column
    from airflow_sitemaps.sources.dialects.base import Dialect
    from airflow_sitemaps.sources.source_settings import SourceSettings
    from airflow_sitemaps.sources.statements.relation import Relation


Index = tuple[list["str | None"], bool]
"""The columns of an index that covers all rows, in order, and whether it is unique. None is an expression."""


@contextmanager
def opened(settings: SourceSettings, section: str) -> Iterator[SqlSession]:
    """Yield a session over the source's connection, which is closed at the end."""
    engine = labelled(engine_of(settings.conn_id, writing=settings.materialize is not None), settings.origin, section)
    try:
        with session_of(settings, section, engine) as session:
            yield session
    finally:
        engine.dispose()


@contextmanager
def session_of(settings: SourceSettings, section: str, engine: sa.Engine) -> Iterator[SqlSession]:
    """Yield a session over an engine, after checking the columns, and materializing the query if ``materialize`` is set."""
    name = f"section {section!r} ({settings.describe()})"
    dialect = dialect_of(engine.dialect)
    dialect.users_sql = tuple(settings.session)
    relation = relation_of(settings.table, settings.query_text(), settings.where, settings.parameters or {})
    if settings.materialize is None:
        pinned = _pinned(settings, engine, dialect, name) if settings.state else None
        if pinned is not None:
            relation = replace(relation, as_of=dialect.as_of(pinned))
        yield _session(settings, engine, dialect, relation, name, pinned=pinned)
        return
    plain = _session(settings, engine, dialect, relation, name)
    stored = Materialization(engine, dialect, settings.materialize, what=name)
    now = plain.now()
    # A plan stores the rows of its own moment. The tasks after it read the table that the plan names.
    rows = StoredRows(
        name=check_name(settings.state) if settings.state else new_name(section, now), shared=bool(settings.run)
    )
    mapping = plain.context.mapping
    table = stored.store(plain.context.relation, (*mapping.key, *mapping.emitted), mapping.key, now, rows.name)
    try:
        yield _session(settings, engine, dialect, table, name, stored=True, pinned=rows)
    except BaseException:
        if not settings.state:
            with suppress(SourceError, SourceConfigurationError):  # the first error says more; the table expires
                stored.drop(rows.name)
        raise
    if not rows.shared:
        stored.drop(rows.name)


def discard(settings: SourceSettings, section: str) -> None:
    """Drop the materialized table that the tasks of a run share."""
    if settings.materialize is None or not settings.state:
        return
    engine = engine_of(settings.conn_id, writing=True)
    try:
        dialect = dialect_of(engine.dialect)
        dialect.users_sql = tuple(settings.session)
        Materialization(engine, dialect, settings.materialize, what=f"section {section!r}").drop(
            check_name(settings.state)
        )
    finally:
        engine.dispose()


def _pinned(settings: SourceSettings, engine: sa.Engine, dialect: Dialect, name: str) -> PinnedState:
    """Return the state that the plan chose, or for a plan the present one."""
    if settings.state != "plan":
        return PinnedState.parse(settings.state)
    dialect.as_of(PinnedState(moment=datetime.now(timezone.utc), version=0))  # refuses a database without time travel
    what = f"{name}: choosing the state to read"
    with waiting(what, WAIT_BOUND), dialect.transaction(engine, what) as connection:
        moment = dialect.time(connection)
        return PinnedState(moment=moment, version=dialect.travel_version(connection, name_parts(settings.table or "")))


def _session(
    settings: SourceSettings,
    engine: sa.Engine,
    dialect: Dialect,
    base: Relation,
    name: str,
    *,
    stored: bool = False,
    pinned: PinnedState | StoredRows | None = None,
) -> SqlSession:
    location = LocMapping(settings.loc)
    what = f"{name}: connecting"
    with waiting(what, WAIT_BOUND), translated(engine, f"{what} failed", SourceError), engine.connect() as connection:
        dialect.begin(connection)
        relation = base if stored else _with_groups(settings, connection, dialect, base, name)
        columns = columns_of(connection, dialect, relation, name, _wanted(settings, location))
        connection.rollback()
        mapping = _mapping(settings, location, columns)
        dialect.begin(connection)
        dialect.check_key(connection, relation.from_item(dialect), relation.binds(), mapping.key)
        unique, indexed = _indexes_of_key(connection, dialect, base, [column.name for column in mapping.key])
        connection.rollback()
    selection = Selection(
        dialect=dialect, mapping=mapping, location=location, timezone=settings.timezone,
        lastmod_unit=settings.lastmod_unit, grouped=settings.group is not None,
    )  # fmt: skip
    context = QueryContext(
        dialect=dialect, relation=relation, selection=selection, name=name,
        unique=unique, indexed=indexed and relation is base, versioned=_versioned(base) if not stored else None,
    )  # fmt: skip
    return SqlSession(
        engine=engine,
        context=context,
        arrow=settings.reader == "auto",
        max_scan_bytes=settings.max_scan_bytes,
        pinned=pinned,
        change_log=_change_log(settings),
    )


def _change_log(settings: SourceSettings) -> OpenedChangeLog | None:
    change_log = settings.change_log
    if change_log is None:
        return None
    relation = relation_of(change_log.table, change_log.query, None, settings.parameters or {})
    return OpenedChangeLog(
        settings=change_log,
        relation=relation,
        key=change_log.key_columns(settings.key_columns),
        identity=settings.change_log_identity(),
    )


def _versioned(base: Relation) -> Relation | None:
    """Return the relation if it is a table whose condition depends on nothing but its rows.

    The version of a table is that of its present rows, which are not those of an earlier state.
    """
    return base if base.table is not None and not base.as_of and is_fixed(base.where) else None


def _with_groups(
    settings: SourceSettings, connection: sa.Connection, dialect: Dialect, relation: Relation, name: str
) -> Relation:
    if settings.group is None or settings.language is None:
        return relation
    wanted = {
        "group": [settings.group], "language": [settings.language],
        "loc": list(LocMapping(settings.loc).columns), "key": list(settings.key_columns),
    }  # fmt: skip
    columns = columns_of(connection, dialect, relation, name, wanted)
    return GroupedRelation(
        base=relation,
        group=columns[settings.group],
        language=columns[settings.language],
        loc=tuple(columns[each] for each in wanted["loc"]),
        key=tuple(columns[each] for each in wanted["key"]),
    )


def _fields(settings: SourceSettings) -> dict[str, str]:
    fields = settings.field_columns
    return fields if settings.group is None else fields | {"alternates": COLUMN}


def _wanted(settings: SourceSettings, location: LocMapping) -> dict[str, list[str]]:
    wanted = {"key": list(settings.key_columns), "loc": list(location.columns)}
    wanted |= {name: [column] for name, column in _fields(settings).items()}
    return wanted


def _mapping(settings: SourceSettings, location: LocMapping, columns: dict[str, Column]) -> ColumnMapping:
    key = tuple(columns[each] for each in settings.key_columns)
    fields = tuple((each, columns[column]) for each, column in _fields(settings).items())
    return ColumnMapping(key=key, loc=tuple(columns[each] for each in location.columns), fields=fields)


def _indexes_of_key(
    connection: sa.Connection, dialect: Dialect, relation: Relation, key: list[str]
) -> tuple[bool, bool]:
    """Return whether the key is unique, and whether an index begins with it: for a query or if unknown, False."""
    if relation.table is None:
        return False, False
    try:
        indexes_of_table = (
            _asked(connection, dialect, relation.table)
            if dialect.indexes_sql
            else _inspected(connection, relation.table)
        )
    except (exc.SQLAlchemyError, NotImplementedError):  # SQLAlchemy's answer if a dialect cannot look up indexes
        return False, False
    unique = dialect.enforces_keys and any(
        only and columns and set(columns) <= set(key) for columns, only in indexes_of_table if None not in columns
    )
    leading = any(columns[: len(key)] == key for columns, _only in indexes_of_table)
    return unique, leading


def _asked(connection: sa.Connection, dialect: Dialect, table: str) -> list[Index]:
    """Return the indexes by the dialect's own query, which costs a tenth of SQLAlchemy's inspector."""
    quoted = written_name(NamePart(part.text, is_quoted=True) for part in name_parts(table))
    rows = connection.execute(sa.text(dialect.indexes_sql or ""), {"relation": quoted}).all()
    return [(list(columns), bool(unique)) for columns, unique in rows]


def _inspected(connection: sa.Connection, table: str) -> list[Index]:
    *schema, name = (part.text for part in name_parts(table))
    place = schema[-1] if schema else None
    inspector = sa.inspect(connection)
    primary = list(inspector.get_pk_constraint(name, schema=place).get("constrained_columns") or [])
    indexes = inspector.get_indexes(name, schema=place)
    plain = [index for index in indexes if not index.get("dialect_options", {}).get("postgresql_where")]
    indexes_of_table: list[Index] = [
        (list(index.get("column_names") or []), bool(index.get("unique"))) for index in plain
    ]
    return [*indexes_of_table, ([*primary], True)] if primary else indexes_of_table
