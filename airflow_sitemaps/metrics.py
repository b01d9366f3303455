"""Metrics of sitemap runs: their registry, their values, and sending them through Airflow's own stats.

Airflow's ``[metrics]`` section names the backend: StatsD, Datadog or OpenTelemetry.
"""

from __future__ import annotations

import logging
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal
from zlib import crc32

from airflow_sitemaps.airflow_compat import is_enabled, stats_client
from airflow_sitemaps.errors import ConflictError, PartlyPublishedError, RefusedError
from airflow_sitemaps.protocol import lastmod
from airflow_sitemaps.protocol.rules import RULES

if TYPE_CHECKING:
    from airflow_sitemaps.pipeline.report import Report, SectionReport
    from airflow_sitemaps.search_engines.fetches import Fetches
    from airflow_sitemaps.search_engines.index_status import Observation as IndexObservation
    from airflow_sitemaps.search_engines.index_status import SectionStatus
    from airflow_sitemaps.search_engines.searchconsole import Observation
    from airflow_sitemaps.verification.result import Verification

log = logging.getLogger(__name__)

PREFIX: Final = "sitemaps."
"""Prefix of every name. Airflow adds its own prefix (``[metrics] statsd_prefix``, ``airflow``) in front of it."""

INDEX_SECTION: Final = "index"

MAX_TAG_CHARACTERS: Final = MappingProxyType({"sitemap": 80, "section": 64})
"""Longest values; of other tags ``OTHER_TAG_CHARACTERS``. Airflow drops StatsD names above 250 characters with tags."""
OTHER_TAG_CHARACTERS: Final = 32
_NOT_IN_TAGS: Final = re.compile(r"[^A-Za-z0-9_.-]")

