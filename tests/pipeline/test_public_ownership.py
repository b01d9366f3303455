"""Whose public files are: stamps, two pipelines at one address, orphans, clocks of sweeps."""

from __future__ import annotations

import importlib
import os
import re
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from airflow_sitemaps import LocalStore, MemoryStore, Section, ShardPolicy, Sitemap
from airflow_sitemaps.errors import OwnershipError
from airflow_sitemaps.pipeline import build, rollback, stages
from airflow_sitemaps.pipeline.state.identity import OWNER, STATE_ID
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.ports import Create, Overwrite
from airflow_sitemaps.stores.memory import MemoryObjects
from airflow_sitemaps.testing import FakeClock, MemorySourceConfig, crawl
from tests.support.environment import BASE, FREE, World, row

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow_sitemaps.ports import StoreConfig

WEEK = timedelta(days=7)


def pipeline(store: StoreConfig, name: str, clock: FakeClock, rows: list[dict[str, Any]], **settings: Any) -> Sitemap:
    source = MemorySourceConfig(rows, key="id", clock=clock.now, lastmod="lastmod")
    return Sitemap(store, [Section(name, source)], shards=ShardPolicy(max_urls=5), guards=FREE, **settings)


def two_pipelines(clock: FakeClock) -> tuple[MemoryStore, Sitemap, list[dict[str, Any]], Sitemap]:
    """Two that share a public area and not their state; both have published, as after a wrong change of a path."""
    first_store = MemoryStore(base_url=BASE, now=clock.now)
    second_store = MemoryStore(base_url=BASE, now=clock.now)
    rows = [row(n) for n in range(12)]
    first = pipeline(first_store, "pages", clock, rows, owner="shop")
    second = pipeline(second_store, "posts", clock, [row(n) for n in range(50, 55)], owner="blog")
    build(first, clock=clock)
    build(second, clock=clock)
    second_store.public.objects.clear()
    second_store.public = first_store.public
    return first_store, first, rows, second


def test_each_public_object_carries_owner_and_state_id() -> None:
    clock = FakeClock()
    store = MemoryStore(base_url=BASE, now=clock.now)
    build(pipeline(store, "pages", clock, [row(1)], owner="Zoë's shop"), clock=clock)
    stamps = {(o.info.metadata[OWNER], o.info.metadata[STATE_ID]) for o in store.public.objects.values()}
    assert len(store.public.objects) == 2
    assert len(stamps) == 1
    owner, state_id = stamps.pop()
    assert owner == "Zo%C3%AB%27s shop"
    assert len(state_id) == 16
    build(pipeline(store, "pages", clock, [row(1), row(2)], owner="Zoë's shop"), clock=clock)
    assert {o.info.metadata[STATE_ID] for o in store.public.objects.values()} == {state_id}


def test_the_second_pipeline_at_an_address_is_refused_and_the_first_keeps_its_index() -> None:
    clock = FakeClock()
    store, first, rows, second = two_pipelines(clock)
    before = crawl(store.open())
    with pytest.raises(OwnershipError, match=r"published by another pipeline \(owner 'shop'.*`airflow-sitemaps adopt`"):
        build(second, clock=clock)
    assert crawl(store.open()) == before
    rows.append(row(20))
    assert build(first, clock=clock).result == "published"
    assert crawl(store.open()).locs() == {r["loc"] for r in rows}


def test_two_local_stores_of_one_public_folder_and_two_state_folders(tmp_path: Path) -> None:
    """The stamp is an extended attribute of the file: the sidecars of one are not seen by the other."""
    clock = FakeClock()
    stores = [LocalStore(tmp_path / "maps", base_url=BASE, state_dir=tmp_path / name) for name in ("one", "two")]
    rows = [row(n) for n in range(12)]
    first = pipeline(stores[0], "pages", clock, rows, owner="shop")
    build(first, clock=clock)
    index = tmp_path / "maps" / "sitemap.xml"
    if not os.listxattr(index):
        pytest.skip("this file system has no extended attributes")
    before = index.read_bytes()
    second = pipeline(stores[1], "posts", clock, [row(50)], owner="blog")
    with pytest.raises(OwnershipError, match="owner 'shop'"):
        build(second, clock=clock)
    assert index.read_bytes() == before
    build(second, adopt=True, clock=clock)
    with pytest.raises(OwnershipError, match="owner 'blog'"):
        build(first, clock=clock)
    index.write_bytes(b"<urlset/>")  # in place: the attribute stays and belongs to other content
    assert build(first, clock=clock).result == "published"
    assert crawl(stores[0].open()).locs() == {item["loc"] for item in rows}


