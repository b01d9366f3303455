"""The task that reads and checks what is published, as a crawler does."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_sitemaps.airflow_compat import AirflowFailException
from airflow_sitemaps.operators.base import SitemapOperator, permanent_failures
from airflow_sitemaps.operators.facts import VERIFIED, verified_facts
from airflow_sitemaps.operators.observation import measure_verification

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)


class SitemapVerifyOperator(SitemapOperator):
    """Check the published files against all rules of the protocol and against the manifest. Fail on an error.

    The task returns the numbers of files, URLs, errors and warnings.

    Args:
        sitemap: The published sitemap.
        sample: Number of listed pages to fetch. Default: 0.
        strict: Whether warnings fail the task as well. Default: False.
        allow_http: Whether sampled pages may be fetched without TLS, for staging sites. Default: False.
        allow_private: Whether sampled pages may be on hosts that are not on the public Internet. Default: False.
        **kwargs: Arguments of Airflow's ``BaseOperator``.
    """

    template_fields: Sequence[str] = ("sample",)

    def __init__(
        self,
        *,
        sitemap: Sitemap,
        sample: int = 0,
        strict: bool = False,
        allow_http: bool = False,
        allow_private: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(sitemap=sitemap, **kwargs)
        self.sample = sample
        self.strict = strict
        self.allow_http = allow_http
        self.allow_private = allow_private

    def execute(self, context: Context) -> dict[str, Any]:
        """Verify the published files.

        Raises:
            AirflowFailException: A check of severity ``error`` fails; with ``strict``, a warning as well.
        """
        from airflow_sitemaps.http.client import HttpClient
        from airflow_sitemaps.http.destinations import AccessRules
        from airflow_sitemaps.progress import LogProgress
        from airflow_sitemaps.report_text import logged
        from airflow_sitemaps.verification import subject
        from airflow_sitemaps.verification.result import text_lines

        with permanent_failures(context):
            what = subject.of_sitemap(self.sitemap)
            web = HttpClient(rules=AccessRules(allow_http=self.allow_http, allow_private=self.allow_private))
            verification = what.verify(replace(what.options, sample=int(self.sample)), LogProgress(log), web=web)
        measure_verification(self.sitemap, verification)
        context["ti"].xcom_push(key=VERIFIED, value=verified_facts(verification))
        for line in text_lines(verification):
            level, text = logged(line)
            log.log(level, "%s", text)
        if verification.errors or (self.strict and verification.failures):
            raise AirflowFailException(
                f"{len(verification.errors):,} errors, {len(verification.warnings):,} warnings; the log names each rule and address"
            )
        return {
            "files": verification.files,
            "urls": verification.urls,
            "errors": 0,
            "warnings": len(verification.failures),
        }
