"""One S3 client per process and Airflow connection: thread-safe, pooled, with limited waiting."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from airflow_sitemaps import waits
from airflow_sitemaps.errors import ConfigurationError, CredentialsError
from airflow_sitemaps.stores.s3.errors import NO_CREDENTIALS, redacted

POOL: Final = 64
"""Number of connections that stay open: more than the threads that promote at the same time."""
CONNECT_TIMEOUT_S: Final = 10
READ_TIMEOUT_S: Final = 60
WAIT: Final = "airflow_sitemaps.wait"
"""Key of a request's wait in botocore's context of the request."""
MAX_ATTEMPTS: Final = 5
"""Number of attempts of one call, the first included, with botocore's exponential pauses."""

_connections: dict[tuple[int, str | None], S3Connection] = {}
_lock = threading.Lock()


@dataclass(slots=True)
class S3Connection:
    """A client, and known facts about its store.

    Attributes:
        client: The boto3 client.
        endpoint: URL of the store.
        etag_quotes: Whether ``If-Match`` is sent with quotes (AWS) or without (Ceph).
        conditions: Whether conditional headers are sent. False after the store answered that it does not implement them.
    """

    client: Any
    endpoint: str
    etag_quotes: bool = field(default=True, compare=False)
    conditions: bool = field(default=True, compare=False)


def connection_of(conn_id: str | None) -> S3Connection:
    """Return this process's client of an Airflow connection. It is created on first use, and again after a fork.

    Args:
        conn_id: The connection. None: boto3's own chain of credentials.

    Raises:
        ConfigurationError: No client can be created from the connection.
    """
    with _lock:
        name = (os.getpid(), conn_id)
        if name not in _connections:
            _connections[name] = _connected(conn_id)
        return _connections[name]


def close_connections(*conn_ids: str | None) -> None:
    """Close clients of this process, so that a changed connection is read again.

    Args:
        conn_ids: The connections. None given: all.
    """
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
        client = _watched(hook.get_client_type(config=ours.merge(hook.config)))
    except ConfigurationError:
        raise
    except Exception as e:
        # Airflow and botocore raise a dozen unrelated types here, all for a connection that cannot be used.
        kind = CredentialsError if type(e).__name__ in NO_CREDENTIALS else ConfigurationError
        raise kind(
            f"no S3 client can be created from connection {conn_id!r} ({type(e).__name__}: {redacted(str(e))}). Check its "
            "credentials, and endpoint_url, region_name and config_kwargs in its extra"
        ) from e
    return S3Connection(client=client, endpoint=str(client.meta.endpoint_url))


def bound_of(client: Any) -> str:
    """Return when a request of a client ends at the latest, and what follows."""
    config = client.meta.config
    attempts = (config.retries or {}).get("total_max_attempts", MAX_ATTEMPTS)
    return (
        f"Each of up to {attempts} attempts ends after {config.read_timeout:g} s without an answer; then the task fails, and its "
        "retry continues"
    )


def _watched(client: Any) -> Any:
    """Let the log name requests that take long, with all their attempts. These two events surround each of them."""
    bound = bound_of(client)

    def begin(model: Any, params: Any, context: Any, **_: Any) -> None:
        context[WAIT] = waits.begin(f"{model.name} {str(params['url']).partition('?')[0]}", bound)

    def end(context: Any, **_: Any) -> None:
        waits.end(context.pop(WAIT, None))

    client.meta.events.register("before-call.s3", begin)
    for event in ("after-call.s3", "after-call-error.s3"):
        client.meta.events.register(event, end)
    return client


def is_aws(endpoint: str) -> bool:
    """Return whether an endpoint is one of AWS. An empty endpoint is."""
    host = urlsplit(endpoint).hostname or "amazonaws.com"
    return host.endswith((".amazonaws.com", ".amazonaws.com.cn")) or host == "amazonaws.com"


def _for_other_stores() -> dict[str, Any]:
    """Return settings for stores other than AWS. Few of them support checksum trailers or ``bucket.host`` addresses.

    The ``config_kwargs`` of the connection take precedence.
    """
    return {
        "request_checksum_calculation": "when_required",
        "response_checksum_validation": "when_required",
        "s3": {"addressing_style": "path"},
    }
