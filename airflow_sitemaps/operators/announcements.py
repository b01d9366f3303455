"""The tasks that inform other services of what is published, and the task that inspects listed URLs in Google's index."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict
from datetime import date, datetime, timezone
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from airflow_sitemaps import setting_checks
from airflow_sitemaps.airflow_compat import AirflowFailException, AirflowSkipException
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.operators.base import SitemapOperator, permanent_failures
from airflow_sitemaps.operators.facts import FAILED, MAX_SECTIONS, MAX_TEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow.sdk import Context, XComArg

    from airflow_sitemaps.http import HttpClient
    from airflow_sitemaps.search_engines.index_status import SectionStatus
    from airflow_sitemaps.sitemap import Sitemap
    from airflow_sitemaps.web_services import Sender

log = logging.getLogger(__name__)


class AnnouncingOperator(SitemapOperator):
    """A task that informs a service of the published generation: it skips what the service knows, sends, and records it."""

    def __init__(
        self, *, sitemap: Sitemap, http: HttpClient | None = None, skip_unchanged: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(sitemap=sitemap, **kwargs)
        self.http = http
        self.skip_unchanged = skip_unchanged

    def execute(self, context: Context) -> Any:
        """Send the requests.

        Raises:
            AirflowFailException: The error is permanent, so a retry cannot help.
            AirflowSkipException: The service knows the published generation, and ``skip_unchanged`` is set.
        """
        from airflow_sitemaps.search_engines import announcer

        with permanent_failures(context):
            published = None if self.sitemap is None else announcer.announced(self.sitemap, self.service())
            if self.skip_unchanged and published is not None and published.is_known:
                raise AirflowSkipException(f"Generation {published.generation} was announced before: nothing changed")
            return self.announce(published)

    def service(self) -> str:
        """Return the name under which the last announced generation is recorded."""
        raise NotImplementedError

    def announce(self, published: Any) -> Any:
        """Send the requests for an ``announcer.Announced`` (None: without a sitemap), record it, and return the responses."""
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
            raise ConfigurationError(f"IndexNowOperator({self.task_id!r}): give one of sitemap= and urls=")
        self.urls: Any = urls
        self.conn_id = conn_id
        self.generation = generation
        self.backfill = backfill
        self.max_urls = max_urls
        self.check_key = check_key

    def service(self) -> str:
        """Return a name for the endpoint."""
        from airflow_sitemaps.search_engines import announcer, indexnow

        return announcer.service_of(indexnow.indexnow(self.conn_id))

    def announce(self, published: Any) -> dict[str, Any]:
        """Send the URLs, and return how many there were."""
        from airflow_sitemaps.search_engines import announcer, indexnow

        site, sender = indexnow.indexnow(self.conn_id), self.sender()
        key_reader = (self.http or indexnow.key_reader()) if self.check_key else None
        if published is None:
            urls = list(self.urls[:])
            if key_reader is not None:
                indexnow.require_key_files(site, urls, key_reader)
            return asdict(site.submit(urls, sender))
        number = int(self.generation) if self.generation not in (None, "") else None
        how = announcer.ChangeScope(generation=number, backfill=self.backfill, max_urls=self.max_urls)
        outcome = asdict(announcer.announce(self.sitemap, site, how, sender, key_reader))
        log.info("IndexNow: %s", text_of(outcome))
        return outcome

    def sender(self) -> Sender | None:
        """Return the client that sends the requests. None means a client that reaches only participating engines."""
        return self.http


def text_of(numbers: dict[str, Any]) -> str:
    """Return the numbers that are not zero, such as ``generation 7, since 6, added 2, urls 2``."""
    return (
        ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in numbers.items() if value) or "nothing to send"
    )


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
        super().__init__(sitemap=sitemap, **kwargs)
        self.url = url
        self.method = method
        self.headers = dict(headers or {})
        self.body = body
        self.conn_id = conn_id

    def service(self) -> str:
        """Return a name for the address."""
        return f"ping-{sha256(self.url.encode()).hexdigest()[:16]}"

    def announce(self, published: Any) -> dict[str, int]:
        """Send one request for each index, and return the status of each."""
        from airflow_sitemaps.search_engines.announcer import Ping, default_client
        from airflow_sitemaps.web_services import password

        headers = dict(self.headers)
        if self.conn_id is not None:
            headers["Authorization"] = f"Bearer {password(self.conn_id, 'the token')}"
        http = self.http or default_client()
        ping = Ping(url=self.url, method=self.method, headers=headers, body=self.body, http=http)
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
        super().__init__(sitemap=sitemap, **kwargs)
        self.site = site
        self.conn_id = conn_id
        self.token = token
        self.api = api

    def service(self) -> str:
        """Return the name of the service."""
        return "searchconsole"

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


class SearchConsoleInspectOperator(SitemapOperator):
    """Inspect a random sample of the listed URLs in Google's index, and estimate by section how many are indexed.

    The sample has the same number of URLs of each section and age where there are as many, and goes on where the last task
    ended. Each task uses what is left of the day's quota; run it once a day. The estimates are of the last 7 days. The
    task returns them, and attaches them to the events of its ``outlets``.

    Args:
        sitemap: The published sitemap. With ``Section(ledger=True)`` new and changed URLs are sampled apart.
        property: The Search Console property, or several. A URL is inspected in the most specific one that has quota left.
        daily: Largest number of requests a day for each property. Default: 2,000, Google's limit.
        min_indexed: Smallest share of a section's URLs that must be indexed, from 0 to 1, or by section. The task fails if
            the whole interval of an estimate is below. Default: None, none.
        conn_id: Google connection whose service account is a user of the property. It needs
            ``airflow-sitemaps[searchconsole]``.
        token: Returns a bearer token, instead of the connection. Default: None.
        api: Base address of the API. Default: Google's.
        http: Sends the requests. Default: a client that reaches only the host of ``api``.
        **kwargs: Arguments of Airflow's ``BaseOperator``.

    Raises:
        ConfigurationError: No property is given, or ``daily`` or ``min_indexed`` is out of range.
    """

    template_fields: Sequence[str] = ("property",)

    def __init__(
        self,
        *,
        sitemap: Sitemap,
        property: str | Sequence[str],  # noqa: A002 - Search Console's own word
        daily: int = 2_000,
        min_indexed: float | Mapping[str, float] | None = None,
        conn_id: str = "google_cloud_default",
        token: Callable[[], str] | None = None,
        api: str | None = None,
        http: HttpClient | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(sitemap=sitemap, **kwargs)
        where = f"SearchConsoleInspectOperator({self.task_id!r})"
        setting_checks.whole_number(where, "daily", daily, 1)
        for bound in min_indexed.values() if isinstance(min_indexed, Mapping) else (min_indexed,):
            if bound is not None:
                setting_checks.number(where, "min_indexed", bound, 0, 1)
        if not property:
            raise ConfigurationError(f"{where}: property={property!r}; give at least one property")
        self.property = property
        self.daily = daily
        self.min_indexed = min_indexed
        self.conn_id = conn_id
        self.token = token
        self.api = api
        self.http = http

    def execute(self, context: Context) -> dict[str, Any]:
        """Inspect URLs, and keep the results.

        Raises:
            AirflowFailException: A section is below ``min_indexed``, or an error that a retry cannot fix.
        """
        from airflow_sitemaps import metrics
        from airflow_sitemaps.search_engines import index_status, inspection, searchconsole

        with permanent_failures(context):
            inspector = searchconsole.GoogleInspector(
                properties=(self.property,) if isinstance(self.property, str) else tuple(self.property),
                token=self.token or searchconsole.google_token(self.conn_id),
                api=self.api or searchconsole.INSPECTION,
                http=self.http,
            )
            observations = inspection.inspect(self.sitemap, inspector, daily=self.daily)
        sections = index_status.statuses(observations)
        metrics.send(metrics.of_index_status(self.sitemap.index_url, inspector.engine, sections))
        result = returned(observations[-1].day, sections)
        for outlet in self.outlets:
            context["outlet_events"][outlet].extra = result
        self._judge(context, sections)
        return result

    def _judge(self, context: Context, found: Sequence[SectionStatus]) -> None:
        """Log each section's status, and fail if one is below its bound."""
        low = []
        for status in found:
            bound = self.min_indexed.get(status.section) if isinstance(self.min_indexed, Mapping) else self.min_indexed
            is_low = bound is not None and status.indexed.high < bound
            line = (
                f"section {status.section!r}: {status.indexed.share:.1%} indexed (from {status.indexed.low:.1%} to "
                f"{status.indexed.high:.1%}), by {status.inspected:,} of {status.urls:,} URLs inspected in 7 days"
            )
            log.log(logging.ERROR if is_low else logging.INFO, "%s", line)
            if is_low:
                low.append(f"{line}; the limit is {bound:.1%}")
        if low:
            reason = (
                f"{len(low)} of {len(found)} sections are below min_indexed: {'; '.join(low[:3])}. Look at the reasons on the "
                "sitemap's page, and inspect some of the URLs in Search Console"
            )
            facts = {"error": "AirflowFailException", "message": reason[:MAX_TEXT]}
            context["ti"].xcom_push(key=FAILED, value=facts)
            raise AirflowFailException(reason)


def returned(day: date, found: Sequence[SectionStatus]) -> dict[str, Any]:
    """Return what XCom and events keep of the estimates: the numbers of the sections with the most URLs."""
    largest = sorted(found, key=lambda status: -status.urls)[:MAX_SECTIONS]
    return {
        "day": day.isoformat(),
        "inspected": sum(status.inspected for status in found),
        "sections": {
            status.section: {
                "urls": status.urls,
                "inspected": status.inspected,
                "indexed": [round(n, 4) for n in (status.indexed.share, status.indexed.low, status.indexed.high)],
            }
            for status in largest
        },
    }
