"""Calls of web services (purge hooks, IndexNow, Search Console, pings): secrets, retries, what a refusal means."""

from __future__ import annotations

import json
import logging
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from functools import partial
from math import inf
from typing import Any, Final, Protocol, TypeVar

from airflow_sitemaps import setting_checks
from airflow_sitemaps.errors import ConfigurationError, CredentialsError, SitemapError, TransientError
from airflow_sitemaps.http import HEADER_VALUE, USER_AGENT, AccessError, AccessRules, Fetched, FetchError, HttpClient
from airflow_sitemaps.http.page_judge import MAX_PAGE_BYTE_SIZE, PAGE_WAIT_S
from airflow_sitemaps.waits import repeated

T = TypeVar("T")

log = logging.getLogger(__name__)

ATTEMPTS: Final = 4
PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 60.0
"""Longest pause in seconds. If a service requests a longer one, the call fails, and the task's retry comes later."""

_EXCERPT: Final = 300
_GOOGLE_QUOTA: Final = frozenset({"rateLimitExceeded", "userRateLimitExceeded", "quotaExceeded", "dailyLimitExceeded"})
"""Reasons of a 403 response of a Google API that are temporary."""


class NotAcceptedError(TransientError):
    """The service currently cannot accept the request. It requests a pause of ``wait_s`` seconds; None: it does not."""

    def __init__(self, message: str, *, wait_s: float | None = None, status: int | None = None) -> None:
        super().__init__(message)
        self.wait_s = wait_s
        self.status = status


