"""The source in memory reads like a database: one statement returns the rows of one moment."""

from typing import Any

import pytest

from airflow_sitemaps import MemoryStore, Section, Sitemap
from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.shards.ranges import KeyRange
from airflow_sitemaps.sources import memory_source
from airflow_sitemaps.testing import MemorySourceConfig, crawl
from tests.support.environment import BASE, row
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


@pytest.mark.parametrize("key", [1.5, b"1", ("a",)])
def test_a_key_of_another_type_is_refused_by_name(key: object) -> None:
    sitemap = Sitemap(MemoryStore(base_url=BASE), [Section("pages", MemorySourceConfig([row(key)]))])
    with pytest.raises(SourceConfigurationError, match=rf"{type(key).__name__}; give integers or texts"):
        build(sitemap)


def test_another_time_zone_writes_the_dates_again() -> None:
    rows = [{"id": 1, "loc": f"{BASE}p/1", "lastmod": "2026-01-02T03:04:05"}]
    store = MemoryStore(base_url=BASE)
    for zone, written in (("UTC", "2026-01-02T03:04:05Z"), ("Europe/Berlin", "2026-01-02T02:04:05Z")):
        build(Sitemap(store, [Section("pages", MemorySourceConfig(rows, lastmod="lastmod", timezone=zone))]))
        ((entry,),) = crawl(store.open()).entries().values()
        assert entry[0] == written
