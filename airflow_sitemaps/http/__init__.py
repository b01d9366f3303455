"""A hardened HTTP client for untrusted URLs, and its access rules, which prevent server-side request forgery.

It requests https only by default, applies an optional list of hosts, and connects to no private address, not even
after a redirect. It connects to the IP address that it checked, so DNS rebinding has no effect. It bounds the bytes and
the total time of a call. It uses no proxy, cookie, netrc file or environment variable.
"""

from __future__ import annotations

import http.client
import ipaddress
import queue
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

from airflow_sitemaps.errors import TransientError
from airflow_sitemaps.waits import waiting

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64: Final = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))
_NOT_PUBLIC: Final = tuple(
    ipaddress.ip_network(network)
    for network in ("192.0.0.0/24", "192.88.99.0/24", "3fff::/20", "5f00::/16", "fec0::/10")
)
"""Special networks (IANA special-purpose registries) that Python, or an older one, counts as global."""

_METADATA: Final = frozenset(
    ipaddress.ip_address(address)
    for address in (
        "169.254.169.254", "fd00:ec2::254",  # AWS, Azure, Google, Oracle, OpenStack and others
        "169.254.170.2", "169.254.170.23", "fd00:ec2::23",  # AWS: containers
        "169.254.0.23",  # Tencent
        "168.63.129.16",  # Azure
        "fd20:ce::254",  # Google
        "100.100.100.200",  # Alibaba
        "192.0.0.192",  # Oracle
    )
)  # fmt: skip
"""Addresses at which a cloud gives a machine its credentials and settings. No site is there, and no rule allows them."""

_PORTS: Final = {"http": 80, "https": 443}


class FetchError(TransientError):
    """An address cannot be read: no response, too slow, too large, or refused by the client's access rules."""


class AccessError(FetchError):
    """The access rules do not allow an address. A retry is refused in the same way."""