def test_a_first_publication_over_another_pipelines_index_says_whose_it_is() -> None:
    clock = FakeClock()
    store, first, _, _ = two_pipelines(clock)
    third = MemoryStore(base_url=BASE, now=clock.now)
    third.public = store.public
    with pytest.raises(OwnershipError, match="owner 'shop'"):
        build(pipeline(third, "posts", clock, [row(1)]), clock=clock)
    assert build(first, clock=clock).result == "unchanged"


@dataclass(slots=True)
class IntrudedState(MemoryObjects):
    """A state area: when its manifest is put, another pipeline puts its index into the public area."""

    intrude: Callable[[], None] = field(default=lambda: None, kw_only=True)

    def put(self, key: str, *arguments: Any, **settings: Any) -> str:
        etag = MemoryObjects.put(self, key, *arguments, **settings)
        if key == "manifest.json.gz":
            self.intrude()
        return etag


def test_the_promotion_refuses_what_another_pipeline_put_since_the_commit() -> None:
    """Neither the plan nor the commit could see it."""
    clock = FakeClock()
    store, first, _, second = two_pipelines(clock)
    index = store.public.objects.pop("sitemap.xml")
    assert isinstance(second.store, MemoryStore)
    undisturbed = second.store.state
    second.store.state = IntrudedState(
        "state",
        undisturbed.log,
        undisturbed.lock,
        undisturbed.now,
        undisturbed.objects,
        intrude=lambda: store.public.objects.update({"sitemap.xml": index}),
    )
    with pytest.raises(OwnershipError, match="owner 'shop'"):
        build(second, clock=clock)
    second.store.state = undisturbed
    assert store.public.objects["sitemap.xml"] == index
    assert build(first, clock=clock).result == "unchanged"
    with pytest.raises(OwnershipError):
        build(second, clock=clock)


def test_a_pipeline_may_take_over_another_ones_files_when_told_so() -> None:
    clock = FakeClock()
    store, first, rows, second = two_pipelines(clock)
    assert build(second, adopt=True, clock=clock).result == "published"
    assert crawl(store.open()).locs() == {row(n)["loc"] for n in range(50, 55)}
    rows.append(row(20))
    with pytest.raises(OwnershipError, match="owner 'blog'"):
        build(first, clock=clock)
    assert build(first, adopt=True, clock=clock).result == "published"
    assert crawl(store.open()).locs() == {r["loc"] for r in rows}


def test_files_without_a_stamp_are_replaced_as_before() -> None:
    world = World([row(n) for n in range(12)])
    world.build()
    for name, kept in list(world.config.public.objects.items()):
        metadata = {k: v for k, v in kept.info.metadata.items() if k not in (OWNER, STATE_ID)}
        world.config.public.delete(name)
        world.config.public.put(name, kept.body + b" ", mode=Create(), metadata=metadata, content_type="x")
    world.rows.append(row(20))
    assert world.build().result == "published"
    assert world.crawl().locs() == {r["loc"] for r in world.rows}


def test_a_state_area_that_is_lost_can_be_replaced_with_adopt() -> None:
    world = World([row(n) for n in range(12)])
    world.build()
    world.config.state.objects.clear()
    with pytest.raises(OwnershipError, match="its state was lost"):
        world.build()
    assert world.build(adopt=True).result == "published"
    assert world.crawl().locs() == {r["loc"] for r in world.rows}


