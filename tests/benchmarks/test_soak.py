"""Four days of hourly runs with faults: what is kept stays within bounds, and what is written follows what changed."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from benchmarks.soak import HISTORY, Month, soak

pytestmark = pytest.mark.long

HOURS, EVERY = 96, 12
MONTH = {"rows_number": 100, "max_urls": 10, "changes": 1}

LEAST_FILL = 0.3
"""Neighbours are joined below 0.4 together, so that two of them fill 0.2 each at least."""


@cache
def result() -> dict[str, Any]:
    """Every mark of the days; the soak itself compares the published URLs with the rows at the end."""
    return soak(HOURS, Month(**MONTH), every=EVERY)


def test_faults_struck_and_runs_went_on() -> None:
    assert result()["faults"] > 0
    assert len(result()["marks"]) == HOURS // EVERY


def test_shards_stay_full() -> None:
    for mark in result()["marks"]:
        assert mark["rows"] == MONTH["rows_number"]
        assert mark["fill"] >= LEAST_FILL
        assert mark["shards"] <= mark["rows"] / MONTH["max_urls"] / LEAST_FILL


def test_public_files_are_those_of_the_shards_and_of_a_grace() -> None:
    for mark in result()["marks"]:
        assert mark["public_objects"] <= 2 * mark["shards"] + 5


def test_private_objects_are_those_of_the_history_and_of_a_grace() -> None:
    first, last = result()["marks"][3], result()["marks"][-1]
    assert last["state_objects"] <= 1.3 * first["state_objects"] + 10 * HISTORY
    assert last["manifest_kb"] <= 1.3 * first["manifest_kb"]


def test_a_run_writes_little_more_than_the_shards_that_changed() -> None:
    assert sum(mark["rewrites_per_change"] for mark in result()["marks"]) / len(result()["marks"]) <= 1.5


@pytest.mark.parametrize("name", ["shards", "index_kb", "public_objects"])
def test_the_last_day_is_like_the_second(name: str) -> None:
    marks = result()["marks"]
    assert marks[-1][name] <= 1.4 * marks[3][name]
