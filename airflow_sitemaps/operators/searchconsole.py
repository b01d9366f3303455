"""The task that submits a sitemap to Google Search Console."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_sitemaps.operators.base import SitemapOperator, no_vain_retry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow.sdk import Context

    from airflow_sitemaps.notify.http import HttpClient
    from airflow_sitemaps.sitemap import Sitemap


class SearchConsoleSubmitOperator(SitemapOperator):
    """Submit every index file of a sitemap, and log what Google has made of it so far: errors, warnings, last download.

    ``site`` is the property: ``https://www.example.com/`` or ``sc-domain:example.com``. ``conn_id`` is a Google
    connection whose service account is a user of the property with full rights; it needs
    ``airflow-sitemaps[searchconsole]``. ``token`` gives bearer tokens instead. Returns what Google knows of each file.
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
        **kwargs: Any,
    ) -> None:
        super().__init__(sitemap=sitemap, **kwargs)
        self.site = site
        self.conn_id = conn_id
        self.token = token
        self.api = api
        self.http = http

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Submit; raises AirflowFailException where a retry would not help."""
        from dataclasses import asdict

        from airflow_sitemaps.notify import announcing, connections, searchconsole

        with no_vain_retry(context):
            client = searchconsole.SearchConsoleClient(
                site=self.site,
                token=self.token or connections.google_token(self.conn_id),
                api=self.api or searchconsole.API,
                http=self.http,
            )
            known = searchconsole.submit_all(client, announcing.published_indexes(self.sitemap))
        return [asdict(each) for each in known]
