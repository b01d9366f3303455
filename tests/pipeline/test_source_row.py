"""Why a URL is not listed, as the source itself says: no row, another URL, a rule, or a change that no run has seen."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_sitemaps.pipeline.find import NO_KEY, find, with_source
from tests.support.environment import BASE, World

SOURCE = "Source of section pages:"


def row(key: int, kind: str | None = "p") -> dict[str, Any]:
    return {"id": key, "kind": kind, "lastmod": None, "changefreq": None, "priority": None}


@pytest.fixture
def world() -> World:
    """Rows whose URLs contain the key."""
    world = World([row(10 * n) for n in range(1, 41)], source_settings={"loc": "/{kind}/{id}"})
    world.build()
    return world


def note(world: World, url: str) -> str:
    return with_source(world.sitemap(), find(world.sitemap(), url), clock=world.clock).note


def test_no_such_row(world: World) -> None:
    assert note(world, BASE + "p/205").endswith(f"{SOURCE} no row has the key 205.")


def test_a_row_that_came_after_the_last_run(world: World) -> None:
    world.rows.append(row(205))

    assert f"{SOURCE} the row with the key 205 is valid" in note(world, BASE + "p/205")
    world.build()
    assert find(world.sitemap(), BASE + "p/205").listed


def test_a_row_that_a_rule_leaves_out(world: World) -> None:
    world.rows.append(row(205, kind=None))
    world.build()

    assert f"{SOURCE} the row with the key 205 is left out by the rule loc-missing" in note(world, BASE + "p/205")


def test_a_row_with_another_url(world: World) -> None:
    world.rows.append(row(205, kind="q"))

    assert note(world, BASE + "p/205").endswith(f"{SOURCE} the row with the key 205 has the URL {BASE}q/205.")


def test_a_url_without_its_key_is_not_queried(world: World) -> None:
    assert note(world, BASE + "about").endswith(NO_KEY)


def test_a_listed_url_is_left_as_it_is(world: World) -> None:
    found = find(world.sitemap(), BASE + "p/200")

    assert with_source(world.sitemap(), found) is found
