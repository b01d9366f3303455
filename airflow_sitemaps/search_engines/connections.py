"""Credentials for notifications, from Airflow connections."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.errors import ConfigurationError, CredentialsError
from airflow_sitemaps.search_engines.indexnow import ENDPOINT, IndexNow
from airflow_sitemaps.search_engines.outcomes import NotAcceptedError

if TYPE_CHECKING:
    from collections.abc import Callable

WEBMASTERS: Final = "https://www.googleapis.com/auth/webmasters"
"""OAuth scope that Search Console requires for submitting sitemaps."""


def password(conn_id: str, what: str) -> str:
    """Return the password of a connection.

    Raises:
        ConfigurationError: The connection does not exist, or has no password.
    """
    return _secret(conn_id, what)[0]


def _secret(conn_id: str, what: str) -> tuple[str, dict[str, Any]]:
    """Return the password and the extra of a connection."""
    from airflow.sdk import BaseHook  # noqa: PLC0415 - Airflow takes seconds to import

    from airflow_sitemaps.airflow_compat import AirflowNotFoundException  # noqa: PLC0415

    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise CredentialsError(
            f"connection {conn_id!r} is not defined in Airflow. Define it with {what} as its password: in the UI, or as "
            f'the environment variable AIRFLOW_CONN_{conn_id.upper()}=\'{{"conn_type": "generic", "password": "…"}}\''
        ) from None
    if not connection.password:
        raise ConfigurationError(f"connection {conn_id!r} has no password. Set {what} as its password")
    return str(connection.password), connection.extra_dejson


def indexnow(conn_id: str) -> IndexNow:
    """Return a site's IndexNow key, and ``key_location`` and ``endpoint`` from the connection's extra.

    Raises:
        ConfigurationError: The connection does not exist, or holds an invalid value.
    """
    key, extra = _secret(conn_id, "the IndexNow key")
    return IndexNow(key=key, key_location=extra.get("key_location") or None, endpoint=extra.get("endpoint") or ENDPOINT)


def google_token(conn_id: str) -> Callable[[], str]:
    """Return a function that returns a bearer token for Search Console from a Google connection.

    The function raises ConfigurationError if the Google provider is not installed or the connection has no
    credentials, and NotAcceptedError if Google currently cannot issue a token.
    """

    def token() -> str:
        try:
            hook = import_module("airflow.providers.google.common.hooks.base_google").GoogleBaseHook
            scoped = import_module("google.auth.credentials").with_scopes_if_required
            request = import_module("google.auth.transport.requests").Request
        except ImportError as error:
            raise ConfigurationError(
                f"Search Console needs Airflow's Google provider, which is not installed ({error}): "
                "pip install 'airflow-sitemaps[searchconsole]', or pass token="
            ) from error
        exceptions = import_module("google.auth.exceptions")
        try:
            credentials = scoped(hook(gcp_conn_id=conn_id).get_credentials(), [WEBMASTERS])
            credentials.refresh(request())
        except (exceptions.DefaultCredentialsError, exceptions.RefreshError) as error:
            kind = NotAcceptedError if getattr(error, "retryable", False) else ConfigurationError
            raise kind(
                f"no Google token for {WEBMASTERS} from connection {conn_id!r}: {type(error).__name__}: {error}"
            ) from error
        return str(credentials.token)

    return token
