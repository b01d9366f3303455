"""The task that reads what was published as a crawler does."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from airflow_sitemaps.operators.base import SitemapOperator, no_vain_retry
from airflow_sitemaps.operators.facts import VERIFIED, verified_facts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)


class SitemapVerifyOperator(SitemapOperator):
    """Judge the published files by all rules of the protocol, and by the manifest; fail when one is broken.

    ``sample``: pages to fetch as well, to see that they answer; warnings are logged and do not fail the task unless
    ``strict``. Returns the numbers of files, URLs, errors and warnings.
    """

    template_fields: Sequence[str] = ("sample",)

    def __init__(self, *, sitemap: Sitemap, sample: int = 0, strict: bool = False, **kwargs: Any) -> None:
        super().__init__(sitemap=sitemap, **kwargs)
        self.sample = sample
        self.strict = strict

    def execute(self, context: Context) -> dict[str, Any]:
        """Verify; raises AirflowFailException when a rule is broken."""
        from airflow_sitemaps import inspection, summary
        from airflow_sitemaps.progress import LogProgress

        with no_vain_retry(context):
            what = inspection.of_sitemap(self.rendered(context))
            found = what.verify(replace(what.options, sample=int(self.sample)), LogProgress(log))
        context["ti"].xcom_push(key=VERIFIED, value=verified_facts(found))
        for line in summary.verification_lines(found):
            log.info("%s", line)
        if found.errors or (self.strict and found.failures):
            raise AirflowFailException(
                f"{len(found.errors)} rule(s) broken, {len(found.failures)} findings; see the log"
            )
        return {"files": found.files, "urls": found.urls, "errors": 0, "warnings": len(found.failures)}
