"""Skip the survey of a section whose table has not changed, where the database keeps an exact version of a table.

A version is read before the survey, and is stored after the commit. Equal versions therefore mean equal rows: a change
between the two makes the next version differ. The stored version only avoids work. If it is lost, older than
``Sitemap(table_versions=)``, or of another state of the section, the run surveys every range.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.pipeline.state.repository import version_key
from airflow_sitemaps.pipeline.state.section_record import read_record
from airflow_sitemaps.shards.decoder import Decoder
from airflow_sitemaps.shards.schema import Count, Moment

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from airflow_sitemaps.pipeline.state.repository import StateRepository
    from airflow_sitemaps.shards.manifest import SectionManifest
    from airflow_sitemaps.shards.plan import SectionPlan

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRecord:
    """The version of a section's table that is kept between runs.

    Attributes:
        version: The version before the last survey.
        surveyed_at: Time of the last survey of every range.
        changed_in: Generation that had last changed the section when the record was stored.
    """

    version: str
    surveyed_at: Moment
    changed_in: Count


_RECORD: Final = Decoder(VersionRecord)


def unchanged_since(
    state: StateRepository, section: SectionManifest, version: str, now: datetime, longest: timedelta
) -> datetime | None:
    """Return the time of the last survey if the table has not changed since and the survey is recent.

    Args:
        longest: Maximum age of a survey that an unchanged version replaces.
    """
    record = read_record(state, version_key(section.name), _RECORD, section, "the version of its table")
    if record is None:
        log.info("section %s: no table version is recorded; every range is surveyed", section.name)
    elif record.version != version:
        log.info("section %s: its table changed since %s; every range is surveyed", section.name, record.surveyed_at)
    elif not record.surveyed_at <= now < record.surveyed_at + longest:
        log.info(
            "section %s: its table has not changed since %s, but that survey is older than %s; every range is surveyed",
            section.name,
            record.surveyed_at,
            longest,
        )
    else:
        log.info("section %s: its table has not changed since %s; not surveyed", section.name, record.surveyed_at)
        return record.surveyed_at
    return None


def record_of(section_plan: SectionPlan, section: SectionManifest) -> VersionRecord | None:
    """Return the table version that a plan leaves to the next run, or None if the source keeps none."""
    if not section_plan.version or section_plan.surveyed_at is None:
        return None
    return VersionRecord(
        version=section_plan.version, surveyed_at=section_plan.surveyed_at, changed_in=section.changed_in
    )