@pytest.mark.parametrize(
    "settings",
    [
        {"index": "per_section"},
        {"recent": timedelta(days=3), "feeds": ("atom",), "stylesheet": True},
        {"index": "per_section", "recent": timedelta(days=3)},
    ],
)
def test_after_the_loss_of_the_state_indexes_and_feeds_are_guarded_and_adopted_too(settings: dict[str, Any]) -> None:
    world = World([row(n, lastmod="2026-01-15") for n in range(12)], settings=settings)
    world.build()
    world.config.state.objects.clear()
    before = world.public()
    with pytest.raises(OwnershipError, match="its state was lost"):
        world.build()
    assert world.public() == before
    assert world.build(adopt=True).result == "published"
    assert world.build().result == "unchanged"
    world.clock.advance(WEEK)
    assert world.build().result in ("unchanged", "published")
    indexes = [name for name in world.public() if name.startswith("sitemap") and name.endswith(".xml")]
    listed = {loc for name in indexes for loc in crawl(world.store, name).locs()}
    assert listed == {r["loc"] for r in world.rows}


@pytest.mark.parametrize("later", ["one", "per_section"])
def test_an_index_that_another_layout_left_is_taken_over_and_swept_after_a_loss_of_the_state(later: str) -> None:
    """The index of the layout before is public through its grace; it bears the stamp of the lost state."""
    world = World([row(n) for n in range(12)])
    world.build()
    world.settings["index"] = "per_section"
    world.build()
    world.config.state.objects.clear()
    assert world.build(adopt=True).result == "published"
    world.settings["index"] = later
    world.build()
    world.clock.advance(WEEK)
    world.build()
    indexes = [name for name in world.public() if name.startswith("sitemap")]
    assert indexes == (["sitemap.xml"] if later == "one" else ["sitemap-pages.xml"])
    assert {loc for name in indexes for loc in crawl(world.store, name).locs()} == {r["loc"] for r in world.rows}


# ---------------------------------------------------------------- orphans


def late_put(world: World) -> str:
    """A put of a stopped promotion that lands after its file was swept."""
    world.build()
    (name,) = (n for n in world.config.public.objects if n.startswith("pages-00003"))
    late = world.config.public.objects[name]
    del world.rows[10:]
    world.build()
    world.clock.advance(WEEK)
    world.build()
    assert name not in world.config.public.objects
    world.config.public.put(name, late.body, mode=Create(), metadata=late.info.metadata, content_type="x")
    return name


def test_an_orphan_behind_many_files_of_other_programs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = importlib.import_module("airflow_sitemaps.pipeline.publish.sweep")
    monkeypatch.setattr(sweep, "EXAMINED", 2)
    world = World([row(1)])
    world.build()
    manifest = StateRepository(world.store.state).manifest()
    assert manifest is not None
    for name in ("a.xml", "b.xml", "c.xml", "d.xml", "late.xml"):
        stamp = {"state-id": manifest.state_id} if name == "late.xml" else {}
        world.store.public.put(name, b"x", mode=Overwrite(), metadata=stamp, content_type="text/xml")
    later = world.clock.now() + timedelta(days=90)
    times = (later + timedelta(seconds=n) for n in range(5))
    seen = [len(sweep.orphans(world.store, manifest, now, timedelta(days=2))) for now in times]
    assert sorted(seen) == [0, 0, 0, 1, 1]


def test_a_file_that_a_late_put_brought_back_is_swept() -> None:
    world = World([row(n) for n in range(12)])
    name = late_put(world)
    world.build()
    assert name in world.config.public.objects, "it is younger than the grace"
    world.clock.advance(WEEK)
    assert world.build().swept
    assert name not in world.config.public.objects
    assert world.crawl().locs() == {r["loc"] for r in world.rows}


def test_a_listed_file_that_a_store_without_case_names_otherwise_is_no_orphan() -> None:
    """After a change of ``path="Shop/"`` to ``"shop/"``, Windows shares and macOS keep the folder's old name."""
    world = World([row(n) for n in range(12)])
    name = late_put(world)
    ours = world.config.public.objects[name].info.metadata
    world.config.public.put("Pages-00001.xml.gz", b"x", mode=Create(), metadata=ours, content_type="x")
    world.clock.advance(WEEK)
    world.build()
    assert "Pages-00001.xml.gz" in world.public()
    assert name not in world.public()


