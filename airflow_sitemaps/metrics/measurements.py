"""Measurements: the values of the metrics, computed from reports, errors and verifications. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timezone
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from zlib import crc32

from airflow_sitemaps.errors import ConflictError, PartlyPublishedError, RefusedError
from airflow_sitemaps.metrics import registry
from airflow_sitemaps.protocol import lastmod
from airflow_sitemaps.protocol.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from airflow_sitemaps.metrics.registry import Metric
    from airflow_sitemaps.pipeline.report import Report, SectionReport
    from airflow_sitemaps.search_engines.searchconsole import Observation
    from airflow_sitemaps.verification.result import Verification

INDEX_SECTION: Final = "index"
"""Value of the tag ``section`` for the index of all sections."""

MAX_TAG_CHARACTERS: Final = MappingProxyType({"sitemap": 80, "section": 64})
"""Largest number of characters in a tag's value. All other tags have ``OTHER_TAG_CHARACTERS``. Airflow drops StatsD
names above 250 characters, including tags.
"""

OTHER_TAG_CHARACTERS: Final = 32

_NOT_IN_TAGS: Final = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One value of a metric.

    Attributes:
        metric: The metric.
        value: The increment or the value, in the metric's unit.
        tags: Value of each of the metric's tags, in characters that every backend accepts. Default: none.
    """

    metric: Metric
    value: float
    tags: Mapping[str, str] = field(default_factory=dict)


def tag_value(text: str, most: int = OTHER_TAG_CHARACTERS) -> str:
    """Return a text in the characters that StatsD, Datadog and OpenTelemetry accept in a tag.

    Args:
        most: Largest number of characters. A longer text ends with its CRC-32, so that two texts stay different.
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


def _section_tag(name: str) -> str:
    return tag_value(name, MAX_TAG_CHARACTERS["section"])


def of_report(index_url: str, report: Report, now: datetime) -> Iterator[Measurement]:
    """Return the measurements of a run that ended with a report."""
    sitemap = sitemap_tag(index_url)

    def measure(metric: Metric, value: float, **tags: str) -> Measurement:
        return Measurement(metric=metric, value=value, tags={"sitemap": sitemap, **tags})

    yield measure(registry.RUNS, 1, result=tag_value(report.result))
    yield measure(registry.GENERATION, report.generation)
    for stage, seconds in report.seconds.items():
        yield measure(registry.STAGE_DURATION, seconds, stage=tag_value(stage))
    for name, section in report.sections.items():
        yield from _of_section(sitemap, name, section, now)
    of_index = len(report.drift) - sum(len(section.drift) for section in report.sections.values())
    if of_index > 0:
        yield measure(registry.DRIFT, of_index, section=INDEX_SECTION)
    for failure in report.failures:
        yield from _of_refusals(sitemap, failure.refusals)
    if report.result in ("published", "unchanged"):
        yield measure(registry.LAST_SUCCESS, int(now.timestamp()))
    if report.committed_at is not None:
        yield measure(registry.INDEX_AGE, _age_s(datetime.fromisoformat(report.committed_at), now))


def _of_section(sitemap: str, name: str, section: SectionReport, now: datetime) -> Iterator[Measurement]:
    tags = {"sitemap": sitemap, "section": _section_tag(name)}

    def measure(metric: Metric, value: float, **more: str) -> Measurement:
        return Measurement(metric=metric, value=value, tags={**tags, **more})

    yield measure(registry.URLS, section.urls)
    yield measure(registry.ROWS, section.rows)
    yield measure(registry.SHARDS, section.shards.total)
    yield measure(registry.FILE_BYTES, section.file_bytes)
    yield measure(registry.ROWS_READ, section.rows_read)
    yield measure(registry.BYTES_WRITTEN, section.bytes_written)
    for outcome in ("kept", "created", "rewritten", "removed", "repaired"):
        yield measure(registry.SHARDS_CHANGED, getattr(section.shards, outcome), outcome=outcome)
    # Send zeros as well: a gauge keeps its last value, so a rule that no longer drops rows would show the old number.
    for rule in sorted({*RULES, *section.rows_dropped}):
        yield measure(registry.ROWS_DROPPED, section.rows_dropped.get(rule, 0), rule=tag_value(rule))
    if section.drift:
        yield measure(registry.DRIFT, len(section.drift))
    newest = _moment(section.newest_lastmod)
    if newest is not None:
        yield measure(registry.DATA_AGE, _age_s(newest, now))


def of_error(index_url: str, error: Exception, *, ends_run: bool = True) -> Iterator[Measurement]:
    """Return the measurements of a task that ended with an error.

    Args:
        error: The error. A ``PartlyPublishedError`` has none: those of its report count the run.
        ends_run: Whether the error ends the run, which is then counted by its result.
    """
    if isinstance(error, PartlyPublishedError):
        return
    sitemap = sitemap_tag(index_url)
    result = (
        "refused" if isinstance(error, RefusedError) else "conflict" if isinstance(error, ConflictError) else "failed"
    )
    if ends_run:
        yield Measurement(metric=registry.RUNS, value=1, tags={"sitemap": sitemap, "result": result})
    if isinstance(error, RefusedError):
        yield from _of_refusals(sitemap, getattr(error, "refusals", ()) or (error,))


def _of_refusals(sitemap: str, refusals: Iterable[object]) -> Iterator[Measurement]:
    """Return one measurement for each refusal: a guard's, or an error about a rule."""
    for refusal in refusals:
        guard = getattr(refusal, "guard", "") or getattr(refusal, "rule", "") or type(refusal).__name__
        section = _section_tag(getattr(refusal, "section", "") or INDEX_SECTION)
        tags = {"sitemap": sitemap, "section": section, "guard": tag_value(guard)}
        yield Measurement(metric=registry.REFUSALS, value=1, tags=tags)


