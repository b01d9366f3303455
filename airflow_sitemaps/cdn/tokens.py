"""API tokens from Airflow connections, and requests that are retried while the service is busy."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Protocol

from airflow_sitemaps.errors import ConfigurationError, StoreError
from airflow_sitemaps.http.client import HttpClient
from airflow_sitemaps.http.destinations import AccessRules
from airflow_sitemaps.http.response import FetchError
from airflow_sitemaps.retry import repeated

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_sitemaps.http.response import Fetched

log = logging.getLogger(__name__)

ATTEMPTS: Final = 4
PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 20.0
BUSY: Final = frozenset({408, 425, 429})
EXCERPT: Final = 300
"""Number of characters of a response that an error quotes."""


class Sender(Protocol):
    """Sends one request, like ``HttpClient.send``."""

    def send(
        self, method: str, url: str, *, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Fetched:
        """Return the response.

        Raises:
            FetchError: There is no response.
        """
        ...


class _BusyError(Exception):
    """The service did not answer, or requests a retry."""


def client_for(host: str) -> HttpClient:
    """Return a client that may connect to one host only."""
    return HttpClient(rules=AccessRules(hosts=frozenset({host})))


def token_of(conn_id: str, service: str) -> str:
    """Return the API token that an Airflow connection holds as its password.

    Args:
        conn_id: The connection.
        service: Name of the service, for messages.

    Raises:
        ConfigurationError: There is no such connection, or it has no password.
    """
    from airflow.sdk import BaseHook  # noqa: PLC0415 - Airflow takes seconds to import

    from airflow_sitemaps.airflow_compat import AirflowNotFoundException  # noqa: PLC0415

    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise ConfigurationError(
            f"connection {conn_id!r} is not defined in Airflow. Define it with {service}'s API token as its password"
        ) from None
    if not connection.password:
        raise ConfigurationError(f"connection {conn_id!r} has no password. Set {service}'s API token as its password")
    return str(connection.password)


def call(
    client: Sender, method: str, url: str, *, service: str, headers: Mapping[str, str], body: bytes | None = None
) -> Fetched:
    """Send a request. Retry while the service is busy or does not answer.

    Args:
        client: Sends the request.
        method: HTTP method.
        url: Address of the API.
        service: Name of the service, for messages.
        headers: Request headers. They are never logged.
        body: Request body. Default: none.

    Returns:
        A response with a status below 300.

    Raises:
        ConfigurationError: The service refused the request. A retry fails in the same way.
        StoreError: The service is still busy or unreachable after the last attempt.
    """
    retrying = repeated(_BusyError, attempts=ATTEMPTS, pause_s=PAUSE_S, longest_pause_s=LONGEST_PAUSE_S, log=log)
    try:
        return retrying(_once, client, method, url, service, headers, body)
    except _BusyError as e:
        raise StoreError(f"{e}, after {ATTEMPTS} attempts. Run again") from e


def _once(
    client: Sender, method: str, url: str, service: str, headers: Mapping[str, str], body: bytes | None
) -> Fetched:
    try:
        response = client.send(method, url, body=body, headers=headers)
    except FetchError as e:
        raise _BusyError(f"{service}: purge request failed: {e}") from e
    if response.status in BUSY or response.status >= 500:
        raise _BusyError(f"{service}: purge request answered with status {response.status}")
    if response.status >= 300:
        said = response.body[:EXCERPT].decode("utf-8", "replace")
        raise ConfigurationError(
            f"{service}: purge request answered with status {response.status}: {said}. Check the token and the id"
        )
    return response
