"""The clients of clouds that a process keeps, one for each Airflow connection."""

from __future__ import annotations

from typing import Any

from airflow_sitemaps.stores.bucket import Connections


def close_clients(connections: Connections[Any], *conn_ids: str | None) -> None:
    """Close the clients of some connections, so that the next use reads the connection again."""
    for name in [name for name in connections._clients if name[1] in conn_ids]:
        client = connections._clients.pop(name)
        getattr(client, "client", client).close()  # an S3Connection holds its client
