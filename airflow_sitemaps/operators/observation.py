"""Observation of tasks: the metrics of runs, failures and verifications."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow.sdk import Context

    from airflow_sitemaps.notify.coverage import Observation
    from airflow_sitemaps.pipeline.report import Report
    from airflow_sitemaps.sitemap import Sitemap
    from airflow_sitemaps.verification.result import Verification


def measure_run(sitemap: Sitemap, report: Report) -> None:
    """Send the metrics of a run that ended with a report.

    Args:
        sitemap: The sitemap.
        report: The report.
    """
    from airflow_sitemaps.metrics import backend, measurements

    backend.send(measurements.of_report(sitemap.index_url, report, datetime.now(timezone.utc)))


def measure_verification(sitemap: Sitemap, result: Verification) -> None:
    """Send the metrics of a verification.

    Args:
        sitemap: The sitemap.
        result: The result of the verification.
    """
    from airflow_sitemaps.metrics import backend, measurements

    backend.send(measurements.of_verification(sitemap.index_url, result))


def measure_served_index(index_url: str, age_s: float) -> None:
    """Send the age of an index as served over HTTP.

    Args:
        index_url: Address of the index.
        age_s: Its age in seconds.
    """
    from airflow_sitemaps.metrics import backend, measurements

    backend.send(measurements.of_served_index(index_url, age_s))


def measure_coverage(sitemap: Sitemap, observation: Observation) -> None:
    """Send the state of each index in Search Console.

    Args:
        sitemap: The sitemap.
        observation: The state of all indexes in Search Console.
    """
    from airflow_sitemaps.metrics import backend, measurements

    backend.send(measurements.of_coverage(sitemap.index_url, observation))


@contextmanager
def measured_failures(context: Context) -> Iterator[None]:
    """Send the metrics of a run that an error ends. Errors of tasks that are not part of a run are not counted."""
    try:
        yield
    except Exception as error:
        task: Any = context.get("task")
        if getattr(task, "is_part_of_run", False):
            from airflow_sitemaps.metrics import backend, measurements

            backend.send(measurements.of_error(task.sitemap.index_url, error))
        raise
