"""Recover finishes a promotion; plan never promotes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_sitemaps.errors import StoreError
from airflow_sitemaps.pipeline import recover, stages
from airflow_sitemaps.pipeline.publish import promotion
from airflow_sitemaps.pipeline.request import RunRequest
from airflow_sitemaps.pipeline.state.repository import StateRepository
from tests.support.environment import World, row


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
    root = StateRepository(world.store.state).root()
    assert root is not None
    return root.manifest.promoted


@pytest.mark.parametrize("dry_run", [True, False])
def test_plan_never_promotes(interrupted: World, dry_run: bool) -> None:
    before = interrupted.public()
    planned = stages.plan(interrupted.sitemap(), RunRequest(dry_run=dry_run), clock=interrupted.clock)
    assert interrupted.public() == before
    assert not promoted(interrupted)
    assert planned.plan.sections["pages"].drift == ()
    assert not planned.plan.sections["pages"].changes


def test_recover_finishes_the_promotion_once(interrupted: World) -> None:
    assert recover(interrupted.sitemap(), clock=interrupted.clock) == 2
    assert promoted(interrupted)
    assert row(50)["loc"] in interrupted.crawl().locs()
    assert recover(interrupted.sitemap(), clock=interrupted.clock) is None


def test_recover_of_nothing_does_nothing() -> None:
    assert recover(World().sitemap()) is None


def test_a_build_recovers_first(interrupted: World) -> None:
    assert interrupted.build().result == "unchanged"
    assert promoted(interrupted)


def test_a_damaged_body_is_read_again(interrupted: World) -> None:
    """A generation that cannot be finished stays; the next plan reads the rows of the damaged body."""
    root = StateRepository(interrupted.store.state).root()
    assert root is not None
    body = next(f.body for f in root.manifest.files() if f.etag is None)
    kept = interrupted.config.state.objects[body]
    damaged = replace(kept, body=kept.body[:-9], info=replace(kept.info, byte_size=len(kept.body) - 9))
    interrupted.config.state.objects[body] = damaged
    assert recover(interrupted.sitemap(), clock=interrupted.clock) is None
    assert interrupted.build().result == "published"
    assert row(50)["loc"] in interrupted.crawl().locs()
