"""Names of datasets by OpenLineage's naming rules (openlineage.io/docs/spec/naming). Pure; no name holds a secret."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PORTS: Final = {
    "postgres": 5432, "mysql": 3306, "mssql": 1433, "oracle": 1521, "redshift": 5439, "trino": 8080, "clickhouse": 8123,
}  # fmt: skip
_SCHEMES: Final = {"postgresql": "postgres", "mariadb": "mysql", "clickhousedb": "clickhouse"}
_IDENTIFIER: Final = re.compile(r'"((?:[^"]|"")*)"|`((?:[^`]|``)*)`|\[([^\]]*)\]|([^."`\[\]]+)')


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetName:
    """The name of a dataset.

    Attributes:
        namespace: Namespace: the database's address, ``s3://bucket`` or ``file``.
        name: Name within the namespace.
    """

    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """The parts of a connection that a dataset's name needs.

    Attributes:
        kind: Engine, such as ``postgres`` or ``snowflake``.
        host: Host; the account for Snowflake. Default: empty, for files.
        port: Port. Default: None, the engine's default port.
        database: Database of unqualified tables; the path for database files. Default: empty.
        schema: Schema of unqualified tables. Default: empty.
    """

    kind: str
    host: str = ""
    port: int | None = None
    database: str = ""
    schema: str = ""

    @property
    def namespace(self) -> str:
        """Namespace of the database's tables."""
        if self.kind == "bigquery":
            return "bigquery"
        if self.kind in ("sqlite", "duckdb"):
            return f"{self.kind}:{self.database}"
        port = self.port or _PORTS.get(self.kind)
        return f"{self.kind}://{self.host}" + (f":{port}" if port else "")

    def table(self, parts: Sequence[str]) -> DatasetName:
        """Return the name of a table, completed with the default database and schema."""
        given = [part for part in parts if part]
        if self.kind in ("mysql", "clickhouse"):
            defaults = [self.database or self.schema]
        elif self.kind in ("sqlite", "duckdb"):
            defaults = []
        else:
            defaults = [self.database, self.schema]
        missing = len(defaults) + 1 - len(given)
        complete = [*defaults[:missing], *given] if missing > 0 else given
        return DatasetName(namespace=self.namespace, name=".".join(part for part in complete if part))


def database_of(conn_type: str, host: str, port: int | None, schema: str, extra: Mapping[str, Any]) -> Database:
    """Return the database of an Airflow connection.

    Args:
        schema: Field ``schema`` of the connection, which most engines use for the database.
        extra: Extra of the connection. Passwords and keys in it are not read.
    """
    url = extra.get("sqlalchemy_url")
    if url:
        return _database_of_url(str(url))
    kind = conn_type.replace("google_cloud_platform", "bigquery").replace("gcpbigquery", "bigquery")
    kind = _SCHEMES.get(kind, kind)
    if kind == "snowflake":
        account = str(extra.get("account") or host)
        region = str(extra.get("region") or "")
        return Database(
            kind=kind, host=f"{account}.{region}" if region else account,
            database=str(extra.get("database") or ""), schema=schema or "PUBLIC",
        )  # fmt: skip
    if kind == "bigquery":
        return Database(kind=kind, database=str(extra.get("project") or extra.get("project_id") or ""), schema=schema)
    if kind == "trino":
        return Database(kind=kind, host=host, port=port, database=str(extra.get("catalog") or ""), schema=schema)
    if kind in ("sqlite", "duckdb"):
        return Database(kind=kind, database=host or schema)
    default_schema = {"postgres": "public", "redshift": "public", "mssql": "dbo"}.get(kind, "")
    return Database(kind=kind, host=host, port=port, database=schema, schema=default_schema)


def _database_of_url(url: str) -> Database:
    """Return the database of a SQLAlchemy URL."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return Database(kind="unknown")
    kind = parts.scheme.partition("+")[0]
    kind = _SCHEMES.get(kind, kind)
    path = parts.path.partition("?")[0]
    if kind in ("sqlite", "duckdb"):
        return Database(kind=kind, database=path.removeprefix("/") if not path.startswith("//") else path[1:])
    database, _, schema = path.strip("/").partition("/")
    default_schema = {"postgres": "public", "redshift": "public", "mssql": "dbo"}.get(kind, "")
    if kind == "bigquery":
        return Database(kind=kind, database=parts.hostname or "", schema=database)
    return Database(kind=kind, host=parts.hostname or "", port=port, database=database, schema=schema or default_schema)


def parts_of(table: str) -> tuple[str, ...]:
    """Return the parts of a table's name as written, without their quotes."""
    names = (next(part for part in match if part) for match in _IDENTIFIER.findall(table) if any(match))
    return tuple(part.replace('""', '"').replace("``", "`") for part in names)


def file_of(public_url: str, name: str) -> DatasetName:
    """Return the name of a file in a store.

    Args:
        public_url: Address of the store's public area: ``s3://bucket/prefix/``, a path or a ``file://`` address.
    """
    parts = urlsplit(public_url)
    if parts.scheme in ("", "file"):
        return DatasetName(namespace="file", name=f"{parts.path.rstrip('/')}/{name}")
    return DatasetName(
        namespace=f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}",
        name=f"{parts.path.strip('/')}/{name}".lstrip("/"),
    )
