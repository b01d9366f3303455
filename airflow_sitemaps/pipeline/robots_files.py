"""The robots.txt of each host, fetched once."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from airflow_sitemaps.errors import StoreError
from airflow_sitemaps.pipeline.fetching import FetchError
from airflow_sitemaps.protocol import robots

if TYPE_CHECKING:
    from airflow_sitemaps.pipeline.fetching import Fetcher

MAX_HOSTS = 1_000
"""Hosts asked at most; the pages of further ones are taken for allowed."""


class RobotsFiles:
    """robots.txt by host. One that is missing (4xx) allows everything; one that cannot be had (5xx, no answer) too:
    here faults are looked for that are surely there (RFC 9309, 2.3.1.4, lets a crawler assume the contrary)."""

    def __init__(self, fetch: Fetcher) -> None:
        self._fetch = fetch
        self._known: dict[str, robots.Robots] = {}

    def address(self, url: str) -> str:
        """Where the robots.txt lies that a URL's host obeys; empty where the URL has no host."""
        try:
            parts = urlsplit(url)
        except ValueError:
            return ""
        return f"{parts.scheme}://{parts.netloc}/robots.txt"

    def of(self, url: str) -> robots.Robots:
        """What the robots.txt of a URL's host says."""
        address = self.address(url)
        if not address:
            return robots.Robots()
        if address not in self._known:
            if len(self._known) >= MAX_HOSTS:
                return robots.Robots()
            self._known[address] = self._read(address)
        return self._known[address]

    def names(self, sitemap: str) -> bool:
        """Whether the host's robots.txt has a Sitemap line with this address."""
        return sitemap in self.of(sitemap).sitemaps

    def _read(self, address: str) -> robots.Robots:
        try:
            fetched = self._fetch.get(address)
        except (FetchError, StoreError):
            return robots.Robots()
        if fetched.status != 200:
            return robots.Robots()
        return robots.read(fetched.body[: robots.MAX_BYTE_SIZE].decode("utf-8", "replace"))