def test_a_state_without_an_id_has_no_orphans() -> None:
    """An empty stamp may be another pipeline's. The next commit gives the state its id."""
    sweep = importlib.import_module("airflow_sitemaps.pipeline.publish.sweep")
    world = World([row(1)])
    world.build()
    manifest = StateRepository(world.store.state).manifest()
    assert manifest is not None
    world.store.public.put("late.xml", b"x", mode=Create(), metadata={}, content_type="text/xml")
    late = world.config.public.objects["late.xml"]  # with a header that no store of this package writes
    world.config.public.objects["late.xml"] = replace(late, info=replace(late.info, metadata={STATE_ID: ""}))
    unnamed, later = structs.replace(manifest, state_id=""), world.clock.now() + timedelta(days=90)
    assert sweep.orphans(world.store, unnamed, later, timedelta(days=2)) == ()


def test_what_is_not_ours_is_no_orphan() -> None:
    world = World([row(n) for n in range(12)])
    name = late_put(world)
    ours = world.config.public.objects[name].info.metadata
    for key, metadata in (
        ("theirs.xml", {}),
        ("others.xml", {**ours, STATE_ID: "0" * 16}),
        ("ours.pdf", ours),
    ):
        world.config.public.put(key, b"x", mode=Create(), metadata=metadata, content_type="x")
    world.clock.advance(WEEK)
    world.build()
    assert set(world.public()) >= {"theirs.xml", "others.xml", "ours.pdf"}
    assert name not in world.config.public.objects


# ---------------------------------------------------------------- clocks


@pytest.mark.parametrize("kind", ["memory", "local"])
def test_a_worker_three_days_fast_sweeps_nothing_that_is_still_read(kind: str, tmp_path: Path) -> None:
    """The store's clock is right: that of the file system, or of S3."""
    right = FakeClock()
    store: Any = MemoryStore(base_url=BASE, now=right.now)
    if kind == "local":
        store = LocalStore(tmp_path / "maps", base_url=BASE)
        right = FakeClock(_file_time(tmp_path))
    rows = [row(n) for n in range(12)]
    sitemap = pipeline(store, "pages", right, rows)
    build(sitemap, clock=right)
    read = {info.key for info in store.open().public.list()}
    del rows[10:]
    build(sitemap, clock=right)
    fast = FakeClock(right.now() + timedelta(days=3))
    rows.append(row(3.5))
    report = build(sitemap, clock=fast)
    assert report.swept == 0
    assert read <= {info.key for info in store.open().public.list()}


