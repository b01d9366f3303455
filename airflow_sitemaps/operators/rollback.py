"""The task that publishes an earlier generation again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_sitemaps.links import SitemapIndexLink
from airflow_sitemaps.operators.base import SitemapOperator, emit_event, log_report, permanent_failures
from airflow_sitemaps.operators.observation import measure_run
from airflow_sitemaps.operators.publish import reference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from airflow_sitemaps.sitemap import Sitemap


class SitemapRollbackOperator(SitemapOperator):
    """Publish an earlier generation again, as a new generation.

    Args:
        sitemap: The sitemap.
        generation: Number of the earlier generation. It may be a Jinja template.
        **kwargs: Arguments of Airflow's ``BaseOperator``.
    """

    template_fields: Sequence[str] = ("generation",)
    operator_extra_links = (SitemapIndexLink(),)

    def __init__(self, *, sitemap: Sitemap, generation: int | str, **kwargs: Any) -> None:
        kwargs["outlets"] = [*kwargs.get("outlets", ()), sitemap.asset]
        super().__init__(sitemap=sitemap, **kwargs)
        self.generation = generation

    def is_part_of_run(self, context: Context) -> bool:
        """Return True."""
        return True

    def execute(self, context: Context) -> dict[str, Any]:
        """Roll back, and return a reference to the report.

        Raises:
            AirflowFailException: The generation is no longer kept.
        """
        from airflow_sitemaps.pipeline import stages

        with permanent_failures(context):
            report = stages.rollback(self.sitemap, int(self.generation))
        log_report(report)
        measure_run(self.sitemap, report)
        emit_event(self, context, report)
        return reference(report)
