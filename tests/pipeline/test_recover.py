"""Recover finishes a promotion; plan never promotes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from airflow_sitemaps import LocalStore, Section, Sitemap, pipeline
from airflow_sitemaps.errors import ConfigurationError, ConflictError, StoreError
from airflow_sitemaps.pipeline import build, recover, stages
from airflow_sitemaps.pipeline.find import find
from airflow_sitemaps.pipeline.plan.dry_run import explain
from airflow_sitemaps.pipeline.publish import promotion
from airflow_sitemaps.pipeline.publish.promotion import roll_forward
from airflow_sitemaps.pipeline.request import OpenSitemap, RunRequest
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.testing import FakeClock, MemorySourceConfig, crawl
from tests.simulation.faults import Fault, Faults, FaultyStore, SimulatedCrash
from tests.support.environment import BASE, World, row

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_sitemaps.ports import StoreConfig
    from tests.simulation.faults import Call


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> World:
    """A site whose second generation is committed and not promoted."""
    world = World([row(key) for key in range(12)])
    world.build()
    world.rows.append(row(50))

    def fail(*args: object, **kwargs: object) -> str:
        raise StoreError("the store failed")

    with monkeypatch.context() as broken:
        broken.setattr(promotion, "_promote_file", fail)
        with pytest.raises(StoreError):
            world.build()
    assert not promoted(world)
    return world


def promoted(world: World) -> bool:
    current = StateRepository(world.store.state).current()
    assert current is not None
    return current.manifest.promoted


@pytest.mark.parametrize("dry_run", [True, False])
def test_plan_never_promotes(interrupted: World, dry_run: bool) -> None:
    before = interrupted.public()
    planned = stages.plan(interrupted.sitemap(), RunRequest(dry_run=dry_run), clock=interrupted.clock)
    assert interrupted.public() == before
    assert not promoted(interrupted)
    assert planned.sections["pages"].drift == ()
    assert not planned.sections["pages"].changes


def test_a_lost_body_of_an_index_that_is_not_promoted_is_rendered_again(interrupted: World) -> None:
    """No row is read for it, and the rows do not change."""
    current = StateRepository(interrupted.store.state).current()
    assert current is not None
    (index,) = current.manifest.indexes
    del interrupted.config.state.objects[index.body]
    assert interrupted.build().result == "published"
    assert promoted(interrupted)
    assert row(50)["loc"] in interrupted.crawl().locs()
    assert interrupted.build().result == "unchanged"


def test_a_plan_and_a_search_say_that_files_are_not_public_yet(interrupted: World) -> None:
    planned = stages.plan(interrupted.sitemap(), RunRequest(dry_run=True), clock=interrupted.clock)
    assert any("a run finishes its promotion first" in line for line in explain(planned))
    search = find(interrupted.sitemap(), row(50)["loc"])
    assert (search.listed, search.note) == (True, "the generation is committed, and not all its files are public yet")
    interrupted.build()
    assert find(interrupted.sitemap(), row(50)["loc"]).note == ""


def test_recover_finishes_the_promotion_once(interrupted: World) -> None:
    assert recover(interrupted.sitemap(), clock=interrupted.clock) == 2
    assert promoted(interrupted)
    assert row(50)["loc"] in interrupted.crawl().locs()
    assert recover(interrupted.sitemap(), clock=interrupted.clock) is None


def test_recover_of_nothing_does_nothing() -> None:
    assert recover(World().sitemap()) is None


def test_a_build_recovers_first(interrupted: World) -> None:
    report = interrupted.build()
    assert promoted(interrupted)
    assert (report.result, report.generation, report.previous_generation) == ("published", 2, 1)
    assert report.sections["pages"].shards.has_changes()
    assert interrupted.build().result == "unchanged"


def test_a_run_that_read_all_rows_reports_the_promotion_that_it_finishes(interrupted: World) -> None:
    report = interrupted.build(full=True)
    assert promoted(interrupted)
    assert (report.result, report.generation, report.previous_generation) == ("published", 2, 1)


@pytest.mark.parametrize("error", [StoreError, ConfigurationError])
def test_a_report_that_cannot_be_stored_leaves_no_doubt_of_the_generation(
    error: type[Exception], interrupted: World
) -> None:
    def refuse(call: Call) -> None:
        if call.verb == "put" and call.key.startswith("reports/"):
            raise error("access denied")

    sitemap = interrupted.sitemap(FaultyStore(interrupted.config, Faults(before=refuse)))
    with pytest.raises(error, match="generation 2 is published, only the report of this run is missing: access denied"):
        build(sitemap, clock=interrupted.clock)
    assert promoted(interrupted)
    with pytest.raises(error, match=r"^access denied"):
        build(sitemap, clock=interrupted.clock)


def test_a_damaged_body_is_read_again(interrupted: World) -> None:
    """A generation that cannot be finished stays; the next plan reads the rows of the damaged body."""
    current = StateRepository(interrupted.store.state).current()
    assert current is not None
    body = next(f.body for f in current.manifest.files() if f.etag is None)
    kept = interrupted.config.state.objects[body]
    damaged = replace(kept, body=kept.body[:-9], info=replace(kept.info, byte_size=len(kept.body) - 9))
    interrupted.config.state.objects[body] = damaged
    assert recover(interrupted.sitemap(), clock=interrupted.clock) is None
    assert interrupted.build().result == "published"
    assert row(50)["loc"] in interrupted.crawl().locs()


def overtaken(world: World) -> StoreConfig:
    """A store on which, while a run finishes generation 2, another finishes it, commits generation 3 and dies."""
    overtakes = True

    def rival(call: Call) -> None:
        nonlocal overtakes
        if call.verb == "get" and "/bodies/" in call.key and overtakes:
            overtakes = False
            assert recover(world.sitemap(), clock=world.clock) == 2
            world.rows.append(row(51))
            dies = Faults().on("put", "pages-*", Fault.CRASH_BEFORE, area="public")
            with pytest.raises(SimulatedCrash):
                build(world.sitemap(FaultyStore(world.config, dies)), clock=world.clock)

    return FaultyStore(world.config, Faults(after=rival))


def test_it_finishes_the_generation_of_the_run_that_overtook_it(interrupted: World) -> None:
    sitemap = interrupted.sitemap(overtaken(interrupted))
    store = sitemap.store.open()
    current = StateRepository(store.state).current()
    assert current is not None

    found = roll_forward(OpenSitemap.of(sitemap, interrupted.clock), current)

    assert (found.manifest.generation, found.manifest.promoted, promoted(interrupted)) == (3, True, True)
    assert row(51)["loc"] in interrupted.crawl().locs()


def test_a_rollback_that_another_run_overtakes_undoes_nothing_of_it(interrupted: World) -> None:
    with pytest.raises(ConflictError, match="another run committed generation 3 first; nothing was rolled back"):
        pipeline.rollback(interrupted.sitemap(overtaken(interrupted)), 1, clock=interrupted.clock)

    assert promoted(interrupted)
    assert interrupted.crawl().entries() == interrupted.rebuilt().entries()


@pytest.mark.parametrize("path", ["shop/", "x" * 256 + "/", "link/"])
def test_corrected_code_publishes_after_a_name_that_can_never_be_put(path: str, tmp_path: Path) -> None:
    (tmp_path / "maps").mkdir()
    (tmp_path / "maps" / "shop").write_text("a file where a folder is needed")
    (tmp_path / "maps" / "link").symlink_to(tmp_path)
    store, clock = LocalStore(tmp_path / "maps", base_url=BASE), FakeClock()
    rows = [row(key) for key in range(12)]

    def sitemap(path: str) -> Sitemap:
        return Sitemap(store, [Section("shop", MemorySourceConfig(rows), path=path)])

    build(sitemap(""), clock=clock)
    rows.append(row(50))
    for number in range(3):
        rows.append(row(60 + number))
        with pytest.raises(ConfigurationError, match=r"Choose another path|by a symlink"):
            build(sitemap(path), clock=clock)
    current = StateRepository(store.open().state).current()
    assert current is not None
    assert current.manifest.generation == 2, "a run that will fail as the last one did commits nothing"
    assert build(sitemap("other/"), clock=clock).result == "published"
    assert len(crawl(store.open()).locs()) == 16


def test_files_that_an_unfinished_generation_removed_stay_for_the_grace_after_the_next() -> None:
    """The public index listed them until the next generation replaced it."""
    world = World([row(key) for key in range(12)])
    world.build()
    world.rows[0]["priority"] = 0.3
    del world.rows[10:]  # the third file departs
    dies = Faults().on("put", "pages-*", Fault.CRASH_BEFORE, area="public")
    with pytest.raises(SimulatedCrash):
        build(world.sitemap(FaultyStore(world.config, dies)), clock=world.clock)
    current = StateRepository(world.store.state).current()
    assert current is not None
    departed = [item.key for item in current.manifest.departed if item.area == "public"]
    assert departed
    del world.config.state.objects[next(f.body for f in current.manifest.files() if f.etag is None)]
    world.clock.advance(timedelta(days=3))
    assert world.build().result == "published"
    assert set(departed) <= world.public().keys()
    world.clock.advance(timedelta(days=3))
    world.build()
    assert not set(departed) & world.public().keys()
