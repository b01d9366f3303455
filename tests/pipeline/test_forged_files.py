"""Public files that another program replaced, with the size and the metadata of the pipeline's own."""

from __future__ import annotations

import gzip
import shutil
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from airflow_sitemaps import LocalStore
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.pipeline import build, stages
from airflow_sitemaps.pipeline.state.identity import is_body, is_public_body
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.ports import Overwrite
from airflow_sitemaps.protocol.markup import with_comment
from airflow_sitemaps.testing import crawl
from tests.simulation.faults import Fault, Faults, FaultyStore, SimulatedCrash
from tests.stores.test_local import damage, rotten
from tests.support.environment import BASE, World, row

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_sitemaps.ports import ObjectStore

SHARD = "pages-00002.xml.gz"


def world_of(**settings: Any) -> World:
    world = World([row(n, lastmod="2026-01-15") for n in range(1, 16)], settings=settings)
    world.build()
    return world


def forge(area: ObjectStore, name: str) -> None:
    """Replace an object by other bytes of the same size, with the same metadata."""
    there = area.get(name)
    assert there is not None
    body = gzip.compress(b"<urlset/>", mtime=0) if name.endswith(".gz") else b"<sitemapindex/>"
    body = body.ljust(there.info.byte_size, b"\0")
    area.put(name, body, mode=Overwrite(), metadata=there.info.metadata, content_type="application/gzip")
    forged = area.head(name)
    assert forged is not None
    assert (forged.byte_size, forged.metadata) == (there.info.byte_size, there.info.metadata)


@pytest.mark.parametrize("request_", [{}, {"full": True}, {"rebuild": [SHARD]}], ids=["run", "full", "rebuild"])
def test_a_forged_shard_is_put_again(request_: dict[str, Any]) -> None:
    world = world_of()
    good = world.store.public.get(SHARD)
    forge(world.store.public, SHARD)
    report = world.build(**request_)
    assert SHARD in " ".join(report.drift)
    assert world.store.public.get(SHARD).body == good.body
    assert world.crawl().entries() == world.rebuilt().entries()
    assert world.build().result == "unchanged"


@pytest.mark.parametrize("name", ["sitemap.xml", "recent.xml.gz", "recent.atom"])
def test_a_forged_file_that_is_no_shard_is_put_again(name: str) -> None:
    world = world_of(recent=timedelta(days=2), feeds=("atom",)) if name != "sitemap.xml" else world_of()
    good = world.store.public.get(name)
    forge(world.store.public, name)
    assert world.build().result == "published"
    assert world.store.public.get(name).body.split(b"<lastmod>")[0] == good.body.split(b"<lastmod>")[0]
    assert world.build().result == "unchanged"


@pytest.mark.parametrize("name", [SHARD, "sitemap.xml"])
def test_a_forged_file_is_no_promoted_file_for_the_run_that_finishes_a_promotion(name: str) -> None:
    """The promotion stops after the file. The run that continues it must not take the forged one for the promoted one."""
    world = world_of()
    for each in world.rows:
        each["priority"] = 0.3
    pattern = "manifest*" if name == "sitemap.xml" else "pages-00003*"
    after = 1 if name == "sitemap.xml" else 0
    area = "state" if name == "sitemap.xml" else "public"
    faults = Faults().on("put", pattern, Fault.CRASH_BEFORE, area=area, after=after)
    with pytest.raises(SimulatedCrash):
        build(world.sitemap(FaultyStore(world.config, faults)), clock=world.clock)
    forge(world.store.public, name)
    stages.recover(world.sitemap(), clock=world.clock)
    assert world.crawl().entries() == world.rebuilt().entries()


def test_a_file_that_was_cut_short_is_no_promoted_file() -> None:
    world = world_of()
    for each in world.rows:
        each["priority"] = 0.3
    faults = Faults().on("put", "pages-00003*", Fault.CRASH_BEFORE, area="public")
    with pytest.raises(SimulatedCrash):
        build(world.sitemap(FaultyStore(world.config, faults)), clock=world.clock)
    there = world.store.public.get(SHARD)
    world.store.public.put(
        SHARD, there.body[:-9], mode=Overwrite(), metadata=there.info.metadata, content_type="application/gzip"
    )
    stages.recover(world.sitemap(), clock=world.clock)
    assert world.crawl().entries() == world.rebuilt().entries()


def test_a_damaged_private_body_is_not_published_in_a_repair() -> None:
    world = world_of()
    current = StateRepository(world.store.state).current()
    key = next(file.body for file in current.manifest.files() if file.name == SHARD)
    forge(world.store.state, key)
    world.store.public.delete(SHARD)
    assert world.build().rows_read == 5
    assert world.crawl().entries() == world.rebuilt().entries()


@pytest.mark.parametrize("variant", [0, 1, 2])
def test_content_is_compared_in_every_variant(variant: int) -> None:
    world = world_of(feeds=("atom",))
    current = StateRepository(world.store.state).current()
    (feed,) = (file for file in current.manifest.files() if file.name == "recent.atom")
    body = world.store.state.get(feed.body).body
    file = replace(feed, variant=variant)
    assert is_public_body(file, with_comment(body, variant))
    assert is_body(file, with_comment(body, variant))
    assert not is_public_body(file, with_comment(body, variant + 1))
    assert not is_public_body(file, with_comment(body.replace(b"www", b"wvw"), variant))


# ------------------------------------------------------------ a local folder


def local(world: World, folder: Path) -> Any:
    return world.sitemap(LocalStore(folder / "maps", base_url=BASE))


@pytest.mark.parametrize("full", [False, True])
def test_a_local_file_changed_in_place_with_its_time_kept_is_repaired(tmp_path: Path, full: bool) -> None:
    world = World([row(n) for n in range(1, 16)])
    build(local(world, tmp_path), clock=world.clock)
    good = (tmp_path / "maps" / SHARD).read_bytes()
    damage(tmp_path / "maps" / SHARD)
    report = build(local(world, tmp_path), full, clock=world.clock)
    assert SHARD in " ".join(report.drift)
    assert (tmp_path / "maps" / SHARD).read_bytes() == good
    assert build(local(world, tmp_path), clock=world.clock).result == "unchanged"


def test_a_full_run_finds_what_a_disk_changed_without_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World([row(n) for n in range(1, 16)])
    build(local(world, tmp_path), clock=world.clock)
    good = (tmp_path / "maps" / SHARD).read_bytes()
    rotten(tmp_path / "maps" / SHARD, monkeypatch)
    assert build(local(world, tmp_path), clock=world.clock).result == "unchanged"
    report = build(local(world, tmp_path), True, clock=world.clock)
    assert SHARD in " ".join(report.drift)
    assert (tmp_path / "maps" / SHARD).read_bytes() == good


def test_an_index_that_became_a_folder_or_a_link_is_named_and_put_once_that_is_removed(tmp_path: Path) -> None:
    world = World([row(n) for n in range(1, 16)])
    build(local(world, tmp_path), clock=world.clock)
    index = tmp_path / "maps" / "sitemap.xml"
    index.unlink()
    index.mkdir()
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"sitemap\.xml is a folder.* Remove or rename it, then run again"):
            build(local(world, tmp_path), clock=world.clock)
    shutil.rmtree(index)
    index.symlink_to("/dev/null")
    with pytest.raises(ConfigurationError, match=r"sitemap\.xml leads out .* Remove the link, then run again"):
        build(local(world, tmp_path), clock=world.clock)
    index.unlink()
    build(local(world, tmp_path), clock=world.clock)
    assert crawl(LocalStore(tmp_path / "maps", base_url=BASE).open()).entries() == world.rebuilt().entries()
