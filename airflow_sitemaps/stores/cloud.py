"""Parts of stores over a cloud's own client: one client for each connection, and what a failed call means."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from airflow_sitemaps.errors import ConfigurationError, CredentialsError, SitemapError, StoreError
from airflow_sitemaps.ports import PutOutcomeError, Update
from airflow_sitemaps.stores.bucket import redacted, safe_cause
from airflow_sitemaps.waits import waiting

if TYPE_CHECKING:
    from airflow_sitemaps.ports import PutMode


class Client(Protocol):
    """The client of a cloud."""

    def close(self) -> None:
        """Close its connections."""


T = TypeVar("T", bound=Client)

ARCHIVED: Final = (
    "A lifecycle rule archived the object: restore it, and exclude both prefixes of the store from the rule"
)

NO_CREDENTIALS: Final = frozenset(
    {
        "AirflowNotFoundException",
        "CredentialRetrievalError",
        "DefaultCredentialsError",
        "NoCredentialsError",
        "PartialCredentialsError",
    }
)
"""Errors that a metadata service or secrets backend without an answer can cause, so a retry may help."""


class Connections(Generic[T]):
    """One client for each process and Airflow connection. Thread-safe; made again after a fork.

    Messages name the store by ``kind``, and the ``distribution`` that installs the client.
    """

    def __init__(self, kind: str, distribution: str, connect: Callable[[str | None], T]) -> None:
        self._kind = kind
        self._distribution = distribution
        self._connect = connect
        self._lock = threading.Lock()
        self._clients: dict[tuple[int, str | None], T] = {}

    def of(self, conn_id: str | None) -> T:
        """Return the client of a connection, or raise ConfigurationError if it makes none."""
        with self._lock:
            name = (os.getpid(), conn_id)
            if name not in self._clients:
                self._clients[name] = self._connected(conn_id)
            return self._clients[name]

    def close(self, *conn_ids: str | None) -> None:
        """Close the clients of some or all connections, so that changed ones are read."""
        with self._lock:
            for name in [name for name in self._clients if not conn_ids or name[1] in conn_ids]:
                self._clients.pop(name).close()

    def forget(self, client: T) -> None:
        """Read the connection of a client again when the next one is needed. Calls that use the client go on."""
        with self._lock:
            self._clients = {name: each for name, each in self._clients.items() if each is not client}

    def _connected(self, conn_id: str | None) -> T:
        try:
            return self._connect(conn_id)
        except ConfigurationError:
            raise
        except ImportError as e:
            raise ConfigurationError(
                f"{self._kind} needs packages that are not installed ({e}): pip install '{self._distribution}'"
            ) from e
        except Exception as e:
            # Airflow and the clients raise many unrelated types here, all for a connection that cannot be used.
            kind = CredentialsError if type(e).__name__ in NO_CREDENTIALS else ConfigurationError
            raise kind(
                f"no client of {self._kind} can be created from connection {conn_id!r} "
                f"({type(e).__name__}: {redacted(str(e))}). Check its credentials, and its host or endpoint"
            ) from e


class Missing(Exception):  # noqa: N818 - an answer, not an error
    """The object does not exist, or is another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudFailure:
    """A call that failed.

    Attributes:
        call: Operation and address.
        text: What the store or its client said.
        code: The store's code of the error. Default: none.
        status: HTTP status. Default: 0, no answer.
        request_id: ID of the request, for the store's support. Default: none.
        advice: Next step, where a retry cannot help. Default: a retry may.
        again: Next step before a retry. Default: to check the network and the store.
        lacks_credentials: Whether the client found no credentials.
        exists: Whether the store said that the object exists already.
        is_unclear: Whether the store requested another attempt, with whatever status, so that a put may have taken effect.
    """

    call: str
    text: str
    code: str = ""
    status: int = 0
    request_id: str = ""
    advice: str = ""
    again: str = ""
    lacks_credentials: bool = False
    exists: bool = False
    is_unclear: bool = False

    def __str__(self) -> str:
        said = " ".join(redacted(self.text).split())[:300].rstrip(". ")
        if not self.status:
            return f"{self.call}: {said}"
        code = f"{self.code}: " if self.code and not said.startswith(self.code) else ""
        return f"{self.call}: {code}{said} (status {self.status}, request id {self.request_id or 'none'})"

    def error(self) -> SitemapError:
        """Return the error to raise: whether a retry helps, and the next step."""
        if self.lacks_credentials:
            return CredentialsError(f"{self}. Check the Airflow connection, or the identity of this machine")
        if self.advice:
            return ConfigurationError(f"{self}. {self.advice}")
        again = self.again or "Check the network and the store's health, then run again"
        return StoreError(f"{self}. {again}")

    def put_error(self, refusals: Mapping[int, str]) -> Exception:
        """Return the error of a failed put: a clear refusal (by status), a wrong setting, or an unclear outcome."""
        if self.advice or self.lacks_credentials:
            return self.error()
        if self.exists:
            return PutOutcomeError(f"{self}: an object exists already", definite=True)
        if self.status in refusals and not self.is_unclear:
            return PutOutcomeError(f"{self}: {refusals[self.status]}", definite=True)
        if self.is_unclear or self.status == 0 or self.status >= 500 or self.status in (408, 409, 429):
            return PutOutcomeError(f"{self}: it may or may not have been written", definite=False)
        return self.error()


@contextmanager
def calling(
    call: str,
    bound: str,
    errors: tuple[type[Exception], ...],
    failure_of: Callable[[str, Exception], CloudFailure],
    *,
    mode: PutMode | None,
    forget: Callable[[], None],
    is_copy: bool = False,
    missing: Collection[int] = (404,),
) -> Iterator[None]:
    """Name the wait for a call in the log, and translate its errors.

    ``mode`` is the condition of a put or copy; None: the call is neither. A status of ``missing`` raises ``Missing``,
    unless the failure has an advice, such as that the bucket does not exist. ``forget`` is called before any other error of
    a reading call, because the connection may be corrected meanwhile.
    """
    try:
        with waiting(call, bound):
            yield
    except errors as e:
        failure = failure_of(call, e)
        if mode is not None:
            refusals = dict.fromkeys((304, 412), f"the condition {mode} does not hold")
            if is_copy or isinstance(mode, Update):
                refusals[404] = "there is no object"
            raise failure.put_error(refusals) from safe_cause(e)
        if failure.status in missing and not failure.advice:
            raise Missing from None
        forget()
        raise failure.error() from safe_cause(e)
