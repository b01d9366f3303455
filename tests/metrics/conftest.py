"""Airflow's stats, sent to a StatsD server on the loopback."""

from tests.support.statsd_backend import statsd

__all__ = ["statsd"]
