"""One S3 client per process and Airflow connection: thread-safe, pooled, with bounded waiting."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.stores.s3_errors import redacted

POOL: Final = 64
"""Connections kept open: more than the threads that promote at once."""
CONNECT_TIMEOUT_S: Final = 10
READ_TIMEOUT_S: Final = 60
MAX_ATTEMPTS: Final = 5
"""Of one call, the first included; with botocore's exponential waits in between."""

_connections: dict[tuple[int, str | None], S3Connection] = {}
_lock = threading.Lock()


@dataclass(slots=True)
class S3Connection:
    """A client and what has been learnt of the other side.

    ``etag_quotes`` is whether ``If-Match`` is sent with quotes (AWS) or without (Ceph); ``conditions`` turns False
    when the other side says that it does not implement them.
    """

    client: Any
    endpoint: str
    etag_quotes: bool = field(default=True, compare=False)
    conditions: bool = field(default=True, compare=False)


def connection_of(conn_id: str | None) -> S3Connection:
    """The connection of this process; made on first use, and anew after a fork. Raises ConfigurationError."""
    with _lock:
        name = (os.getpid(), conn_id)
        if name not in _connections:
            _connections[name] = _connected(conn_id)
        return _connections[name]


def close_connections(*conn_ids: str | None) -> None:
    """Close this process's clients (of these connections, else all), so that a changed connection is read anew."""
    with _lock:
        for name in [name for name in _connections if not conn_ids or name[1] in conn_ids]:
            _connections.pop(name).client.close()


def _connected(conn_id: str | None) -> S3Connection:
    from airflow.providers.amazon.aws.hooks.s3 import S3Hook  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    try:
        hook = S3Hook(aws_conn_id=conn_id)
        endpoint = hook.conn_config.get_service_endpoint_url(service_name="s3") or ""
        ours = Config(
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=READ_TIMEOUT_S,
            max_pool_connections=POOL,
            tcp_keepalive=True,
            retries={"mode": "standard", "total_max_attempts": MAX_ATTEMPTS},
            **({} if is_aws(endpoint) else _for_other_stores()),
        )
        client = hook.get_client_type(config=ours.merge(hook.config))
    except ConfigurationError:
        raise
    except Exception as e:
        # Airflow and botocore raise a dozen unrelated types here, all for a connection that cannot be used.
        raise ConfigurationError(
            f"the connection {conn_id!r} gives no S3 client ({type(e).__name__}: {redacted(str(e))}). Look at its "
            "credentials, and in its extra at endpoint_url, region_name and config_kwargs"
        ) from e
    return S3Connection(client=client, endpoint=str(client.meta.endpoint_url))


def is_aws(endpoint: str) -> bool:
    host = urlsplit(endpoint).hostname or "amazonaws.com"
    return host.endswith((".amazonaws.com", ".amazonaws.com.cn")) or host == "amazonaws.com"


def _for_other_stores() -> dict[str, Any]:
    """Few other stores know AWS's checksum trailers or answer at ``bucket.host``; the connection may say otherwise."""
    return {
        "request_checksum_calculation": "when_required",
        "response_checksum_validation": "when_required",
        "s3": {"addressing_style": "path"},
    }
