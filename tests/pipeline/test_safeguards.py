"""One test for each safeguard that random histories seldom exercise; each fails without its safeguard."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from airflow_sitemaps import Guards, MemoryStore, pipeline
from airflow_sitemaps.errors import IncompleteError, OwnershipError, SourceMovedError, StoreError
from airflow_sitemaps.pipeline import build, stages
from airflow_sitemaps.pipeline.state.identity import OWNER, STATE_ID
from airflow_sitemaps.pipeline.state.repository import MANIFEST, StateRepository
from airflow_sitemaps.ports import Overwrite
from airflow_sitemaps.shards.ranges import Digest
from tests.simulation.faults import Call, Fault, Faults, FaultyStore, SimulatedCrash
from tests.simulation.skewed_clock import SkewedClock
from tests.support.environment import BASE, World, row

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_sitemaps.shards.manifest import Manifest


SHARD = "pages-00001.xml.gz"


def world_of(number: int) -> World:
    return World([row(10 * n) for n in range(1, number + 1)])


def just_before(world: World, area: str, key: str, act: Callable[[], object]) -> FaultyStore:
    """The store of a process that stalls once, before it puts a key, while ``act`` happens."""
    waiting = [act]

    def before(call: Call) -> None:
        if waiting and (call.verb, call.area, call.key) == ("put", area, key):
            waiting.pop()()

    return FaultyStore(world.config, Faults(before=before))


def manifest_of(world: World) -> Manifest:
    current = StateRepository(world.store.state).current()
    assert current is not None
    return current.manifest


def test_a_stalled_copy_within_the_store_does_not_bring_back_an_older_file() -> None:
    world = world_of(5)
    world.config = MemoryStore(base_url=BASE, now=world.clock.now, copies=True)
    world.store = world.config.open()
    world.build()
    world.rows[0]["priority"] = 0.1

    def rival() -> None:
        world.rows[0]["priority"] = 0.9
        assert world.build().result == "published"

    build(world.sitemap(just_before(world, "public", SHARD, rival)), clock=world.clock)
    assert manifest_of(world).generation == 3
    assert world.crawl().entries() == world.rebuilt().entries()


def test_a_shard_that_another_pipeline_put_since_the_commit_is_not_replaced() -> None:
    world = world_of(10)
    world.build()
    world.rows[0]["priority"] = 0.3

    def theirs() -> None:
        stamp = {OWNER: "blog", STATE_ID: "f" * 16}
        world.store.public.put(SHARD, b"theirs", mode=Overwrite(), metadata=stamp, content_type="application/gzip")

    with pytest.raises(OwnershipError, match="owner 'blog'"):
        build(world.sitemap(just_before(world, "public", SHARD, theirs)), clock=world.clock)
    assert world.config.public.objects[SHARD].body == b"theirs"


def test_a_sweep_that_lost_its_fence_removes_nothing() -> None:
    """A publisher whose clock is slow commits between the sweep's look and its fence."""
    world = world_of(10)
    world.build()
    world.clock.advance(timedelta(minutes=1))
    world.rows[0]["priority"] = 0.3
    planned = stages.plan(world.sitemap(), clock=world.clock)
    receipts = [
        stages.write(world.sitemap(), planned.key, b.number, clock=world.clock).receipt_key for b in planned.batches
    ]
    world.rows[0]["priority"] = None
    world.clock.advance(timedelta(days=30))
    slow = SkewedClock(world.clock, timedelta(days=-30))

    def late() -> None:
        assert stages.publish(world.sitemap(), planned.key, receipts, clock=slow).result == "published"

    build(world.sitemap(just_before(world, "state", MANIFEST, late)), clock=world.clock)
    assert manifest_of(world).run == planned.run
    assert manifest_of(world).bodies() <= world.config.state.objects.keys()


@pytest.mark.parametrize(("part", "stays"), [(0.9, True), (1.1, False)])
def test_a_file_that_left_the_index_stays_for_the_whole_grace(part: float, stays: bool) -> None:
    world = world_of(10)
    world.build()
    old = set(world.crawl().files)
    world.rows.append(row(11))
    world.build()
    departed = old - set(world.crawl().files)
    assert departed
    world.clock.advance(world.sitemap().grace * part)
    assert world.build().result == "unchanged"
    assert (departed <= set(world.public())) == stays


