"""Airflow's stats, sent to an OpenTelemetry collector on the loopback: a fixture."""

from __future__ import annotations

import atexit
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger
from airflow.sdk._shared.observability.metrics.otel_logger import flush_otel_metrics
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils
from opentelemetry import metrics

from tests.support.otlp_server import OtlpServer, otlp_server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def otlp(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtlpServer]:
    """A collector, and Airflow configured for it as ``[metrics]`` and OpenTelemetry's environment would be."""
    with otlp_server() as server:
        monkeypatch.setenv("AIRFLOW__METRICS__OTEL_ON", "True")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", f"http://127.0.0.1:{server.port}/v1/metrics")
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "200")
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
        yield server
        close_exporter()


def close_exporter() -> None:
    """Export what is left, and let Airflow send no more."""
    provider: Any = metrics.get_meter_provider()
    provider.shutdown()
    atexit.unregister(flush_otel_metrics)  # it would log after the test's streams are closed
    stats.initialize(factory=NoStatsLogger, export_legacy_names=False)
