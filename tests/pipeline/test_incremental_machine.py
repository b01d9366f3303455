"""Incremental runs list what a full rebuild lists, whatever happened in between: by Hypothesis, over memory."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.simulation.machine import IncrementalMachine, ListTable
from tests.support.repetition import scaled


class OverMemory(IncrementalMachine):
    """The machine over a list."""

    table = ListTable()


class OverMemoryInLargerShards(IncrementalMachine):
    """Shards that hold a third of all rows."""

    table = ListTable()
    max_urls = 9


class OverMemoryWithObservedDates(IncrementalMachine):
    """Dates that the runs observe."""

    table = ListTable()
    observed = True


SETTINGS = settings(
    max_examples=scaled(12, 500),
    stateful_step_count=scaled(15, 50),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)

TestOverMemory = OverMemory.TestCase
TestOverMemory.settings = SETTINGS
TestOverMemoryInLargerShards = OverMemoryInLargerShards.TestCase
TestOverMemoryInLargerShards.settings = SETTINGS
TestOverMemoryWithObservedDates = OverMemoryWithObservedDates.TestCase
TestOverMemoryWithObservedDates.settings = SETTINGS