class Sender(Protocol):
    """Sends one request, like ``HttpClient.send``."""

    def send(
        self, method: str, url: str, *, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Fetched:
        """Return the response with any status, or raise FetchError if there is none."""


def client_for(*hosts: str) -> HttpClient:
    """Return a client that may connect to these hosts only, and reads responses of up to 1 MiB."""
    return HttpClient(rules=AccessRules(hosts=frozenset(hosts)), max_byte_size=1 << 20)


def public_client() -> HttpClient:
    """Return a client that requests public https addresses, and reads responses of up to 1 MiB."""
    return HttpClient(max_byte_size=1 << 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A web service. ``busy`` returns why a response without success asks to try again later, or the empty text.

    Messages say the ``reasons`` of a status and what to do about it, and never a ``secret``.
    """

    sender: Sender
    reasons: Mapping[int, str] = field(default_factory=dict)
    secret: str | tuple[str, ...] = field(default=(), repr=False)
    success: range | frozenset[int] = range(200, 300)
    busy: Callable[[Fetched], str] = lambda response: ""
    attempts: int = ATTEMPTS
    sleep: Callable[[float], None] = time.sleep

    def call(
        self, what: str, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> Fetched:
        """Send a request, and again while the service is busy. Return the response of success. Messages say ``what``.

        It raises ConfigurationError if a retry fails in the same way, NotAcceptedError if the service is still busy or
        requests a long pause, FetchError if there is no response or the access rules do not allow the address.
        """
        retrying = repeated(
            NotAcceptedError, FetchError, attempts=self.attempts, pause_s=PAUSE_S, longest_pause_s=LONGEST_PAUSE_S,
            log=log, sleep=self.sleep, requested_s=_requested_s,
        )  # fmt: skip
        return retrying(partial(self._once, what, method, url, headers=headers, body=body))

    def _once(self, what: str, method: str, url: str, **request: Any) -> Fetched:
        response = self.sender.send(method, url, **request)
        if response.status in self.success:
            return response
        raise self._refusal(what, response)

    def _refusal(self, what: str, response: Fetched) -> SitemapError:
        status, busy = response.status, self.busy(response)
        reason = busy or self.reasons.get(status, "")
        said = excerpt(response.body, self.secret)
        message = f"{what}: the response has status {status}{f': {reason}' if reason else ''}"
        message += f" (response: {said})" if said else ""
        if not busy and not is_transient(status):
            return ConfigurationError(message)
        wait_s = retry_after(response.headers.get("retry-after", ""))
        asked = "" if wait_s is None else f"; retry after {wait_s:,.0f} s"
        return NotAcceptedError(f"{message}{asked}. Try again later", wait_s=wait_s, status=status)


def _requested_s(error: BaseException) -> float | None:
    """Return the pause that an error requests; an endless one if no retry can help."""
    return inf if isinstance(error, AccessError) else getattr(error, "wait_s", None)


def is_transient(status: int) -> bool:
    """Return whether the same request may succeed after a response with this status."""
    return status in (408, 425, 429) or status >= 500


def google_busy(response: Fetched) -> str:
    """Return that a quota of a Google API is used up for now, if a response says so; otherwise the empty text."""
    try:
        reasons = {str(error["reason"]) for error in json.loads(response.body)["error"]["errors"]}
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return "the quota is used up" if response.status == 403 and _GOOGLE_QUOTA & reasons else ""


def excerpt(body: bytes, secret: str | tuple[str, ...] = ()) -> str:
    """Return the beginning of a response on one line, without the secrets."""
    text = body[: 256 * _EXCERPT].decode(errors="replace")
    for each in sorted((secret,) if isinstance(secret, str) else secret, key=len, reverse=True):
        text = text.replace(each, "***") if each else text
    text = " ".join(text.split())
    text = "".join(character for character in text if character.isprintable())
    return text if len(text) <= _EXCERPT else text[:_EXCERPT] + " …"


def parsed(what: str, response: Fetched, parse: Callable[[Any], T], secret: str = "") -> T:
    """Return what ``parse`` makes of a response in JSON. Raise NotAcceptedError if the response has another form."""
    try:
        return parse(json.loads(response.body))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        said = excerpt(response.body, secret)
        raise NotAcceptedError(f"{what}: the response cannot be parsed ({said!r})") from error


def retry_after(value: str, now: datetime | None = None) -> float | None:
    """Return the seconds of a ``Retry-After`` header (RFC 9110, 10.2.3), a number or a date; None if it is neither."""
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError, OverflowError):
        return None
    at = at if at.tzinfo else at.replace(tzinfo=timezone.utc)
    return max(0.0, (at - (now or datetime.now(timezone.utc))).total_seconds())


DATABASES: Final = "clickhouse databricks duckdb gcpbigquery mssql mysql oracle postgres presto redshift snowflake sqlite trino vertica"
"""Types of connections whose password goes to no web service: ``default_args`` of a DAG may name one as ``conn_id``."""


def password(conn_id: str, what: str) -> str:
    """Return the password of an Airflow connection. ``what`` it is, is for messages: ``the IndexNow key``.

    A missing connection is a CredentialsError, because a secrets backend may answer the next time; a missing password
    is a ConfigurationError.
    """
    return password_and_extra(conn_id, what)[0]


def password_and_extra(conn_id: str, what: str) -> tuple[str, dict[str, Any]]:
    """Return the password and the extra of an Airflow connection. Raise the same errors as ``password``."""
    connection = _connection(conn_id, what)
    if connection.conn_type in DATABASES.split():
        raise ConfigurationError(
            f"connection {conn_id!r} has the type {connection.conn_type!r}: its password is not {what}, and is not sent. Give the "
            "task a conn_id= of its own; that of the DAG's default_args is for its database"
        )
    secret = str(connection.password or "").strip()  # a secrets backend may add a line end
    if not secret:
        raise ConfigurationError(f"connection {conn_id!r} has no password. Set {what} as its password")
    return secret, connection.extra_dejson


def _connection(conn_id: str, what: str) -> Any:
    from airflow.sdk import BaseHook  # noqa: PLC0415 - Airflow takes seconds to import

    from airflow_sitemaps.airflow_compat import AirflowNotFoundException  # noqa: PLC0415

    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise CredentialsError(
            f"connection {conn_id!r} is not defined in Airflow. Define it with {what} as its password: in the UI, or as "
            f'the environment variable AIRFLOW_CONN_{conn_id.upper()}=\'{{"conn_type": "generic", "password": "…"}}\''
        ) from None
    if not isinstance(connection.extra_dejson, dict):
        raise ConfigurationError(f"connection {conn_id!r}: {setting_checks.NO_OBJECT}")
    return connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Website:
    """How the pages of a website are requested, by a ``Canary(site=…)``.

    Only the host of the section's own address gets what the connection holds, and no log does.

    Attributes:
        conn_id: Airflow connection whose login and password are sent as basic authentication, and whose extra may hold
            ``headers``, such as ``{"headers": {"X-Staging-Token": "…"}}``. Default: None, nothing is sent.
        user_agent: Value of the header ``User-Agent``. Default: the name of this provider.
        allow_http: Whether addresses without TLS may be requested. Default: False.
        allow_private: Whether the site may be inside your own network. Default: False.
    """

    conn_id: str | None = None
    user_agent: str = USER_AGENT
    allow_http: bool = False
    allow_private: bool = False

    def __post_init__(self) -> None:
        for name in ("allow_http", "allow_private"):
            setting_checks.flag("Website", name, getattr(self, name))
        setting_checks.text("Website", "user_agent", self.user_agent, HEADER_VALUE, "one line of Latin-1 characters")
        if self.conn_id is not None:
            setting_checks.instance("Website", "conn_id", self.conn_id, str)

    def fetcher(self, address: str) -> HttpClient:
        """Return a client that sends what the connection holds to the host of an address.

        Raises:
            ConfigurationError: A header of the connection is not valid.
            CredentialsError: The connection is not defined.
        """
        return HttpClient(
            rules=AccessRules(allow_http=self.allow_http, allow_private=self.allow_private),
            wait_s=PAGE_WAIT_S,
            max_byte_size=MAX_PAGE_BYTE_SIZE,
            user_agent=self.user_agent,
            headers=self._headers(),
            origin=address,
        )

    def _headers(self) -> dict[str, str]:
        if self.conn_id is None:
            return {}
        connection = _connection(self.conn_id, "the site's credentials")
        headers = connection.extra_dejson.get("headers", {})
        texts = [*headers.keys(), *headers.values()] if isinstance(headers, dict) else [None]
        if not all(isinstance(text, str) and text.isascii() and text.isprintable() for text in texts):
            raise ConfigurationError(
                f"connection {self.conn_id!r}: the headers of its extra must be an object of printable ASCII texts, like "
                '{"headers": {"X-Staging-Token": "…"}}'
            )
        if connection.login or connection.password:
            pair = f"{connection.login or ''}:{connection.password or ''}"
            headers = {"Authorization": f"Basic {b64encode(pair.encode()).decode()}", **headers}
        return dict(headers)
