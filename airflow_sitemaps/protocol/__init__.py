"""Entries to bytes and back, by the rules of sitemaps.org and the search engines. Pure: no I/O, no clock.

Here are the limits of files, the settings with which rows are read, and the two hints of an entry.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from airflow_sitemaps.protocol.rules import Rulebook


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one file and of an index. Sizes are in bytes, of uncompressed files, sitemaps as well as indexes."""

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
"""Number of index files that Google reads for one site (developers.google.com, large sitemaps). The protocol sets no limit."""

CHANGEFREQS: Final = ("always", "hourly", "daily", "weekly", "monthly", "yearly", "never")
"""The seven values of the protocol (sitemaps.org/protocol.html, "changefreq")."""

EXTENSIONS: Final = ("images", "videos", "news", "alternates")
"""The JSON columns, in the order in which their elements are written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowContext:
    """The settings with which the rows of one section are read.

    Attributes:
        base_url: Address of the folder that serves the file, ending in ``/``.
        now: Time that decides what is in the future and how old an article is. It has a zone and is converted to UTC.
        cross_submit: Further hosts (``www.example.com``: http and https on their default ports) or origins
            (``https://example.com:8443``) whose URLs may be listed.
        format: ``xml``, or ``text`` for one URL per line.
        kind: ``news`` lists only articles of the last two days.
        timezone: IANA name of the zone of date-times without one.
        observed: Whether lastmods are observed: those of rows are only the first dates of URLs, and none is in the future.
        template: Template of the URLs, if they are made from columns: any ``%2F`` beyond its own is a slash in a value.
        feeds_since: Entries changed at this time or later give their title and description to feeds. None: none do.
    """

    base_url: str
    rulebook: Rulebook
    limits: Limits
    max_urls: int
    now: datetime
    cross_submit: tuple[str, ...] = ()
    format: Literal["xml", "text"] = "xml"
    kind: Literal["pages", "news"] = "pages"
    section: str = ""
    timezone: str = "UTC"
    feeds_since: datetime | None = None
    template: str = ""
    observed: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "now", self.now.astimezone(timezone.utc))


_NUMBER: Final = re.compile(r"[+-]?(?:\d{1,40}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][+-]?\d{1,3})?", re.ASCII)
_STEP: Final = Decimal("0.0001")
"""Precision of a priority. It hides rounding errors of single-precision numbers."""


def read_changefreq(text: str) -> str | None:
    """Return one of the protocol's values, given in any case; None for an empty text; else raise ValueError."""
    word = text.strip().lower()
    if not word:
        return None
    if word not in CHANGEFREQS:
        raise ValueError(text)
    return word


def read_priority(value: object) -> str | None:
    """Return a number from 0 to 1 with the fewest digits (``0.8``, ``1.0``); None for no text; else raise ValueError."""
    text = str(value).strip()
    if not text:
        return None
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    number = Decimal(text)
    if not 0 <= number <= 1:
        raise ValueError(text)
    digits = f"{abs(number).quantize(_STEP):f}".rstrip("0")
    return digits + "0" if digits.endswith(".") else digits
