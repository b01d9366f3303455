"""The task that goes back to an earlier generation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_sitemaps.links import SitemapIndexLink
from airflow_sitemaps.operators.base import SitemapOperator, emit, no_vain_retry, tell
from airflow_sitemaps.operators.publish import reference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from airflow_sitemaps.sitemap import Sitemap


class SitemapRollbackOperator(SitemapOperator):
    """Publish an earlier generation again, as a new one. ``generation`` is its number; a template will do."""

    template_fields: Sequence[str] = ("generation",)
    operator_extra_links = (SitemapIndexLink(),)

    def __init__(self, *, sitemap: Sitemap, generation: int | str, **kwargs: Any) -> None:
        kwargs["outlets"] = [*kwargs.get("outlets", ()), sitemap.asset]
        super().__init__(sitemap=sitemap, **kwargs)
        self.generation = generation

    def execute(self, context: Context) -> dict[str, Any]:
        """Roll back; raises AirflowFailException when that generation is not kept any more."""
        from airflow_sitemaps.pipeline import stages

        with no_vain_retry(context):
            report = stages.rollback(self.rendered(context), int(self.generation))
        tell(report)
        emit(self, context, report)
        return reference(report)
