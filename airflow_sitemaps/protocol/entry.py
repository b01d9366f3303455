"""An entry of a urlset, and the settings with which rows are read."""

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
"""The seven values of the protocol (sitemaps.org/protocol.html, "changefreq")."""

EXTENSIONS: Final = ("images", "videos", "news", "alternates")
"""The JSON columns, in the order in which their elements are written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowContext:
    """The settings with which the rows of one section are read.

    Attributes:
        base_url: Address of the folder that serves the file, ending in ``/``.
        rulebook: Verdict of every rule.
        limits: Limits of one file.
        max_urls: Maximum number of URLs in one file.
        now: Time that decides what is in the future and how old an article is. It has a zone and is converted to UTC.
        cross_submit: Further hosts (``www.example.com``: http and https on their default ports) or origins
            (``https://example.com:8443``) whose URLs may be listed. Default: none.
        format: ``xml``, or ``text`` for one URL per line. Default: ``xml``.
        kind: ``news`` lists only articles of the last two days. Default: ``pages``.
        section: Name of the section, for messages.
        timezone: IANA name of the zone of date-times without one. Default: ``UTC``.
        from_template: Whether URLs are made from columns, so that ``%2F`` in a URL is a slash in a value. Default: False.
        feeds_since: Entries changed at this time or later give their title and description to feeds. None: none do.

    Raises:
        ConfigurationError: ``base_url`` does not end in ``/``, or ``now`` has no zone.
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
    from_template: bool = False

    def __post_init__(self) -> None:
        if not self.base_url.endswith("/"):
            raise ConfigurationError(f"base_url {self.base_url!r}: give the folder's address, ending in '/'")
        if self.now.tzinfo is None:
            raise ConfigurationError(f"now={self.now!r}: give a date-time with a zone")
        if self.now.tzinfo is not timezone.utc:
            object.__setattr__(self, "now", self.now.astimezone(timezone.utc))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One valid and normalised ``<url>``.

    Attributes:
        loc: The URL.
        lastmod: A date, or a date-time in UTC with a zone, to the second.
        changefreq: One of ``CHANGEFREQS``.
        priority: A number from 0 to 1, as text.
        extensions: XML of the child elements that follow.
        prefixes: Namespace prefixes that these elements use.
    """

    loc: str
    lastmod: date | datetime | None = None
    changefreq: str | None = None
    priority: str | None = None
    extensions: str = ""
    prefixes: frozenset[str] = frozenset()
