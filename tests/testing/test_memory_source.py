"""The source in memory reads like a database: one statement returns the rows of one moment."""

from typing import Any

from airflow_sitemaps.shards.ranges import KeyRange
from airflow_sitemaps.testing.source import MemorySourceConfig


def test_a_key_that_changes_between_two_batches_does_not_change_the_order_of_the_rows() -> None:
    rows: list[dict[str, Any]] = [{"id": number, "loc": f"https://www.example.com/{number}"} for number in (1, 2, 3)]

    def before(operation: str) -> None:
        if operation == "batch":
            rows[0]["id"] = 9

    config = MemorySourceConfig(rows, before=before, batch_rows=1)
    with config.open(section="pages") as source:
        batches = list(source.read([KeyRange(None, None)]))

    assert [batch.column("key").to_pylist() for batch in batches] == [["[1]"], ["[2]"], ["[3]"]]
    assert rows[0]["id"] == 9
