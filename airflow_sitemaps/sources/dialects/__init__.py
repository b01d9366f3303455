"""The SQL dialects: one module per database, which overrides standard SQL."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import SourceConfigurationError

if TYPE_CHECKING:
    import sqlalchemy as sa

    from airflow_sitemaps.sources.dialects.base import Dialect

DIALECTS: Final = {
    "postgresql": "postgresql:PostgreSQL",
    "sqlite": "sqlite:SQLite",
    "duckdb": "duckdb:DuckDB",
    "mysql": "mysql:MySQL",
    "mariadb": "mysql:MySQL",
    "snowflake": "snowflake:Snowflake",
    "bigquery": "bigquery:BigQuery",
    "redshift": "redshift:Redshift",
    "databricks": "databricks:Databricks",
    "trino": "trino:Trino",
    "clickhouse": "clickhouse:ClickHouse",
    "clickhousedb": "clickhouse:ClickHouse",
    "mssql": "mssql:SQLServer",
    "oracle": "oracle:Oracle",
}
"""The module and class of each dialect, by SQLAlchemy's name of it."""


def dialect_of(dialect: sa.Dialect) -> Dialect:
    """Return the dialect of an engine.

    Args:
        dialect: The engine's SQLAlchemy dialect.

    Raises:
        SourceConfigurationError: No dialect exists for the database.
    """
    if dialect.name not in DIALECTS:
        raise SourceConfigurationError(
            f"the database {dialect.name!r} is not supported, because this package has no row hash for it. Supported are "
            f"{', '.join(DIALECTS)}; copy the rows into one of these databases"
        )
    module, _, name = DIALECTS[dialect.name].partition(":")
    dialect_type: type[Dialect] = getattr(import_module(f"{__name__}.{module}"), name)
    return dialect_type(dialect)
