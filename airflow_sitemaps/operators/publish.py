"""The publishing task."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from airflow_sitemaps.links import SitemapConsoleLink, SitemapIndexLink, SitemapPageLink
from airflow_sitemaps.operators.base import SitemapOperator, emit, no_vain_retry, tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context, XComArg

    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)


class SitemapPublishOperator(SitemapOperator):
    """Commit what was written and make it public, the index last; then emit the sitemap's asset event.

    ``plan`` is the planning task's XCom ``plan``, ``receipts`` the output of the mapped writing task. An empty plan is
    published as well (files may have gone, the event says that nothing changed), therefore the trigger rule is
    ``none_failed``; a dry run, whose plan has no address, is skipped.
    """

    template_fields: Sequence[str] = ("plan", "receipts")
    operator_extra_links = (SitemapIndexLink(), SitemapPageLink(), SitemapConsoleLink())

    def __init__(
        self, *, sitemap: Sitemap, plan: str | XComArg, receipts: Sequence[str] | XComArg = (), **kwargs: Any
    ) -> None:
        kwargs["outlets"] = [*kwargs.get("outlets", ()), sitemap.asset]
        super().__init__(sitemap=sitemap, **{"trigger_rule": "none_failed", **kwargs})
        self.plan: Any = plan
        self.receipts: Any = receipts

    def execute(self, context: Context) -> dict[str, Any]:
        """Publish; raises AirflowFailException when a guard refuses or another run was first."""
        from airflow_sitemaps.pipeline import stages
        from airflow_sitemaps.progress import LogProgress

        if not self.plan:
            raise AirflowSkipException("There is no plan to publish: a dry run, or sections of another sitemap")
        with no_vain_retry(context):
            receipts = list(self.receipts[:])  # one call to the API server; iterating would be one a receipt
            report = stages.publish(self.rendered(context), self.plan, receipts, progress=LogProgress(log))
        tell(report)
        emit(self, context, report)
        return reference(report)


def reference(report: Any) -> dict[str, Any]:
    """What XCom keeps of a report; the whole of it is in the store and in the asset event."""
    return {
        "result": report.result,
        "generation": report.generation,
        "urls": report.urls,
        "index_urls": list(report.index_urls[:10]),
    }
