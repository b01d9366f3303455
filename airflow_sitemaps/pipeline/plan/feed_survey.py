"""Survey only the ranges that a change feed names, for sources with a feed of the keys that changed.

The position of the feed is read before the survey and committed with its digests. A range without a change after it
therefore has the rows of its recorded digest. A run that publishes nothing has no commit; it stores its position
beside the manifest. If no position is known, if the feed has a gap, or if the last survey of every range is older than
the source's ``change_log_interval``, the run surveys every range.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.pipeline.plan.unchanged_survey import UnchangedSurvey
from airflow_sitemaps.pipeline.state.repository import feed_key
from airflow_sitemaps.pipeline.state.section_record import read_record
from airflow_sitemaps.quantities import counted
from airflow_sitemaps.shards.decoder import Decoder
from airflow_sitemaps.shards.feed_mark import FeedMark
from airflow_sitemaps.shards.schema import Count, Moment

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from airflow_sitemaps.pipeline.state.repository import StateRepository
    from airflow_sitemaps.ports import ChangeReading, Source
    from airflow_sitemaps.shards.manifest import SectionManifest
    from airflow_sitemaps.shards.plan import SectionPlan

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedRecord:
    """The position in a section's change feed that is kept between runs.

    Attributes:
        position: The position, as the source wrote it.
        surveyed_at: Time of the last survey of every range.
        changed_in: Generation that had last changed the section when the record was stored.
    """

    position: str
    surveyed_at: Moment
    changed_in: Count


_RECORD: Final = Decoder(FeedRecord)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedSurvey:
    """What the change feed of a section makes of its survey.

    Attributes:
        mark: The position to commit, or None if there is no feed.
        surveyor: The survey of the changed ranges. Default: None, every range is surveyed.
        note: Which ranges are surveyed, and why. Default: "".
        warnings: Sentences for people. Default: none.
    """

    mark: FeedMark | None = None
    surveyor: UnchangedSurvey | None = None
    note: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedQuestion:
    """What a survey by change feed depends on.

    Attributes:
        name: Name of the section.
        source: Its open source.
        before: The section as last committed, or None.
        state: The private area.
        now: Time of planning.
        interval: How long the feed stands for a survey of every range.
        everything: Why every range is surveyed whatever the feed says, or "".
    """

    name: str
    source: Source
    before: SectionManifest | None
    state: StateRepository
    now: datetime
    interval: timedelta
    everything: str


def survey_by_feed(question: FeedQuestion) -> FeedSurvey:
    """Read the change feed, and decide which ranges are surveyed."""
    before = question.before
    mark = None if before is None else known_mark(question.state, before)
    cause = question.everything or _cause(mark, question)
    if cause or before is None or mark is None:
        return _whole(question, question.source.changes((), None), cause)
    reading = question.source.changes([shard.range for shard in before.shards], mark.position)
    if reading.ranges is None:
        return _whole(question, reading, reading.cause)
    note = (
        f"the change feed names {counted(reading.changes, 'change')} in {len(reading.ranges):,} of "
        f"{len(before.shards):,} ranges; only these are surveyed (the last survey of every range: {mark.surveyed_at})"
    )
    log.info("section %s: %s", question.name, note)
    return FeedSurvey(
        mark=FeedMark(position=reading.position, surveyed_at=mark.surveyed_at),
        surveyor=UnchangedSurvey(question.source, before, reading.ranges),
        note=note,
        warnings=_warnings(question, reading),
    )


def _cause(mark: FeedMark | None, question: FeedQuestion) -> str:
    """Return why every range is surveyed before the feed is read, or ""."""
    if mark is None:
        return "no position of its change feed is known"
    if not mark.surveyed_at <= question.now < mark.surveyed_at + question.interval:
        return f"the last survey of every range, of {mark.surveyed_at}, is older than full_every={question.interval}"
    return ""


def _whole(question: FeedQuestion, reading: ChangeReading, cause: str) -> FeedSurvey:
    note = f"every range is surveyed: {'; '.join(dict.fromkeys(each for each in (cause, reading.cause) if each))}"
    log.info("section %s: %s", question.name, note)
    return FeedSurvey(
        mark=FeedMark(position=reading.position, surveyed_at=question.now),
        note=note,
        warnings=(*((f"section {question.name!r}: {note}",) if reading.is_gap else ()), *_warnings(question, reading)),
    )


def _warnings(question: FeedQuestion, reading: ChangeReading) -> tuple[str, ...]:
    return (f"section {question.name!r}: the change feed: {reading.warning}",) if reading.warning else ()


def known_mark(state: StateRepository, section: SectionManifest) -> FeedMark | None:
    """Return the last position that is valid for this state of the section: that of the last run, or of the commit."""
    name = "the stored position of its change feed"
    record = read_record(state, feed_key(section.name), _RECORD, section, name)
    return section.feed if record is None else FeedMark(position=record.position, surveyed_at=record.surveyed_at)


def record_of(section_plan: SectionPlan, section: SectionManifest) -> FeedRecord | None:
    """Return the position that a plan leaves to the next run, or None if the section has no change feed."""
    mark = section_plan.feed
    if mark is None:
        return None
    return FeedRecord(position=mark.position, surveyed_at=mark.surveyed_at, changed_in=section.changed_in)
