"""The tasks that learn what search engines do: what they know of a sample of the listed URLs, and which files they fetch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import to_builtins

from airflow_sitemaps import setting_checks
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.operators import MAX_SECTIONS
from airflow_sitemaps.operators.base import SitemapOperator, fail, permanent_failures
from airflow_sitemaps.search_engines.crawlers import BING, GOOGLE, Crawler
from airflow_sitemaps.sources.access_log import AccessLog

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_sitemaps.http import HttpClient
    from airflow_sitemaps.ports import StoreConfig
    from airflow_sitemaps.search_engines.index_status import Observation, SectionStatus
    from airflow_sitemaps.search_engines.quota import Inspector
    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)


class InspectingOperator(SitemapOperator):
    """A task that inspects a sample of the listed URLs in an engine, and keeps the estimates by section."""

    judged: ClassVar[str]
    """What a bound is about: ``indexed`` or ``crawled``. The bound is ``min_`` and this word."""

    advice: ClassVar[str]
    follows = True

    def __init__(
        self,
        *,
        sitemap: Sitemap,
        daily: int,
        bounds: float | Mapping[str, float] | None,
        quota_store: StoreConfig | None,
        http: HttpClient | None,
        **kwargs: Any,
    ) -> None:
        super().__init__(sitemap=sitemap, **kwargs)
        setting_checks.whole_number(self.named, "daily", daily, 1)
        by_section = bounds if isinstance(bounds, Mapping) else {}
        for bound in by_section.values() if isinstance(bounds, Mapping) else (bounds,):
            if bound is not None:
                setting_checks.number(self.named, f"min_{self.judged}", bound, 0, 1)
        self.check_sections(f"min_{self.judged}", by_section)
        if quota_store is not None and (isinstance(quota_store, type) or not hasattr(quota_store, "open")):
            raise ConfigurationError(f"{self.named}: quota_store={quota_store!r}; give a store, like the sitemap's")
        self.daily = daily
        self.bounds = bounds
        self.quota_store = quota_store
        self.http = http

    def inspector(self) -> Inspector:
        """Return what asks the engine."""
        raise NotImplementedError

    def execute(self, context: Context) -> dict[str, Any]:
        """Inspect URLs, and keep the results.

        Raises:
            AirflowFailException: A section is below its bound, or an error that a retry cannot fix.
        """
        from airflow_sitemaps import metrics
        from airflow_sitemaps.search_engines import index_status, inspection

        with permanent_failures(context):
            inspector = self.inspector()
            observations = inspection.inspect(self.sitemap, inspector, daily=self.daily, quota_store=self.quota_store)
        sections = index_status.statuses(observations)
        metrics.send(metrics.of_index_status(self.sitemap.index_url, observations[-1], sections))
        result = returned(observations[-1], sections)
        for outlet in self.outlets:
            context["outlet_events"][outlet].extra = result
        self._judge(context, observations[-1], sections)
        return result

    def _judge(self, context: Context, newest: Observation, found: Sequence[SectionStatus]) -> None:
        """Log each section's status, and fail if one is below its bound, or named by a bound and cannot be inspected."""
        low = []
        bounds = self.bounds if isinstance(self.bounds, Mapping) else dict.fromkeys(newest.sections, self.bounds)
        for section in sorted(newest.sections.keys() - {status.section for status in found}):
            if bounds.get(section) is not None:
                strata = newest.sections[section].values()
                is_refused = any(stratum.failed for stratum in strata)
                why = "all are refused" if is_refused else "no quota was left" if strata else "none is in a property"
                line = f"section {section!r}: no URL is inspected, {why}"
                log.warning("%s; min_%s is not checked", line, self.judged)
                if bounds is self.bounds and (is_refused or not strata):
                    low.append(line)
        for status in found:
            bound = bounds.get(status.section)
            share = getattr(status, self.judged)
            is_low = bound is not None and share.high < bound
            line = (
                f"section {status.section!r}: {share.share:.1%} {self.judged} (from {share.low:.1%} to "
                f"{share.high:.1%}), by {status.inspected:,} of {status.urls:,} URLs inspected in 7 days"
            )
            log.log(logging.ERROR if is_low else logging.INFO, "%s", line)
            if is_low:
                low.append(f"{line}; the limit is {bound:.1%}")
        if low:
            reason = (
                f"{len(low)} of {len(newest.sections)} sections are below min_{self.judged}: {'; '.join(low[:3])}. Look at the reasons "
                f"on the sitemap's page, and {self.advice}"
            )
            fail(context, reason)


