"""Airflow's stats, sent to a StatsD server on the loopback: a fixture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils

from tests.support.statsd_server import StatsdServer, statsd_server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def statsd(monkeypatch: pytest.MonkeyPatch) -> Iterator[StatsdServer]:
    """A server, and Airflow configured for it as ``[metrics]`` would be."""
    with statsd_server() as server:
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_HOST", "127.0.0.1")
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_PORT", str(server.port))
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED", "True")
        backends: list[Any] = []

        def open_backend() -> Any:
            backends.append(stats_utils.get_stats_factory()())
            return backends[-1]

        stats.initialize(factory=open_backend, export_legacy_names=False)
        yield server
        for backend in backends:
            backend.statsd.close()
        stats.initialize(factory=NoStatsLogger, export_legacy_names=False)
