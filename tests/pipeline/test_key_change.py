"""A section whose key changes is laid out again in the same run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from airflow_sitemaps import MemoryStore, Section, ShardPolicy, Sitemap
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.shards.ranges import same_kinds
from airflow_sitemaps.testing import FakeClock, MemorySourceConfig, crawl
from tests.support.environment import BASE, FREE, row
from tests.support.simulated_source import SimulatedSourceConfig

if TYPE_CHECKING:
    from collections.abc import Sequence


def shop_rows(number: int = 40) -> list[dict[str, Any]]:
    return [row(key, shop=f"s{key % 3}") for key in range(number)]


class Shop:
    """One section over rows whose key changes."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(base_url=BASE, now=self.clock.now)
        self.asked: list[str] = []

    def build(self, rows: Sequence[dict[str, Any]], key: str | Sequence[str] = "id") -> Any:
        source = SimulatedSourceConfig(rows, key=key, clock=self.clock.now, before=self.asked.append)
        sitemap = Sitemap(self.store, [Section("pages", source)], shards=ShardPolicy(max_urls=7), guards=FREE)
        return build(sitemap, clock=self.clock)

    def listed(self) -> list[str]:
        return sorted(e.loc for entries in crawl(self.store.open()).files.values() for e in entries)

    def forget_kinds(self) -> None:
        """Leave the manifest as a version wrote it that did not record key kinds."""
        state = StateRepository(self.store.open().state)
        current = state.current()
        assert current is not None
        sections = {n: replace(s, key_kinds=()) for n, s in current.manifest.sections.items()}
        state.replace_manifest(replace(current.manifest, sections=sections, write_id="earlier"), current)


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("change", ["integer to text", "text to integer", "one column to two", "two columns to one"])
def test_a_key_that_changes_lists_every_url_once(change: str, recorded: bool) -> None:
    rows, shop = shop_rows(), Shop()
    texts = [{**r, "id": str(r["id"])} for r in rows]
    before, after = {
        "integer to text": ((rows, "id"), (texts, "id")),
        "text to integer": ((texts, "id"), (rows, "id")),
        "one column to two": ((rows, "id"), (rows, ("shop", "id"))),
        "two columns to one": ((rows, ("shop", "id")), (rows, "id")),
    }[change]
    shop.build(*before)
    if not recorded:
        shop.forget_kinds()
    report = shop.build(*after)
    assert shop.listed() == sorted(r["loc"] for r in rows)
    assert report.result == "published"
    assert any("the section's key changed" in reason for reason in report.sections["pages"].reasons)
    assert shop.build(*after).result == "unchanged"


def test_a_file_that_was_deleted_is_not_taken_over_by_a_new_range() -> None:
    """The key gets another name, so that new ranges with the same entries take over the files of the old ones."""
    rows, shop = shop_rows(), Shop()
    shop.build(rows)
    files = [name for name in crawl(shop.store.open()).files if name.startswith("pages")]
    shop.store.open().public.delete(files[1])
    shop.build([{**r, "number": r["id"]} for r in rows], key="number")
    assert shop.listed() == sorted(r["loc"] for r in rows)
    after = crawl(shop.store.open()).files
    assert files[1] not in after
    assert set(files) - set(after) == {files[1]}


def test_the_order_of_integers_costs_one_small_query_a_plan() -> None:
    """Whether the key's type still accepts the least and the greatest stored key."""
    shop = Shop()
    shop.build(shop_rows())
    assert "rank" not in shop.asked
    shop.build(shop_rows())
    shop.forget_kinds()
    shop.build(shop_rows())
    assert shop.asked.count("rank") == 2


def test_an_empty_table_keeps_the_recorded_kinds() -> None:
    assert same_kinds(("id integer",), ("id unknown",))
    assert same_kinds(("id unknown",), ("id integer",))
    assert not same_kinds(("id integer",), ("sku unknown",))
    assert not same_kinds(("id integer",), ("id text",))
    assert not same_kinds(('slug text "de-x-icu"',), ('slug text "C"',))
    shop = Shop()
    shop.build(shop_rows())
    source = MemorySourceConfig([], key="id")
    sitemap = Sitemap(shop.store, [Section("pages", source), Section("other", MemorySourceConfig(shop_rows()))])
    build(sitemap, allow=["empty", "shrink"], clock=shop.clock)
    current = StateRepository(shop.store.open().state).current()
    assert current is not None
    assert current.manifest.sections["pages"].key_kinds == ("id integer",)
