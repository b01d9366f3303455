"""The task that tells IndexNow of changed URLs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.operators.base import no_vain_retry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context, XComArg

    from airflow_sitemaps.notify.http import HttpClient
    from airflow_sitemaps.notify.indexnow import Sender
    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)


class IndexNowOperator(BaseOperator):
    """Tell the engines of IndexNow (Bing, Yandex, Naver, Seznam, Yep; not Google) which URLs changed.

    Of a ``sitemap``: just those added, changed or removed since it was last announced; nothing at all for its first
    generation unless ``backfill``, and nothing where more than ``max_urls`` changed. ``generation`` announces that
    generation's changes again. Or the ``urls`` given, as a list or another task's output.

    ``conn_id``: a connection whose password is the key; its extra may have ``key_location`` and ``endpoint``. ``http``:
    a client with rules of its own, to ask an endpoint that is not known to take part. Returns what was told, in numbers.
    """

    template_fields: Sequence[str] = ("urls", "generation", "conn_id")

    def __init__(
        self,
        *,
        sitemap: Sitemap | None = None,
        urls: Sequence[str] | XComArg | None = None,
        conn_id: str = "indexnow_default",
        generation: int | str | None = None,
        backfill: bool = False,
        max_urls: int = 100_000,
        http: HttpClient | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if (sitemap is None) == (urls is None):
            raise ConfigurationError(f"IndexNowOperator({self.task_id!r}): give one of sitemap= and urls=")
        self.sitemap = sitemap
        self.urls: Any = urls
        self.conn_id = conn_id
        self.generation = generation
        self.backfill = backfill
        self.max_urls = max_urls
        self.http = http

    def execute(self, context: Context) -> dict[str, Any]:
        """Send; raises AirflowFailException where a retry would not help."""
        from dataclasses import asdict

        from airflow_sitemaps.notify import announcing, connections

        with no_vain_retry(context):
            site, sender = connections.indexnow(self.conn_id), self.sender()
            if self.sitemap is None:
                return asdict(site.submit(list(self.urls[:]), sender))
            number = int(self.generation) if self.generation not in (None, "") else None
            how = announcing.Scope(generation=number, backfill=self.backfill, max_urls=self.max_urls)
            told = announcing.announce(self.sitemap, site, how, sender)
        log.info("IndexNow: %s", told)
        return asdict(told)

    def sender(self) -> Sender | None:
        """What sends; None: a client that reaches the engines that take part, and nobody else."""
        return self.http
