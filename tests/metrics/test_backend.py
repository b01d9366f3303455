"""What reaches a StatsD server, and that a backend that is down costs a warning and nothing else."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils

from airflow_sitemaps import metrics
from airflow_sitemaps.metrics import METRICS, Measurement
from tests.support.environment import BASE, World, row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.statsd_server import StatsdServer

INDEX = f"{BASE}sitemap.xml"
KINDS = {"counter": "c", "gauge": "g"}


def test_every_measurement_of_a_run_arrives_by_name_tags_and_value(statsd: StatsdServer) -> None:
    world = World([row(n, lastmod="2026-01-01T00:00:00Z") for n in range(12)])
    sent = list(metrics.of_report(INDEX, world.build(), world.clock.now()))

    metrics.send(sent)

    for measurement in sent:
        if measurement.metric.kind == "counter" and not measurement.value:
            continue
        sample = statsd.wait_for(f"airflow.{measurement.metric.name}", **measurement.tags)
        assert sample.kind == KINDS[measurement.metric.kind]
        assert sample.value == pytest.approx(measurement.value)
        assert sample.tags == measurement.tags


def test_every_metric_of_the_registry_has_a_name_and_tags_that_a_backend_accepts(statsd: StatsdServer) -> None:
    for metric in METRICS.values():
        most = metrics.MAX_TAG_CHARACTERS
        tags = {tag: "x" * most.get(tag, metrics.OTHER_TAG_CHARACTERS) for tag in metric.tags}
        metrics.send([Measurement(metric=metric, value=3, tags=tags)])
        assert statsd.wait_for(f"airflow.{metric.name}", **tags).value == 3


class Broken(NoStatsLogger):
    """A backend whose connection breaks."""

    def incr(self, *_: object, **__: object) -> None:
        raise ConnectionRefusedError("no route to the metrics server")


def test_the_stats_of_older_airflows_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    older = SimpleNamespace(Stats=SimpleNamespace(incr=lambda name, count, tags: sent.append(f"{name} {count} {tags}")))
    monkeypatch.setattr("airflow.sdk.observability.stats", older)  # as in 3.2
    metrics.send([Measurement(metric=METRICS["sitemaps.runs"], value=1, tags={"result": "published"})])
    monkeypatch.setitem(sys.modules, "airflow.sdk.observability", None)  # as in 3.1
    monkeypatch.setitem(sys.modules, "airflow.stats", older)
    metrics.send([Measurement(metric=METRICS["sitemaps.runs"], value=2, tags={})])

    assert sent == ["sitemaps.runs 1 {'result': 'published'}", "sitemaps.runs 2 {}"]


def test_a_backend_that_fails_costs_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    stats.initialize(factory=Broken, export_legacy_names=False)

    metrics.send([Measurement(metric=METRICS["sitemaps.runs"], value=1, tags={}) for _ in range(3)])

    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "Metrics were not sent (ConnectionRefusedError: no route to the metrics server)" in record.message
    stats.initialize(factory=NoStatsLogger, export_legacy_names=False)


def test_nothing_is_sent_where_metrics_are_turned_off(statsd: StatsdServer, monkeypatch: pytest.MonkeyPatch) -> None:
    measurement = Measurement(metric=METRICS["sitemaps.runs"], value=1, tags={"result": "published"})
    monkeypatch.setenv("AIRFLOW__SITEMAPS__METRICS", "False")
    metrics.send([measurement])
    monkeypatch.delenv("AIRFLOW__SITEMAPS__METRICS")
    metrics.send([measurement])

    assert statsd.wait_for("airflow.sitemaps.runs").value == 1
    assert len(statsd.samples) == 1


def test_a_host_that_cannot_be_resolved_fails_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_HOST", "metrics.invalid")
    stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
    metrics.send([Measurement(metric=METRICS["sitemaps.runs"], value=1, tags={})])
    stats.initialize(factory=NoStatsLogger, export_legacy_names=False)


def test_an_error_in_computing_a_measurement_fails_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> Iterator[Measurement]:
        yield Measurement(metric=METRICS["sitemaps.runs"], value=1, tags={})
        raise KeyError("section")

    metrics.send(broken())

    assert "Metrics were not sent (KeyError: 'section')" in caplog.text
