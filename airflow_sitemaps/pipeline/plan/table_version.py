"""Skip the survey of a section whose table has not changed, where the database keeps an exact version of a table.

A version is read before the survey, and is stored after the commit. Equal versions therefore mean equal rows: a change
between the two makes the next version differ. The stored version only avoids work. If it is lost, older than
``Sitemap(table_versions=)``, or of another state of the section, the run surveys every range.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from airflow_sitemaps.pipeline.state.conditional_put import ObjectHeaders, put_verified
from airflow_sitemaps.pipeline.state.repository import version_key
from airflow_sitemaps.ports import Overwrite

if TYPE_CHECKING:
    from datetime import timedelta

    from airflow_sitemaps.pipeline.state.repository import StateRepository
    from airflow_sitemaps.shards.manifest import Manifest, SectionManifest
    from airflow_sitemaps.shards.plan import Plan

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
    surveyed_at: datetime
    changed_in: int


def unchanged_since(
    state: StateRepository, section: SectionManifest, version: str, now: datetime, longest: timedelta
) -> datetime | None:
    """Return the time of the last survey if the table has not changed since and the survey is recent.

    Args:
        state: The private area.
        section: The section as last committed.
        version: The table's version now.
        now: Time of planning.
        longest: Maximum age of a survey that an unchanged version replaces.
    """
    record = _remembered(state, section)
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


def _remembered(state: StateRepository, section: SectionManifest) -> VersionRecord | None:
    stored = state.objects.get(version_key(section.name))
    if stored is None:
        return None
    try:
        value = json.loads(stored.body)
        record = VersionRecord(
            version=str(value["version"]),
            surveyed_at=datetime.fromisoformat(value["surveyed_at"]),
            changed_in=int(value["changed_in"]),
        )
        if record.surveyed_at.tzinfo is None:
            raise ValueError("its time has no zone")
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        log.warning("section %s: the version of its table cannot be read; every range is surveyed", section.name)
        return None
    return record if record.changed_in == section.changed_in else None


def remember_all(state: StateRepository, plan: Plan, manifest: Manifest) -> None:
    """Store the table versions of a plan whose result the manifest now holds.

    Args:
        state: The private area.
        plan: The plan.
        manifest: The current manifest.
    """
    for name, section_plan in plan.sections.items():
        section = manifest.sections.get(name)
        if not section_plan.version or section_plan.surveyed_at is None or section is None:
            continue
        if section.changed_in not in (
            section_plan.base,
            manifest.generation if manifest.run == plan.run else section_plan.base,
        ):
            continue
        value = {
            "version": section_plan.version,
            "surveyed_at": section_plan.surveyed_at.isoformat(),
            "changed_in": section.changed_in,
        }
        put_verified(
            state.objects,
            version_key(name),
            json.dumps(value).encode(),
            mode=Overwrite(),
            write_id=f"{section.changed_in}-{plan.run}",
            headers=ObjectHeaders(content_type="application/json"),
        )
