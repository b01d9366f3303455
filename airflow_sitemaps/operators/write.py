"""The writing task, mapped over the plan's batches."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.operators.base import SitemapOperator, own_xcom, permanent_failures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)

LABEL: Final = "{{ task.batch.label }}"
"""Template for ``partial(map_index_template=…)``. It names a mapped task ``products 3/12 (10 shards)``."""


class SitemapWriteOperator(SitemapOperator):
    """Read, render and stage the shards of one or several batches. Nothing public changes, and repeating it is safe.

    Args:
        sitemap: The sitemap.
        batch: A reference that ``SitemapPlanOperator`` returned.
        **kwargs: Arguments of Airflow's ``BaseOperator``.
    """

    template_fields: Sequence[str] = ("batch",)

    def __init__(self, *, sitemap: Sitemap, batch: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(sitemap=sitemap, **kwargs)
        self.batch = batch

    def is_part_of_run(self, context: Context) -> bool:
        """Return True."""
        return True

    def ends_run(self, context: Context) -> bool:
        """Return whether ``publish`` does not run after this failure, and no other batch has failed before."""
        if self.sitemap.on_section_failure == "publish_others":
            return False
        ti = context["ti"]
        states = ti.get_task_states(dag_id=ti.dag_id, task_ids=[ti.task_id], run_ids=[ti.run_id])
        return "failed" not in states.get(ti.run_id, {}).values()

    def execute(self, context: Context) -> list[str]:
        """Write the batches, and return the addresses of their receipts."""
        from airflow_sitemaps.operators.facts import WRITTEN, written_facts
        from airflow_sitemaps.pipeline import stages
        from airflow_sitemaps.progress import LogProgress
        from airflow_sitemaps.report_text import written_line
        from airflow_sitemaps.waits import ended_if_stalled

        batches = []
        with permanent_failures(context), ended_if_stalled("write"):
            sitemap = self.rendered(context)
            for number in batch_numbers(self.batch):
                written = stages.write(sitemap, self.batch["plan"], number, progress=LogProgress(log))
                log.info("section %s: %s", written.section, written_line(written))
                batches.append(written)
        context["ti"].xcom_push(key=WRITTEN, value=written_facts(batches))
        return [written.receipt_key for written in batches]

    def get_openlineage_facets_on_complete(self, ti: Any) -> Any:
        """Return the tables that were read and the files that were staged, for Airflow's OpenLineage provider."""
        from airflow_sitemaps.lineage import facets
        from airflow_sitemaps.operators.facts import WRITTEN

        return facets.of_write(self.observed(ti), own_xcom(ti, WRITTEN))


def batch_numbers(reference: Mapping[str, Any]) -> list[int]:
    """Return the batches of a reference. Early versions stored one number, as ``batch``."""
    numbers = reference["batches"] if "batches" in reference else [reference["batch"]]
    return [int(number) for number in numbers]
