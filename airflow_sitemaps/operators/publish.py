"""The publishing task."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from airflow_sitemaps.airflow_compat import AirflowSkipException
from airflow_sitemaps.links import SitemapConsoleLink, SitemapIndexLink, SitemapPageLink
from airflow_sitemaps.operators.base import SitemapOperator, emit_event, log_report, permanent_failures
from airflow_sitemaps.operators.observation import measure_run

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow.sdk import Context, XComArg

    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)


class SitemapPublishOperator(SitemapOperator):
    """Commit what was written and make it public, the index last. Then emit the sitemap's asset event.

    An empty plan is published as well: files may have been removed, and the event records that nothing changed.
    Therefore the default trigger rule is ``none_failed``. A dry run, whose plan has no address, is skipped.

    Args:
        sitemap: The sitemap.
        plan: Address of the plan: the planning task's XCom ``plan``.
        receipts: Addresses of the receipts: the output of the mapped writing task.
        skip_unchanged: Whether to skip the task after a run that changed nothing. The run then emits no asset event,
            and the tasks that follow are skipped. Default: False.
        **kwargs: Arguments of Airflow's ``BaseOperator``.
    """

    is_part_of_run = True
    template_fields: Sequence[str] = ("plan", "receipts")
    operator_extra_links = (SitemapIndexLink(), SitemapPageLink(), SitemapConsoleLink())

    def __init__(
        self,
        *,
        sitemap: Sitemap,
        plan: str | XComArg,
        receipts: Sequence[str] | XComArg = (),
        skip_unchanged: bool = False,
        **kwargs: Any,
    ) -> None:
        kwargs["outlets"] = [*kwargs.get("outlets", ()), sitemap.asset]
        super().__init__(sitemap=sitemap, **{"trigger_rule": "none_failed", **kwargs})
        self.plan: Any = plan
        self.receipts: Any = receipts
        self.skip_unchanged = skip_unchanged

    def execute(self, context: Context) -> dict[str, Any]:
        """Publish, and return a reference to the report.

        Raises:
            AirflowFailException: A guard refused, another run committed first, or some sections failed and only the
                others were published. Airflow emits no asset event for a failed task.
            AirflowSkipException: There is no plan, or nothing changed and ``skip_unchanged`` is set.
        """
        from airflow_sitemaps.pipeline import stages
        from airflow_sitemaps.pipeline.report import raise_failures
        from airflow_sitemaps.progress import LogProgress

        if not self.plan:
            raise AirflowSkipException(
                "There is no plan to publish: this is a dry run, or the chosen sections are of another sitemap"
            )
        with permanent_failures(context):
            receipts = receipt_keys(self.receipts[:])  # one call to the API server instead of one per task
            report = stages.publish(self.rendered(context), self.plan, receipts, progress=LogProgress(log))
        log_report(report)
        measure_run(self.sitemap, report)
        if self.skip_unchanged and report.result == "unchanged":
            raise AirflowSkipException("Nothing changed: no asset event is emitted (skip_unchanged)")
        emit_event(self, context, report)
        with permanent_failures(context):
            raise_failures(report)
        return reference(report)

    def get_openlineage_facets_on_complete(self, ti: Any) -> Any:
        """Return all tables, the index and the files of each section, for Airflow's OpenLineage provider."""
        from airflow_sitemaps.lineage import facets

        extra = ti.get_template_context()["outlet_events"][self.sitemap.asset].extra
        return facets.of_publish(self.sitemap, extra.get("report", {}))


def receipt_keys(returned: Iterable[str | Sequence[str]]) -> list[str]:
    """Return the addresses of all receipts. A writing task returns a list, or one text in releases before 0.2."""
    return [key for each in returned for key in ([each] if isinstance(each, str) else each)]


def reference(report: Any) -> dict[str, Any]:
    """Return the part of a report that XCom keeps. The store and the asset event hold the whole report."""
    return {
        "result": report.result,
        "generation": report.generation,
        "urls": report.urls,
        "index_urls": list(report.index_urls[:10]),
    }
