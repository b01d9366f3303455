"""What a section listed on each of the last seven days. Guards compare a run with the week, not only with the last run."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from airflow_sitemaps.shards import url_sample
from airflow_sitemaps.shards.manifest import Day

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from airflow_sitemaps.shards.manifest import SectionManifest

DAYS: Final = 7
"""Number of days that guards look back."""

GROWN: Final = 1_000
"""Smallest number of URLs that is recorded as a day's least: a smaller section may grow without a limit."""


def recent(section: SectionManifest, now: datetime) -> dict[str, Day]:
    """Return the recorded days of the week that ends now, by date (ISO), oldest first."""
    first = (now.date() - timedelta(days=DAYS - 1)).isoformat()
    return {date: day for date, day in sorted(section.days.items()) if date >= first}


def most(section: SectionManifest, now: datetime) -> int:
    """Return the greatest number of URLs of the week, or 0 if none is recorded."""
    return max((day.most for day in recent(section, now).values()), default=0)


def least(section: SectionManifest, now: datetime) -> int:
    """Return the smallest number of at least ``GROWN`` URLs of the week, or 0 if none is recorded."""
    return min((day.least for day in recent(section, now).values() if day.least), default=0)


def oldest_sample(section: SectionManifest, now: datetime) -> Day | None:
    """Return the first day of the week with a sample."""
    return next((day for day in recent(section, now).values() if day.sample), None)


def size(section: SectionManifest) -> int:
    """Return the number of a section's URLs, expired rows included: what guards compare."""
    return section.urls + section.expired_rows


def begun(section: SectionManifest) -> Day:
    """Return the record of a day that begins with a state of a section."""
    number = size(section)
    return Day(
        most=number,
        least=number if number >= GROWN else 0,
        urls=section.urls,
        sample=url_sample.thinned(section),
    )


def with_today(old: SectionManifest | None, new: SectionManifest, now: datetime) -> SectionManifest:
    """Return a changed section with its number of URLs recorded."""
    days = recent(old, now) if old is not None else {}
    today, number = now.date().isoformat(), size(new)
    day = days[today] if today in days else begun(old or new)
    grown = [count for count in (day.least, number) if count >= GROWN]
    days[today] = replace(day, most=max(day.most, number), least=min(grown, default=0))
    return replace(new, days=days)


def permitted(section: SectionManifest, guards: Collection[str], now: datetime) -> SectionManifest:
    """Return a section after a change that guards permitted: later runs are compared with what it lists now."""
    days, new = recent(section, now), begun(section)
    if {"shrink", "total"} & set(guards) or ("empty" in guards and not section.urls):
        days = {date: replace(day, most=min(day.most, new.most)) for date, day in days.items()}
    if "growth" in guards:
        days = {date: replace(day, least=max(day.least, new.least)) for date, day in days.items()}
    if "churn" in guards:
        days = {date: replace(day, urls=new.urls, sample=new.sample) for date, day in days.items()}
    return section if days == recent(section, now) else replace(section, days=days)
