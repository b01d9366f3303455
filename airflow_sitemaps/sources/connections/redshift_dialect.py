"""A SQLAlchemy dialect for Redshift over redshift_connector, the driver of Airflow's Amazon provider.

When SQLAlchemy's own PostgreSQL dialects connect, they query settings that Redshift does not have. The dialect of the
``sqlalchemy-redshift`` package needs SQLAlchemy below 2.0. This dialect sends the statements of this package and
nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy.engine.default import DefaultDialect

if TYPE_CHECKING:
    from types import ModuleType

    import sqlalchemy as sa


class RedshiftConnectorDialect(DefaultDialect):
    """Text statements with PostgreSQL's quotes and ``%s`` binds."""

    name = "redshift"
    driver = "redshift_connector"
    default_paramstyle = "format"
    supports_statement_cache = True

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """Import the driver."""
        import redshift_connector  # noqa: PLC0415 - optional

        return redshift_connector

    def initialize(self, connection: sa.Connection) -> None:
        """Send no query to the server."""

    def is_disconnect(self, e: Exception, connection: Any, cursor: Any) -> bool:
        """Return whether the driver's message reports a broken connection."""
        return "connection is closed" in str(e) or "BrokenPipe" in str(e)
