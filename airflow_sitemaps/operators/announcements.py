"""The tasks that inform other services of what is published."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, cast

from airflow_sitemaps import setting_checks
from airflow_sitemaps.airflow_compat import AirflowSkipException
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.operators.base import SitemapOperator, permanent_failures

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from airflow_sitemaps.http import HttpClient
    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)


class AnnouncingOperator(SitemapOperator):
    """A task that informs a service of the published generation: it skips what the service knows, sends, and records it."""

    follows = True

    def __init__(
        self, *, sitemap: Sitemap, http: HttpClient | None = None, skip_unchanged: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(sitemap=sitemap, **kwargs)
        setting_checks.flag(self.named, "skip_unchanged", skip_unchanged)
        self.http = http
        self.skip_unchanged = skip_unchanged

    def execute(self, context: Context) -> Any:
        """Send the requests.

        Raises:
            AirflowFailException: The error is permanent, so a retry cannot help.
            AirflowSkipException: The service knows the published generation, and ``skip_unchanged`` is set.
        """
        from airflow_sitemaps.pipeline.state.repository import StateRepository, last_announced

        with permanent_failures(context):
            sitemap: Sitemap | None = self.sitemap
            if sitemap is None:
                return self.announce(None)
            state = StateRepository(sitemap.store.open().state)
            published = state.published()
            if self.skip_unchanged and last_announced(state.objects, self.service()) == published.generation:
                raise AirflowSkipException(f"Generation {published.generation} was announced before: nothing changed")
            return self.announce(published)

    def service(self) -> str:
        """Return the name under which the last announced generation is recorded."""
        raise NotImplementedError

    def announce(self, published: Any) -> Any:
        """Send the requests for a ``Manifest`` (None: without a sitemap), record it, and return the responses."""
        raise NotImplementedError

    def record(self, published: Any) -> None:
        """Record that the service knows the generation before its first request: a later one is still to be announced."""
        from airflow_sitemaps.pipeline.state.repository import record_announced

        record_announced(self.sitemap.store.open().state, self.service(), published.generation)


class IndexNowOperator(AnnouncingOperator):
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
        skip_unchanged: Whether to skip the task if the published generation was announced before. Default: False.
        **kwargs: Arguments of Airflow's ``BaseOperator``.

    Raises:
        ConfigurationError: Both or neither of ``sitemap`` and ``urls`` are given.
    """

    takes_urls: ClassVar[bool] = True
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
        super().__init__(sitemap=cast("Sitemap", sitemap), http=http, **kwargs)
        if (sitemap is None) == (urls is None):
            raise ConfigurationError(f"{self.named}: give one of sitemap= and urls=")
        setting_checks.whole_number(self.named, "max_urls", max_urls, 1)
        setting_checks.flag(self.named, "backfill", backfill)
        setting_checks.flag(self.named, "check_key", check_key)
        self.urls: Any = urls
        self.conn_id = conn_id
        self.generation = generation
        self.backfill = backfill
        self.max_urls = max_urls
        self.check_key = check_key

    def service(self) -> str:
        """Return a name for the endpoint."""
        from airflow_sitemaps.search_engines import announcer

        return announcer.service_of(announcer.indexnow(self.conn_id))

    def announce(self, published: Any) -> dict[str, Any]:
        """Send the URLs, and return how many there were."""
        from airflow_sitemaps.search_engines import announcer
        from airflow_sitemaps.web_services import public_client

        site = announcer.indexnow(self.conn_id)
        key_reader = (self.http or public_client()) if self.check_key else None
        if published is None:
            if not isinstance(self.urls, Sequence) or isinstance(self.urls, str):
                raise ConfigurationError(f"{self.named}: urls={self.urls!r}; give a list of URLs")
            # A slice reads mapped results at once; each may be a list.
            urls = [str(url) for part in self.urls[:] for url in (part if isinstance(part, list) else [part])]
            if key_reader is not None:
                announcer.require_key_files(site, urls, key_reader)
            return asdict(site.submit(urls, self.http))
        number = None if self.generation in (None, "", "None") else self.whole_number("generation", self.generation)
        announcement = announcer.announce(
            self.sitemap, site, generation=number, backfill=self.backfill, max_urls=self.max_urls,
            sender=self.http, key_reader=key_reader,
        )  # fmt: skip
        log.info("IndexNow: %s", announcement)
        return asdict(announcement)


class SitemapPingOperator(AnnouncingOperator):
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
        **kwargs: Any,
    ) -> None:
        from airflow_sitemaps.search_engines.announcer import Ping

        super().__init__(sitemap=sitemap, **kwargs)
        if not self.is_open([url, body]):
            Ping(url=url, method=method, headers={} if self.is_open(headers) else headers or {}, body=body)
        self.url = url
        self.method = method
        self.headers: Any = dict(headers) if isinstance(headers, Mapping) else headers or {}
        self.body = body
        self.conn_id = conn_id

    def service(self) -> str:
        """Return a name for the request."""
        request = self.url if self.method == "GET" and not self.body else f"{self.method} {self.url} {self.body or ''}"
        return f"ping-{sha256(request.encode()).hexdigest()[:16]}"

    def announce(self, published: Any) -> dict[str, int]:
        """Send one request for each index, and return the status of each."""
        from airflow_sitemaps.search_engines.announcer import Ping
        from airflow_sitemaps.web_services import password, public_client

        if not isinstance(self.headers, Mapping):
            what = f"{self.named}: headers={type(self.headers).__name__}(…)"
            raise ConfigurationError(f"{what} after rendering; give a mapping, whose values may be templates")
        # A DAG with render_template_as_native_obj makes numbers and dicts of texts that look like them.
        headers = {str(name): str(value) for name, value in self.headers.items()}
        body = self.body if isinstance(self.body, str | None) else json.dumps(self.body)
        if self.conn_id is not None:
            headers["Authorization"] = f"Bearer {password(self.conn_id, 'the token')}"
        http = self.http or public_client()
        ping = Ping(url=self.url, method=self.method, headers=headers, body=body, http=http)
        answers = {url: ping.send(url) for url in published.index_urls}
        self.record(published)
        log.info("pinged: %s", answers)
        return answers


class SearchConsoleSubmitOperator(AnnouncingOperator):
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
        **kwargs: Any,
    ) -> None:
        from airflow_sitemaps.search_engines.searchconsole import property_of

        super().__init__(sitemap=sitemap, **kwargs)
        if not self.is_open(site):
            property_of(site)
        self.site = site
        self.conn_id = conn_id
        self.token = token
        self.api = api

    def service(self) -> str:
        """Return a name for the property."""
        return f"searchconsole-{sha256(self.site.encode()).hexdigest()[:16]}"

    def announce(self, published: Any) -> list[dict[str, Any]]:
        """Submit the indexes, keep their state, and return it."""
        from airflow_sitemaps import metrics
        from airflow_sitemaps.search_engines import searchconsole

        token = self.token or searchconsole.google_token(self.conn_id)
        client = searchconsole.SearchConsoleClient(
            site=self.site, token=token, api=self.api or searchconsole.API, http=self.http
        )
        status = searchconsole.submit_all(client, published.index_urls)
        self.record(published)
        observation = searchconsole.observe(self.sitemap, self.site, status, datetime.now(timezone.utc))
        if observation is not None:
            metrics.send(metrics.of_coverage(self.sitemap.index_url, observation))
        return [asdict(each) for each in status]
