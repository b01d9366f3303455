"""The inventory: every listed URL with what its ledger knows, as tables, counts, and a dataset that DuckDB reads."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from airflow_sitemaps.errors import ConfigurationError, StoreContentError, StoreError
from airflow_sitemaps.pipeline import find, inventory
from airflow_sitemaps.pipeline.find import find_in_manifest
from airflow_sitemaps.pipeline.inventory import count, export
from airflow_sitemaps.pipeline.state.repository import MANIFEST
from airflow_sitemaps.plugin.shard_map import read_map
from airflow_sitemaps.ports import Overwrite
from airflow_sitemaps.stores import open_area
from airflow_sitemaps.stores.memory import MemoryStore
from tests.ledger.parts import lines, manifest_of
from tests.support.environment import BASE, World, row

if TYPE_CHECKING:
    from pathlib import Path

DAY = timedelta(days=1)


@pytest.fixture
def world() -> World:
    """Twelve URLs listed ten days ago, one changed and two listed today."""
    world = World([row(key) for key in range(12)], section_settings={"ledger": True})
    world.build()
    world.clock.advance(10 * DAY)
    world.rows[3]["priority"] = 0.7
    world.rows += [row(100), row(101)]
    world.build()
    return world


def rows_of(folder: Path) -> list[tuple[Any, ...]]:
    files = f"{folder}/*/*.parquet"
    sql = (
        f"SELECT loc, section, shard, key, lastmod, first_listed, changed_at FROM read_parquet('{files}') ORDER BY loc"
    )
    return duckdb.sql(sql).fetchall()


def test_every_listed_url_is_in_a_table_with_its_section_and_shard(world):
    tables = list(inventory(world.sitemap()))
    rows = {each.pop("loc"): each for table in tables for each in table.to_pylist()}
    known = lines(world)
    assert rows.keys() == known.keys() == world.crawl().entries().keys()
    assert {loc: (each["key"], each["first_listed"]) for loc, each in rows.items()} == {
        loc: (line.key, line.first_listed) for loc, line in known.items()
    }
    assert {each["section"] for each in rows.values()} == {"pages"}
    assert [table["shard"][0].as_py() for table in tables] == [file.name for file in manifest_of(world).files()][:4]


def test_urls_are_counted_by_age(world):
    (pages,) = count(inventory(world.sitemap()), clock=world.clock)
    assert (pages.section, pages.urls, pages.of_unknown_age) == ("pages", 14, 0)
    assert (pages.listed, pages.changed) == ((2, 2, 14), (1, 1, 1))


def test_a_dataset_is_written_once_and_then_only_what_changed(world, tmp_path):
    area = open_area(str(tmp_path), None)
    first = export(world.sitemap(), area)
    assert (first.urls, first.files, first.written, first.removed) == (14, 3, 3, 0)
    known = lines(world)
    assert {loc: tuple(rest) for loc, _, _, *rest in rows_of(tmp_path)} == {
        loc: (line.key, line.lastmod, line.first_listed, line.changed_at) for loc, line in known.items()
    }
    assert export(world.sitemap(), area).written == 0
    world.rows[13]["priority"] = 0.1
    world.rows[:] = world.rows[2:]
    world.build()
    again = export(world.sitemap(), area)
    assert (again.written, again.removed) == (2, 2)
    assert [loc for loc, *_ in rows_of(tmp_path)] == sorted(lines(world))


def test_an_export_that_crashed_leaves_nothing_twice(world, monkeypatch):
    area: Any = MemoryStore(base_url=BASE).open().state
    put, puts = type(area).put, []

    def crashing(self: Any, key: str, *args: Any, **kwargs: Any) -> str:
        puts.append(key)
        if len(puts) == 4:
            raise StoreError("the connection broke")
        return put(self, key, *args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(type(area), "put", crashing)
        with pytest.raises(StoreError):
            export(world.sitemap(), area)
    world.rows[0]["priority"] = 0.2
    world.build()
    export(world.sitemap(), area)
    stored = sorted(key for key in area.objects if key.endswith(".parquet"))
    assert stored == json.loads(area.objects["inventory.json"].body)["files"]
    assert len(stored) == 3


@pytest.mark.parametrize("record", ["{}", "[]", "null", "{", '{"files": ["stock.csv"]}', '{"files": [1]}'])
def test_the_record_of_another_program_is_left_alone(world, tmp_path, record):
    """Its files, too: an export deletes what an earlier one lists."""
    (tmp_path / "inventory.json").write_text(record)
    (tmp_path / "stock.csv").touch()
    with pytest.raises(StoreContentError, match=r"inventory\.json does not list the files of an inventory"):
        export(world.sitemap(), open_area(str(tmp_path), None))
    assert (tmp_path / "inventory.json").read_text() == record
    assert (tmp_path / "stock.csv").exists()


def test_the_inventory_of_another_sitemap_is_left_alone(world, tmp_path):
    area, other = open_area(str(tmp_path), None), World([row(key) for key in range(3)])
    other.config = MemoryStore(base_url=BASE, index_name="shops.xml", now=other.clock.now)
    other.build()
    export(world.sitemap(), area)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(StoreContentError, match=f"of another sitemap, {BASE}sitemap.xml, whose files .* Give another"):
        export(other.sitemap(), area)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_section_without_a_ledger_gives_its_urls_of_unknown_age():
    world = World([row(key, lastmod="2026-01-02") for key in range(12)])
    world.build()
    rows = [each for table in inventory(world.sitemap()) for each in table.to_pylist()]
    assert {each["loc"] for each in rows} == world.crawl().entries().keys()
    assert {(each["lastmod"], each["key"], each["first_listed"]) for each in rows} == {("2026-01-02", None, None)}
    (pages,) = count(inventory(world.sitemap()), clock=world.clock)
    assert (pages.urls, pages.of_unknown_age, pages.listed) == (12, 12, (0, 0, 0))


def test_a_lost_part_gives_the_urls_of_the_body(world):
    part = manifest_of(world).sections["pages"].shards[0].part
    assert part is not None
    del world.config.state.objects[part.body]
    rows = [each for table in inventory(world.sitemap()) for each in table.to_pylist()]
    assert {each["loc"] for each in rows} == world.crawl().entries().keys()
    assert sum(each["first_listed"] is None for each in rows) == 5


def test_before_the_first_build_there_is_no_inventory():
    with pytest.raises(ConfigurationError, match="nothing has been published yet"):
        next(inventory(World([row(1)]).sitemap()))


def test_find_says_since_when_a_url_is_listed_and_when_it_changed(world):
    (changed,) = find(world.sitemap(), f"{BASE}p/3").matches
    line = lines(world)[f"{BASE}p/3"]
    assert line.first_listed is not None
    assert line.changed_at is not None
    assert changed.fields["first_listed"] == line.first_listed.isoformat()
    assert changed.fields["changed_at"] == line.changed_at.isoformat()
    (unchanged,) = find(world.sitemap(), f"{BASE}p/4").matches
    assert "changed_at" not in unchanged.fields


def test_the_search_of_the_pages_says_it_too(world):
    state = world.store.state
    body = world.config.state.objects[MANIFEST].body
    url = f"{BASE}p/3"
    manifest = read_map(body, "the manifest").manifest
    (match,) = find_in_manifest(state, manifest, url, templates={}).matches
    assert match.fields == find(world.sitemap(), url).matches[0].fields
    assert "first_listed" in match.fields


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_a_body_that_cannot_be_read_fails_the_inventory(damage, tmp_path):
    """Else the export would lack its URLs, and call itself whole."""
    world = World([row(key) for key in range(12)])
    world.build()
    body = manifest_of(world).sections["pages"].shards[1].file.body
    if damage == "missing":
        del world.config.state.objects[body]
    else:
        world.store.state.put(body, b"junk", mode=Overwrite(), metadata={}, content_type="application/gzip")
    for call in (
        lambda: count(inventory(world.sitemap())),
        lambda: export(world.sitemap(), open_area(str(tmp_path), None)),
    ):
        with pytest.raises(
            StoreContentError, match=rf"the body of pages-00002.xml.gz, is {damage}: run again with rebuild"
        ):
            call()
    world.build(rebuild=["pages-00002.xml.gz"])
    assert export(world.sitemap(), open_area(str(tmp_path), None)).urls == 12
    assert len(rows_of(tmp_path)) == 12
