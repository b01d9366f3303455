"""A hardened HTTP client for untrusted URLs.

It requests https only by default, applies an optional list of hosts, and connects to no private address, not even
after a redirect. It connects to the IP address that it checked, so DNS rebinding has no effect. It bounds the bytes and
the total time of a call. It uses no proxy, cookie, netrc file or environment variable.
"""

from __future__ import annotations

import http.client
import queue
import socket
import ssl
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urljoin

from airflow_sitemaps.http.destinations import AccessError, AccessRules, FetchError
from airflow_sitemaps.waits import waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_sitemaps.http.destinations import Destination

__all__ = ["AccessError", "FetchError", "Fetched", "HttpClient"]

USER_AGENT: Final = "airflow-sitemaps (Apache Airflow provider)"
MAX_REDIRECTS: Final = 5
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_READ_BYTE_SIZE: Final = 64 * 1024
_SAFE: Final = "%/:?#[]@!$&'()*+,;=~-._"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A response: its body as received, without decoding, its headers by lower-case name, and all requested addresses."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    chain: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """The address that responded, after all redirects; empty if the reader records none."""
        return self.chain[-1] if self.chain else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpClient:
    """An HTTP client with access rules and limits.

    Attributes:
        wait_s: Longest duration of one call in seconds, name look-ups and redirects included.
        max_byte_size: Size in bytes of the largest body, as transferred.
    """

    rules: AccessRules = field(default_factory=AccessRules)
    wait_s: float = 30.0
    max_byte_size: int = 64 << 20
    user_agent: str = USER_AGENT
    tls: ssl.SSLContext | None = None
    resolver: Callable[..., list[tuple[object, ...]]] = field(default=socket.getaddrinfo)  # type: ignore[assignment]

    def get(self, url: str) -> Fetched:
        """Return the response after up to ``MAX_REDIRECTS`` redirects that the rules allow, or raise FetchError."""
        deadline = time.monotonic() + self.wait_s
        chain: list[str] = []
        current = quote(url, safe=_SAFE, errors="replace")
        while True:
            chain.append(current)
            response = self._once("GET", current, None, {"Accept-Encoding": "gzip"}, deadline)
            target = response.headers.get("location", "")
            if response.status not in _REDIRECTS or not target:
                return Fetched(status=response.status, body=response.body, headers=response.headers, chain=tuple(chain))
            if len(chain) > MAX_REDIRECTS:
                raise FetchError(f"{chain[0]}: more than {MAX_REDIRECTS} redirects")
            try:
                current = urljoin(current, quote(target, safe=_SAFE))
            except ValueError as error:
                raise FetchError(f"{chain[0]}: redirects to {target[:200]!r}, which is not a URL") from error
            if current in chain:
                raise FetchError(f"{chain[0]}: redirect loop to {current}")

    def send(
        self, method: str, url: str, *, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Fetched:
        """Send one request, or raise FetchError. It is meant for this address only, so redirects are not followed."""
        return self._once(method, url, body, dict(headers or {}), time.monotonic() + self.wait_s)

    def _once(self, method: str, url: str, body: bytes | None, headers: dict[str, str], deadline: float) -> Fetched:
        destination = self.rules.destination(url)
        with waiting(f"{method} {destination.authority}", f"It ends after {self.wait_s:g} s at the latest"):
            return self._exchange(method, url, destination, body, headers, deadline)

    def _exchange(
        self,
        method: str,
        url: str,
        destination: Destination,
        body: bytes | None,
        headers: dict[str, str],
        deadline: float,
    ) -> Fetched:
        addresses = self._addresses(destination, deadline)
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
                raise FetchError(f"{destination.host}: no complete response within {self.wait_s:g} s") from error
            if isinstance(error, FetchError):
                raise
            raise FetchError(f"{destination.host}: {type(error).__name__}: {error}") from error
        finally:
            watch.cancel()
            connection.close()

    def _addresses(self, destination: Destination, deadline: float) -> list[str]:
        """Look up the host in another thread, because nothing else can end a look-up. It ends itself later."""
        answer: queue.SimpleQueue[list[str] | Exception] = queue.SimpleQueue()

        def look_up() -> None:
            try:
                answer.put(self.rules.resolve(destination, self.resolver))
            except Exception as error:
                answer.put(error)

        threading.Thread(target=look_up, name=f"look-up-{destination.host}", daemon=True).start()
        try:
            addresses = answer.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise FetchError(f"{destination.host}: the host name is not resolved within {self.wait_s:g} s") from None
        if isinstance(addresses, Exception):
            raise addresses
        return addresses

    def _body(self, response: http.client.HTTPResponse, url: str) -> bytes:
        declared = response.length
        parts: list[bytes] = []
        byte_size = 0
        while declared is None or declared <= self.max_byte_size:
            part = response.read(_READ_BYTE_SIZE)
            if not part:
                if declared is not None and byte_size < declared and response.length:
                    raise FetchError(f"{url}: the response ends after {byte_size:,} of {declared:,} bytes")
                return b"".join(parts)
            byte_size += len(part)
            if byte_size > self.max_byte_size:
                break
            parts.append(part)
        raise FetchError(f"{url}: the response is too large (limit {self.max_byte_size:,} bytes)")


class _Connection(http.client.HTTPConnection):
    """A connection to IP addresses that are already checked. TLS verifies the host name."""

    def __init__(self, destination: Destination, addresses: list[str], client: HttpClient, deadline: float) -> None:
        super().__init__(destination.host, destination.port)
        self._destination = destination
        self._addresses = addresses
        self._client = client
        self._deadline = deadline
        self._watched: socket.socket | None = None
        self.aborted = False

    def connect(self) -> None:
        """Connect to the first address that accepts."""
        last: OSError | None = None
        for address in self._addresses:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("no time left to connect")
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
            wrapped.do_handshake()  # a separate step, so that ``abort`` can interrupt it

    def abort(self) -> None:
        """Interrupt every wait on the socket, from another thread. A response takes it over, so a reference is kept."""
        self.aborted = True
        if self._watched is not None:
            try:
                socket.socket.shutdown(self._watched, socket.SHUT_RDWR)
            except OSError:
                return


def _headers(response: http.client.HTTPResponse) -> dict[str, str]:
    """Return headers by lower-case name. Repeated headers are joined with commas."""
    joined: dict[str, str] = {}
    for name, value in response.getheaders():
        key = name.lower()
        joined[key] = f"{joined[key]}, {value}" if key in joined else value
    return joined