Kind = Literal["counter", "gauge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric: a ``counter`` has increments, a ``gauge`` its last value. ``sitemap`` is the first of its tags."""

    name: str
    kind: Kind
    unit: str
    tags: tuple[str, ...]
    text: str


_COUNTERS: Final = (
    ("runs", "runs", "result", "Runs by result: published, partly_published, unchanged, refused, conflict, failed"),
    ("refusals", "refusals", "section guard", "Refusals by guard"),
    ("drift", "files", "section", "Public files that another program changed or removed"),
    ("rows_read", "rows", "section", "Rows read from the warehouse"),
    ("bytes_written", "bytes", "section", "Bytes of files written to the store"),
    ("shards_changed", "shards", "section outcome", "Shards by outcome: kept, created, rewritten, removed, repaired"),
)
_GAUGES: Final = (
    ("generation", "number", "", "Number of the published generation"),
    ("urls", "URLs", "section", "URLs that are published"),
    ("rows", "rows", "section", "Rows in the source"),
    ("rows_dropped", "rows", "section rule", "Rows that are not listed because they break a rule"),
    ("shards", "shards", "section", "Shards that are published"),
    ("file_bytes", "bytes", "section", "Size of the published files"),
    ("lastmod_trust", "URLs", "section change", "URLs by what changed in the last 7 days, where `page=` names columns"),
    ("data_age", "seconds", "section", "Age of the newest lastmod of a section at the end of the run"),
    ("index_age", "seconds", "", "Time since the published generation was committed, at the end of the run"),
    ("last_success", "Unix time", "", "End of the last run that published or found nothing to change"),
    ("served_index_age", "seconds", "", "Age of the index as served over HTTP, by SitemapFreshnessOperator"),
    ("verify_errors", "checks", "", "Checks of severity error that fail"),
    ("verify_warnings", "checks", "", "Checks of severity warning that fail"),
    ("search_console_urls", "URLs", "section", "URLs that Google found in the section's indexes"),
    ("search_console_errors", "errors", "section", "Errors that Search Console reports for the indexes"),
    ("search_console_warnings", "warnings", "section", "Warnings that Search Console reports for the indexes"),
    ("urls_inspected", "URLs", "section engine", "Listed URLs that were inspected in the engine in the last 7 days"),
    ("indexed_share", "share", "section engine", "Estimated share of the listed URLs that are indexed, from 0 to 1"),
    ("crawled_share", "share", "section engine", "Estimated share of the listed URLs that are crawled, from 0 to 1"),
    ("discovered_share", "share", "section engine", "Estimated share of the listed URLs that are discovered"),
    ("site_pages", "pages", "engine state", "Pages of the whole site, by Bing's statistics of the last day"),
    ("files_fetched", "files", "section engine", "Files that the engine fetched since their last change"),
    ("files_late", "files", "section engine", "Files that changed, and that the engine has not fetched in time"),
    ("false_crawlers", "requests", "engine", "Requests for files in the engine's name from addresses of others"),
    ("stage_duration", "seconds", "stage", "Duration of a stage of the run: plan, write (all tasks), publish"),
)

_TABLES: Final[dict[Kind, tuple[tuple[str, str, str, str], ...]]] = {"counter": _COUNTERS, "gauge": _GAUGES}

METRICS: Final[Mapping[str, Metric]] = MappingProxyType(
    {
        PREFIX + name: Metric(name=PREFIX + name, kind=kind, unit=unit, tags=("sitemap", *tags.split()), text=text)
        for kind, table in _TABLES.items()
        for name, unit, tags, text in table
    }
)
"""Every metric, by name. No other place defines names, kinds, units and tags."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One value of a metric in its unit, with tags in characters that every backend accepts."""

    metric: Metric
    value: float
    tags: Mapping[str, str] = field(default_factory=dict)


def send(measurements: Iterable[Measurement]) -> None:
    """Send measurements to the backend of Airflow's ``[metrics]``. An error is logged once, and the rest not sent."""
    try:
        if not is_enabled("metrics"):
            return
        stats: Any = stats_client()
        for measurement in measurements:
            name, value, tags = measurement.metric.name, measurement.value, dict(measurement.tags)
            if measurement.metric.kind == "gauge":
                stats.gauge(name, value, tags=tags)
            elif value:
                stats.incr(name, int(value), tags=tags)
    except Exception as error:  # a metric must never fail a run
        log.warning("Metrics were not sent (%s: %s). The run continues.", type(error).__name__, error)


def tag_value(text: str, most: int = OTHER_TAG_CHARACTERS) -> str:
    """Return a text in the characters that StatsD, Datadog and OpenTelemetry accept in a tag.

    A text of more than ``most`` characters ends with its CRC-32, so that two texts stay different.
    """
    value = _NOT_IN_TAGS.sub("_", text)
    if len(value) <= most:
        return value
    return f"{value[: most - 9]}_{crc32(text.encode(errors='replace')):08x}"


def sitemap_tag(index_url: str) -> str:
    """Return the tag of a sitemap: host and path of its index, without scheme, credentials and query."""
    address = index_url.partition("://")[2] or index_url
    authority, slash, path = address.partition("?")[0].partition("/")
    return tag_value(authority.rpartition("@")[2] + slash + path, MAX_TAG_CHARACTERS["sitemap"])


def _measure(index_url: str, name: str, value: float, *, section: str | None = None, **tags: str) -> Measurement:
    of_section = {} if section is None else {"section": tag_value(section, MAX_TAG_CHARACTERS["section"])}
    others = {tag: tag_value(text) for tag, text in tags.items()}
    all_tags = {"sitemap": sitemap_tag(index_url), **of_section, **others}
    return Measurement(metric=METRICS[PREFIX + name], value=value, tags=all_tags)


def of_report(
    index_url: str, report: Report, now: datetime, timezone_of: Callable[[str], str] = lambda _: "UTC"
) -> Iterator[Measurement]:
    """Return the measurements of a run that ended with a report. ``timezone_of`` gives the zone of a section's dates."""
    yield _measure(index_url, "runs", 1, result=report.result)
    yield _measure(index_url, "generation", report.generation)
    for stage, seconds in report.seconds.items():
        yield _measure(index_url, "stage_duration", seconds, stage=stage)
    for name, section in report.sections.items():
        yield from _of_section(index_url, name, section, now, timezone_of(name))
    of_index = len(report.drift) - sum(len(section.drift) for section in report.sections.values())
    if of_index > 0:
        yield _measure(index_url, "drift", of_index, section=INDEX_SECTION)
    for failure in report.failures:
        yield from _of_refusals(index_url, failure.refusals)
    if report.result in ("published", "unchanged"):
        yield _measure(index_url, "last_success", int(now.timestamp()))
    if report.committed_at is not None:
        yield _measure(index_url, "index_age", _age_s(datetime.fromisoformat(report.committed_at), now))


def _of_section(index_url: str, name: str, section: SectionReport, now: datetime, zone: str) -> Iterator[Measurement]:
    for metric in ("urls", "rows", "file_bytes", "rows_read", "bytes_written"):
        yield _measure(index_url, metric, getattr(section, metric), section=name)
    yield _measure(index_url, "shards", section.shards.total, section=name)
    for outcome in ("kept", "created", "rewritten", "removed", "repaired"):
        changed = getattr(section.shards, outcome)
        yield _measure(index_url, "shards_changed", changed, section=name, outcome=outcome)
    # Send zeros as well: a gauge keeps its last value, so a rule that no longer drops rows would show the old number.
    for rule in sorted({*RULES, *section.rows_dropped}):
        yield _measure(index_url, "rows_dropped", section.rows_dropped.get(rule, 0), section=name, rule=rule)
    if section.drift:
        yield _measure(index_url, "drift", len(section.drift), section=name)
    if section.lastmod_trust is not None:
        for change in lastmod.TRUST_KINDS:
            value = getattr(section.lastmod_trust, change)
            yield _measure(index_url, "lastmod_trust", value, section=name, change=change)
    newest = lastmod.parse_or_none(section.newest_lastmod)
    if newest is not None:
        yield _measure(index_url, "data_age", _age_s(lastmod.begins(newest, zone), now), section=name)


def of_error(index_url: str, error: BaseException, *, ends_run: bool = True) -> Iterator[Measurement]:
    """Return the measurements of a task's error; none of a ``PartlyPublishedError``, whose report counts the run."""
    if isinstance(error, PartlyPublishedError):
        return
    if ends_run:
        results = {RefusedError: "refused", ConflictError: "conflict", BaseException: "failed"}
        result = next(result for kind, result in results.items() if isinstance(error, kind))
        yield _measure(index_url, "runs", 1, result=result)
    if isinstance(error, RefusedError):
        yield from _of_refusals(index_url, getattr(error, "refusals", ()) or (error,))


def _of_refusals(index_url: str, refusals: Iterable[object]) -> Iterator[Measurement]:
    """Return one measurement for each refusal: a guard's, or an error about a rule."""
    for refusal in refusals:
        guard = getattr(refusal, "guard", "") or getattr(refusal, "rule", "") or type(refusal).__name__
        section = getattr(refusal, "section", "") or INDEX_SECTION
        yield _measure(index_url, "refusals", 1, section=section, guard=guard)


def of_verification(index_url: str, result: Verification) -> Iterator[Measurement]:
    """Return the measurements of a verification."""
    yield _measure(index_url, "verify_errors", len(result.errors))
    yield _measure(index_url, "verify_warnings", len(result.warnings))


def of_served_index(index_url: str, age_s: float) -> Iterator[Measurement]:
    """Return the measurement of the age of an index as served over HTTP."""
    yield _measure(index_url, "served_index_age", age_s)


def of_coverage(index_url: str, observation: Observation) -> Iterator[Measurement]:
    """Return what Search Console reports, by section."""
    totals = defaultdict[str, Counter[str]](Counter)
    for index in observation.indexes:
        numbers = {"urls": index.discovered.get("web", 0), "errors": index.errors, "warnings": index.warnings}
        totals[index.section or INDEX_SECTION].update(numbers)
    for name, values in totals.items():
        for what, value in values.items():
            yield _measure(index_url, f"search_console_{what}", value, section=name)


def of_index_status(index_url: str, newest: IndexObservation, found: Iterable[SectionStatus]) -> Iterator[Measurement]:
    """Return the estimates of what an engine did with the listed URLs, by section, and its counts of the whole site."""
    for status in found:
        shares = {f"{stage}_share": share.share for stage, share in status.shares.items()}
        for name, value in {"urls_inspected": status.inspected, **shares}.items():
            yield _measure(index_url, name, value, section=status.section, engine=newest.engine)
    for state, number in () if newest.site is None else newest.site.pages.items():
        yield _measure(index_url, "site_pages", number, engine=newest.engine, state=state)


def of_fetches(index_url: str, summary: Fetches) -> Iterator[Measurement]:
    """Return what crawlers fetched, by section."""
    for engine, crawler in summary.crawlers.items():
        yield _measure(index_url, "false_crawlers", crawler.false, engine=engine)
        for name, section in crawler.sections.items():
            for metric, value in (("files_fetched", section.current), ("files_late", section.late)):
                yield _measure(index_url, metric, value, section=name or INDEX_SECTION, engine=engine)


def _age_s(moment: datetime, now: datetime) -> int:
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
    return max(0, int((now - moment).total_seconds()))
