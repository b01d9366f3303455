"""The limits of the protocol, each with its source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one file and of an index.

    Attributes:
        name: Name of the profile.
        max_urls: Maximum number of URLs in one sitemap.
        max_byte_size: Maximum size of one uncompressed file, sitemap or index, in bytes.
        max_sitemaps: Maximum number of sitemaps in one index.
    """

    name: str
    max_urls: int
    max_byte_size: int
    max_sitemaps: int


CURRENT: Final = Limits(name="current", max_urls=50_000, max_byte_size=52_428_800, max_sitemaps=50_000)
"""The current limits (sitemaps.org/protocol.html, "Using Sitemap index files")."""

ORIGINAL: Final = Limits(name="original", max_urls=50_000, max_byte_size=10_485_760, max_sitemaps=1_000)
"""The limits of an earlier version of the protocol: 10,485,760 bytes per file, 1,000 sitemaps per index."""

PROFILES: Final = {limits.name: limits for limits in (CURRENT, ORIGINAL)}

MAX_INDEXES: Final = 500
"""Maximum number of index files that Google reads for one site.

developers.google.com, large sitemaps: 500 per Search Console property. The protocol sets no limit.
"""
