"""The tasks that read what is published as a crawler does: its files against the rules, and the age of its index."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta, timezone
from random import Random
from typing import TYPE_CHECKING, Any

from airflow_sitemaps import setting_checks
from airflow_sitemaps.airflow_compat import AirflowException
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.operators import VERIFIED, verified_facts
from airflow_sitemaps.operators.base import SitemapOperator, fail, log_lines, permanent_failures
from airflow_sitemaps.quantities import counted

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_sitemaps.http import HttpClient
    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)


class SitemapVerifyOperator(SitemapOperator):
    """Check the published files against all rules of the protocol and against the manifest. Fail on an error.

    The task returns the numbers of files, URLs, errors and warnings.

    Args:
        sitemap: The published sitemap.
        sample: Number of listed pages to fetch. Default: 0.
        strict: Whether warnings fail the task as well. Default: False.
        allow_http: Whether sampled pages may be fetched without TLS, for staging sites. Default: False.
        allow_private: Whether sampled pages may be on hosts that are not on the public Internet. Default: False.
        **kwargs: Arguments of Airflow's ``BaseOperator``.
    """

    template_fields: Sequence[str] = ("sample",)
    follows = True

    def __init__(
        self,
        *,
        sitemap: Sitemap,
        sample: int = 0,
        strict: bool = False,
        allow_http: bool = False,
        allow_private: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(sitemap=sitemap, **kwargs)
        for name, value in {"strict": strict, "allow_http": allow_http, "allow_private": allow_private}.items():
            setting_checks.flag(self.named, name, value)
        if isinstance(sample, (int, float)):  # else a template or another task's result
            setting_checks.whole_number(self.named, "sample", self.whole_number("sample", sample), 0)
        self.sample = sample
        self.strict = strict
        self.allow_http = allow_http
        self.allow_private = allow_private

    def execute(self, context: Context) -> dict[str, Any]:
        """Verify the published files.

        Raises:
            AirflowFailException: A check of severity ``error`` fails; with ``strict``, a warning as well.
        """
        from airflow_sitemaps import metrics
        from airflow_sitemaps.http import AccessRules, HttpClient
        from airflow_sitemaps.report_text import LogProgress
        from airflow_sitemaps.verification import of_sitemap, result

        this = {"sitemap": str(self.sitemap.asset.uri)}  # of a task that is mapped over sitemaps; also if it fails
        context["ti"].xcom_push(key=VERIFIED, value=this)
        with permanent_failures(context):
            what = of_sitemap(self.sitemap)
            web = HttpClient(rules=AccessRules(allow_http=self.allow_http, allow_private=self.allow_private))
            options = replace(what.options, sample=self.whole_number("sample", self.sample))
            verification = what.verify(options, LogProgress(log), web=web)
        metrics.send(metrics.of_verification(self.sitemap.index_url, verification))
        numbers = verified_facts(verification)
        context["ti"].xcom_push(key=VERIFIED, value={**this, **numbers})
        log_lines(result.text_lines(verification))
        if verification.errors or (self.strict and verification.failures):
            first, errors = verification.failures[0], counted(numbers["errors"], "error")
            warnings = counted(numbers["warnings"], "warning")
            reason = (
                f"{errors}, {warnings}; the first: {first.where}: {first.message} ({first.rule}). The log names each"
            )
            fail(context, reason)
        return {name: numbers[name] for name in ("files", "urls", "errors", "warnings")}


class SitemapFreshnessOperator(SitemapOperator):
    """Fail when what is served over HTTP at ``base_url`` is older than a limit, or is not what was published.

    A cache that still serves an old index looks fresh from inside. This task requests the index, three random shards and
    robots.txt as a crawler does; robots.txt must allow a sample of the listed URLs. Run it in a separate DAG, for example
    every hour, so that it also fails when the sitemap's DAG no longer runs. The task returns the age and the state of each
    index.

    Args:
        sitemap: The published sitemap.
        max_age: Largest age of an index. A run that finds nothing to change makes the index fresh again. Default:
            ``Sitemap(freshness=…)``.
        http: Client for addresses inside your network or without TLS. Default: public https addresses only.
        **kwargs: Arguments of Airflow's ``BaseOperator``.

    Raises:
        ConfigurationError: ``max_age`` is not positive, or neither it nor ``Sitemap(freshness=…)`` is set.
    """

    def __init__(
        self, *, sitemap: Sitemap, max_age: timedelta | None = None, http: HttpClient | None = None, **kwargs: Any
    ) -> None:
        super().__init__(sitemap=sitemap, **kwargs)
        limit = max_age if max_age is not None else sitemap.freshness
        if not isinstance(limit, timedelta) or limit <= timedelta(0):
            raise ConfigurationError(
                f"{self.task_id}: max_age={limit!r}; give a positive timedelta, here or as Sitemap(freshness=…)"
            )
        self.max_age = limit
        self.http = http

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Check the age of every index."""
        from airflow_sitemaps import metrics
        from airflow_sitemaps.http import HttpClient
        from airflow_sitemaps.verification import served_faults, served_indexes

        store, http, now = self.sitemap.store, self.http or HttpClient(), datetime.now(timezone.utc)
        with permanent_failures(context):
            indexes = served_indexes(store, http, now)
            others = served_faults(store, http, now, settled=self.max_age, draw=Random())  # noqa: S311 - no secret
        faults = []
        for index in indexes:
            age = "unknown" if index.age_s is None else str(timedelta(seconds=int(index.age_s)))
            line = f"{index.url}: age {age} (limit {self.max_age}); {index.message}"
            is_old = index.age_s is None or index.age_s > self.max_age.total_seconds()
            log.log(logging.ERROR if is_old else logging.INFO, "%s", line)
            if is_old:
                faults.append(line)
            if index.age_s is not None:
                metrics.send(metrics.of_served_index(index.url, index.age_s))
        reasons = []
        if faults:
            reasons.append(
                f"{len(faults)} of {len(indexes)} index files are too old: {'; '.join(faults[:3])}. Check the last run of "
                "the sitemap's DAG and the cache in front of the store"
            )
        if others:
            log_lines(f"ERROR {line}" for line in others)
            reasons.append(f"Not as published: {'; '.join(others[:3])}")
        if reasons:
            stale = {"stale": faults[:3], "limit": str(self.max_age)} if faults else {}
            fail(context, ". ".join(reasons), AirflowException, **stale)
        return [asdict(index) for index in indexes]
