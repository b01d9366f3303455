"""A cache of robots.txt files, one request for each host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from airflow_sitemaps.errors import StoreError
from airflow_sitemaps.http.client import FetchError
from airflow_sitemaps.protocol import robots

if TYPE_CHECKING:
    from airflow_sitemaps.verification.fetchers import Fetcher

MAX_HOSTS: Final = 1_000
"""Number of hosts whose robots.txt is fetched. Pages of further hosts count as allowed."""


class RobotsCache:
    """The robots.txt of each host, fetched once.

    A file that is missing (4xx) allows everything (RFC 9309, 2.3.1.3). A file that cannot be read (5xx, no answer)
    also counts as allowing everything: RFC 9309, 2.3.1.4, lets a crawler assume the opposite, but verification
    reports only faults that are certain.
    """

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        self._files: dict[str, robots.Robots] = {}

    def address(self, url: str) -> str:
        """Return the address of the robots.txt that applies to a URL; empty when the URL has no host."""
        try:
            parts = urlsplit(url)
        except ValueError:
            return ""
        return f"{parts.scheme}://{parts.netloc}/robots.txt" if parts.netloc else ""

    def robots_of(self, url: str) -> robots.Robots:
        """Return the rules that apply to a URL."""
        address = self.address(url)
        if not address:
            return robots.Robots()
        if address not in self._files:
            if len(self._files) >= MAX_HOSTS:
                return robots.Robots()
            self._files[address] = self._read(address)
        return self._files[address]

    def names(self, sitemap_url: str) -> bool:
        """Return whether robots.txt has a ``Sitemap`` line with this address."""
        return sitemap_url in self.robots_of(sitemap_url).sitemaps

    def _read(self, address: str) -> robots.Robots:
        try:
            response = self._fetcher.get(address)
        except (FetchError, StoreError):
            return robots.Robots()
        if response.status != 200:
            return robots.Robots()
        return robots.read(response.body[: robots.MAX_BYTE_SIZE].decode("utf-8", "replace"))
