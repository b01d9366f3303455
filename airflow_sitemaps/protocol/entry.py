"""An entry of a urlset, and the settings by which rows are read."""

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
class RowContext:
    """The settings by which the rows of one section are read.

    Attributes:
        base_url: the folder that the file is served from; it ends in ``/``.
        rulebook: the verdict of every rule.
        limits: the limits of one file.
        max_urls: the most URLs of one file.
        now: the moment by which future and age are decided, aware; kept in UTC.
        cross_submit: further hosts (``www.example.com``: http and https on their default ports) or origins
            (``https://example.com:8443``) whose URLs may be listed. Default: none.
        format: ``xml``, or ``text`` for one URL on a line. Default: ``xml``.
        kind: ``news`` lists articles of the last two days only. Default: ``pages``.
        section: the section's name, for messages.
        timezone: the IANA name of the zone in which date-times without one are read. Default: ``UTC``.
        from_template: whether URLs are made of columns, so that ``%2F`` in one is a slash of a value. Default: False.
        feeds_since: entries changed at or after this moment give their title and description to feeds; None: none do.

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
    """One ``<url>``, valid and normalised.

    Attributes:
        loc: the URL.
        lastmod: a date, or an aware date-time in UTC, to the second.
        changefreq: one of ``CHANGEFREQS``.
        priority: a number from 0 to 1 as text.
        extensions: the XML of the child elements that follow.
        prefixes: the namespace prefixes that they use.
    """

    loc: str
    lastmod: date | datetime | None = None
    changefreq: str | None = None
    priority: str | None = None
    extensions: str = ""
    prefixes: frozenset[str] = frozenset()
