"""What a blocked run would have published: URL by URL where it rendered, else by rows and emptied ranges."""

from __future__ import annotations

import pytest

from airflow_sitemaps.errors import ConfigurationError, GuardError
from airflow_sitemaps.pipeline.changes import compare
from airflow_sitemaps.pipeline.publish.draft import Proposal, proposal_of
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.sitemap import Guards
from tests.support.environment import BASE, World, row


def world_of(guards: Guards, rows: int = 40) -> World:
    world = World([row(n) for n in range(1, rows + 1)], guards=guards)
    world.build()
    return world


def blocked(world: World) -> Proposal:
    with pytest.raises(GuardError) as refused:
        world.build()
    assert refused.value.run
    return proposal_of(StateRepository(world.store.state), refused.value.run)


def changes_of(world: World, proposal: Proposal) -> tuple[set[str], set[str]]:
    found = compare(StateRepository(world.store.state), proposal.live, proposal.manifest, most=1_000)
    return set(found.added), set(found.removed)


def test_a_run_that_is_blocked_after_it_rendered_is_known_url_by_url() -> None:
    world = world_of(Guards(max_dropped=0.1, min_rows=1, max_shrink=1.0, max_churn=1.0))
    for changed in world.rows[:10]:
        changed["loc"] = "nonsense"
    world.rows.append(row(41))

    proposal = blocked(world)

    assert proposal.is_rendered
    added, removed = changes_of(world, proposal)
    assert added == {f"{BASE}p/41"}
    assert removed == {f"{BASE}p/{n}" for n in range(1, 11)}
    live = world.crawl().locs()
    world.build(allow=("dropped:pages",))
    assert world.crawl().locs() == (live | added) - removed


def test_a_run_that_only_removes_files_is_known_url_by_url_although_it_rendered_nothing() -> None:
    world = world_of(Guards(max_shrink=0.2, min_rows=1))
    del world.rows[10:]

    proposal = blocked(world)

    assert proposal.is_rendered
    assert changes_of(world, proposal) == (set(), {f"{BASE}p/{n}" for n in range(11, 41)})


def test_a_run_that_is_blocked_while_it_plans_is_known_by_rows_and_emptied_ranges() -> None:
    world = world_of(Guards(max_shrink=0.2, min_rows=1))
    del world.rows[10:]
    world.rows[3]["priority"] = 0.1

    proposal = blocked(world)

    assert not proposal.is_rendered
    assert proposal.plan.sections["pages"].rows == 10
    _, removed = changes_of(world, proposal)
    assert removed
    assert removed <= {f"{BASE}p/{n}" for n in range(11, 41)}
    world.build(allow=("shrink:pages=0.8",))
    assert removed.isdisjoint(world.crawl().locs())


def test_a_later_publication_makes_it_stale() -> None:
    world = world_of(Guards(max_shrink=0.2, min_rows=1))
    kept = world.rows[10:]
    del world.rows[10:]
    with pytest.raises(GuardError) as refused:
        world.build()
    world.rows += [*kept, row(99)]
    world.build()

    with pytest.raises(ConfigurationError, match="planned on generation 1; generation 2 is live"):
        proposal_of(StateRepository(world.store.state), refused.value.run)
