"""Redshift: FARMFINGERPRINT64. The tests run its statements transpiled, not on Redshift itself."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, ClassVar, Final

import sqlalchemy as sa
from sqlalchemy.engine.default import DefaultDialect

from airflow_sitemaps.sources.columns import Kind
from airflow_sitemaps.sources.dialects.base import Warehouse

REGISTERED: Final = "airflow_sitemaps_redshift"


class RedshiftConnectorDialect(DefaultDialect):
    """SQLAlchemy's dialect over redshift_connector, the driver of Airflow's Amazon provider.

    SQLAlchemy's own PostgreSQL dialects query settings that Redshift lacks, and ``sqlalchemy-redshift`` needs
    SQLAlchemy below 2.0. This dialect sends only this package's statements, with PostgreSQL's quotes and ``%s`` binds.
    """

    name = "redshift"
    driver = "redshift_connector"
    default_paramstyle = "format"
    supports_statement_cache = True

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        import redshift_connector  # noqa: PLC0415 - optional

        return redshift_connector

    def initialize(self, connection: sa.Connection) -> None:
        """Send no query to the server."""

    def is_disconnect(self, e: Exception, connection: Any, cursor: Any) -> bool:
        return "connection is closed" in str(e) or "BrokenPipe" in str(e)


class Redshift(Warehouse):
    """Redshift, with redshift_connector or sqlalchemy-redshift."""

    name: ClassVar[str] = "redshift"
    lists_keys: ClassVar[bool] = False
    escapes_backslash: ClassVar[bool] = True

    max_binds: ClassVar[int] = 10_000
    max_statement_bytes: ClassVar[int] = 1_000_000
    max_case: ClassVar[int] = 300

    hash_version: ClassVar[str] = "farmfingerprint64/1"
    # The fingerprint of open-source FarmHash, which never changes
    hash_sql: ClassVar[str] = "FARMFINGERPRINT64({})"
    byte_length_sql: ClassVar[str] = "CAST(OCTET_LENGTH({}) AS VARCHAR(20))"
    session_sql: ClassVar[tuple[str, ...]] = ("SET timezone TO 'UTC'", "SET datestyle TO 'ISO, YMD'")
    begin_sql: ClassVar[tuple[str, ...]] = ("SET TRANSACTION READ ONLY",)
    now_sql: ClassVar[str] = "SELECT GETDATE()"
    # The texts of a group must have fewer than 65,535 bytes
    members_sql: ClassVar[str] = (
        "'[' || LISTAGG(JSON_SERIALIZE(ARRAY({texts})), ',') WITHIN GROUP (ORDER BY {orders}) || ']'"
    )

    kinds: ClassVar[Mapping[object, Kind]] = {
        **dict.fromkeys((20, 21, 23), Kind.INTEGER),
        **dict.fromkeys((700, 701, 1700), Kind.NUMBER),
        **dict.fromkeys((25, 1042, 1043), Kind.TEXT),
        16: Kind.BOOLEAN,
        1082: Kind.DATE,
        1114: Kind.TIMESTAMP,
        1184: Kind.ZONED,
        4000: Kind.JSON,  # SUPER
    }
    """The kind of each type, by its number in the wire protocol."""
    cast_types: ClassVar[Mapping[Kind, str]] = {
        **Warehouse.cast_types, Kind.NUMBER: "DECIMAL(38, 18)", Kind.ZONED: "TIMESTAMPTZ",
    }  # fmt: skip
    # A float may not fit into a decimal
    own_types: ClassVar[Mapping[object, str]] = {700: "FLOAT4", 701: "FLOAT8"}
    # A plain VARCHAR has 256 bytes
    text_type: ClassVar[str] = "VARCHAR(65535)"
    text_sql: ClassVar[str] = "CAST({} AS VARCHAR(65535))"
    text_sql_of: ClassVar[Mapping[Kind, str]] = {
        Kind.JSON: "JSON_SERIALIZE({})",
        Kind.BOOLEAN: "CASE WHEN {0} THEN 'true' WHEN NOT {0} THEN 'false' END",  # it has no cast to a text
    }

    @classmethod
    def hook_engine(cls, connection: Any, hook: Any) -> sa.Engine:
        """Create an engine over the hook's own connections, which support IAM. The hook's engine expects PostgreSQL."""
        sa.dialects.registry.register(REGISTERED, __name__, "RedshiftConnectorDialect")
        # The URL is never used to connect. It holds the password so that messages can hide it.
        url = sa.URL.create(REGISTERED, host=connection.host or None, password=connection.password or None)
        return sa.create_engine(url, creator=hook.get_conn)
