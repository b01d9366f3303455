"""Parts of stores over a cloud's own client: one client for each connection, and what a failed call means."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from airflow_sitemaps.errors import ConfigurationError, CredentialsError, StoreError
from airflow_sitemaps.ports import PutOutcomeError
from airflow_sitemaps.stores.bucket import redacted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_sitemaps.errors import SitemapError

T = TypeVar("T")

MISSING_CONNECTION: Final = "AirflowNotFoundException"


class Connections(Generic[T]):
    """One client for each process and Airflow connection. Thread-safe; made again after a fork.

    Messages name the store by ``kind``, and ``extra``, the extra of this package that installs the client.
    """

    def __init__(self, kind: str, extra: str, connect: Callable[[str | None], T]) -> None:
        self._kind = kind
        self._extra = extra
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

    def forget(self, *conn_ids: str | None) -> None:
        """Make the clients of some or all connections again, so that changed ones are read."""
        with self._lock:
            for name in [name for name in self._clients if not conn_ids or name[1] in conn_ids]:
                del self._clients[name]

    def _connected(self, conn_id: str | None) -> T:
        try:
            return self._connect(conn_id)
        except ConfigurationError:
            raise
        except ImportError as e:
            raise ConfigurationError(
                f"{self._kind} needs packages that are not installed ({e}): pip install 'airflow-sitemaps[{self._extra}]'"
            ) from e
        except Exception as e:
            # Airflow and the clients raise many unrelated types here, all for a connection that cannot be used.
            kind = CredentialsError if type(e).__name__ == MISSING_CONNECTION else ConfigurationError
            raise kind(
                f"no client of {self._kind} can be created from connection {conn_id!r} "
                f"({type(e).__name__}: {redacted(str(e))}). Check the connection and its credentials"
            ) from e


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudFailure:
    """A call that failed: without an answer, no ``code`` and ``status``. Without ``advice``, a retry may succeed."""

    call: str
    text: str
    code: str = ""
    status: int = 0
    request_id: str = ""
    advice: str = ""
    lacks_credentials: bool = False

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
        return StoreError(f"{self}. Check the network and the store's health, then run again")

    def put_error(self, refusals: Mapping[int, str]) -> Exception:
        """Return the error of a failed put: a clear refusal (by status), a wrong setting, or an unclear outcome."""
        if not self.advice and self.status in refusals:
            return PutOutcomeError(f"{self}: {refusals[self.status]}", definite=True)
        if self.advice or self.lacks_credentials:
            return self.error()
        if self.status == 0 or self.status >= 500 or self.status in (408, 409, 429):
            return PutOutcomeError(f"{self}: it may or may not have been written", definite=False)
        return self.error()
