"""What a run lists depends on the rows, not on the order of their keys."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.pipeline import rollback
from airflow_sitemaps.pipeline.state.repository import StateRepository, generation_key
from tests.support.environment import World, row


def entries(crawl: Any) -> dict[str, tuple[str | None, ...]]:
    return {e.loc: (e.lastmod, e.priority) for found in crawl.files.values() for e in found}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"lastmod": "2026-01-02"}, {"lastmod": "2026-01-01"}),
        ({"lastmod": "2026-01-02"}, {"priority": 0.9}),
        ({"priority": 0.1}, {"priority": 0.9}),
        ({"changefreq": "daily"}, {}),
    ],
)
def test_rows_of_one_url_that_swap_keys_are_listed_as_after_a_rebuild(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    loc = "https://www.example.com/twice"
    world = World([row(1, loc=loc, **first), row(2, loc=loc, **second), row(3)])
    world.build()
    world.rows[0]["id"], world.rows[1]["id"] = 2, 1
    world.build()
    assert entries(world.crawl()) == entries(world.rebuilt())
    assert world.build().result == "unchanged"


def test_rows_of_one_url_that_are_written_alike_are_not_read_again() -> None:
    loc = "https://www.example.com/twice"
    world = World([row(1, loc=loc), row(2, loc=loc), row(3)])
    world.build()
    again = world.build()
    assert (again.result, again.rows_read) == ("unchanged", 0)


def test_only_generations_of_the_history_are_rolled_back_to() -> None:
    """The manifest of a generation may outlive its bodies for a moment, while a sweep removes both."""
    world = World([row(key) for key in range(5)], settings={"history": 2})
    world.build()
    kept = StateRepository(world.store.state).current()
    assert kept is not None
    for key in range(3):
        world.rows.append(row(100 + key))
        world.build()
    state = StateRepository(world.store.state)
    state.keep_generation(kept)
    assert state.objects.get(generation_key(1)) is not None
    with pytest.raises(ConfigurationError, match="generation 1 cannot be rolled back to"):
        rollback(world.sitemap(), 1, clock=world.clock)
