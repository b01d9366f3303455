"""``ShardPolicy(rewrite_after=…)``: which changes wait, for how long, and what ends the waiting."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_sitemaps import MemoryStore, Observed, Section, ShardPolicy, Sitemap
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.pipeline import rollback
from airflow_sitemaps.shards.manifest import Shard
from airflow_sitemaps.shards.range_actions import DecisionContext, LayoutRange, decide
from airflow_sitemaps.shards.ranges import Digest, KeyRange
from airflow_sitemaps.testing import MemorySourceConfig
from tests.ledger.parts import manifest_of
from tests.support.environment import BASE, World, row

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
WAITS = ShardPolicy(max_urls=6, fill=0.84, rewrite_after=DAY)


def world_of(keys: Any = range(0, 80, 2), **settings: Any) -> World:
    """Eight shards of five rows."""
    return World([row(key, priority=0.5) for key in keys], policy=WAITS, **settings)


def waiting(world: World) -> list[int]:
    """The positions of the shards whose changes wait."""
    shards = manifest_of(world).sections["pages"].shards
    return [number for number, shard in enumerate(shards) if shard.dirty_since is not None]


def published(world: World) -> dict[str, Any]:
    return {loc: entries[0][2] for loc, entries in world.crawl().entries().items()}


def test_scattered_changes_are_published_a_part_of_the_shards_at_a_time_and_none_later_than_said():
    world = world_of()
    world.build()
    changed: dict[str, datetime] = {}
    most = 0
    for hour in range(72):
        world.clock.advance(HOUR)
        for number in range(8):  # one row of each shard
            each = world.rows[5 * number + hour % 5]
            each["priority"] = (hour % 9 + 1) / 10
            changed.setdefault(each["loc"], world.clock.now())
        report = world.build()
        most = max(most, report.shards.rewritten)
        listed = published(world)
        current = {each["loc"]: f"{each['priority']}" for each in world.rows}
        behind = {loc for loc, priority in current.items() if listed[loc] != priority}
        changed = {loc: at for loc, at in changed.items() if loc in behind}
        assert all(world.clock.now() - at < DAY for at in changed.values())
    assert most == 1
    assert len(waiting(world)) >= 6
    world.clock.advance(DAY)
    world.build()
    assert waiting(world) == []
    assert world.crawl().entries() == world.rebuilt().entries()
    assert world.build().result == "unchanged"


URGENT = {
    "a new row": lambda rows: rows.append(row(15, priority=0.5)),
    "a deleted row": lambda rows: rows.pop(7),
    "another URL": lambda rows: rows[7].update(loc=f"{BASE}other"),
    "another image": lambda rows: rows[7].update(images='[{"loc": "https://www.example.com/i.png"}]'),
}


@pytest.mark.parametrize("change", URGENT)
def test_what_lists_or_removes_a_url_is_written_at_once_with_all_changes_of_its_shard(change):
    world = world_of(source_settings={"images": "images"})
    world.build()
    for each in world.rows:
        each["priority"] = 0.6
    world.clock.advance(HOUR / 60)
    assert world.build().result == "published"
    still = waiting(world)
    assert 1 in still
    assert world.build().result == "unchanged"
    URGENT[change](world.rows)
    world.rows.sort(key=lambda each: each["id"])
    assert world.build().shards.rewritten == 1
    assert waiting(world) == [number for number in still if number != 1]
    assert {published(world)[f"{BASE}p/{key}"] for key in (10, 12, 16, 18)} == {"0.6"}


def test_rows_that_change_back_wait_no_more():
    world = world_of()
    world.build()
    before = world.public()
    for value in (0.6, 0.5):
        world.rows[7]["priority"] = value
        world.clock.advance(HOUR / 60)
        world.build()
        assert waiting(world) == ([1] if value == 0.6 else [])
    assert world.public() == before


ENDS = {
    "full": {"full": True},
    "rebuild": {"rebuild": ["pages-00002"]},
}


@pytest.mark.parametrize("end", [*ENDS, "repair", "another setting", "another rule"])
def test_what_ends_the_waiting(end):
    world = world_of()
    world.build()
    world.rows[7]["priority"] = 0.6
    world.clock.advance(HOUR / 60)
    world.build()
    assert waiting(world) == [1]
    if end == "repair":
        world.config.public.delete("pages-00002.xml.gz")
    elif end == "another setting":
        world.policy = ShardPolicy(max_urls=6, fill=0.84)
    elif end == "another rule":
        world.settings["rules"] = {"loc-slash": "fail"}
    world.build(**ENDS.get(end, {}))
    assert waiting(world) == []
    assert published(world)[f"{BASE}p/14"] == "0.6"


@pytest.mark.parametrize("is_on", [True, False])
def test_a_survey_of_other_ranges_does_not_make_a_waiting_one_look_clean(is_on):
    """A watermark surveys the ranges with a new lastmod only. Without the setting, the range is written at once."""
    world = world_of(settings={"change_detection": "watermark"})
    for each in world.rows:
        each["lastmod"] = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
    world.build()
    world.clock.advance(HOUR)
    world.rows[7] |= {"priority": 0.6, "lastmod": world.clock.now()}
    world.build()
    assert waiting(world) == [1]
    if not is_on:
        world.policy = ShardPolicy(max_urls=6, fill=0.84)
    for _ in range(3):
        world.clock.advance(3 * HOUR)
        world.build()
    assert waiting(world) == ([1] if is_on else [])
    world.clock.advance(DAY)
    world.build()
    assert waiting(world) == []
    assert published(world)[f"{BASE}p/14"] == "0.6"


def test_a_setting_that_is_turned_on_later_holds_from_the_second_change_on():
    world = world_of()
    world.policy = ShardPolicy(max_urls=6, fill=0.84)
    world.build()
    world.policy = WAITS
    before = world.public()
    world.build()  # records what the rows of each file are
    assert world.build().result == "unchanged"
    assert world.public() == before
    world.rows[7]["priority"] = 0.6
    world.clock.advance(HOUR / 60)
    world.build()
    assert waiting(world) == [1]
    assert world.public() == before


def test_a_rollback_brings_back_what_waited():
    world = world_of()
    world.build()
    world.rows[7]["priority"] = 0.6
    world.clock.advance(HOUR / 60)
    world.build()
    world.clock.advance(DAY)
    world.build()
    rollback(world.sitemap(), 2, clock=world.clock)
    assert waiting(world) == [1]
    world.build()
    assert waiting(world) == []
    assert published(world)[f"{BASE}p/14"] == "0.6"


@pytest.mark.parametrize(
    ("section", "rules", "what"),
    [
        ({"kind": "news"}, {}, "kind='news'"),
        ({"source": {"lastmod": Observed("title")}}, {}, "observed dates"),
        ({}, {"priority": "drop_row"}, "the rule 'priority' set to 'drop_row'"),
        ({}, {"lastmod-future": "fail"}, "the rule 'lastmod-future' set to 'fail'"),
    ],
)
def test_settings_that_need_every_change_at_once_are_refused(section, rules, what):
    source = MemorySourceConfig([], key="id", **section.pop("source", {"lastmod": "lastmod"}))
    with pytest.raises(ConfigurationError, match=rf"rewrite_after=…\) cannot be used with {what}"):
        Sitemap(MemoryStore(base_url=BASE), [Section("pages", source, **section)], shards=WAITS, rules=rules)
    with pytest.raises(ConfigurationError, match="rewrite_after"):
        ShardPolicy(rewrite_after=timedelta(0))


@settings(deadline=None)
@given(
    ranges=st.integers(1, 40),
    period=st.sampled_from([HOUR, DAY, timedelta(days=7)]),
    since=st.integers(0, 10**6),
    steps=st.lists(st.integers(1, 10**5), min_size=1, max_size=30),
)
def test_ranges_that_wait_since_one_moment_are_written_evenly_within_the_period(ranges, period, since, steps):
    began = datetime.fromisoformat("2026-01-01T00:00:00+00:00") + timedelta(seconds=since)
    before = Digest.of(10, None, 1, 7)
    whole = KeyRange(None, None)
    shards = [Shard(range=whole, digest=before, dirty_since=began)] * ranges
    layout = [LayoutRange(range=whole, digest=Digest.of(10, None, 2, 7), carries=n) for n in range(ranges)]

    def written(after: timedelta) -> int:
        context = DecisionContext(now=began + after, rewrite_after=period)
        return sum(action.kind.writes for action in decide(layout, shards, context))

    assert written(timedelta(0)) == 0
    assert written(period) == ranges
    counts = [written(min(period, timedelta(seconds=second))) for second in sorted(steps)]
    assert counts == sorted(counts)
    for part in range(1, 5):
        share = written(period * part / 4) / ranges
        assert abs(share - part / 4) <= 1 / ranges + 1e-9
