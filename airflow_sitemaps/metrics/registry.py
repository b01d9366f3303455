"""The registry of metrics: the only place that defines names, kinds, units and tags."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["counter", "gauge"]

PREFIX: Final = "sitemaps."
"""Prefix of every name. Airflow adds its own prefix (``[metrics] statsd_prefix``, ``airflow``) in front of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric.

    Attributes:
        name: Name without Airflow's own prefix.
        kind: ``counter`` (increments) or ``gauge`` (last value).
        unit: Unit of the value.
        tags: Names of its tags.
        text: Description.
    """

    name: str
    kind: Kind
    unit: str
    tags: tuple[str, ...]
    text: str


def _metric(name: str, kind: Kind, unit: str, tags: tuple[str, ...], text: str) -> Metric:
    return Metric(name=PREFIX + name, kind=kind, unit=unit, tags=("sitemap", *tags), text=text)


RUNS: Final = _metric(
    "runs",
    "counter",
    "runs",
    ("result",),
    "Runs by result: published, partly_published, unchanged, refused, conflict, failed",
)
REFUSALS: Final = _metric("refusals", "counter", "refusals", ("section", "guard"), "Refusals by guard")
DRIFT: Final = _metric(
    "drift", "counter", "files", ("section",), "Public files that another program changed or removed"
)
ROWS_READ: Final = _metric("rows_read", "counter", "rows", ("section",), "Rows read from the warehouse")
BYTES_WRITTEN: Final = _metric("bytes_written", "counter", "bytes", ("section",), "Bytes of files written to the store")
SHARDS_CHANGED: Final = _metric(
    "shards_changed",
    "counter",
    "shards",
    ("section", "outcome"),
    "Shards by outcome: kept, created, rewritten, removed, repaired",
)
GENERATION: Final = _metric("generation", "gauge", "number", (), "Number of the published generation")
URLS: Final = _metric("urls", "gauge", "URLs", ("section",), "URLs that are published")
ROWS: Final = _metric("rows", "gauge", "rows", ("section",), "Rows in the source")
ROWS_DROPPED: Final = _metric(
    "rows_dropped", "gauge", "rows", ("section", "rule"), "Rows that are not listed because they break a rule"
)
SHARDS: Final = _metric("shards", "gauge", "shards", ("section",), "Shards that are published")
FILE_BYTES: Final = _metric("file_bytes", "gauge", "bytes", ("section",), "Size of the published files")
DATA_AGE: Final = _metric(
    "data_age", "gauge", "seconds", ("section",), "Age of the newest lastmod of a section at the end of the run"
)
INDEX_AGE: Final = _metric(
    "index_age", "gauge", "seconds", (), "Time since the published generation was committed, at the end of the run"
)
LAST_SUCCESS: Final = _metric(
    "last_success", "gauge", "Unix time", (), "End of the last run that published or found nothing to change"
)
SERVED_AGE: Final = _metric(
    "served_index_age", "gauge", "seconds", (), "Age of the index as served over HTTP, by SitemapFreshnessOperator"
)
VERIFY_ERRORS: Final = _metric("verify_errors", "gauge", "checks", (), "Checks of severity error that fail")
VERIFY_WARNINGS: Final = _metric("verify_warnings", "gauge", "checks", (), "Checks of severity warning that fail")
SEARCH_URLS: Final = _metric(
    "search_console_urls", "gauge", "URLs", ("section",), "URLs that Google found in the section's indexes"
)
SEARCH_ERRORS: Final = _metric(
    "search_console_errors", "gauge", "errors", ("section",), "Errors that Search Console reports for the indexes"
)
SEARCH_WARNINGS: Final = _metric(
    "search_console_warnings", "gauge", "warnings", ("section",), "Warnings that Search Console reports for the indexes"
)
STAGE_DURATION: Final = _metric(
    "stage_duration", "gauge", "seconds", ("stage",), "Duration of a stage of the run: plan, write (all tasks), publish"
)

_ALL: Final = (
    RUNS, REFUSALS, DRIFT, ROWS_READ, BYTES_WRITTEN, SHARDS_CHANGED, GENERATION, URLS, ROWS, ROWS_DROPPED, SHARDS,
    FILE_BYTES, DATA_AGE, INDEX_AGE, LAST_SUCCESS, SERVED_AGE, VERIFY_ERRORS, VERIFY_WARNINGS, SEARCH_URLS, SEARCH_ERRORS,
    SEARCH_WARNINGS, STAGE_DURATION,
)  # fmt: skip

METRICS: Final[Mapping[str, Metric]] = MappingProxyType({metric.name: metric for metric in _ALL})
"""Every metric, by name."""

TAGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "sitemap": "Host and path of the index, such as `www.example.com_sitemap.xml`",
        "section": "Name of the section; `index` for the index itself",
        "result": "Result of the run",
        "guard": "Name of the guard, such as `shrink`",
        "rule": "Name of the rule, such as `loc-missing`",
        "outcome": "What happened to the shards",
        "stage": "Stage of the run",
    }
)
"""Every tag and its meaning."""
