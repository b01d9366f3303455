"""Observation of tasks: the metrics of runs, failures and verifications."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from airflow_sitemaps.airflow_compat import AirflowFailException

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow.sdk import Context

    from airflow_sitemaps.pipeline.report import Report
    from airflow_sitemaps.search_engines.searchconsole import Observation
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
    """Send the metrics of a run that an error ends.

    A try that Airflow repeats ends no run. Neither does a batch that is not written if the other sections are published.
    Errors of dry runs, and of tasks that are not part of a run, are not counted.
    """
    try:
        yield
    except Exception as error:
        _measure_failure(context, error)
        raise


def _measure_failure(context: Context, error: Exception) -> None:
    from airflow_sitemaps.metrics import backend, measurements

    task: Any = context.get("task")
    with suppress(Exception):  # a metric must never hide the error
        if not task.is_part_of_run(context):
            return
        is_permanent = isinstance(error, AirflowFailException)
        cause = error.__cause__ if is_permanent and isinstance(error.__cause__, Exception) else error
        ends_run = (is_permanent or not _is_repeated(context["ti"])) and task.ends_run(context)
        backend.send(measurements.of_error(task.sitemap.index_url, cause, ends_run=ends_run))


def _is_repeated(ti: Any) -> bool:
    """Return whether Airflow repeats a try that fails."""
    return getattr(ti, "max_tries", 0) > 0 and ti.try_number <= ti.max_tries
