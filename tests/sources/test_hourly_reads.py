"""An hourly run by watermark does not scan the table, as PostgreSQL's own statistics show."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from airflow_sitemaps.pipeline.plan.surveys import SLICES
from benchmarks.hourly import measure, runs_until
from tests.support.databases import NotAvailable, database

ROWS, MAX_URLS = 40_000, 50


@cache
def hours(changes: int, runs: int) -> dict[str, Any]:
    """What each of so many runs read."""
    return measure(database("postgresql").url, ROWS, MAX_URLS, changes, runs)


@pytest.fixture(autouse=True)
def _server() -> None:
    try:
        database("postgresql")
    except NotAvailable as lacking:
        pytest.skip(str(lacking))


def test_a_run_without_changes_reads_its_slice_by_index() -> None:
    quiet = hours(3, SLICES)["quiet"]
    assert (quiet["seq_scan"], quiet["seq_tup_read"]) == (0, 0)
    assert 0 < quiet["idx_tup_fetch"] <= 2 * ROWS / SLICES


def test_no_hourly_run_scans_the_table() -> None:
    for one in hours(3, SLICES)["hours"]:
        assert (one["seq_scan"], one["seq_tup_read"]) == (0, 0)
        assert one["idx_tup_fetch"] <= 4 * ROWS / SLICES


def test_changes_with_a_lastmod_are_found_at_once_and_the_others_within_a_day() -> None:
    found = hours(3, SLICES)["hours"]
    assert runs_until(found, "moved") == 1
    assert 1 <= runs_until(found, "silent") <= SLICES
    assert 1 <= runs_until(found, "gone") <= SLICES
    assert found[-1]["result"] == "unchanged"


@pytest.mark.parametrize("changes", [12, 60])
def test_changes_in_many_places_cost_their_shards_and_not_the_table(changes: int) -> None:
    """60 are more ranges than one condition names."""
    (one,) = hours(changes, 1)["hours"]
    assert (one["seq_scan"], one["seq_tup_read"]) == (0, 0)
    # Each is read twice: by the survey and to be written. So is the slice, once.
    assert one["idx_tup_fetch"] <= 3 * changes * MAX_URLS + 2 * ROWS / SLICES
