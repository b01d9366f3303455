"""One changed row passes few modules and types on its way from the table to the index; the limits may only shrink."""

from __future__ import annotations

import pytest

from benchmarks.hourly import HourlyTable
from benchmarks.row_trace import ROWS, follow, text
from tests.support.databases import NotAvailable, database

MAX_MODULES = 69
MAX_TYPES = 75


def test_the_way_of_a_row_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        server = database("postgresql")
    except NotAvailable as missing:
        pytest.skip(str(missing))
    monkeypatch.setenv("AIRFLOW_CONN_BENCH_HOURLY", "")  # restored afterwards; the table sets it
    table = HourlyTable(server.url, ROWS)
    table.fill()
    try:
        stages = follow(table)
    finally:
        table.drop()
    modules = set().union(*(stage.modules for stage in stages.values()))
    types = set().union(*(stage.types for stage in stages.values()))
    assert len(modules) <= MAX_MODULES, text(stages, names=True)
    assert len(types) <= MAX_TYPES, text(stages, names=True)
