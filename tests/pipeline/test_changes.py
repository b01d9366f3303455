"""What a generation added, changed or removed: exactly the difference between what crawlers see before and after."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_sitemaps import MemoryStore, Section, ShardPolicy, Sitemap, pipeline
from airflow_sitemaps.errors import ConfigurationError, StoreContentError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.pipeline.changes import TooManyChangesError, changes, compare
from airflow_sitemaps.pipeline.concurrency import inline
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.testing import FakeClock, MemorySourceConfig
from tests.support.environment import BASE, FREE, World, row


def told(world: World, **kwargs: Any) -> tuple[list[str], list[str], list[str]]:
    found = changes(world.sitemap(), **kwargs)
    return tuple([url.removeprefix(BASE) for url in urls] for urls in (found.added, found.changed, found.removed))


def difference(before: dict[str, Any], after: dict[str, Any]) -> tuple[set[str], set[str], set[str]]:
    both = before.keys() & after.keys()
    return after.keys() - both, {loc for loc in both if before[loc] != after[loc]}, before.keys() - both


@pytest.fixture
def world() -> World:
    return World([row(10 * n) for n in range(1, 13)])


def test_the_first_generation_has_changed_nothing_unless_asked(world):
    with pytest.raises(ConfigurationError, match="nothing has been published yet"):
        changes(world.sitemap())
    world.build()
    assert told(world) == ([], [], [])
    added, changed, removed = told(world, backfill=True)
    assert (len(added), changed, removed) == (12, [], [])


def test_added_changed_and_removed_are_told_apart(world):
    world.build()
    world.rows[0]["priority"] = 0.3
    world.rows.append(row(25))
    del world.rows[9]
    world.build()
    assert told(world) == (["p/25"], ["p/10"], ["p/100"])
    assert changes(world.sitemap()).urls == (BASE + "p/25", BASE + "p/10", BASE + "p/100")


def test_only_files_that_differ_are_read(world, monkeypatch):
    world.build()
    world.rows[0]["priority"] = 0.3
    world.build()
    read: list[str] = []
    get = type(world.store.state).get
    monkeypatch.setattr(type(world.store.state), "get", lambda self, key: read.append(key) or get(self, key))
    told(world)
    assert len([key for key in read if "bodies" in key]) == 2


def test_urls_that_move_between_files_are_no_change(world):
    world.build()
    names = set(world.crawl().files)
    world.rows.extend(row(10 * n + 1) for n in range(1, 5))
    world.build()
    assert set(world.crawl().files) != names
    assert told(world) == ([f"p/{10 * n + 1}" for n in range(1, 5)], [], [])


def test_a_url_whose_key_changed_is_no_change_unless_its_entry_is(world):
    world.build()
    world.rows[0]["id"], world.rows[1]["id"] = 999, 998
    world.rows[1]["priority"] = 0.1
    world.build()
    assert told(world) == ([], ["p/20"], [])


def test_any_two_generations_can_be_compared(world):
    for number in (1, 2, 3):
        world.rows.append(row(1_000 + number))
        world.build()
    assert told(world, generation=2) == (["p/1002"], [], [])
    assert told(world, since=1) == (["p/1002", "p/1003"], [], [])
    assert told(world, since=3) == ([], [], [])
    for since in (4, -1):
        with pytest.raises(ConfigurationError, match="must be an earlier generation"):
            changes(world.sitemap(), since=since)


def test_a_rollback_takes_back_what_the_run_did(world):
    world.build()
    world.rows.append(row(25))
    world.rows[0]["priority"] = 0.3
    world.build()
    pipeline.rollback(world.sitemap(), 1, clock=world.clock)
    assert told(world) == ([], ["p/10"], ["p/25"])


def test_generations_that_are_not_kept_are_named(world):
    world.settings = {"history": 2}
    for number in range(4):
        world.rows.append(row(1_000 + number))
        world.build()
    with pytest.raises(ConfigurationError, match="generation 1 is not kept; those kept are 3, 4"):
        changes(world.sitemap(), since=1)


def test_too_many_changes_are_refused_before_all_are_held(world):
    world.build()
    for each in world.rows:
        each["priority"] = 0.1
    world.build()
    assert len(changes(world.sitemap(), most=12).changed) == 12
    with pytest.raises(TooManyChangesError, match=r"more than 11 URLs .* from generation 1 to 2") as raised:
        changes(world.sitemap(), most=11)
    assert (raised.value.since, raised.value.generation) == (1, 2)


def test_the_files_between_two_boundaries_are_limited_although_their_urls_are_the_same(world):
    """A change of key leaves a section no boundary but the first."""
    world.build()
    for each in world.rows:
        each["id"] = 5_000 - each["id"]
    world.build()
    state = StateRepository(world.sitemap().store.open().state)
    old, new = state.generation(1), state.manifest()
    assert len(compare(state, old, new, most=12, at_once=12).changed) == 0
    with pytest.raises(TooManyChangesError):
        compare(state, old, new, most=12, at_once=11)


def test_a_body_that_is_gone_is_named(world):
    world.build()
    world.rows[0]["priority"] = 0.3
    world.build()
    file = StateRepository(world.store.state).generation(1).sections["pages"].shards[0].file
    world.store.state.delete(file.body)
    with pytest.raises(StoreContentError, match=r"the body of pages-00001\.xml\.gz, is missing"):
        changes(world.sitemap())


def test_text_sitemaps_and_escaped_urls():
    world = World([row(n, loc=f"{BASE}p?a={n}&b='x'") for n in range(3)], section_settings={"format": "text"})
    world.build()
    world.rows.append(row(9, loc=f"{BASE}p?a=9&b=1"))
    world.build()
    assert told(world) == (["p?a=9&b=1"], [], [])
    world.section_settings = {}
    world.rows.append(row(10, loc=f"{BASE}p?a=10&b=1"))
    world.build()
    added, _changed, removed = told(world)
    assert (added, removed) == (["p?a=10&b=1"], [])


KEYS = st.integers(0, 40)
STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "cut", "move"]), KEYS, KEYS, st.sampled_from([0.1, 0.9])), max_size=25
)


@settings(deadline=None, max_examples=40)
@given(first=st.sets(KEYS, min_size=1), runs=st.lists(STEPS, min_size=1, max_size=3))
def test_they_are_what_crawlers_see(first, runs):
    rows = {key: row(key) for key in first}
    world = World(max_urls=4)
    with inline():
        world.rows = list(rows.values())
        world.build()
        for steps in runs:
            before = world.crawl().entries()
            for step, key, other, priority in steps:
                if step == "put":
                    rows[key] = {**rows.get(key, row(key)), "priority": priority}
                elif step == "move" and key in rows and other not in rows:
                    rows[other] = {**rows.pop(key), "id": other}
                elif len(rows) > 1:
                    rows.pop(key, None)
            world.rows = _without_duplicates(rows)
            generation = pipeline.status(world.sitemap()).generation
            world.build()
            found = changes(world.sitemap(), since=generation)
            after = world.crawl().entries()
            assert (set(found.added), set(found.changed), set(found.removed)) == difference(before, after)
            assert len(set(found.urls)) == len(found.urls)


PLACES = st.dictionaries(st.integers(0, 30), st.tuples(st.sampled_from(["pages", "news"]), st.sampled_from([0.1, 0.9])))


@settings(deadline=None, max_examples=40)
@given(before=PLACES, after=PLACES)
def test_every_url_counts_in_the_section_that_lists_it(before, after):
    config, clock = MemoryStore(base_url=BASE), FakeClock()
    with inline():
        for number, places in enumerate((before, after)):
            always = {1_000: ("pages", number), 2_000: ("news", number)}
            sitemap = _in_sections(config, {**places, **always})
            build(sitemap, clock=clock)
        found = changes(sitemap)
    for name in ("pages", "news"):
        counts = found.sections[name]
        now = {key: place for key, place in after.items() if place[0] == name}
        gone = [key for key, place in before.items() if place[0] == name and key not in after]
        changed = [key for key, place in now.items() if key in before and before[key][1] != place[1]]
        assert (counts.added, counts.changed, counts.removed) == (len(now.keys() - before), len(changed) + 1, len(gone))


def _in_sections(config: MemoryStore, places: dict[int, tuple[str, float]]) -> Sitemap:
    """A sitemap whose URLs are in the sections named, with the priorities given."""
    rows = {
        name: [row(key, priority=priority) for key, (section, priority) in sorted(places.items()) if section == name]
        for name in ("pages", "news")
    }
    sections = [Section(name, MemorySourceConfig(rows[name], key="id", priority="priority")) for name in rows]
    return Sitemap(config, sections, shards=ShardPolicy(max_urls=4), guards=FREE)


def _without_duplicates(rows: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    return list({each["loc"]: each for each in rows.values()}.values())
