"""Access rules: the network addresses that the client may connect to. They prevent server-side request forgery."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from airflow_sitemaps.errors import TransientError

if TYPE_CHECKING:
    from collections.abc import Callable

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
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
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
        if is_metadata(address):
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


def is_metadata(address: str) -> bool:
    """Return whether a cloud gives out credentials at an IP address."""
    return _unwrapped(address) in _METADATA


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
