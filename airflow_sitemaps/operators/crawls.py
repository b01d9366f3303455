"""The task that reads from an access log which crawlers fetched the files of a sitemap."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_sitemaps import setting_checks
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.operators.base import SitemapOperator, permanent_failures
from airflow_sitemaps.search_engines.crawlers import BING, GOOGLE, Crawler
from airflow_sitemaps.sources.access_log import AccessLog

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_sitemaps.http import HttpClient
    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)


class SitemapFetchesOperator(SitemapOperator):
    """Keep the last fetch of each public file by each crawler, from an access or CDN log in a database.

    Run it once a day. Requests from addresses that are not the crawler's own are counted apart. The task returns the
    numbers by crawler.

    Args:
        sitemap: The published sitemap.
        access_log: The log.
        crawlers: The crawlers to look for. Default: Google's and Bing's.
        days: Number of days before today to read. Default: 3, so that late lines and a missed task leave no gap.
        http: Reads the lists of IP ranges. Default: a client that reaches only their hosts.
        **kwargs: Arguments of Airflow's ``BaseOperator``.

    Raises:
        ConfigurationError: ``days`` is below 1, or two crawlers have one name, or there is none.
    """

    def __init__(
        self,
        *,
        sitemap: Sitemap,
        access_log: AccessLog,
        crawlers: Sequence[Crawler] = (GOOGLE, BING),
        days: int = 3,
        http: HttpClient | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(sitemap=sitemap, **kwargs)
        where = f"SitemapFetchesOperator({self.task_id!r})"
        setting_checks.instance(where, "access_log", access_log, AccessLog)
        setting_checks.whole_number(where, "days", days, 1)
        names = [crawler.name for crawler in crawlers]
        if not 0 < len(names) == len(set(names)):
            raise ConfigurationError(f"{where}: crawlers={names!r}; give crawlers with different names")
        self.access_log = access_log
        self.crawlers = crawlers
        self.days = days
        self.http = http

    def execute(self, context: Context) -> dict[str, Any]:
        """Read the log, and keep what it says."""
        from airflow_sitemaps import metrics
        from airflow_sitemaps.search_engines import fetches
        from airflow_sitemaps.templates import renderer, words_of_run

        now = datetime.now(timezone.utc)
        first = (now - timedelta(days=self.days)).date()
        agents = {crawler.name: crawler.agent.lower() for crawler in self.crawlers}
        render = renderer(self.get_template_env(), words_of_run(context))
        with permanent_failures(context):
            summary = fetches.observe(
                self.sitemap.store.open().state,
                partial(self.access_log.requests, first, agents, render=render),
                self.crawlers,
                lambda crawler, addresses: crawler.own(addresses, self.http),
                first,
                now,
            )
        metrics.send(metrics.of_fetches(self.sitemap.index_url, summary))
        for line in fetches.lines(summary):
            log.log(logging.WARNING if line.startswith("NOT") else logging.INFO, "%s", line)
        return {
            name: {"fetches": each.fetches, "refused": each.refused, "false": each.false, "late": each.late}
            for name, each in summary.crawlers.items()
        }
