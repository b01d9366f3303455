"""Change detection by watermark, for tables so large that a digest of all rows at every run is too expensive.

A run surveys the ranges in which a lastmod changed since the last run, the last range, and those of the other ranges
whose last survey is oldest. It therefore finds deletes and silent updates within ``SLICES`` runs. The stored watermark
only avoids work; correctness does not depend on it. If it is lost, or if something else changed the section (a
rollback, another configuration), a run surveys every range.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from airflow_sitemaps.pipeline.state.repository import watermark_key
from airflow_sitemaps.pipeline.state.section_record import read_record
from airflow_sitemaps.shards.decoder import Decoder
from airflow_sitemaps.shards.digest import Digest, Survey
from airflow_sitemaps.shards.schema import Count, Moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from airflow_sitemaps.pipeline.state.repository import StateRepository
    from airflow_sitemaps.ports import Source
    from airflow_sitemaps.shards.key import Key, KeyRange
    from airflow_sitemaps.shards.manifest import SectionManifest
    from airflow_sitemaps.shards.plan import RangeAction, SectionPlan

log = logging.getLogger(__name__)

SLICES: Final = 24
"""Number of runs within which every range is surveyed once, whether or not its lastmods changed."""

CLOCK_CHANGE: Final = timedelta(hours=2)
"""Time after a clock change during which local times without a time zone may be ambiguous."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """The record of one section that is kept between runs.

    Attributes:
        moment: The database's time at the last survey.
        changed_in: Generation that had last changed the section when the watermark was stored.
        ages: Number of runs since each shard's range was surveyed, in key order.
    """

    moment: Moment
    changed_in: Count
    ages: tuple[Count, ...]


_RECORD: Final = Decoder(Watermark)


def remembered(state: StateRepository, section: SectionManifest) -> Watermark | None:
    """Read the watermark of a section.

    Returns:
        The watermark, or None if there is none that is valid for this state of the section.
    """
    return read_record(state, watermark_key(section.name), _RECORD, section, "its watermark")


def record_of(section_plan: SectionPlan, section: SectionManifest) -> Watermark | None:
    """Return the watermark that a plan leaves to the next run, or None if no watermark found its changes."""
    if section_plan.watermark is None:
        return None
    return Watermark(
        moment=section_plan.watermark,
        changed_in=section.changed_in,
        ages=_ages_of(section, section_plan.targets, section_plan.ages),
    )


def _ages_of(section: SectionManifest, targets: Sequence[RangeAction], ages: Sequence[int]) -> tuple[int, ...]:
    """Return the number of runs since each shard was surveyed; shards written in pieces count as just surveyed."""
    ages_by_lower = {target.range.lower: age for target, age in zip(targets, ages, strict=False)}
    return tuple(ages_by_lower.get(shard.range.lower, 0) for shard in section.shards)


def next_ages(
    section: SectionManifest | None, targets: Sequence[RangeAction], partial: IncrementalSurvey | None
) -> tuple[int, ...]:
    """Return the number of runs since the range of each target was surveyed, this run included.

    A target that joins earlier ranges has the age of the oldest of them. Boundaries are compared only for equality.

    Args:
        section: The section as last committed, or None.
        partial: The survey of this run, or None if it surveyed every range.
    """
    if section is None or partial is None:
        return (0,) * len(targets)
    places: dict[Key | None, int] = {target.range.lower: number for number, target in enumerate(targets)}
    ages = [0] * len(targets)
    place = 0
    for shard, age in zip(section.shards, partial.ages(), strict=True):
        place = places.get(shard.range.lower, place)
        if not targets[place].action.writes:
            ages[place] = max(ages[place], age)
    return tuple(ages)


def begins_at(mark: Watermark, lag: timedelta, now: datetime, timezone: str) -> datetime:
    """Return the earliest lastmod to search for.

    If clocks were set back since the watermark or shortly before it, local times without a time zone repeat. The
    search then begins earlier by the same amount.

    Args:
        lag: How far before the watermark to search (``Sitemap(watermark_lag=)``).
        timezone: IANA name of the time zone of local times.
    """
    since = mark.moment - lag
    zone = ZoneInfo(timezone)
    before, after = ((moment.astimezone(zone).utcoffset() or timedelta(0)) for moment in (since - CLOCK_CHANGE, now))
    return since - max(timedelta(0), before - after)


class IncrementalSurvey:
    """A surveyor that queries only ranges that may have changed, and returns the last digests of the others.

    Ranges to read must be queried too (see ``ask_also``), because a plan needs their present number of rows.
    """

    def __init__(self, source: Source, section: SectionManifest, mark: Watermark, since: datetime) -> None:
        self._source = source
        self._section = section
        self._mark = mark
        self._since = since
        self._also: set[int] = set()
        self._known: dict[int, Digest] = {}

    def ages(self) -> list[int]:
        """Return the number of runs since each range was surveyed; 0 for ranges that this run surveyed."""
        return [0 if at in self._known else self._age(at) + 1 for at in range(len(self._section.shards))]

    def ask_also(self, positions: Iterable[int]) -> bool:
        """Include ranges in the next survey; return whether one of them was not included before."""
        self._also.update(positions)
        return not self._also <= self._known.keys()

    def survey(self, ranges: Sequence[KeyRange]) -> Survey:
        """Return the digests of all ranges; for ranges that are not queried, those of the last run."""
        asked = sorted(self._also - self._known.keys() if self._known else self._changed(ranges))
        survey = self._source.survey([ranges[position] for position in asked])
        self._known.update(zip(asked, survey.digests, strict=True))
        digests = [self._known.get(position, shard.digest) for position, shard in enumerate(self._section.shards)]
        return Survey(digests=tuple(digests), null_keys=survey.null_keys, null_key_samples=survey.null_key_samples)

    def _changed(self, ranges: Sequence[KeyRange]) -> set[int]:
        """Return the ranges with changed lastmods, the last range, and this run's part of the others."""
        touched = set(self._source.touched(ranges, self._since))
        asked = touched | {len(ranges) - 1} | self._slice(len(ranges))
        log.info(
            "section %s: %d of %d ranges have rows modified since %s; %d ranges are surveyed",
            self._section.name,
            len(touched),
            len(ranges),
            self._since,
            len(asked),
        )
        return asked

    def _slice(self, number: int) -> set[int]:
        """Return the ranges with the oldest surveys, one in ``SLICES``, and all ranges whose survey is due."""
        oldest = sorted(range(number), key=lambda at: (-self._age(at), at))
        quota = -(-number // SLICES)
        return {at for place, at in enumerate(oldest) if place < quota or self._age(at) >= SLICES - 1}

    def _age(self, at: int) -> int:
        """Return the number of runs since a range's last survey. A range that the record lacks is due."""
        return self._mark.ages[at] if at < len(self._mark.ages) else SLICES - 1
