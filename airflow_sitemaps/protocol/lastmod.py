"""``lastmod``: parsed, checked, and written as W3C Datetime to the second.

The output is a date (``2024-05-01``) or a date-time in UTC (``2024-05-01T12:30:00Z``). Fractions of a second are removed.
``YYYY`` and ``YYYY-MM`` are valid for the W3C, but ``sitemap.xsd`` refuses them, and adding a day would invent data: they
break ``lastmod-format``. ``hh:mm`` without seconds gets ``:00``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from airflow_sitemaps.errors import ConfigurationError

UTC: Final = timezone.utc
_TEXT: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,]\d+)?)?\s?([Zz]|[+-]\d\d(?::?\d\d)?)?)?", re.ASCII
)
_OUT_OF_RANGE: Final = re.compile(r"0000-\d\d-\d\d.*|[+-]\d{4,}-\d\d-\d\d.*|\d{5,}-\d\d-\d\d.*|[+-]?infinity", re.ASCII)
_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()

FIRST_DAY: Final = date(1, 1, 1)
LAST_DAY: Final = date(9999, 12, 31)
"""Days that drivers use for -infinity, infinity, and years that they cannot represent. No lastmod of a page is one."""


class LastmodError(ValueError):
    """A lastmod cannot be written. ``rule`` is ``lastmod-format`` or ``lastmod-range``."""

    def __init__(self, rule: str) -> None:
        super().__init__(rule)
        self.rule = rule


TRUST_SAMPLES: Final = 3
"""Maximum number of sample URLs of each kind in a ``LastmodTrust``."""
TRUST_KINDS: Final = ("both", "date_only", "page_only")


@dataclass(frozen=True, slots=True, kw_only=True)
class LastmodTrust:
    """How far the dates of a column can be trusted, as numbers of URLs of which the date or the page changed.

    Only a URL that had a date before and has one now counts. The samples are of the newest runs, at most three of a kind.

    Attributes:
        both: The columns that make the page changed, and the date moved.
        date_only: The date moved, and none of these columns changed.
        page_only: One of these columns changed, and the date did not move.
    """

    both: int = 0
    date_only: int = 0
    page_only: int = 0
    date_only_samples: tuple[str, ...] = ()
    page_only_samples: tuple[str, ...] = ()

    @classmethod
    def total(cls, parts: Iterable[LastmodTrust | None]) -> LastmodTrust | None:
        """Return the sum of parts, the newest first; None if dates were not compared in any."""
        compared = [part for part in parts if part is not None]
        fields: dict[str, Any] = {name: sum(getattr(part, name) for part in compared) for name in TRUST_KINDS}
        for name in ("date_only_samples", "page_only_samples"):
            urls = dict.fromkeys(url for part in compared for url in getattr(part, name))
            fields[name] = tuple(urls)[:TRUST_SAMPLES]
        return cls(**fields) if compared else None


@lru_cache(maxsize=64)
def zone(name: str) -> ZoneInfo | timezone:
    """Return a time zone by its IANA name, or raise ConfigurationError."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigurationError(f"timezone={name!r}: give an IANA name, like 'Europe/Berlin'") from error


def parse(text: str, timezone_name: str = "UTC") -> date | datetime | None:
    """Return a date, a date-time in UTC to the second, or None for an empty text.

    A date-time without a zone is in ``timezone_name``. A space may separate date and time, instead of ``T``. It raises
    LastmodError if the text is not a date (``lastmod-format``), or outside the years 1 to 9999 (``lastmod-range``).
    """
    text = text.strip()
    if not text:
        return None
    match = _TEXT.fullmatch(text)
    if match is None or match[1] == "0000":
        raise LastmodError("lastmod-range" if _OUT_OF_RANGE.fullmatch(text) else "lastmod-format")
    try:
        day = date(int(match[1]), int(match[2]), int(match[3]))
        if match[4] is None:
            return day
        clock = time(int(match[4]), int(match[5]), int(match[6] or 0))
        zoned = _offset(match[7]) if match[7] else zone(timezone_name)
    except ValueError as error:
        raise LastmodError("lastmod-format") from error
    return in_utc(datetime.combine(day, clock, zoned))


def parse_or_none(text: str | None, timezone_name: str = "UTC") -> date | datetime | None:
    """Return a lastmod as ``parse`` does, or None also for a text that is not one."""
    try:
        return parse(text or "", timezone_name)
    except LastmodError:
        return None


def next_second(moment: datetime) -> datetime:
    """Return the next whole second: later than a moment, also where its clock has whole seconds only."""
    return moment.replace(microsecond=0) + timedelta(seconds=1)


def in_utc(moment: datetime) -> datetime:
    """Convert a date-time with a zone to UTC, in whole seconds, or raise LastmodError outside the years 1 to 9999."""
    try:
        return moment.astimezone(UTC).replace(microsecond=0)
    except OverflowError as error:
        raise LastmodError("lastmod-range") from error


def is_in_range(value: date | datetime) -> bool:
    """Return whether a lastmod is between ``FIRST_DAY`` and ``LAST_DAY``, both exclusive."""
    day = value.date() if isinstance(value, datetime) else value
    return FIRST_DAY < day < LAST_DAY


def _offset(text: str) -> timezone:
    if text in "Zz":
        return UTC
    digits = text[1:].replace(":", "")
    hours, minutes = int(digits[:2]), int(digits[2:] or 0)
    if hours > 23 or minutes > 59:
        raise LastmodError("lastmod-format")
    distance = timedelta(hours=hours, minutes=minutes)
    return timezone(-distance if text[0] == "-" else distance)


def begins(value: date | datetime, timezone_name: str = "UTC") -> datetime:
    """Return a lastmod as a time in UTC. A date begins at midnight in ``timezone_name``."""
    if isinstance(value, datetime):
        return value
    midnight = datetime.combine(value, time(), zone(timezone_name))
    try:
        return midnight.astimezone(UTC)
    except OverflowError:
        return midnight.replace(tzinfo=UTC)


def day_number(value: date) -> int:
    """Return the days since 1970-01-01 of a date or a date-time."""
    return value.toordinal() - _EPOCH_ORDINAL


def is_future(value: date | datetime, now: datetime, timezone_name: str = "UTC") -> bool:
    """Return whether a lastmod is after ``now``. A date is, until it begins in ``timezone_name``."""
    if isinstance(value, datetime):
        return value > now
    return value > now.astimezone(zone(timezone_name)).date()


def render(value: date | datetime) -> str:
    """Return W3C Datetime: ``2024-05-01``, or ``2024-05-01T12:30:00Z``."""
    if not isinstance(value, datetime):
        return value.isoformat()
    return value.astimezone(UTC).isoformat(timespec="seconds").removesuffix("+00:00") + "Z"
