"""Rollback, status, adoption."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest

from airflow_sitemaps import Guards, pipeline
from airflow_sitemaps.errors import ConfigurationError, GuardError, OwnershipError, StoreContentError, StoreError
from airflow_sitemaps.pipeline.adoption import adopt
from airflow_sitemaps.pipeline.publish import promotion
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.ports import Overwrite
from tests.support.environment import BASE, World, row


@pytest.fixture
def world() -> World:
    return World([row(10 * n) for n in range(1, 13)])


def test_a_rollback_is_a_new_generation_with_the_earlier_content(world):
    world.build()
    first = world.crawl()
    world.clock.advance(timedelta(hours=1))
    world.rows[0]["priority"] = 0.3
    world.rows.append(row(25))
    del world.rows[9:11]
    world.build()
    world.clock.advance(timedelta(hours=1))
    report = pipeline.rollback(world.sitemap(), 1, clock=world.clock)
    assert report.generation == 3
    assert report.action == "rollback to 1"
    assert world.crawl().entries() == first.entries()
    status = pipeline.status(world.sitemap())
    assert [(n.generation, n.action) for n in status.history] == [(1, "build"), (2, "build"), (3, "rollback to 1")]


@pytest.mark.parametrize("history", [20, 2])
def test_a_rollback_that_is_tried_again_finishes_the_first_try(world, monkeypatch, history):
    world.settings["history"] = history
    world.build()
    world.rows[0]["priority"] = 0.3
    world.build()
    with monkeypatch.context() as broken:
        broken.setattr(promotion, "_promote_file", Mock(side_effect=StoreError("the store failed")))
        with pytest.raises(StoreError):
            pipeline.rollback(world.sitemap(), 1, clock=world.clock)
    report = pipeline.rollback(world.sitemap(), 1, clock=world.clock)
    assert (report.generation, report.previous_generation, report.action) == (3, 2, "rollback to 1")
    assert report.sections["pages"].shards.rewritten == 1
    assert [note.generation for note in pipeline.status(world.sitemap()).history][-1] == 3


def test_the_run_after_a_rollback_publishes_the_source_again(world):
    world.build()
    world.rows[0]["priority"] = 0.3
    world.build()
    pipeline.rollback(world.sitemap(), 1, clock=world.clock)
    world.build()
    assert world.crawl().entries() == world.rebuilt().entries()
    assert world.build().result == "unchanged"


def test_files_swept_long_ago_come_back_by_rollback(world):
    world.build()
    first = world.crawl()
    del world.rows[:5]
    world.build()
    world.clock.advance(timedelta(days=5))
    world.build()
    assert "pages-00001.xml.gz" not in world.public()
    pipeline.rollback(world.sitemap(), 1, clock=world.clock)
    assert world.crawl().entries() == first.entries()


def test_only_kept_generations_can_be_rolled_back_to(world):
    world.settings = {"history": 3}
    for n in range(5):
        world.rows[0]["priority"] = n / 10
        world.build()
    status = pipeline.status(world.sitemap())
    assert [note.generation for note in status.history] == [3, 4, 5]
    for generation in (0, 1, 2, 5, 9):
        with pytest.raises(ConfigurationError, match="earlier ones kept are: 3, 4"):
            pipeline.rollback(world.sitemap(), generation, clock=world.clock)
    assert pipeline.rollback(world.sitemap(), 3, clock=world.clock).generation == 6


def test_objects_do_not_grow_with_the_number_of_runs(world):
    world.settings = {"history": 3, "grace": timedelta(hours=2)}
    counts = []
    for n in range(30):
        world.rows[n % 12]["priority"] = (n % 10) / 10
        world.clock.advance(timedelta(hours=1))
        world.build()
        counts.append(len([k for k in world.config.state.objects if not k.startswith("reports/")]))
    assert max(counts[15:]) <= max(counts[8:15])
    assert world.crawl().entries() == world.rebuilt().entries()


def put_foreign(world: World) -> None:
    def put(name: str, body: str) -> None:
        world.store.public.put(name, body.encode(), mode=Overwrite(), metadata={}, content_type="text/xml")

    ns = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
    put("sitemap.xml", f"<sitemapindex {ns}><sitemap><loc>{BASE}old-1.xml</loc></sitemap></sitemapindex>")
    put("old-1.xml", f"<urlset {ns}><url><loc>{BASE}p/10</loc></url><url><loc>{BASE}gone</loc></url></urlset>")


def test_adoption_tells_the_difference_first_and_keeps_old_children_through_the_grace(world):
    put_foreign(world)
    before = world.public()
    found = adopt(world.sitemap(), clock=world.clock)
    assert (found.theirs, found.ours, found.only_theirs, found.only_ours) == (2, 12, 1, 11)
    assert found.only_theirs_samples == (BASE + "gone",)
    assert world.public() == before
    done = adopt(world.sitemap(), yes=True, clock=world.clock)
    assert done.report is not None
    assert world.crawl().locs() == world.rebuilt().locs()
    assert "old-1.xml" in world.public()
    world.clock.advance(timedelta(days=3))
    world.build()
    assert "old-1.xml" not in world.public()


def test_an_adopted_child_that_the_other_program_writes_again_is_left_to_it(world):
    put_foreign(world)
    adopt(world.sitemap(), yes=True, clock=world.clock)
    world.store.public.put("old-1.xml", b"again", mode=Overwrite(), metadata={}, content_type="text/xml")
    world.clock.advance(timedelta(days=3))
    world.build()
    assert world.public()["old-1.xml"][0] == b"again"


def test_indexes_by_section_take_the_place_of_an_adopted_index_after_the_grace(world):
    """Its children are swept then, so that it would list missing files."""
    put_foreign(world)
    world.settings["index"] = "per_section"
    world.build(adopt=True)
    assert "sitemap.xml" in world.public()
    assert world.build().result == "unchanged"
    world.clock.advance(timedelta(days=3))
    world.build()
    assert [name for name in world.public() if name.startswith(("sitemap", "old"))] == ["sitemap-pages.xml"]


def put_foreign_urls(world: World, number: int) -> None:
    put_foreign(world)
    ns = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
    urls = "".join(f"<url><loc>{BASE}p/{10 * n}</loc></url>" for n in range(1, number + 1))
    body = f"<urlset {ns}>{urls}</urlset>".encode()
    world.store.public.put("old-1.xml", body, mode=Overwrite(), metadata={}, content_type="text/xml")


@pytest.mark.parametrize("by_build", [True, False])
def test_an_adoption_over_a_table_that_is_still_loading_is_refused(by_build):
    """Three quarters of the rows are there: what the other program lists would shrink by a quarter."""
    world = World([row(10 * n) for n in range(1, 1_501)], max_urls=1_000, guards=Guards())
    put_foreign_urls(world, 2_000)
    before = world.public()

    def publish(*allow: str) -> Any:
        if by_build:
            return world.build(adopt=True, allow=allow)
        return adopt(world.sitemap(), yes=True, allow=allow, clock=world.clock).report

    with pytest.raises(GuardError, match=r"lists 2,000 URLs, and 500 of them .*--allow adopt=0\.25"):
        publish()
    assert world.public() == before
    with pytest.raises(GuardError, match="adopt"):
        publish("adopt=0.2")
    assert publish("adopt=0.25").urls == 1_500
    assert world.crawl().locs() == {r["loc"] for r in world.rows}


def test_an_adoption_that_loses_few_urls_passes():
    world = World([row(10 * n) for n in range(1, 1_801)], max_urls=1_000, guards=Guards())
    put_foreign_urls(world, 2_000)
    assert world.build(adopt=True).urls == 1_800


def test_there_must_be_something_to_adopt(world):
    with pytest.raises(ConfigurationError, match="no foreign index"):
        adopt(world.sitemap(), clock=world.clock)


def test_a_rollback_puts_lost_and_overwritten_files_again(world):
    world.build()
    first = world.crawl()
    world.rows[0]["priority"] = 0.3
    world.build()
    for name in world.public():
        world.store.public.put(name, b"another program's", mode=Overwrite(), content_type="text/html", metadata={})
    world.store.public.delete("pages-00002.xml.gz")
    pipeline.rollback(world.sitemap(), 1, clock=world.clock)
    assert world.crawl().entries() == first.entries()


def test_a_rollback_replaces_no_file_of_another_pipeline(world):
    world.build()
    world.rows[0]["priority"] = 0.3
    world.build()
    world.store.public.put(
        "pages-00002.xml.gz", b"theirs", mode=Overwrite(), content_type="text/plain", metadata={"state-id": "another"}
    )
    before = world.public()
    with pytest.raises(OwnershipError, match="pages-00002"):
        pipeline.rollback(world.sitemap(), 1, clock=world.clock)
    assert world.public() == before


def test_a_rollback_takes_no_name_of_another_program(world):
    world.build()
    first = world.crawl()
    del world.rows[1:10]
    world.build()
    foreign = [
        f"pages-{number:05}.xml.gz" for number in range(3, 9) if f"pages-{number:05}.xml.gz" not in world.public()
    ]
    for name in foreign:
        world.store.public.put(name, b"theirs", mode=Overwrite(), content_type="text/plain", metadata={})
    pipeline.rollback(world.sitemap(), 1, clock=world.clock)
    assert world.crawl().entries() == first.entries()
    assert {world.public()[name][0] for name in foreign} == {b"theirs"}


@pytest.mark.parametrize("copies", [True, False])
def test_a_rollback_to_a_damaged_body_changes_nothing(copies):
    world = World([row(10 * n) for n in range(1, 13)])
    world.config.copies = copies
    world.build()
    body = StateRepository(world.store.state).manifest().sections["pages"].shards[0].file.body
    world.rows[0]["priority"] = 0.3
    world.build()
    kept = world.config.state.objects[body]
    damaged = bytearray(kept.body)
    damaged[len(damaged) // 2] ^= 0xFF  # the length and the gzip trailer stay
    world.config.state.objects[body] = replace(kept, body=bytes(damaged))
    before = world.public()
    with pytest.raises(StoreContentError, match=r"pages-00001\.xml\.gz in generation 1, is missing or damaged"):
        pipeline.rollback(world.sitemap(), 1, clock=world.clock)
    assert world.public() == before
    assert world.build().result == "unchanged"


def test_a_rollback_that_cannot_put_an_overwritten_file_again_changes_nothing():
    world = World([row(10 * n) for n in range(1, 13)])
    world.build()
    world.rows[0]["priority"] = 0.3
    world.build()
    file = StateRepository(world.store.state).manifest().sections["pages"].shards[-1].file
    assert file.etag is not None
    kept = world.config.state.objects[file.body]
    world.config.state.objects[file.body] = replace(kept, body=kept.body[:-3] + b"xyz")
    world.store.public.put(file.name, b"theirs", mode=Overwrite(), content_type="text/html", metadata={})
    before = world.public()
    with pytest.raises(StoreContentError, match=rf"the body of {file.name} in generation 1, is missing or damaged"):
        pipeline.rollback(world.sitemap(), 1, clock=world.clock)
    assert world.public() == before
    assert world.build().result == "published"
    assert world.crawl().locs() == {r["loc"] for r in world.rows}