@pytest.mark.parametrize("kind", ["memory", "local"])
def test_a_worker_three_days_fast_writes_no_lastmod_of_the_future(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither where it plans and publishes, nor where another worker plans, nor by a rollback."""
    right = FakeClock()
    store: Any = MemoryStore(base_url=BASE, now=right.now)
    if kind == "local":
        store = LocalStore(tmp_path / "maps", base_url=BASE)
        right = FakeClock(_file_time(tmp_path))
    rows = [row(n) for n in range(12)]
    sitemap = pipeline(store, "pages", right, rows)
    build(sitemap, clock=right)
    limit = right.now() + timedelta(minutes=5)
    fast = FakeClock(right.now() + timedelta(days=3))

    def index_dates() -> list[datetime]:
        index = store.open().public.get("sitemap.xml")
        return [datetime.fromisoformat(text) for text in re.findall(r"<lastmod>(.*?)</lastmod>", index.body.decode())]

    rows.append(row(12))
    planned = stages.plan(sitemap, clock=right)
    receipts = [stages.write(sitemap, planned.key, batch.number, clock=right).receipt_key for batch in planned.batches]
    a_day_fast = FakeClock(right.now() + timedelta(days=1))
    assert stages.publish(sitemap, planned.key, receipts, clock=a_day_fast).result == "published"
    assert max(index_dates()) <= limit
    assert "ahead of the store's clock" in caplog.text
    rows.append(row(13))
    build(sitemap, clock=fast)
    assert max(index_dates()) <= limit
    rollback(sitemap, 1, clock=fast)
    assert len(index_dates()) == len(crawl(store.open()).files)
    assert max(index_dates()) <= limit
    rows.append(row(14, lastmod=right.now()))
    sitemap = replace(sitemap, recent=timedelta(days=3))
    build(sitemap, clock=right)
    store.open().public.delete("recent.xml.gz")
    build(sitemap, clock=fast)
    assert "recent.xml.gz" in crawl(store.open()).files
    assert max(index_dates()) <= limit


def test_the_grace_begins_by_the_stores_clock_where_the_workers_is_slow() -> None:
    world = World([row(n) for n in range(12)])
    world.build()
    del world.rows[10:]
    slow = FakeClock(world.clock.now() - timedelta(days=3))
    build(world.sitemap(), clock=slow)
    world.clock.advance(timedelta(hours=1))
    world.rows.append(row(3.5))
    assert world.build().swept == 0
    assert any(name.startswith("pages-00003") for name in world.config.public.objects)


def _file_time(folder: Path) -> datetime:
    (folder / "now").touch()
    return datetime.fromtimestamp((folder / "now").stat().st_mtime, timezone.utc)


@pytest.mark.parametrize(
    ("settings", "name"), [({"recent": WEEK}, "recent.xml.gz"), ({"index": "per_section"}, "sitemap-pages.xml")]
)
def test_a_new_name_that_another_pipeline_has_is_refused_before_the_commit(settings: dict[str, Any], name: str) -> None:
    """Else the committed generation could never be promoted, and the sitemap would be blocked."""
    clock = FakeClock()
    store = MemoryStore(base_url=BASE, now=clock.now)
    rows = [row(n, lastmod=clock.now().isoformat()) for n in range(12)]
    build(pipeline(store, "pages", clock, rows), clock=clock)
    store.public.put(name, b"theirs", mode=Create(), metadata={STATE_ID: "another"}, content_type="text/xml")
    with pytest.raises(OwnershipError, match=name):
        build(pipeline(store, "pages", clock, rows, **settings), clock=clock)
    rows.append(row(20))
    assert build(pipeline(store, "pages", clock, rows), clock=clock).result == "published"
    assert row(20)["loc"] in crawl(store.open()).locs()
    adopted = build(pipeline(store, "pages", clock, rows, **settings), adopt=True, clock=clock)
    assert adopted.result == "published"
    assert store.public.objects[name].info.metadata[STATE_ID] != "another"


@pytest.mark.parametrize(
    ("settings", "name"), [({"stylesheet": True}, "sitemap.xsl"), ({"index": "per_section"}, "sitemap-pages.xml")]
)
def test_a_warning_names_a_file_without_a_stamp_that_has_a_new_name(
    settings: dict[str, Any], name: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()
    store = MemoryStore(base_url=BASE, now=clock.now)
    rows = [row(n) for n in range(12)]
    build(pipeline(store, "pages", clock, rows), clock=clock)
    store.public.put(name, b"theirs", mode=Create(), metadata={}, content_type="text/xml")
    assert build(pipeline(store, "pages", clock, rows, **settings), clock=clock).result == "published"
    assert [r.getMessage() for r in caplog.records if "overwriting" in r.message] == [
        f"{store.open().public.url(name)} was written by another program; overwriting it"
    ]
    assert store.public.objects[name].body != b"theirs"
    caplog.clear()
    rows.append(row(20))
    build(pipeline(store, "pages", clock, rows, **settings), clock=clock)
    assert "overwriting" not in caplog.text


def test_a_name_that_no_file_can_have_is_not_looked_at() -> None:
    world = World([row(n) for n in range(12)], settings={"index": "per_section"})
    world.build()
    assert "sitemap-recent.xml" not in {call.key for call in world.config.log}