class SearchConsoleInspectOperator(InspectingOperator):
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
        quota_store: Store whose state area counts the requests. Sitemaps that share a property share its quota: give their
            tasks the same store. Default: None, the sitemap's store.
        conn_id: Google connection whose service account is a user of the property. It needs
            ``airflow-sitemaps[searchconsole]``.
        token: Returns a bearer token, instead of the connection. Default: None.
        api: Base address of the API. Default: Google's.
        http: Sends the requests. Default: a client that reaches only the host of ``api``.
        **kwargs: Arguments of Airflow's ``BaseOperator``.

    Raises:
        ConfigurationError: No property is given, or ``daily`` or ``min_indexed`` is out of range.
    """

    judged = "indexed"
    advice = "inspect some of the URLs in Search Console"
    template_fields: Sequence[str] = ("property",)

    def __init__(
        self,
        *,
        sitemap: Sitemap,
        property: str | Sequence[str],  # noqa: A002 - Search Console's own word
        daily: int = 2_000,
        min_indexed: float | Mapping[str, float] | None = None,
        quota_store: StoreConfig | None = None,
        conn_id: str = "google_cloud_default",
        token: Callable[[], str] | None = None,
        api: str | None = None,
        http: HttpClient | None = None,
        **kwargs: Any,
    ) -> None:
        from airflow_sitemaps.search_engines.searchconsole import property_of

        super().__init__(sitemap=sitemap, daily=daily, bounds=min_indexed, quota_store=quota_store, http=http, **kwargs)
        is_one = isinstance(property, str) or not isinstance(property, Collection)
        sites: Any = (property,) if is_one else property or ("",)
        for site in sites:
            if not self.is_open(site):
                property_of(site)
        self.property = property
        self.conn_id = conn_id
        self.token = token
        self.api = api

    def inspector(self) -> Inspector:
        """Return what asks Google."""
        from airflow_sitemaps.search_engines import searchconsole

        return searchconsole.GoogleInspector(
            properties=(self.property,) if isinstance(self.property, str) else tuple(self.property),
            token=self.token or searchconsole.google_token(self.conn_id),
            api=self.api or searchconsole.INSPECTION,
            http=self.http,
        )


class BingWebmasterOperator(InspectingOperator):
    """Read what Bing knows: of a random sample of the listed URLs, of the submitted sitemaps, and of the whole site.

    It estimates by section how many URLs Bing has discovered and crawled. Bing does not say which URLs it has indexed, only
    how many of the whole site. The sample is drawn like that of ``SearchConsoleInspectOperator``; run the task once a day.
    It returns the estimates with Bing's statistics, and attaches them to the events of its ``outlets``.

    Args:
        sitemap: The published sitemap. With ``Section(ledger=True)`` new and changed URLs are sampled apart.
        site: The site in Bing Webmaster Tools, such as ``https://www.example.com/``. URLs outside it are not sampled.
        daily: Largest number of requests a day. Default: 500, one a second. Bing publishes no limit; the task ends when Bing
            refuses more.
        min_crawled: Smallest share of a section's URLs that must be crawled, from 0 to 1, or by section. The task fails if
            the whole interval of an estimate is below. Default: None, none.
        quota_store: Store whose state area counts the requests. Give the tasks of all sitemaps with this API key the same
            store. Default: None, the sitemap's store.
        conn_id: Airflow connection whose password is the API key (Bing Webmaster Tools, Settings, API access).
        api: Base address of the API. Default: Bing's.
        http: Sends the requests. Default: a client that reaches only the host of ``api``.
        **kwargs: Arguments of Airflow's ``BaseOperator``.

    Raises:
        ConfigurationError: ``daily`` or ``min_crawled`` is out of range.
    """

    judged = "crawled"
    advice = "look at some of the URLs in Bing Webmaster Tools (URL inspection)"
    template_fields: Sequence[str] = ("site",)

    def __init__(
        self,
        *,
        sitemap: Sitemap,
        site: str,
        daily: int = 500,
        min_crawled: float | Mapping[str, float] | None = None,
        quota_store: StoreConfig | None = None,
        conn_id: str = "bing_webmaster_default",
        api: str | None = None,
        http: HttpClient | None = None,
        **kwargs: Any,
    ) -> None:
        from airflow_sitemaps.search_engines.bing_webmaster import BingInspector

        super().__init__(sitemap=sitemap, daily=daily, bounds=min_crawled, quota_store=quota_store, http=http, **kwargs)
        if not self.is_open(site):
            BingInspector(site=site, key="")  # it refuses what is no site
        self.site = site
        self.conn_id = conn_id
        self.api = api

    def inspector(self) -> Inspector:
        """Return what asks Bing."""
        from airflow_sitemaps.search_engines import bing_webmaster
        from airflow_sitemaps.web_services import password

        key = password(self.conn_id, "the API key of Bing Webmaster Tools")
        return bing_webmaster.BingInspector(site=self.site, key=key, api=self.api or bing_webmaster.API, http=self.http)


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
        ConfigurationError: ``days`` is below 1 or over a hundred years, or two crawlers have one name, or there is none.
    """

    follows = True

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
        setting_checks.instance(self.named, "access_log", access_log, AccessLog)
        setting_checks.whole_number(self.named, "days", days, 1, setting_checks.LONGEST.days)
        setting_checks.instances(self.named, "crawlers", crawlers, Crawler, "crawlers, like (GOOGLE, BING)")
        names = [crawler.name for crawler in crawlers]
        if not 0 < len(names) == len(set(names)):
            raise ConfigurationError(f"{self.named}: crawlers={names!r}; give crawlers with different names")
        self.access_log = access_log
        self.crawlers = crawlers
        self.days = days
        self.http = http

    def execute(self, context: Context) -> dict[str, Any]:
        """Read the log, and keep what it says."""
        from airflow_sitemaps import metrics
        from airflow_sitemaps.search_engines import fetches

        now = datetime.now(timezone.utc)
        first = (now - timedelta(days=self.days)).date()
        agents = {crawler.name: crawler.agent.lower() for crawler in self.crawlers}
        with permanent_failures(context):
            state = self.sitemap.store.open().state
            requests = partial(self.access_log.requests, first, agents, render=self.renderer(context))
            summary = fetches.observe(
                state, requests, self.crawlers, lambda crawler, given: crawler.own(given, self.http), first, now
            )
        metrics.send(metrics.of_fetches(self.sitemap.index_url, summary))
        for line in fetches.lines(summary):
            log.log(logging.WARNING if line.startswith("NOT") else logging.INFO, "%s", line)
        return {
            name: {"fetches": each.fetches, "refused": each.refused, "false": each.false, "late": each.late}
            for name, each in summary.crawlers.items()
        }


def returned(newest: Observation, found: Sequence[SectionStatus]) -> dict[str, Any]:
    """Return what XCom and events keep: the estimates of the sections with the most URLs, and what is known of the site."""
    largest = sorted(found, key=lambda status: -status.urls)[:MAX_SECTIONS]
    site = {} if newest.site is None else {"site": to_builtins(newest.site)}
    return {
        "day": newest.day.isoformat(),
        "inspected": sum(status.inspected for status in found),
        "sections": {
            status.section: {
                "urls": status.urls,
                "inspected": status.inspected,
                **{
                    name: [round(n, 4) for n in (share.share, share.low, share.high)]
                    for name, share in status.shares.items()
                },
            }
            for status in largest
        },
        **site,
    }
