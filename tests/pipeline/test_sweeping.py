"""Sweeps beside concurrent runs and zombies: needed files stay, unnamed files are removed."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from airflow_sitemaps import Section
from airflow_sitemaps.errors import ConfigurationError, ConflictError, IncompleteError
from airflow_sitemaps.pipeline import build, stages
from airflow_sitemaps.pipeline.publish import sweep
from airflow_sitemaps.pipeline.state import capability_probe
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.ports import Overwrite
from airflow_sitemaps.sources.memory_source import MemorySourceConfig
from airflow_sitemaps.stores.memory import MemoryObjects
from airflow_sitemaps.testing import crawl
from tests.simulation.faults import Call, Fault, Faults, FaultyStore, SimulatedCrash
from tests.support.environment import World, row

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_sitemaps import MemoryStore

AFTER_GRACE = timedelta(days=3)
INDEX = "sitemap-pages.xml"
RECENT = "recent.xml.gz"


def world_of(**settings) -> World:
    return World([row(10 * n, lastmod="2026-01-14") for n in range(1, 8)], settings=settings)


def just_before(world: World, verb: str, key: str, act: Callable[[], object]):
    """The sitemap over a store that stalls once, before a call of this verb and key, while ``act`` happens."""
    waiting = [act]

    def before(call: Call) -> None:
        if waiting and call.verb == verb and call.key == key:
            waiting.pop()()

    return world.sitemap(FaultyStore(world.config, Faults(before=before)))


def departed_index() -> World:
    """A world whose index of a section is due to be swept."""
    world = world_of(index="per_section")
    world.build()
    world.settings["index"] = "one"
    world.build()
    world.clock.advance(AFTER_GRACE)
    return world


def swept_while(world: World, name: str, **settings) -> None:
    """A sweep looks, stalls, and deletes only when another run, of other settings, has brought the name back."""

    def bring_back() -> None:
        world.settings.update(settings)
        assert world.build().result == "published"
        assert world.store.public.head(name) is not None

    build(just_before(world, "delete", name, bring_back), clock=world.clock)


def left_in_runs(world: World) -> list[str]:
    """Unneeded objects in folders of runs that are not in the history."""
    manifest = StateRepository(world.store.state).current().manifest
    needed = manifest.bodies() | {item.key for item in manifest.departed}
    kept = {note.run for note in manifest.history}
    runs = [key for key in world.config.state.objects if key.startswith("runs/")]
    return [key for key in runs if key not in needed and key.split("/")[1] not in kept]


# ------------------------------------------------------------ names that come back


def test_what_departed_is_swept_after_its_grace():
    world = departed_index()
    world.build()
    assert world.store.public.head(INDEX) is None


def test_a_stalled_sweep_spares_a_name_that_a_rival_brought_back():
    world = departed_index()
    swept_while(world, INDEX, index="per_section")
    assert crawl(world.store, INDEX).locs() == {r["loc"] for r in world.rows}


def ignore_etags_of_deletes(monkeypatch):
    real = MemoryObjects.delete

    def delete(self: MemoryObjects, key: str, *, etag: str | None = None) -> None:
        real(self, key)

    monkeypatch.setattr(MemoryObjects, "delete", delete)


def test_a_store_without_conditional_deletes_gets_the_file_back_at_once(monkeypatch):
    ignore_etags_of_deletes(monkeypatch)
    world = departed_index()
    swept_while(world, INDEX, index="per_section")
    assert crawl(world.store, INDEX).locs() == {r["loc"] for r in world.rows}
    assert [call.key for call in world.config.log if (call.area, call.verb) == ("public", "delete")] == [INDEX]
    again = world.build()
    assert again.result == "unchanged"


def test_the_index_of_a_rival_that_has_not_recorded_its_promotion_yet_is_put_back(monkeypatch):
    """A store without conditional deletes: the sweep deletes the index that the rival has just put."""
    ignore_etags_of_deletes(monkeypatch)
    world = departed_index()

    def bring_back() -> None:
        world.settings["index"] = "per_section"
        world.rows[0]["priority"] = 0.3
        indexes: list[str] = []

        def before(call: Call) -> None:
            if call.verb == "put" and call.key == INDEX:
                indexes.append(call.key)
            elif indexes and call.verb == "put" and call.area == "state":
                raise SimulatedCrash

        with pytest.raises(SimulatedCrash):
            build(world.sitemap(FaultyStore(world.config, Faults(before=before))), clock=world.clock)
        assert world.store.public.head(INDEX) is not None

    build(just_before(world, "delete", INDEX, bring_back), clock=world.clock)
    assert crawl(world.store, INDEX).locs() == {r["loc"] for r in world.rows}


def test_recent_entries_that_return_as_they_were_are_other_bytes():
    """Equal bytes would have an equal etag: a sweep on its way would take them for what it is to remove."""
    world = world_of(recent=timedelta(days=90))
    world.build()
    first = world.config.public.objects[RECENT].body
    world.settings["recent"] = None
    world.build()
    world.clock.advance(AFTER_GRACE)
    swept_while(world, RECENT, recent=timedelta(days=90))
    assert world.config.public.objects[RECENT].body != first
    assert len(crawl(world.store).files[RECENT]) == 7


def test_a_name_that_somebody_else_wrote_to_meanwhile_is_left_to_them():
    world = departed_index()
    world.store.public.put(INDEX, b"mine", mode=Overwrite(), metadata={}, content_type="text/plain")
    world.build()
    assert world.config.public.objects[INDEX].body == b"mine"


@pytest.mark.parametrize("metadata", [{}, {"state-id": "of another pipeline"}], ids=["other bytes", "equal bytes"])
def test_a_shard_of_a_retired_section_is_left_to_who_wrote_it_meanwhile(metadata, caplog):
    """A section that moves to another pipeline may have equal bytes there, and thus an equal etag."""
    world = world_of()
    other = Section("others", MemorySourceConfig(world.rows))
    build(replace(world.sitemap(), sections=(*world.sitemap().sections, other)), clock=world.clock)
    build(replace(world.sitemap(), retired=("others",)), clock=world.clock)
    name = next(name for name in world.public() if name.startswith("others-"))
    world.clock.advance(timedelta(hours=1))
    body = world.config.public.objects[name].body if metadata else b"theirs"
    world.store.public.put(name, body, mode=Overwrite(), metadata=metadata, content_type="application/gzip")
    world.clock.advance(AFTER_GRACE)
    with caplog.at_level("INFO", logger="airflow_sitemaps"):
        build(replace(world.sitemap(), retired=("others",)), clock=world.clock)
    assert world.config.public.objects[name].body == body
    assert f"{name} is left: another program wrote it since" in caplog.text
    assert f"swept {world.store.public.url(name)}" not in caplog.text


# ------------------------------------------------------------ bodies of runs that are over


def test_bodies_that_a_zombie_stores_after_its_run_was_swept_are_found():
    world = world_of()
    world.build()
    world.rows[0]["priority"] = 0.3
    planned = stages.plan(world.sitemap(), clock=world.clock)

    stalled = []

    def before(call: Call) -> None:
        if call.verb == "put" and "/bodies/" in call.key and not stalled:
            stalled.append(call.key)
            world.clock.advance(AFTER_GRACE)
            world.build()
            assert world.store.state.head(planned.key) is None

    faults = Faults(before=before)
    stages.write(world.sitemap(FaultyStore(world.config, faults)), planned.key, 0, clock=world.clock)
    assert stalled[0] in left_in_runs(world)
    world.clock.advance(timedelta(hours=1))
    world.build()
    assert stalled[0] in left_in_runs(world)
    world.clock.advance(AFTER_GRACE)
    world.build()
    assert left_in_runs(world) == []
    assert world.crawl().entries() == world.rebuilt().entries()


def test_the_runs_folders_are_looked_through_once_in_a_grace():
    world = world_of()
    world.build()
    for hours in (1, 30, 30, 1):
        world.clock.advance(timedelta(hours=hours))
        world.build()
    assert [call.key for call in world.config.log if call.verb == "list" and call.key == "runs/"] == ["runs/"]


def test_a_run_older_than_the_grace_is_not_published():
    world = world_of()
    world.build()
    world.rows[0]["priority"] = 0.3
    planned = stages.plan(world.sitemap(), clock=world.clock)
    receipt = stages.write(world.sitemap(), planned.key, 0, clock=world.clock).receipt_key
    before = world.public()
    world.clock.advance(timedelta(days=2))
    with pytest.raises(IncompleteError, match="may be swept"):
        stages.publish(world.sitemap(), planned.key, [receipt], clock=world.clock)
    assert world.public() == before


def test_a_publish_that_is_cleared_after_the_grace_does_not_deny_what_the_run_published():
    world = world_of()
    planned = stages.plan(world.sitemap(), clock=world.clock)
    receipts = [
        stages.write(world.sitemap(), planned.key, batch.number, clock=world.clock).receipt_key
        for batch in planned.batches
    ]
    stages.publish(world.sitemap(), planned.key, receipts, clock=world.clock)
    world.rows[0]["priority"] = 0.3
    world.build()
    world.clock.advance(timedelta(hours=49))
    with pytest.raises(ConflictError, match=r"was published before, and generation 2 .* has replaced it"):
        stages.publish(world.sitemap(), planned.key, receipts, clock=world.clock)


def test_a_publisher_that_sleeps_at_its_commit_cannot_name_what_was_swept_meanwhile():
    """Days pass between its last look and its put; a sweep in between replaces the manifest before it removes."""
    world = world_of()
    world.build()
    world.rows[0]["priority"] = 0.3
    planned = stages.plan(world.sitemap(), clock=world.clock)
    receipt = stages.write(world.sitemap(), planned.key, 0, clock=world.clock).receipt_key
    before = world.public()
    world.rows[0]["priority"] = None

    def sweep() -> None:
        world.clock.advance(AFTER_GRACE)
        assert world.build().result == "unchanged"

    sleeping = just_before(world, "put", "manifest.json.gz", sweep)
    with pytest.raises(IncompleteError, match="may be swept"):
        stages.publish(sleeping, planned.key, [receipt], clock=world.clock)
    assert world.public() == before
    assert left_in_runs(world) == []


def test_what_is_known_of_a_section_that_is_no_more_goes():
    world = world_of(change_detection="watermark")
    world.build()
    state = world.store.state
    body = state.get("known/pages.json").body
    state.put("known/retired.json", body, mode=Overwrite(), content_type="application/json", metadata={})
    world.build()
    assert state.head("known/retired.json") is not None, "looked for only once in a grace"
    world.clock.advance(AFTER_GRACE)
    world.build()
    assert [info.key for info in state.list("known/")] == ["known/pages.json"]


def test_a_state_area_in_a_folder_of_another_one_is_left(monkeypatch):
    monkeypatch.setattr(sweep, "MOST_REPORTS", 1)
    world = world_of()
    world.build()
    state = world.store.state
    nested = [
        f"{outer}/{key}" for outer in ("known", "reports") for key in ("manifest.json.gz", "generations/1.json.gz")
    ]
    for key in nested:
        state.put(key, b"{}", mode=Overwrite(), content_type="application/json", metadata={})
    world.clock.advance(AFTER_GRACE)
    world.build()
    assert all(state.head(key) for key in nested)


class Unreadable(MemoryObjects):
    """An area with a foreign object that its store refuses to read."""

    def head(self, key: str):
        if key == "foreign.xml":
            raise ConfigurationError(f"HeadObject {self.url(key)}: AccessDenied")
        return super().head(key)


def test_a_foreign_object_that_cannot_be_read_does_not_stop_a_sweep():
    world = world_of()
    world.build()
    world.store.public.put("foreign.xml", b"<urlset/>", mode=Overwrite(), content_type="text/xml", metadata={})
    stages.plan(world.sitemap(), clock=world.clock)
    world.clock.advance(AFTER_GRACE)
    config, area = copy(world.config), world.config.public
    config.public = Unreadable(area.area, area.log, area.lock, area.now, area.objects)
    report = build(world.sitemap(config), clock=world.clock)
    assert report.warnings == ()
    assert report.swept == 1
    assert world.store.public.head("foreign.xml") is not None


# ------------------------------------------------------------ stores that refuse to delete


class Undeletable(MemoryObjects):
    """An area whose objects no one may delete."""

    def delete(self, key: str, *, etag: str | None = None) -> None:
        raise ConfigurationError(f"DeleteObject {self.url(key)}: AccessDenied")


def undeletable(world: World, *areas: str) -> MemoryStore:
    """The store of a world, with areas in which nothing can be deleted."""
    config = copy(world.config)
    for name in areas:
        area = getattr(world.config, name)
        setattr(config, name, Undeletable(area.area, area.log, area.lock, area.now, area.objects))
    return config


@pytest.mark.parametrize("changed", [True, False])
def test_a_refused_delete_is_a_warning_and_the_run_succeeds(changed, caplog):
    world = departed_index()
    if changed:
        world.rows[0]["priority"] = 0.3
    report = build(world.sitemap(undeletable(world, "public", "state")), clock=world.clock)
    assert report.result == ("published" if changed else "unchanged")
    assert StateRepository(world.store.state).read_report(report.run).warnings == report.warnings
    (warning,) = report.warnings
    assert "could not be removed" in warning
    assert "AccessDenied" in warning
    assert warning in caplog.messages
    world.build()
    assert world.store.public.head(INDEX) is None


def test_what_can_be_removed_is_removed_beside_a_refused_delete():
    world = departed_index()
    never_published = stages.plan(world.sitemap(), clock=world.clock)
    world.clock.advance(AFTER_GRACE)
    report = build(world.sitemap(undeletable(world, "public")), clock=world.clock)
    assert world.store.public.head(INDEX) is not None
    assert world.store.state.head(never_published.key) is None
    assert (report.swept, len(report.warnings)) == (1, 1)


def test_a_sweep_that_cannot_list_is_a_warning():
    world = departed_index()
    faults = Faults().on("list", "reports/", Fault.UNAVAILABLE, area="state", times=99)
    report = build(world.sitemap(FaultyStore(world.config, faults)), clock=world.clock)
    assert report.result == "unchanged"
    assert "the next run sweeps again" in report.warnings[0]


def test_probes_of_a_store_that_refuses_to_delete_use_one_object():
    world = world_of()
    store = replace(undeletable(world, "public", "state").open(), enforces_conditions=None, copies=None)
    for _ in range(3):
        capability_probe.forget()
        assert capability_probe.probe(store)
        assert capability_probe.copies(store, capability_probe.WORTH_ASKING)
    assert [len(area.objects) for area in (world.config.public, world.config.state)] == [1, 1]
    capability_probe.forget()
    assert capability_probe.probe(replace(world.config.open(), enforces_conditions=None))
    assert not world.config.public.objects
    assert not world.config.state.objects
    capability_probe.forget()


def test_the_index_of_an_unfinished_promotion_is_not_put_back_before_its_shards():
    """The run that brought the name back died before it put the new shard that its index lists."""
    world = departed_index()

    def bring_back() -> None:
        world.settings["index"] = "per_section"
        world.rows[0]["priority"] = 0.3
        with pytest.raises(SimulatedCrash):
            build(
                world.sitemap(
                    FaultyStore(world.config, Faults().on("put", "pages-*", Fault.CRASH_BEFORE, area="public"))
                ),
                clock=world.clock,
            )

    build(just_before(world, "delete", INDEX, bring_back), clock=world.clock)
    assert world.store.public.head(INDEX) is None
    world.build()
    assert crawl(world.store, INDEX).locs() == {r["loc"] for r in world.rows}
