"""The task that submits a sitemap to Google Search Console."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.airflow_compat import AirflowSkipException
from airflow_sitemaps.operators.base import SitemapOperator, permanent_failures

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow.sdk import Context

    from airflow_sitemaps.http.client import HttpClient
    from airflow_sitemaps.sitemap import Sitemap


SERVICE: Final = "searchconsole"
"""Name under which the last submitted generation is recorded."""


class SearchConsoleSubmitOperator(SitemapOperator):
    """Submit every index of a sitemap, and log its state in Google Search Console: errors, warnings, last download.

    The task returns the state of each index.

    Args:
        sitemap: The published sitemap.
        site: The Search Console property: ``https://www.example.com/`` or ``sc-domain:example.com``.
        conn_id: Google connection whose service account is a user of the property with full rights. It needs
            ``airflow-sitemaps[searchconsole]``.
        token: Returns a bearer token, instead of the connection. Default: None.
        api: Base address of the API. Default: Google's.
        http: Sends the requests. Default: a client that reaches only the host of ``api``.
        skip_unchanged: Whether to skip the task if the published generation was already submitted. Default: False.
        **kwargs: Arguments of Airflow's ``BaseOperator``.
    """

    template_fields: Sequence[str] = ("site",)

    def __init__(
        self,
        *,
        sitemap: Sitemap,
        site: str,
        conn_id: str = "google_cloud_default",
        token: Callable[[], str] | None = None,
        api: str | None = None,
        http: HttpClient | None = None,
        skip_unchanged: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(sitemap=sitemap, **kwargs)
        self.skip_unchanged = skip_unchanged
        self.site = site
        self.conn_id = conn_id
        self.token = token
        self.api = api
        self.http = http

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Submit the indexes.

        Raises:
            AirflowFailException: The error is permanent, so a retry cannot help.
            AirflowSkipException: The published generation was already submitted, and ``skip_unchanged`` is set.
        """
        from dataclasses import asdict
        from datetime import datetime, timezone

        from airflow_sitemaps.operators.observation import measure_coverage
        from airflow_sitemaps.search_engines import announcer, connections, coverage, searchconsole

        with permanent_failures(context):
            if self.skip_unchanged and announcer.is_announced(self.sitemap, SERVICE):
                raise AirflowSkipException("This generation was submitted before: nothing changed since")
            client = searchconsole.SearchConsoleClient(
                site=self.site,
                token=self.token or connections.google_token(self.conn_id),
                api=self.api or searchconsole.API,
                http=self.http,
            )
            published = announcer.published(self.sitemap)
            status = searchconsole.submit_all(client, published.index_urls)
            announcer.mark_announced(self.sitemap, SERVICE, published.generation)
            observation = coverage.observe(self.sitemap, self.site, status, datetime.now(timezone.utc))
        if observation is not None:
            measure_coverage(self.sitemap, observation)
        return [asdict(each) for each in status]
