"""A hardened HTTP client, for addresses that strangers wrote: small, bounded, and without any credentials.

https unless allowed otherwise, an allow-list of hosts where one is given, no private address on any redirect (the
address that is checked is the one connected to, so a name cannot change in between), caps on bytes and on seconds in
all, no proxy, cookie, netrc or environment.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urljoin

from airflow_sitemaps.notify.destinations import Rules
from airflow_sitemaps.pipeline.fetching import Fetched, FetchError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_sitemaps.notify.destinations import Destination

USER_AGENT: Final = "airflow-sitemaps (Apache Airflow provider)"
MAX_REDIRECTS: Final = 5
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_READ_BYTE_SIZE: Final = 64 * 1024
_SAFE: Final = "%/:?#[]@!$&'()*+,;=~-._"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpClient:
    """Asks addresses. ``rules`` say which; ``wait_s`` is for everything behind one call, redirects included.

    ``max_byte_size`` is of a body as it comes over the wire. ``tls`` and ``resolver`` are seams for tests.
    """

    rules: Rules = field(default_factory=Rules)
    wait_s: float = 30.0
    max_byte_size: int = 64 << 20
    user_agent: str = USER_AGENT
    tls: ssl.SSLContext | None = None
    resolver: Callable[..., list[tuple[object, ...]]] = field(default=socket.getaddrinfo)  # type: ignore[assignment]

    def get(self, url: str) -> Fetched:
        """The answer behind at most five redirects, each of them checked anew. Raises FetchError."""
        deadline = time.monotonic() + self.wait_s
        chain: list[str] = []
        current = quote(url, safe=_SAFE, errors="replace")
        while True:
            chain.append(current)
            answer = self._once("GET", current, None, {"Accept-Encoding": "gzip"}, deadline)
            target = answer.headers.get("location", "")
            if answer.status not in _REDIRECTS or not target:
                return Fetched(status=answer.status, body=answer.body, headers=answer.headers, chain=tuple(chain))
            if len(chain) > MAX_REDIRECTS:
                raise FetchError(f"{chain[0]}: more than {MAX_REDIRECTS} redirects")
            try:
                current = urljoin(current, quote(target, safe=_SAFE))
            except ValueError as error:
                raise FetchError(f"{chain[0]}: redirects to {target[:200]!r}, which is no address") from error
            if current in chain:
                raise FetchError(f"{chain[0]}: redirects in a circle, to {current}")

    def send(
        self, method: str, url: str, *, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Fetched:
        """One request, whose redirects are not followed: what is sent is meant for this address. Raises FetchError."""
        return self._once(method, url, body, dict(headers or {}), time.monotonic() + self.wait_s)

    def _once(self, method: str, url: str, body: bytes | None, headers: dict[str, str], deadline: float) -> Fetched:
        destination = self.rules.destination(url)
        addresses = self.rules.resolve(destination, self.resolver)
        connection = _Connection(destination, addresses, self, deadline)
        watch = threading.Timer(max(0.0, deadline - time.monotonic()), connection.abort)
        watch.daemon = True
        watch.start()
        try:
            connection.request(
                method, destination.target, body=body,
                headers={"Host": destination.authority, "User-Agent": self.user_agent, "Accept": "*/*", **headers},
            )  # fmt: skip
            with connection.getresponse() as response:
                body_read = self._body(response, url)
            if connection.aborted:
                raise TimeoutError
            return Fetched(status=response.status, body=body_read, headers=_headers(response), chain=(url,))
        except (OSError, http.client.HTTPException, ValueError, FetchError) as error:
            if connection.aborted or isinstance(error, TimeoutError):
                raise FetchError(f"{destination.host}: no whole answer within {self.wait_s:g} s") from error
            if isinstance(error, FetchError):
                raise
            raise FetchError(f"{destination.host}: {type(error).__name__}: {error}") from error
        finally:
            watch.cancel()
            connection.close()

    def _body(self, response: http.client.HTTPResponse, url: str) -> bytes:
        declared = response.length
        parts: list[bytes] = []
        byte_size = 0
        while declared is None or declared <= self.max_byte_size:
            part = response.read(_READ_BYTE_SIZE)
            if not part:
                if declared is not None and byte_size < declared and response.length:
                    raise FetchError(f"{url}: the answer ends after {byte_size:,} of {declared:,} bytes")
                return b"".join(parts)
            byte_size += len(part)
            if byte_size > self.max_byte_size:
                break
            parts.append(part)
        raise FetchError(f"{url}: the answer has more than {self.max_byte_size:,} bytes")


class _Connection(http.client.HTTPConnection):
    """Connects to addresses that were checked, never to a name; TLS is for the name."""

    def __init__(self, destination: Destination, addresses: list[str], client: HttpClient, deadline: float) -> None:
        super().__init__(destination.host, destination.port)
        self._destination = destination
        self._addresses = addresses
        self._client = client
        self._deadline = deadline
        self._watched: socket.socket | None = None
        self.aborted = False

    def connect(self) -> None:
        """Try the addresses in turn."""
        last: OSError | None = None
        for address in self._addresses:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("no time is left to connect")
            try:
                self._watched = self.sock = socket.create_connection((address, self.port), timeout=left)
                break
            except OSError as error:
                last = error
        else:
            raise last or OSError("no address to connect to")
        self._client.rules.check(self.host, str(self.sock.getpeername()[0]))
        if self._destination.scheme == "https":
            context = self._client.tls or ssl.create_default_context()
            wrapped = context.wrap_socket(self.sock, server_hostname=self.host, do_handshake_on_connect=False)
            self._watched = self.sock = wrapped
            wrapped.do_handshake()  # apart, so that ``abort`` can end it

    def abort(self) -> None:
        """End whatever waits on the socket: time is up. Called by another thread.

        The connection itself forgets its socket once a response has taken it over; hence one of our own.
        """
        self.aborted = True
        if self._watched is not None:
            try:
                socket.socket.shutdown(self._watched, socket.SHUT_RDWR)
            except OSError:
                return


def _headers(response: http.client.HTTPResponse) -> dict[str, str]:
    """Headers in lower case; those that come several times are joined with commas."""
    joined: dict[str, str] = {}
    for name, value in response.getheaders():
        key = name.lower()
        joined[key] = f"{joined[key]}, {value}" if key in joined else value
    return joined