@pytest.mark.parametrize("bit", [0, 31, 32, 63])
def test_digests_that_differ_in_one_bit_differ(bit: int) -> None:
    assert not Digest.of(3, None, 5).same_rows(Digest.of(3, None, 5 ^ (1 << bit)))


def test_a_row_that_changes_after_the_plan_and_then_changes_back_is_found() -> None:
    """The committed digest is that of the rows in the file, not that of the survey."""
    world = world_of(5)
    world.build()
    world.rows[0]["priority"] = 0.3
    key, receipts = written(world, while_planned=lambda: world.rows[0].update(priority=0.9))
    stages.publish(world.sitemap(), key, receipts, clock=world.clock)
    world.rows[0]["priority"] = 0.3
    assert world.build().result == "published"
    assert world.crawl().entries() == world.rebuilt().entries()


def test_rows_that_are_gone_when_they_are_read_stop_the_run() -> None:
    world = world_of(100)
    world.max_urls = 100
    world.guards = Guards()
    with pytest.raises(SourceMovedError, match="20 rows were read and 100 were counted"):
        written(world, while_planned=lambda: world.rows.__delitem__(slice(20, None)))


def written(world: World, *, while_planned: Callable[[], object]) -> tuple[str, list[str]]:
    """The keys of a run's plan and of its receipts. The table changes between the two."""
    planned = stages.plan(world.sitemap(), clock=world.clock)
    while_planned()
    batches = planned.batches
    return planned.key, [
        stages.write(world.sitemap(), planned.key, batch.number, clock=world.clock).receipt_key for batch in batches
    ]


def test_a_body_that_was_cut_short_stops_the_commit() -> None:
    world = world_of(10)
    planned = stages.plan(world.sitemap(), clock=world.clock)
    receipt = stages.write(world.sitemap(), planned.key, 0, clock=world.clock).receipt_key
    key = next(key for key in world.config.state.objects if "/bodies/" in key)
    whole = world.config.state.objects[key]
    world.store.state.put(
        key, whole.body[:-9], mode=Overwrite(), metadata=whole.info.metadata, content_type=whole.content_type
    )
    with pytest.raises(IncompleteError, match=r"has [\d,]+ bytes, not"):
        stages.publish(world.sitemap(), planned.key, [receipt], clock=world.clock)
    assert StateRepository(world.store.state).current() is None
    assert world.public() == {}


def test_a_crash_right_after_the_commit_leaves_the_earlier_generation_to_roll_back_to() -> None:
    world = world_of(5)
    world.build()
    before = world.crawl().entries()
    world.rows[0]["priority"] = 0.1
    faults = Faults().on("put", MANIFEST, Fault.CRASH_AFTER, area="state")
    with pytest.raises(SimulatedCrash):
        build(world.sitemap(FaultyStore(world.config, faults)), clock=world.clock)
    assert manifest_of(world).generation == 2
    pipeline.rollback(world.sitemap(), 1, clock=world.clock)
    assert world.crawl().entries() == before


@pytest.mark.parametrize(
    "pattern", ["plans/*", "runs/*/bodies/*", "runs/*/receipts/*", "reports/*", "generations/*", "known/*"]
)
def test_a_store_that_refuses_a_condition_that_holds_fails_the_task_with_a_retryable_error(pattern: str) -> None:
    world = world_of(5)
    world.settings["change_detection"] = "watermark"
    world.build()
    world.clock.advance(timedelta(seconds=1))  # else a record of the same moment is there, and no put of it fails
    if pattern != "known/*":  # a commit has this record in the manifest; a run without changes stores it
        world.rows[0]["priority"] = 0.1
    faults = Faults().on("put", pattern, Fault.REFUSED, area="state")
    with pytest.raises(StoreError, match="injected: 412"):
        build(world.sitemap(FaultyStore(world.config, faults)), clock=world.clock)
    assert len(faults.struck) == 1
    world.build()
    assert world.crawl().entries() == world.rebuilt().entries()


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.REFUSED_AFTER])
@pytest.mark.parametrize("pattern", ["plans/*", "runs/*/bodies/*", "runs/*/receipts/*", MANIFEST])
def test_a_put_whose_answer_is_lost_is_read_back(pattern: str, fault: Fault) -> None:
    world = world_of(5)
    faults = Faults().on("put", pattern, fault, area="state")
    report = build(world.sitemap(FaultyStore(world.config, faults)), clock=world.clock)
    assert len(faults.struck) == 1
    assert (report.result, report.generation) == ("published", 1)
    assert world.crawl().entries() == world.rebuilt().entries()
