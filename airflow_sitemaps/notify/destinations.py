"""Which addresses of the network may be connected to: the guard against requests forged by a hostile sitemap."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from airflow_sitemaps.pipeline.fetching import FetchError

if TYPE_CHECKING:
    from collections.abc import Callable

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64: Final = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where a URL leads: host and port, and whether it is asked over TLS. ``target`` is the path and query."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """The ``Host`` header's value."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What may be asked. ``hosts``: names allowed, None for all. ``allow_http``: also without TLS.

    ``allow_private``: also addresses that are not of the public Internet (loopback, private, link-local, reserved);
    for tests and for sites inside a company.
    """

    hosts: frozenset[str] | None = None
    allow_http: bool = False
    allow_private: bool = False

    def destination(self, url: str) -> Destination:
        """Where a URL leads. Raises FetchError when it may not be asked."""
        try:
            parts = urlsplit(url)
            scheme, host, port = parts.scheme.lower(), (parts.hostname or "").rstrip("."), parts.port
        except ValueError as error:
            raise FetchError(f"{url[:200]!r} is no address: {error}") from error
        if scheme not in _PORTS or (scheme == "http" and not self.allow_http):
            raise FetchError(f"{_shown(url)}: only https is asked{' or http' if self.allow_http else ''}")
        if parts.username is not None or parts.password is not None:
            raise FetchError(f"{_shown(url)}: an address with credentials is not asked")
        if not host or any(character <= " " or character == "\x7f" for character in url) or not url.isascii():
            raise FetchError(f"{_shown(url)}: no host, or characters that belong encoded")
        if self.hosts is not None and host not in self.hosts:
            raise FetchError(f"{_shown(url)}: the host is not one of {', '.join(sorted(self.hosts))}")
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return Destination(scheme=scheme, host=host, port=port or _PORTS[scheme], target=target)

    def resolve(self, destination: Destination, resolver: Callable[..., list[tuple[object, ...]]]) -> list[str]:
        """The addresses of the host, every one of them allowed; raises FetchError where one is not.

        A name that leads inside with only one of its addresses is refused whole: it was made to.
        """
        try:
            found = resolver(destination.host, destination.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise FetchError(f"{destination.host}: the name cannot be resolved ({error})") from error
        addresses = list(dict.fromkeys(str(info[4][0]) for info in found))  # type: ignore[index]
        if not addresses:
            raise FetchError(f"{destination.host}: the name has no address")
        for address in addresses:
            self.check(destination.host, address)
        return addresses

    def check(self, host: str, address: str) -> None:
        """Raises FetchError when this address must not be connected to."""
        if not self.allow_private and not is_public(address):
            raise FetchError(
                f"{host}: its address {address} is not of the public Internet, and is not asked; "
                "allow private addresses where the site is inside your own network"
            )


def is_public(address: str) -> bool:
    """Whether an address is of the public Internet; an IPv4 address inside an IPv6 one is looked at as itself."""
    try:
        found: Address = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour or (found.teredo[1] if found.teredo else None)
        if inner is None and any(found in network for network in _NAT64):
            inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
    outside = (
        found.is_multicast or found.is_reserved or found.is_unspecified or found.is_loopback or found.is_link_local
    )
    return found.is_global and not outside


def _shown(url: str) -> str:
    """An address for a message, without credentials and query: they may be secrets."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"[:300]
