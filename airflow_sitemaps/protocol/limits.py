"""The protocol's numbers, each once, with its source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MAX_LOC_CHARACTERS: Final = 2_047
"""A ``loc`` has fewer than 2,048 characters (sitemaps.org/protocol.html, "loc")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one file, and of an index.

    Attributes:
        name: the profile's name.
        max_urls: URLs of one sitemap.
        max_byte_size: bytes of one uncompressed file, a sitemap or an index.
        max_sitemaps: sitemaps of one index.
    """

    name: str
    max_urls: int
    max_byte_size: int
    max_sitemaps: int


CURRENT: Final = Limits(name="current", max_urls=50_000, max_byte_size=52_428_800, max_sitemaps=50_000)
"""sitemaps.org/protocol.html, "Using Sitemap index files", as of today."""

ORIGINAL: Final = Limits(name="original", max_urls=50_000, max_byte_size=10_485_760, max_sitemaps=1_000)
"""The protocol's older text: 10,485,760 bytes a file, 1,000 sitemaps an index."""

PROFILES: Final = {limits.name: limits for limits in (CURRENT, ORIGINAL)}

MAX_INDEXES: Final = 500
"""Index files that Google reads of one site (developers.google.com, large sitemaps: 500 for each Search Console
property); the protocol itself sets no number."""
