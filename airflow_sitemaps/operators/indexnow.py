"""The task that notifies IndexNow of changed URLs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.operators.base import permanent_failures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context, XComArg

    from airflow_sitemaps.http.client import HttpClient
    from airflow_sitemaps.search_engines.indexnow import Sender
    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)


class IndexNowOperator(BaseOperator):
    """Notify the search engines that support IndexNow (Bing, Yandex, Naver, Seznam, Yep; not Google) of changed URLs.

    Pass either ``sitemap`` or ``urls``. For a sitemap, the task sends the URLs that were added, changed or removed
    since the last announcement. It sends nothing for the first generation unless ``backfill`` is set, and nothing if
    more than ``max_urls`` changed. The task returns the counts of the announcement, such as URLs sent.

    Before it sends URLs, the task requests the key file of each host. It fails if a host does not serve the file, since
    search engines would discard the URLs.

    Args:
        sitemap: The published sitemap.
        urls: The URLs to send, as a list or another task's output.
        conn_id: Airflow connection whose password is the key. Its extra may hold ``key_location`` and ``endpoint``.
        generation: Announce the changes of this generation again. Default: all changes since the last announcement.
        backfill: Whether the first announcement sends every URL. Default: False.
        max_urls: Largest number of changes to send. Default: 100,000.
        http: Client for an endpoint that is not one of IndexNow's, and for the key files. Default: a client
            that reaches only IndexNow's endpoints for URLs, and one that reaches public https addresses for key files.
        check_key: Whether to request the key files. Default: True.
        **kwargs: Arguments of Airflow's ``BaseOperator``.

    Raises:
        ConfigurationError: Both or neither of ``sitemap`` and ``urls`` are given.
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
        check_key: bool = True,
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
        self.check_key = check_key

    def execute(self, context: Context) -> dict[str, Any]:
        """Send the URLs.

        Raises:
            AirflowFailException: The error is permanent, so a retry cannot help.
        """
        from dataclasses import asdict

        from airflow_sitemaps.search_engines import announcer, connections, key_file

        with permanent_failures(context):
            site, sender = connections.indexnow(self.conn_id), self.sender()
            key_reader = (self.http or key_file.reader()) if self.check_key else None
            if self.sitemap is None:
                urls = list(self.urls[:])
                if key_reader is not None:
                    key_file.require_key_files(site, urls, key_reader)
                return asdict(site.submit(urls, sender))
            number = int(self.generation) if self.generation not in (None, "") else None
            how = announcer.ChangeScope(generation=number, backfill=self.backfill, max_urls=self.max_urls)
            outcome = announcer.announce(self.sitemap, site, how, sender, key_reader)
        log.info("IndexNow: %s", text_of(asdict(outcome)))
        return asdict(outcome)

    def sender(self) -> Sender | None:
        """Return the client that sends the requests. None means a client that reaches only participating engines."""
        return self.http


def text_of(numbers: dict[str, Any]) -> str:
    """Return the numbers that are not zero, such as ``generation 7, since 6, added 2, urls 2``."""
    return (
        ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in numbers.items() if value) or "nothing to send"
    )
