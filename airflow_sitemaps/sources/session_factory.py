"""Sessions over a source's connection: connect, check the columns, and report what is wrong.

An engine comes from the hook of the connection's provider, or from the driver alone. Each provider's hook was tried with the
releases named in ``docs/databases.md``.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from errno import ENOENT
from functools import lru_cache, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from sqlalchemy import exc

from airflow_sitemaps.errors import ConnectionNotFoundError, SourceConfigurationError, SourceError
from airflow_sitemaps.setting_checks import NO_OBJECT
from airflow_sitemaps.sources.dialects import dialect_of, dialect_of_type, extra_of_type
from airflow_sitemaps.sources.driver import MESSAGE_CHARACTERS, WAIT_BOUND, labelled, setup, translated
from airflow_sitemaps.sources.queries import COLUMN, GroupedRelation, Relation, is_fixed, relation_of
from airflow_sitemaps.sources.queries.change_log_query import ChangeLogReader
from airflow_sitemaps.sources.queries.context import QueryContext, columns_of
from airflow_sitemaps.sources.run_state import RunState, StoredRows, earlier_state
from airflow_sitemaps.sources.session import SqlSession
from airflow_sitemaps.sources.user_texts import NamePart, loc_columns, name_parts, nearest, written_name
from airflow_sitemaps.waits import waiting

if TYPE_CHECKING:
    from airflow_sitemaps.sources.dialects.base import Dialect
    from airflow_sitemaps.sources.source_settings import SourceSettings


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
    name = settings.name_in(section)
    dialect = _dialect(settings, engine)
    relation = relation_of(settings.table, settings.query_text(), settings.where, settings.parameters or {})
    if settings.materialize is None:
        state = None
        if settings.state:  # else each task reads the present
            state = earlier_state(settings, engine, dialect, name)
            relation = replace(relation, as_of=state.as_of(dialect))
        yield _session(settings, engine, dialect, relation, name, state)
        return
    plain = _session(settings, engine, dialect, relation, name)
    stored = StoredRows(engine, dialect, settings.materialize, what=f"{name}: materialize={settings.materialize!r}")
    now = plain.now()
    # A plan stores the rows of its own moment. The tasks after it read the table that the plan names.
    state = (
        RunState.parse(settings.state, stored=True)
        if settings.state
        else RunState.of_new_rows(section, now, shared=bool(settings.run))
    )
    table = stored.store(state, plain.context, now)
    try:
        yield _session(settings, engine, dialect, table, name, state)
    except BaseException:
        if not settings.state:
            with suppress(SourceError, SourceConfigurationError):  # the first error says more; the table expires
                stored.drop(state)
        raise
    if not state.shared:
        stored.drop(state)


def discard(settings: SourceSettings, section: str) -> None:
    """Drop the materialized table that the tasks of a run share."""
    if settings.materialize is None or not settings.state:
        return
    engine = engine_of(settings.conn_id, writing=True)
    try:
        stored = StoredRows(engine, _dialect(settings, engine), settings.materialize, what=f"section {section!r}")
        stored.drop(RunState.parse(settings.state, stored=True))
    finally:
        engine.dispose()


def _dialect(settings: SourceSettings, engine: sa.Engine) -> Dialect:
    dialect = dialect_of(engine.dialect)
    dialect.users_sql = tuple(settings.session)
    return dialect


def _session(
    settings: SourceSettings,
    engine: sa.Engine,
    dialect: Dialect,
    base: Relation,
    name: str,
    state: RunState | None = None,
) -> SqlSession:
    """Check the columns, and return a session. ``base`` is the relation, or the table that the state has stored."""
    is_stored = state is not None and bool(state.stored)
    fields = settings.field_columns | ({} if settings.group is None else {"alternates": COLUMN})
    pages = {"Observed" if settings.observed else "page": list(settings.page_columns)}
    wanted = {"key": list(settings.key_columns), "loc": list(loc_columns(settings.loc))} | pages
    what = f"{name}: connecting"
    with waiting(what, WAIT_BOUND), translated(engine, f"{what} failed", SourceError), engine.connect() as connection:
        with translated(engine, f"{name}: a statement of session= failed", SourceError):
            setup(connection, dialect.users_sql)
        connection.rollback()
        dialect.begin(connection)
        relation = base if is_stored else _with_groups(settings, connection, dialect, base, name)
        columns = columns_of(
            connection, dialect, relation, name, wanted | {each: [column] for each, column in fields.items()}
        )
        connection.rollback()
        key, loc, page = (tuple(columns[each] for each in names) for names in wanted.values())
        dialect.begin(connection)
        if base.table is not None:
            dialect.hold(connection, base.table)
        dialect.check_key(connection, relation.from_item(dialect), relation.binds(), key)
        unique, indexed = _indexes_of_key(connection, dialect, base, list(settings.key_columns))
        connection.rollback()
    # The version of a table is that of its present rows, which are not those of an earlier state.
    is_present = base.table is not None and state is None
    context = QueryContext(
        name=name, dialect=dialect, relation=relation, template=settings.loc, timezone=settings.timezone,
        key=key, loc=loc, fields={each: columns[column] for each, column in fields.items()}, page=page,
        lastmod_unit=settings.lastmod_unit, grouped=settings.group is not None, unique=unique,
        indexed=indexed and relation is base, versioned=base if is_present and is_fixed(base.where) else None,
    )  # fmt: skip
    return SqlSession(
        engine=engine, context=context, arrow=settings.reader == "auto", max_scan_bytes=settings.max_scan_bytes,
        state=state, change_log=_change_log(settings),
    )  # fmt: skip


def _change_log(settings: SourceSettings) -> partial[ChangeLogReader] | None:
    """Return what makes a reader of the change log for a context and a connection."""
    change_log = settings.change_log
    if change_log is None:
        return None
    return partial(
        ChangeLogReader,
        settings=change_log, key=change_log.key_columns(settings.key_columns), identity=settings.change_log_identity(),
        relation=relation_of(change_log.table, change_log.query, None, settings.parameters or {}),
    )  # fmt: skip


def _with_groups(
    settings: SourceSettings, connection: sa.Connection, dialect: Dialect, relation: Relation, name: str
) -> Relation:
    if settings.group is None or settings.language is None:
        return relation
    wanted = {
        "group": [settings.group], "language": [settings.language],
        "loc": list(loc_columns(settings.loc)), "key": list(settings.key_columns),
    }  # fmt: skip
    columns = columns_of(connection, dialect, relation, name, wanted)
    return GroupedRelation(
        base=relation, parameters=relation.parameters, group=columns[settings.group], language=columns[settings.language],
        loc=tuple(columns[each] for each in wanted["loc"]), key=tuple(columns[each] for each in wanted["key"]),
    )  # fmt: skip


def _indexes_of_key(
    connection: sa.Connection, dialect: Dialect, relation: Relation, key: list[str]
) -> tuple[bool, bool]:
    """Return whether the key is unique, and whether ranges are read by an index: for a query or if unknown, False."""
    if relation.table is None:
        return False, False
    find = _asked if dialect.indexes_sql else _inspected
    try:
        indexes = find(connection, dialect, relation.table)
    except (exc.SQLAlchemyError, NotImplementedError):  # SQLAlchemy's answer if a dialect cannot look up indexes
        return False, False
    unique = dialect.enforces_keys and any(
        only and columns and set(columns) <= set(key) for columns, only in indexes if None not in columns
    )
    leading = dialect.prefers_hops and any(columns[: len(key)] == key for columns, _only in indexes)
    return unique, leading


def _asked(connection: sa.Connection, dialect: Dialect, table: str) -> list[Index]:
    """Return the indexes by the dialect's own query, which costs a tenth of SQLAlchemy's inspector."""
    quoted = written_name(NamePart(part.text, is_quoted=True) for part in name_parts(table))
    rows = connection.execute(sa.text(dialect.indexes_sql or ""), {"relation": quoted}).all()
    return [(list(columns), bool(unique)) for columns, unique in rows]


def _inspected(connection: sa.Connection, _dialect: Dialect, table: str) -> list[Index]:
    *schema, name = (part.text for part in name_parts(table))
    place = schema[-1] if schema else None
    inspector = sa.inspect(connection)
    primary = inspector.get_pk_constraint(name, schema=place).get("constrained_columns")
    indexes: list[Index] = [
        (list(index.get("column_names") or []), bool(index.get("unique")))
        for index in inspector.get_indexes(name, schema=place)
        if not any(option.endswith("_where") for option in index.get("dialect_options", {}))
    ]
    return [*indexes, ([*primary], True)] if primary else indexes


# ---------------------------------------------------------------- engines

log = logging.getLogger(__name__)

ENVIRONMENT: Final = "AIRFLOW_CONN_"
NO_URL: Final = (ValueError, TypeError, KeyError)
"""What SQLAlchemy and drivers raise for an invalid URL, such as a port that is no number or an unknown argument."""

NESTED: Final = ("config", "ssl")
"""The arguments of drivers that are objects: DuckDB's and PyMySQL's. Other nested values of an extra are notes of people or hooks."""

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
        if (variable := ENVIRONMENT + conn_id.upper()) in os.environ:
            raise ConnectionNotFoundError(
                f"connection {conn_id!r}: the environment variable {variable} is set, but its value is neither a URI nor valid JSON. Correct it"
            ) from None
        defined = sorted(name[len(ENVIRONMENT) :].lower() for name in os.environ if name.startswith(ENVIRONMENT))
        raise ConnectionNotFoundError(
            f"connection {conn_id!r} is not defined in Airflow.{nearest(conn_id.lower(), defined)} Define it with "
            f"`airflow connections add`, in the UI, or as the environment variable {variable}"
        ) from None
    if not isinstance(connection.extra_dejson, dict):
        raise SourceConfigurationError(f"connection {conn_id!r}: {NO_OBJECT}")
    url = connection.extra_dejson.get("sqlalchemy_url")
    try:
        if url:
            engine = _engine_of_url(sa.make_url(str(url)), writing=writing)
            _warn_of(conn_id, *sorted(connection.extra_dejson.keys() - {"sqlalchemy_url", *engine.url.query}))
        else:
            engine = _engine_of_connection(connection, BaseHook, AirflowException, writing=writing)
        if not writing:
            _check_file(engine.url)
        return _connecting(engine, connection)
    # Airflow's hooks raise NotImplementedError if their database has no SQLAlchemy URL.
    except NO_FILE as error:
        named = str(error.filename or "")
        place = f" {named!r}" if named and len(named) < LONGEST_PATH and "{" not in named else ""
        raise SourceConfigurationError(
            f"connection {conn_id!r} (type {connection.conn_type!r}) names a file{place} that cannot be read ({error.strerror or type(error).__name__}). "
            "Correct its path in the connection, and check that the file is on this machine"
        ) from None
    except (AirflowException, ImportError, AttributeError, NotImplementedError, exc.ArgumentError, *NO_URL) as error:
        extra = extra_of_type(re.split(r"[+:]", str(url or connection.conn_type), maxsplit=1)[0])
        command = f" (pip install 'airflow-sitemaps[{extra}]')" if extra else ""
        raise SourceConfigurationError(
            f"no SQLAlchemy engine can be created from connection {conn_id!r} (type {connection.conn_type!r}): "
            f"{_cause(error, connection)}. Install the provider or driver of that type{command}, or name the engine in the "
            'connection\'s extra: {"sqlalchemy_url": "dialect+driver://…"}'
        ) from None


@lru_cache(maxsize=1_000)  # once in a process
def _warn_of(conn_id: str, *others: str) -> None:
    if others:
        log.warning("connection %r: sqlalchemy_url is used without %s. Write those into the URL", conn_id, [*others])


def _check_file(url: sa.URL) -> None:
    """Refuse a database file that does not exist: the driver would create it. A name with a colon is no plain path."""
    name, kind = url.database or ":", url.get_backend_name()
    path = os.path.expanduser(name) if kind == "duckdb" else name  # noqa: PTH111 - SQLite takes "~" for a folder's name
    if kind in ("duckdb", "sqlite") and ":" not in name and not os.path.exists(path):  # noqa: PTH110
        memory = "; a database without a file is duckdb:///:memory:" if kind == "duckdb" else ""
        raise FileNotFoundError(ENOENT, f"{os.strerror(ENOENT)}{memory}", name)


def _connecting(engine: sa.Engine, connection: Any) -> sa.Engine:
    """Let PostgreSQL send text in UTF-8, unless the connection names another encoding, and prepare no statements.

    A database in SQL_ASCII sends bytes otherwise, and SQLAlchemy cannot even connect. See
    https://www.postgresql.org/docs/current/multibyte.html. A pooler would give prepared statements to other clients.
    An argument that the driver does not take is an error of the connection.
    """

    def connect(dialect: Any, _record: Any, arguments: Any, parameters: dict[str, Any]) -> Any:
        if (dialect.name, dialect.driver) in UTF8_DRIVERS:
            parameters.setdefault("client_encoding", "utf8")
            if dialect.driver == "psycopg":
                parameters.setdefault("prepare_threshold", None)
        try:
            return dialect.connect(*arguments, **parameters)
        except (AttributeError, TypeError) as error:
            raise SourceConfigurationError(
                f"connection {connection.conn_id!r}: its extra or URL has an argument that the driver {dialect.driver!r} does not "
                f"take: {_cause(error, connection)}"
            ) from None

    sa.event.listen(engine, "do_connect", connect)
    return engine


def _engine_of_connection(connection: Any, hooks: Any, unknown_type: type[Exception], *, writing: bool) -> sa.Engine:
    try:
        hook = hooks.get_hook(connection.conn_id)
    except (unknown_type, ImportError):
        url = plain_url(connection)
        if url is None:
            raise
        nested = {key: value for key in NESTED if isinstance(value := connection.extra_dejson.get(key), dict)}
        return _engine_of_url(url, writing=writing, arguments=nested)
    dialect = dialect_of_type(str(connection.conn_type or ""))
    engine: sa.Engine = hook.get_sqlalchemy_engine() if dialect is None else dialect.hook_engine(connection, hook)
    return engine


def plain_url(connection: Any) -> sa.URL | None:
    """Return the URL of a connection without its provider, or None without a driver. The query has the plain values of its extra.

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
        name, username=connection.login or None, password=connection.password or None, host=connection.host or None,
        port=connection.port, database=connection.schema or None, query=query,
    )  # fmt: skip


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


def _engine_of_url(url: sa.URL, *, writing: bool, arguments: Mapping[str, Any] | None = None) -> sa.Engine:
    """Return the engine of a URL, with ``arguments`` of its driver. A DuckDB file is opened for reading if possible.

    Several processes can read one DuckDB file, but only one can write it, and that one cannot also open it for reading.
    """
    create = partial(sa.create_engine, connect_args=dict(arguments or {}))
    if writing or url.drivername.split("+")[0] != "duckdb" or url.database in (None, "", ":memory:"):
        return create(url)
    engine = create(url.update_query_dict({"access_mode": "read_only", **url.query}))
    try:
        with engine.connect():
            return engine
    except exc.DBAPIError:
        engine.dispose()
        return create(url)
