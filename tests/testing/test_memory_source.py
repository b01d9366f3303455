"""The source in memory reads like a database: one statement returns the rows of one moment."""

from typing import Any

import pytest

from airflow_sitemaps.shards.ranges import KeyRange
from airflow_sitemaps.sources import memory_source
from tests.support.simulated_source import SimulatedSourceConfig


def test_a_key_that_changes_between_two_batches_does_not_change_the_order_of_the_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_source, "BATCH_ROWS", 1)
    rows: list[dict[str, Any]] = [{"id": number, "loc": f"https://www.example.com/{number}"} for number in (1, 2, 3)]

    def before(operation: str) -> None:
        if operation == "batch":
            rows[0]["id"] = 9

    config = SimulatedSourceConfig(rows, before=before)
    with config.open(section="pages") as opened:
        batches = list(opened.read([KeyRange(None, None)]))

    assert [batch.column("key").to_pylist() for batch in batches] == [["[1]"], ["[2]"], ["[3]"]]
    assert rows[0]["id"] == 9
