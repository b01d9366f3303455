"""Whether a sitemap lists a URL: exactly the URLs that a crawler sees, by as few files as the key allows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.pipeline.concurrency import inline
from airflow_sitemaps.pipeline.find import find, find_in_manifest, key_of
from airflow_sitemaps.pipeline.state.repository import StateRepository
from tests.support.environment import BASE, World, row


@pytest.fixture
def world() -> World:
    world = World([row(10 * n) for n in range(1, 41)])
    world.build()
    return world


def searched(world: World, url: str, **settings: Any) -> Any:
    manifest = StateRepository(world.store.state).manifest()
    assert manifest is not None
    return find_in_manifest(world.store.state, manifest, url, **settings)


def in_store(world: World, url: str, **settings: Any) -> Any:
    section = next(iter(world.sitemap().sections)).name
    return searched(world, url, templates={section: "/p/{id}"}, **settings)


def test_a_key_in_the_url_leads_to_one_file(world: World) -> None:
    found = in_store(world, BASE + "p/200")

    assert (found.listed, found.complete, found.shards_read) == (True, True, 1)
    assert found.shards_total > 3
    assert found.matches[0].shard.endswith(".xml.gz")
    assert found.matches[0].file_url.startswith(BASE)


def test_a_key_without_a_row_is_answered_by_one_file_too(world: World) -> None:
    found = in_store(world, BASE + "p/205")

    assert (found.listed, found.complete, found.shards_read) == (False, True, 1)
    assert "no such row" in found.note


def test_without_a_template_every_file_is_read(world: World) -> None:
    found = searched(world, BASE + "p/205", templates={})

    assert (found.listed, found.complete, found.shards_read) == (False, True, found.shards_total)


def test_a_bound_is_said_and_nothing_is_claimed(world: World) -> None:
    found = searched(world, BASE + "p/205", templates={}, max_shards=2)

    assert (found.listed, found.complete, found.shards_read) == (False, False, 2)
    assert f"{found.shards_total - 2} files were not read" in found.note


def test_the_url_may_be_root_relative_or_unencoded(world: World) -> None:
    assert find(world.sitemap(), "/p/200").listed
    assert find(world.sitemap(), "  " + BASE + "p/200 ").listed


def test_what_no_sitemap_can_list_is_refused(world: World) -> None:
    with pytest.raises(ConfigurationError, match="rule loc-scheme"):
        find(world.sitemap(), "javascript:alert(1)")
    with pytest.raises(ConfigurationError, match="nothing has been published yet"):
        find(World([row(1)]).sitemap(), BASE)


@given(ids=st.sets(st.integers(1, 300), min_size=1, max_size=80), sought=st.integers(1, 300))
@settings(max_examples=60, deadline=None)
def test_it_is_listed_exactly_where_a_crawler_sees_it(ids: set[int], sought: int) -> None:
    with inline():
        world = World([row(n) for n in sorted(ids)])
        world.build()
        url = f"{BASE}p/{sought}"
        seen = url in world.crawl().locs()

        for found in (in_store(world, url), find(world.sitemap(), url)):
            assert (found.listed, found.complete) == (seen, True)


@pytest.mark.parametrize(
    ("template", "url", "key"),
    [
        ("/p/{id}", "https://a.example/p/42", 42),
        ("https://a.example/p/{slug}-{id}", "https://a.example/p/red-shoe-7-42", 42),
        ("/p/{id}-{slug}", "https://a.example/p/42-7-red", 42),
        ("/p/{slug}{id}", "https://a.example/p/red42", None),  # 42, or 2 after "red4"
        ("/p/{id}{size}", "https://a.example/p/42", None),
        ("/p/{slug}{id}", "https://a.example/p/red4", 4),
        ("/p/{slug}-{id}", "https://a.example/p/red--4", None),  # -4, or 4 after "red-"
        ("/p/{id}", "https://a.example/p/-4", -4),
        ("/p/{id}", "https://a.example/p/042", None),
        ("/{a}/{id}/{b}", "https://a.example/x/1/2/y", None),
        ("/{a}/{id}/{b}", "https://a.example/x/1/y", 1),
        ("/{id}/p/{id}", "https://a.example/42/p/42", 42),
        ("/{id}/p/{id}", "https://a.example/42/p/42x", None),
        ("/p/{slug}{id}", "https://a.example/p/1000000000000000000", None),
        ("/p/{id}", "https://b.example/p/42", None),
        ("/p/{slug}", "https://a.example/p/42", None),
        ("url", "https://a.example/p/42", None),
        ("/p/{id", "https://a.example/p/42", None),
        ("/p/{id}", "https://a.example/p/" + "9" * 30, None),
    ],
)
def test_the_key_that_a_url_holds(template: str, url: str, key: int | None) -> None:
    assert key_of(url, template, "id", "https://a.example/x/") == key


@given(
    parts=st.lists(st.sampled_from(["{id}", "{slug}", "{size}", "-", "/", "p", "4"]), min_size=1, max_size=6),
    key=st.integers(-200, 200),
    texts=st.tuples(*[st.text("a4-/", max_size=4)] * 2),
)
def test_the_key_of_a_url_is_never_that_of_another_row(parts: list[str], key: int, texts: tuple[str, str]) -> None:
    template = "https://a.example/" + "".join(parts)
    url = template.replace("{id}", str(key)).replace("{slug}", texts[0]).replace("{size}", texts[1])
    assert key_of(url, template, "id", "https://a.example/") in (key, None)


@pytest.mark.parametrize(
    "url", ["http://www.example.com/p/1", "https://example.com/p/1", "https://www.example.com:8443/"]
)
def test_a_url_of_another_origin_comes_with_the_rule(world: World, url: str) -> None:
    assert find(world.sitemap(), BASE + "p/10").listed
    assert find(world.sitemap(), BASE + "p/11").note == ""

    other = find(world.sitemap(), url)

    assert not other.listed
    origin = url[: url.index("/", 8)]
    assert other.note.startswith(
        f"The sitemap is on {BASE[:-1]}: rows with URLs of {origin} are left out by the rule scope-host"
    )
    assert other.note.endswith("unless cross_submit= names it.")
