"""The SQL dialects: one module per database, which overrides standard SQL.

Another distribution registers a subclass of ``Dialect`` by an entry point in the group ``airflow_sitemaps.dialects``,
under SQLAlchemy's name of the dialect.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Final

from airflow_sitemaps import setting_checks
from airflow_sitemaps.errors import SourceConfigurationError

if TYPE_CHECKING:
    import sqlalchemy as sa

    from airflow_sitemaps.sources.dialects.base import Dialect

GROUP: Final = "airflow_sitemaps.dialects"

DIALECTS: Final = {
    "postgresql": "postgresql:PostgreSQL",
    "sqlite": "sqlite:SQLite",
    "duckdb": "duckdb:DuckDB",
    "mysql": "mysql:MySQL",
    "mariadb": "mysql:MariaDB",
    "snowflake": "snowflake:Snowflake",
    "bigquery": "bigquery:BigQuery",
    "redshift": "redshift:Redshift",
    "databricks": "databricks:Databricks",
    "trino": "trino:Trino",
    "clickhouse": "clickhouse:ClickHouse",
    "clickhousedb": "clickhouse:ClickHouse",
}

CONNECTIONS: Final = {"postgres": "postgresql", "google_cloud_platform": "bigquery", "gcpbigquery": "bigquery"}
"""SQLAlchemy's name for the types of Airflow connections that have another."""


def _entry(name: str) -> EntryPoint | None:
    """Return where a dialect is. Other distributions are searched only for what this package lacks: it takes 30 ms."""
    if name in DIALECTS:
        return EntryPoint(name=name, value=f"{__name__}.{DIALECTS[name]}", group=GROUP)
    return next(iter(entry_points(group=GROUP, name=name)), None)


def dialect_of_type(conn_type: str) -> type[Dialect] | None:
    """Return the dialect of a type of Airflow connections, or None if the type names no database."""
    entry = _entry(CONNECTIONS.get(conn_type.lower(), conn_type.lower()))
    return None if entry is None else setting_checks.loaded(entry)


def extra_of_type(conn_type: str) -> str:
    """Return the extra of this package that installs the driver of a type of Airflow connections, or "" without one."""
    module = DIALECTS.get(CONNECTIONS.get(conn_type.lower(), conn_type.lower()), "").partition(":")[0]
    return {"postgresql": "postgres", "sqlite": ""}.get(module, module)


def dialect_of(dialect: sa.Dialect) -> Dialect:
    """Return the dialect of an engine, or raise ``SourceConfigurationError`` if there is none."""
    if (entry := _entry(dialect.name)) is None:
        supported = (*(other.name for other in entry_points(group=GROUP)), *DIALECTS)
        raise SourceConfigurationError(
            f"the database {dialect.name!r} is not supported, because this package has no row hash for it. Supported are "
            f"{', '.join(supported)}; copy the rows into one of these databases, or install a distribution that registers "
            f"the database in the entry points {GROUP!r}"
        )
    dialect_type: type[Dialect] = setting_checks.loaded(entry)
    return dialect_type(dialect)