def of_verification(index_url: str, result: Verification) -> Iterator[Measurement]:
    """Return the measurements of a verification."""
    tags = {"sitemap": sitemap_tag(index_url)}
    yield Measurement(metric=registry.VERIFY_ERRORS, value=len(result.errors), tags=tags)
    yield Measurement(metric=registry.VERIFY_WARNINGS, value=len(result.warnings), tags=tags)


def of_served_index(index_url: str, age_s: float) -> Iterator[Measurement]:
    """Return the measurement of the age of an index as served over HTTP.

    Args:
        age_s: Its age in seconds.
    """
    yield Measurement(metric=registry.SERVED_AGE, value=age_s, tags={"sitemap": sitemap_tag(index_url)})


def of_coverage(index_url: str, observation: Observation) -> Iterator[Measurement]:
    """Return what Search Console reports, by section."""
    totals: dict[str, list[int]] = {}
    for index in observation.indexes:
        numbers = (index.discovered.get("web", 0), index.errors, index.warnings)
        section = totals.setdefault(index.section or INDEX_SECTION, [0, 0, 0])
        section[:] = [total + number for total, number in zip(section, numbers, strict=True)]
    metrics = (registry.SEARCH_URLS, registry.SEARCH_ERRORS, registry.SEARCH_WARNINGS)
    for name, values in totals.items():
        tags = {"sitemap": sitemap_tag(index_url), "section": _section_tag(name)}
        for metric, value in zip(metrics, values, strict=True):
            yield Measurement(metric=metric, value=value, tags=tags)


def _moment(text: str | None) -> datetime | None:
    """Return a lastmod as a time; None if there is none."""
    try:
        value = lastmod.parse(text) if text else None
    except lastmod.LastmodError:
        return None
    return None if value is None else lastmod.begins(value)


def _age_s(moment: datetime, now: datetime) -> int:
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
    return max(0, int((now - moment).total_seconds()))