class RedirectError(FetchError):
    """The site answers with a redirect that leads nowhere: a loop, too many, or a target that the access rules do not allow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """The network destination of a URL; ``target`` is its path and query, for the request line."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """The value of the ``Host`` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def is_same_host(self, other: Destination) -> bool:
        """Return whether scheme, host and port are the same."""
        return (self.scheme, self.host, self.port) == (other.scheme, other.host, other.port)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRules:
    """The destinations that a client may request.

    Attributes:
        hosts: Host names that are allowed. Default: None, all of them.
        allow_private: Whether addresses outside the public Internet (loopback, private, link-local, reserved) are
            allowed, for sites inside your own network. Default: False.
    """

    hosts: frozenset[str] | None = None
    allow_http: bool = False
    allow_private: bool = False

    def destination(self, url: str) -> Destination:
        """Return the destination of a URL."""
        try:
            parts = urlsplit(url)
            scheme, host, port = parts.scheme.lower(), (parts.hostname or "").rstrip("."), parts.port
        except ValueError as error:
            raise AccessError(f"{url[:200]!r} is not a URL: {error}") from error
        if scheme == "http" and not self.allow_http:
            raise AccessError(
                f"{_shown(url)}: only https is allowed. To read a site without TLS pass --allow-http in the shell, or "
                "AccessRules(allow_http=True) in Python"
            )
        if scheme not in _PORTS:
            raise AccessError(f"{_shown(url)}: only {'http and https are' if self.allow_http else 'https is'} allowed")
        if parts.username is not None or parts.password is not None:
            raise AccessError(f"{_shown(url)}: a URL with credentials is not allowed")
        if not host or any(character <= " " or character == "\x7f" for character in url) or not url.isascii():
            raise AccessError(f"{_shown(url)}: the host is missing, or characters are not percent-encoded")
        if self.hosts is not None and host not in self.hosts:
            raise AccessError(f"{_shown(url)}: the host is not one of {', '.join(sorted(self.hosts))}")
        target = (parts.path or "/") + (f"?{parts.query}" if "?" in url.partition("#")[0] else "")
        return Destination(scheme=scheme, host=host, port=port or _PORTS[scheme], target=target)

    def resolve(self, destination: Destination, resolver: Callable[..., list[tuple[object, ...]]]) -> list[str]:
        """Return the IP addresses of the host; refuse it if one is not allowed: such a name is to bypass the rules."""
        try:
            records = resolver(destination.host, destination.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise FetchError(f"{destination.host}: the host name cannot be resolved ({error})") from error
        addresses = list(dict.fromkeys(str(info[4][0]) for info in records))  # type: ignore[index]
        if not addresses:
            raise FetchError(f"{destination.host}: the host name has no address")
        for address in addresses:
            self.check(destination.host, address)
        return addresses

    def check(self, host: str, address: str) -> None:
        """Check an IP address of a host."""
        if _unwrapped(address) in _METADATA:
            raise AccessError(
                f"{host}: {address} gives out the credentials of a cloud's machine, and is never requested"
            )
        if not self.allow_private and not is_public(address):
            raise AccessError(
                f"{host}: its address {address} is not of the public Internet. If the site is inside your own network, "
                "pass --allow-private in the shell, or AccessRules(allow_private=True) in Python"
            )


def is_public(address: str) -> bool:
    """Return whether an IP address belongs to the public Internet. An IPv4 address inside an IPv6 address is unwrapped."""
    ip = _unwrapped(address)
    if ip is None or ip in _METADATA or any(ip in network for network in _NOT_PUBLIC):
        return False
    outside = ip.is_multicast or ip.is_reserved or ip.is_unspecified or ip.is_loopback or ip.is_link_local
    return ip.is_global and not outside


def _unwrapped(address: str) -> Address | None:
    """Return an IP address, or the IPv4 address inside it; None if it is not an address."""
    try:
        ip: Address = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if inner is None and any(ip in network for network in _NAT64):
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        return inner or ip
    return ip


def _shown(url: str) -> str:
    """Return a URL for a message, without credentials and query, which may be secrets."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "a URL"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"[:300]


USER_AGENT: Final = "airflow-sitemaps (Apache Airflow provider)"
MAX_REDIRECTS: Final = 5
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_READ_BYTE_SIZE: Final = 64 * 1024
HEADER_VALUE: Final = re.compile(r"[^\x00\r\n\u0100-\U0010ffff]*")
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
        headers: Headers of requests to the host of ``origin``, an address, such as credentials. Another host, of a redirect
            too, never gets them. Default: none.
    """

    rules: AccessRules = field(default_factory=AccessRules)
    wait_s: float = 30.0
    max_byte_size: int = 64 << 20
    user_agent: str = USER_AGENT
    tls: ssl.SSLContext | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    origin: str = ""
    resolver: Callable[..., list[tuple[object, ...]]] = field(default=socket.getaddrinfo)  # type: ignore[assignment]

    def get(self, url: str) -> Fetched:
        """Return the response after up to ``MAX_REDIRECTS`` redirects that the rules allow, or raise FetchError."""
        deadline = time.monotonic() + self.wait_s
        chain: list[str] = []
        current = quote(url, safe=_SAFE, errors="replace")
        while True:
            chain.append(current)
            try:
                response = self._once("GET", current, None, {"Accept-Encoding": "gzip"}, deadline)
            except AccessError as error:
                if len(chain) == 1:
                    raise
                raise RedirectError(f"{chain[0]}: redirects to an address that is not allowed. {error}") from error
            target = response.headers.get("location", "")
            if response.status not in _REDIRECTS or not target:
                return Fetched(status=response.status, body=response.body, headers=response.headers, chain=tuple(chain))
            if len(chain) > MAX_REDIRECTS:
                raise RedirectError(f"{chain[0]}: more than {MAX_REDIRECTS} redirects")
            try:
                # A header is read as Latin-1, so this gives the bytes that the server sent.
                current = urljoin(current, quote(target.encode("latin-1", "replace"), safe=_SAFE))
            except ValueError as error:
                raise RedirectError(f"{chain[0]}: redirects to {target[:200]!r}, which is not a URL") from error
            if current in chain:
                raise RedirectError(f"{chain[0]}: redirect loop to {current}")

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
        own = self.headers if self.origin and self.rules.destination(self.origin).is_same_host(destination) else {}
        sent = {"Host": destination.authority, "User-Agent": self.user_agent, "Accept": "*/*", **own, **headers}
        for name, value in sent.items():
            if not HEADER_VALUE.fullmatch(value):  # http.client would say the value, which may be a secret
                raise AccessError(
                    f"{destination.host}: the value of the header {name!r} has a line end, or a character that no header may have"
                )
        connection = _Connection(destination, addresses, self, deadline)
        watch = threading.Timer(max(0.0, deadline - time.monotonic()), connection.abort)
        watch.daemon = True
        watch.start()
        try:
            connection.request(method, destination.target, body=body, headers=sent)
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


class _Response(http.client.HTTPResponse):
    def _read_status(self) -> tuple[str, int, str]:
        """Skip interim responses, such as 103 Early Hints (RFC 9110, 15.2). http.client itself skips only 100."""
        while True:
            version, status, reason = super()._read_status()  # type: ignore[misc]
            if not 102 <= status < 200:
                return version, status, reason
            http.client.parse_headers(self.fp)


class _Connection(http.client.HTTPConnection):
    """A connection to IP addresses that are already checked. TLS verifies the host name."""

    response_class = _Response

    def __init__(self, destination: Destination, addresses: list[str], client: HttpClient, deadline: float) -> None:
        super().__init__(destination.host, destination.port)
        self._destination = destination
        self._addresses = addresses
        self._client = client
        self._deadline = deadline
        self._watched: socket.socket | None = None
        self.aborted = False

    def connect(self) -> None:
        """Connect to the first address that accepts. Each gets an equal share of the time that is left."""
        last: OSError | None = None
        for number, address in enumerate(self._addresses):
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("no time left to connect")
            share = left / (len(self._addresses) - number)
            try:
                self._watched = self.sock = socket.create_connection((address, self.port), timeout=share)
                self.sock.settimeout(left)
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
            with suppress(OSError):
                socket.socket.shutdown(self._watched, socket.SHUT_RDWR)


def _headers(response: http.client.HTTPResponse) -> dict[str, str]:
    """Return headers by lower-case name. Repeated headers are joined with a comma and a line feed, which none of them has."""
    joined: dict[str, str] = {}
    for name, value in response.getheaders():
        key, text = name.lower(), value.rstrip(" \t")  # http.client keeps this white space (RFC 9110, 5.5)
        joined[key] = f"{joined[key]},\n{text}" if key in joined else text
    return joined
