"""Airflow's stats, sent to a StatsD server or an OpenTelemetry collector on the loopback."""

from tests.support.otlp_backend import otlp
from tests.support.statsd_backend import statsd

__all__ = ["otlp", "statsd"]
