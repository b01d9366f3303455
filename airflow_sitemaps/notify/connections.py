"""Secrets of notifications, from Airflow's connections."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.notify.indexnow import ENDPOINT, IndexNow
from airflow_sitemaps.notify.outcomes import NotAcceptedError

if TYPE_CHECKING:
    from collections.abc import Callable

WEBMASTERS: Final = "https://www.googleapis.com/auth/webmasters"
"""Scope that Search Console asks for to submit sitemaps."""


def password(conn_id: str, what: str) -> str:
    """The password of a connection; ``what`` it is, for the message.

    Raises:
        ConfigurationError: no such connection, or it has no password.
    """
    return _secret(conn_id, what)[0]


def _secret(conn_id: str, what: str) -> tuple[str, dict[str, Any]]:
    """The password and the extra of a connection."""
    from airflow.sdk import BaseHook  # noqa: PLC0415 - Airflow takes seconds to import
    from airflow.sdk.exceptions import AirflowNotFoundException  # noqa: PLC0415

    try:
        found = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise ConfigurationError(
            f"connection {conn_id!r} is not defined in Airflow. Define it with {what} as its password, in the UI, or as "
            f'the environment variable AIRFLOW_CONN_{conn_id.upper()}=\'{{"conn_type": "generic", "password": "…"}}\''
        ) from None
    if not found.password:
        raise ConfigurationError(f"connection {conn_id!r} has no password: {what} belongs there")
    return str(found.password), found.extra_dejson


def indexnow(conn_id: str) -> IndexNow:
    """A site's IndexNow key, and what else the connection's extra says: ``key_location``, ``endpoint``.

    Raises:
        ConfigurationError: no such connection, or what it says cannot be.
    """
    key, extra = _secret(conn_id, "the IndexNow key")
    return IndexNow(key=key, key_location=extra.get("key_location") or None, endpoint=extra.get("endpoint") or ENDPOINT)


def google_token(conn_id: str) -> Callable[[], str]:
    """Gives a bearer token for Search Console from a Google connection, when it is called.

    Raises (when called):
        ConfigurationError: the Google provider is not installed, or the connection has no credentials.
    """

    def token() -> str:
        try:
            hook = import_module("airflow.providers.google.common.hooks.base_google").GoogleBaseHook
            scoped = import_module("google.auth.credentials").with_scopes_if_required
            request = import_module("google.auth.transport.requests").Request
        except ImportError as error:
            raise ConfigurationError(
                f"Search Console needs Airflow's Google provider, which is not installed ({error}): "
                "pip install 'airflow-sitemaps[searchconsole]', or give token="
            ) from error
        faults = import_module("google.auth.exceptions")
        try:
            credentials = scoped(hook(gcp_conn_id=conn_id).get_credentials(), [WEBMASTERS])
            credentials.refresh(request())
        except (faults.DefaultCredentialsError, faults.RefreshError) as error:
            kind = NotAcceptedError if getattr(error, "retryable", False) else ConfigurationError
            raise kind(
                f"connection {conn_id!r} gives no Google token for {WEBMASTERS}: {type(error).__name__}: {error}"
            ) from error
        return str(credentials.token)

    return token
