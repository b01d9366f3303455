"""The task that pings an address of the user's own."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from airflow_sitemaps.operators.base import SitemapOperator, no_vain_retry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from airflow_sitemaps.notify.http import HttpClient
    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)


class SitemapPingOperator(SitemapOperator):
    """Ask an address of yours for every index file of a sitemap: a CDN's purge, an internal search, a webhook.

    ``url`` and ``body`` hold ``{sitemap}`` where the index's address goes. Search engines have no such address any
    more: Google's and Bing's are dead, and refused. ``conn_id``: a connection whose password is sent as a bearer
    token. ``http`` is a client with rules of its own, for addresses inside your network. Returns status by index file.
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
        **kwargs: Any,
    ) -> None:
        super().__init__(sitemap=sitemap, **kwargs)
        self.url = url
        self.method = method
        self.headers = dict(headers or {})
        self.body = body
        self.conn_id = conn_id
        self.http = http

    def execute(self, context: Context) -> dict[str, int]:
        """Ping; raises AirflowFailException where a retry would not help."""
        from airflow_sitemaps.notify import announcing, connections
        from airflow_sitemaps.notify.ping import Ping, default_client

        with no_vain_retry(context):
            headers = dict(self.headers)
            if self.conn_id is not None:
                headers["Authorization"] = f"Bearer {connections.password(self.conn_id, 'the token')}"
            http = self.http or default_client()
            ping = Ping(url=self.url, method=self.method, headers=headers, body=self.body, http=http)
            answers = {url: ping.send(url) for url in announcing.published_indexes(self.sitemap)}
        log.info("pinged: %s", answers)
        return answers
