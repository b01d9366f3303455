"""An entry of a urlset, and what entries are judged by."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timezone
from typing import TYPE_CHECKING, Final, Literal

from airflow_sitemaps.errors import ConfigurationError

if TYPE_CHECKING:
    from datetime import date, datetime

    from airflow_sitemaps.protocol.limits import Limits
    from airflow_sitemaps.protocol.rules import Rulebook

CHANGEFREQS: Final = ("always", "hourly", "daily", "weekly", "monthly", "yearly", "never")
"""The protocol's seven words (sitemaps.org/protocol.html, "changefreq")."""

EXTENSIONS: Final = ("images", "videos", "news", "alternates")
"""The columns that hold JSON, in the order in which their elements are written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """What the entries of one section are judged by.

    ``base_url`` is the folder the file is served from and ends in ``/``. ``cross_submit`` lists further hosts
    (``www.example.com``: http and https on their default ports) or origins (``https://example.com:8443``) whose URLs
    may be listed. ``max_urls`` is the most URLs of one file. ``now`` is the moment of judging, aware, in UTC.
    ``section`` is for messages. ``timezone`` is the zone in which date-times without one are read.

    Raises:
        ConfigurationError: ``base_url`` does not end in ``/`` or ``now`` has no zone.
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

    def __post_init__(self) -> None:
        if not self.base_url.endswith("/"):
            raise ConfigurationError(f"base_url {self.base_url!r}: give the folder's address, ending in '/'")
        if self.now.tzinfo is None:
            raise ConfigurationError(f"now={self.now!r}: give a date-time with a zone")
        if self.now.tzinfo is not timezone.utc:
            object.__setattr__(self, "now", self.now.astimezone(timezone.utc))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One ``<url>``, valid and normalised.

    ``lastmod`` is a date, or an aware date-time in UTC, to the second. ``extensions`` is the XML of the child
    elements that follow, ``prefixes`` the namespace prefixes they use.
    """

    loc: str
    lastmod: date | datetime | None = None
    changefreq: str | None = None
    priority: str | None = None
    extensions: str = ""
    prefixes: frozenset[str] = frozenset()
