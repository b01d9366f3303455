"""Store what a run found out about the sources, so that the next run surveys fewer ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_sitemaps.pipeline.plan import feed_survey, table_version, watermark
from airflow_sitemaps.pipeline.state.repository import feed_key, version_key, watermark_key
from airflow_sitemaps.pipeline.state.section_record import write_record

if TYPE_CHECKING:
    from airflow_sitemaps.pipeline.state.repository import StateRepository
    from airflow_sitemaps.shards.manifest import Manifest
    from airflow_sitemaps.shards.plan import Plan

_RECORDS: Final = (
    (watermark_key, watermark.record_of),
    (feed_key, feed_survey.record_of),
    (version_key, table_version.record_of),
)


def remember_all(state: StateRepository, plan: Plan, manifest: Manifest) -> None:
    """Store the records of a plan whose result the manifest now holds."""
    for name, section_plan in plan.sections.items():
        section = manifest.sections.get(name)
        generations = {section_plan.base, manifest.generation if manifest.run == plan.run else section_plan.base}
        if section is None or section.changed_in not in generations:
            continue
        for key, record_of in _RECORDS:
            if (record := record_of(section_plan, section)) is not None:
                write_record(state, key(name), record, write_id=f"{section.changed_in}-{plan.run}")
