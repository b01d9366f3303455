"""The writing task, mapped over the plan's batches."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.operators.base import SitemapOperator, no_vain_retry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)

LABEL: Final = "{{ task.batch.label }}"
"""Give it to ``partial(map_index_template=…)``: a mapped task is then called ``products 3/12 (10 shards)``."""


class SitemapWriteOperator(SitemapOperator):
    """Read, render and stage the shards of one batch. Nothing public is touched; a repetition harms nobody.

    ``batch`` is a reference that ``SitemapPlanOperator`` returned. Returns the address of the batch's receipt.
    """

    template_fields: Sequence[str] = ("batch",)

    def __init__(self, *, sitemap: Sitemap, batch: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(sitemap=sitemap, **kwargs)
        self.batch = batch

    def execute(self, context: Context) -> str:
        """Write the batch."""
        from airflow_sitemaps.operators.facts import WRITTEN, written_facts
        from airflow_sitemaps.pipeline import stages
        from airflow_sitemaps.progress import LogProgress
        from airflow_sitemaps.summary import written_line

        with no_vain_retry(context):
            plan, number = self.batch["plan"], int(self.batch["batch"])
            written = stages.write(self.rendered(context), plan, number, progress=LogProgress(log))
        log.info("%s: %s", self.batch["label"], written_line(written))
        context["ti"].xcom_push(key=WRITTEN, value=written_facts(written))
        return written.receipt_key
