"""Crawlers of search engines: the name that they give, and whether an address that gives it is their own."""

from __future__ import annotations

import ipaddress
import json
import logging
import re
import socket
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from urllib.parse import urlsplit

from airflow_sitemaps import setting_checks
from airflow_sitemaps.errors import ConfigurationError, SitemapError
from airflow_sitemaps.http import FetchError
from airflow_sitemaps.pipeline.concurrency import mapped
from airflow_sitemaps.setting_checks import site_of
from airflow_sitemaps.web_services import Sender, Service, client_for

log = logging.getLogger(__name__)

MAX_LOOK_UPS: Final = 1_000
"""Addresses whose names are looked up in one task. Each one may take seconds; those above count as not confirmed."""

_NO_ANSWER: Final = (2, socket.EAI_AGAIN)
"""Error numbers of look-ups that got no answer: TRY_AGAIN of names, EAI_AGAIN of addresses."""

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_AGENT: Final = re.compile(r"[^%_\\]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Crawler:
    """A crawler, by a part of its User-Agent, and how its addresses are recognised.

    Attributes:
        name: Name of the engine, in small letters.
        agent: Part of its User-Agent, in small or capital letters.
        ranges: Its IP ranges (``66.249.64.0/19``), or https addresses of documents that list them, in the form that Google
            and Bing publish. Default: none.
        domains: Domains in which the names of its addresses are, by reverse DNS with forward confirmation. They count
            only if no range can be read. Default: none.
        max_delay: Time after a change within which it should fetch a file. Default: 7 days.

    Raises:
        ConfigurationError: An argument is invalid, or neither ``ranges`` nor ``domains`` are given.
    """

    name: str
    agent: str
    ranges: Sequence[str] = ()
    domains: Sequence[str] = ()
    max_delay: timedelta = timedelta(days=7)

    def __post_init__(self) -> None:
        where = f"Crawler({self.name!r})"
        valid = "a name of letters a-z, digits and '-', of at most 32 characters"
        setting_checks.text(where, "name", self.name, _NAME, valid)
        setting_checks.text(where, "agent", self.agent, _AGENT, "a part of its User-Agent without '%' and '_'")
        setting_checks.texts(where, "ranges", self.ranges)
        setting_checks.texts(where, "domains", self.domains)
        if wrong := [each for each in self.domains if not re.fullmatch(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", each)]:
            raise ConfigurationError(f"{where}: domains={wrong!r}; give names in small letters, like 'googlebot.com'")
        setting_checks.duration(where, "max_delay", self.max_delay, positive=True)
        wrong = [each for each in self.ranges if not site_of(each).startswith("https:") and _network(each) is None]
        if wrong or not (self.ranges or self.domains):
            raise ConfigurationError(
                f"{where}: ranges={wrong or self.ranges!r}; give IP ranges like '66.249.64.0/19', https addresses of "
                "documents that list them, or domains="
            )

    def own(self, addresses: Collection[str], http: Sender | None = None) -> set[str]:
        """Return those addresses that are the crawler's own.

        Raises FetchError if neither its ranges can be read nor any name be looked up: a retry may succeed.
        """
        try:
            networks = list(self._networks(http))
        except SitemapError as error:
            if not self.domains:
                raise
            log.warning("%s; names of addresses are looked up instead", error)
            networks = []
        if networks or not self.domains:
            ips = ((each, _network(each)) for each in addresses)
            return {each for each, ip in ips if ip and any(ip.network_address in network for network in networks)}
        return self._named(list(addresses)[:MAX_LOOK_UPS])

    def _networks(self, http: Sender | None) -> Iterator[ipaddress.IPv4Network | ipaddress.IPv6Network]:
        for each in self.ranges:
            network = _network(each)
            if network is not None:
                yield network
                continue
            service = Service(sender=http or client_for(urlsplit(each).hostname or ""))
            answer = service.call(f"IP ranges of {self.name}", "GET", each)
            try:
                listed = [value for prefix in json.loads(answer.body)["prefixes"] for value in prefix.values()]
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise FetchError(f"{each}: this is no list of IP ranges ({type(error).__name__})") from error
            if not listed:
                raise FetchError(f"{each}: this list of IP ranges is empty")
            yield from filter(None, map(_network, listed))

    def _named(self, addresses: Sequence[str]) -> set[str]:
        """Return the addresses whose name is in a domain, and whose name leads back to them."""
        names = dict(zip(addresses, mapped(_name_of, addresses, "sitemap-dns"), strict=True))
        if names and None in set(names.values()) and not any(names.values()):
            raise FetchError(f"the names of {len(names):,} addresses cannot be looked up; check the DNS of this worker")
        ends = tuple(f".{domain}" for domain in self.domains)
        inside = {each: name for each, name in names.items() if name and name.rstrip(".").endswith(ends)}
        back = zip(inside, mapped(_addresses_of, inside.values(), "sitemap-dns"), strict=True)
        return {each for each, resolved in back if _network(each) in map(_network, resolved)}


def _name_of(address: str) -> str | None:
    """Return the name of an address by this machine's resolver; empty if it has none, None if the resolver fails."""
    try:
        return socket.gethostbyaddr(address)[0].lower()
    except (OSError, UnicodeError) as error:
        return None if getattr(error, "errno", None) in _NO_ANSWER else ""


def _addresses_of(name: str) -> list[str]:
    with suppress(OSError, UnicodeError):
        return [str(info[4][0]) for info in socket.getaddrinfo(name, None)]
    return []


def _network(text: object) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Return a range, or an address as a range of one; None for other texts. ``::ffff:192.0.2.1`` is ``192.0.2.1``."""
    with suppress(ValueError):
        network = ipaddress.ip_network(str(text), strict=False)
        inner = getattr(network.network_address, "ipv4_mapped", None)
        return network if inner is None or network.prefixlen < 128 else ipaddress.ip_network(inner)
    return None


GOOGLE: Final = Crawler(
    name="google",
    agent="googlebot",
    ranges=("https://developers.google.com/static/crawling/ipranges/common-crawlers.json",),
    domains=("googlebot.com", "google.com"),
)
"""Google's common crawlers (developers.google.com, "Verify requests from Google crawlers and fetchers")."""

BING: Final = Crawler(
    name="bing",
    agent="bingbot",
    ranges=("https://www.bing.com/toolbox/bingbot.json",),
    domains=("search.msn.com",),
    max_delay=timedelta(days=30),
)
"""Bingbot (bing.com/webmasters, "How to verify Bingbot"). It fetches sitemaps less often."""
