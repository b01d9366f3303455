"""Engines of Airflow connections, by the hook of the installed provider or by the driver alone.

Each provider's hook was tried with the releases named in ``docs/databases.md``.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Callable

REDSHIFT: Final = "airflow_sitemaps_redshift"

PLAIN_DRIVERS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "postgres": (("postgresql+psycopg", "psycopg"), ("postgresql+psycopg2", "psycopg2")),
    "mysql": (
        ("mysql+mysqldb", "MySQLdb"),
        ("mysql+pymysql", "pymysql"),
        ("mysql+mysqlconnector", "mysql.connector"),
    ),
    "mariadb": (("mysql+mysqldb", "MySQLdb"), ("mysql+pymysql", "pymysql"), ("mariadb+mariadbconnector", "mariadb")),
    "sqlite": (("sqlite", "sqlite3"),),
    "duckdb": (("duckdb", "duckdb_engine"),),
    "clickhouse": (("clickhousedb", "clickhouse_connect"), ("clickhouse+native", "clickhouse_sqlalchemy")),
    "mssql": (("mssql+pyodbc", "pyodbc"), ("mssql+pymssql", "pymssql")),
    "oracle": (("oracle+oracledb", "oracledb"),),
    "trino": (("trino", "trino"),),
}
"""SQLAlchemy's dialects and the modules they need, in order of preference, by the type of the connection."""

FILES: Final = ("sqlite", "duckdb")
"""The types of connections that name a file."""


def plain_url(connection: Any) -> sa.URL | None:
    """Return the URL of a connection whose provider is not installed, if its driver is.

    Args:
        connection: Airflow's connection. ``sqlite:////data/mart.db`` and ``{"conn_type": "sqlite", "host":
            "/data/mart.db"}`` name the same file.

    Returns:
        The URL, with the connection's extra as its query. None if no driver of the type is installed.
    """
    kind = str(connection.conn_type or "").lower()
    name = next((dialect for dialect, module in PLAIN_DRIVERS.get(kind, ()) if _is_installed(module)), None)
    if name is None:
        return None
    query = {key: str(value) for key, value in connection.extra_dejson.items() if isinstance(value, (str, int, float))}
    if kind in FILES:
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


def engine_of_hook(connection: Any, hook: Any) -> sa.Engine:
    """Return the engine of a connection whose provider is installed."""
    make = RESOLVERS.get(str(connection.conn_type or "").lower())
    engine: sa.Engine = make(connection, hook) if make is not None else hook.get_sqlalchemy_engine()
    return engine


def _bigquery(connection: Any, _hook: Any) -> sa.Engine:
    """Create an engine over the hook's own client, which supports impersonation, key files and the location.

    The types ``google_cloud_platform`` and ``gcpbigquery`` hold the same fields, but only the second has a hook with
    an engine.
    """
    hook_type = import_module("airflow.providers.google.cloud.hooks.bigquery").BigQueryHook
    hook = hook_type(gcp_conn_id=connection.conn_id, location=connection.extra_dejson.get("location"))
    client = hook.get_client(project_id=hook.project_id, location=hook.location)
    url = sa.URL.create("bigquery", host=client.project, query={"user_supplied_client": "true"})
    return sa.create_engine(url, connect_args={"client": client})


def _databricks(connection: Any, _hook: Any) -> sa.Engine:
    """Create an engine with the SQL hook: the connection's type maps to the hook of the REST API."""
    hook_type = import_module("airflow.providers.databricks.hooks.databricks_sql").DatabricksSqlHook
    engine: sa.Engine = hook_type(databricks_conn_id=connection.conn_id).get_sqlalchemy_engine()
    return engine


def _redshift(connection: Any, hook: Any) -> sa.Engine:
    """Create an engine over the hook's own connections, which support IAM. The hook's engine expects PostgreSQL."""
    sa.dialects.registry.register(REDSHIFT, f"{__package__}.redshift_dialect", "RedshiftConnectorDialect")
    # The URL is never used to connect. It holds the password so that messages can hide it.
    url = sa.URL.create(REDSHIFT, host=connection.host or None, password=connection.password or None)
    return sa.create_engine(url, creator=hook.get_conn)


def _trino(connection: Any, hook: Any) -> sa.Engine:
    """Create an engine over the hook's own connections, which support JWT, certificates, https and session properties."""
    url = sa.URL.create(
        "trino",
        username=connection.login or None,
        password=connection.password or None,
        host=connection.host,
        port=connection.port,
        database=connection.extra_dejson.get("catalog", "hive"),
    )
    return sa.create_engine(url, creator=hook.get_conn)


RESOLVERS: Final[dict[str, Callable[[Any, Any], sa.Engine]]] = {
    "google_cloud_platform": _bigquery,
    "gcpbigquery": _bigquery,
    "databricks": _databricks,
    "redshift": _redshift,
    "trino": _trino,
}
"""The function that creates the engine, by the type of the connection. Hooks of other types create a suitable engine."""
