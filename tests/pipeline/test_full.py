"""Everything is read at every run (change_detection="full"): what did not change is still not published again."""

from __future__ import annotations

from tests.support.environment import World, row


def test_a_shard_without_a_valid_row_makes_no_new_generation():
    rows = [row(10 * n, priority=7 if n <= 5 else 0.5) for n in range(1, 11)]
    world = World(rows, settings={"change_detection": "full", "rules": {"priority": "drop_row"}})
    assert world.build().generation == 1
    assert len(world.shards()) == 1
    again = world.build()
    assert (again.result, again.generation) == ("unchanged", 1)
