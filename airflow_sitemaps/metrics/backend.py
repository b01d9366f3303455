"""The metrics backend: Airflow's own stats. A backend that fails causes a warning and never fails the run."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_sitemaps.airflow_compat import is_enabled, stats_client

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_sitemaps.metrics.measurements import Measurement

log = logging.getLogger(__name__)


def send(measurements: Iterable[Measurement]) -> None:
    """Send measurements to the backend that Airflow's ``[metrics]`` section configures.

    An error of the backend, or in computing a measurement, is logged once as a warning. The remaining measurements are
    not sent. Nothing is sent if ``[sitemaps] metrics`` is false.
    """
    try:
        if not is_enabled("metrics"):
            return
        stats = stats_client()
        for measurement in measurements:
            name, value, tags = measurement.metric.name, measurement.value, dict(measurement.tags)
            if measurement.metric.kind == "counter":
                if value:
                    stats.incr(name, int(value), tags=tags)
            else:
                stats.gauge(name, value, tags=tags)
    except Exception as error:  # a metric must never fail a run
        log.warning("Metrics were not sent (%s: %s). The run continues.", type(error).__name__, error)
