"""The task that pings an address of your own."""

from __future__ import annotations

import logging
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from airflow_sitemaps.airflow_compat import AirflowSkipException
from airflow_sitemaps.operators.base import SitemapOperator, permanent_failures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from airflow_sitemaps.http.client import HttpClient
    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)


class SitemapPingOperator(SitemapOperator):
    """Request one of your own addresses for every index of a sitemap: a CDN's purge, an internal search, a webhook.

    The retired ping addresses of Google and Bing are refused. The task returns the status by index.

    Args:
        sitemap: The published sitemap.
        url: Template of the address. ``{sitemap}`` is replaced by the index's address.
        method: HTTP method. Default: ``GET``.
        headers: Request headers. Default: none.
        body: Template of the request body, in which ``{sitemap}`` is replaced. Default: no body.
        conn_id: Airflow connection whose password is sent as a bearer token. Default: no token.
        http: Client for addresses inside your network. Default: public https addresses only.
        skip_unchanged: Whether to skip the task if this address was already pinged for the published generation.
            Default: False.
        **kwargs: Arguments of Airflow's ``BaseOperator``.
    """

    template_fields: Sequence[str] = ("url", "headers", "body")

    def __init__(
        self,
        *,
        sitemap: Sitemap,
        url: str,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: str | None = None,
        conn_id: str | None = None,
        http: HttpClient | None = None,
        skip_unchanged: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(sitemap=sitemap, **kwargs)
        self.skip_unchanged = skip_unchanged
        self.url = url
        self.method = method
        self.headers = dict(headers or {})
        self.body = body
        self.conn_id = conn_id
        self.http = http

    def execute(self, context: Context) -> dict[str, int]:
        """Send the requests.

        Raises:
            AirflowFailException: The error is permanent, so a retry cannot help.
            AirflowSkipException: The published generation was already pinged, and ``skip_unchanged`` is set.
        """
        from airflow_sitemaps.search_engines import announcer, connections
        from airflow_sitemaps.search_engines.ping import Ping, default_client

        with permanent_failures(context):
            service = f"ping-{sha256(self.url.encode()).hexdigest()[:16]}"
            if self.skip_unchanged and announcer.is_announced(self.sitemap, service):
                raise AirflowSkipException("This generation was pinged before: nothing changed since")
            headers = dict(self.headers)
            if self.conn_id is not None:
                headers["Authorization"] = f"Bearer {connections.password(self.conn_id, 'the token')}"
            http = self.http or default_client()
            ping = Ping(url=self.url, method=self.method, headers=headers, body=self.body, http=http)
            published = announcer.published(self.sitemap)
            answers = {url: ping.send(url) for url in published.index_urls}
            announcer.mark_announced(self.sitemap, service, published.generation)
        log.info("pinged: %s", answers)
        return answers
