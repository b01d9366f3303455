"""Rows of shards that wait are listed early, in the file of recent entries and in feeds."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from airflow_sitemaps import ListSource, Section, ShardPolicy, Sitemap
from airflow_sitemaps.pipeline import build, rollback, stages
from airflow_sitemaps.pipeline.plan.dry_run import explain
from airflow_sitemaps.pipeline.publish import early_entries
from airflow_sitemaps.protocol import CURRENT, feeds, gzip
from airflow_sitemaps.shards import codec
from airflow_sitemaps.shards.layout import RECENT
from airflow_sitemaps.shards.manifest import EarlyRecord
from airflow_sitemaps.shards.ranges import EarlyEntries, EarlyEntry
from tests.ledger.parts import manifest_of
from tests.support.environment import BASE, World, row

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
WAITS = ShardPolicy(max_urls=6, fill=0.84, rewrite_after=DAY)
OLD = datetime.fromisoformat("2025-12-01T00:00:00+00:00")
WINDOW = timedelta(days=3)


def world_of(keys: Any = range(0, 80, 2), *, policy: ShardPolicy = WAITS, **given: Any) -> World:
    """Eight shards of five rows, read by a watermark."""
    more = {"change_detection": "watermark", "recent": WINDOW, **given}
    return World([row(key, lastmod=OLD, title=f"Title {key}") for key in keys], policy=policy, settings=more)


def change(world: World, number: int, **fields: Any) -> str:
    world.rows[number] |= {"lastmod": world.clock.now(), **fields}
    return str(world.rows[number]["loc"])


def recent(world: World) -> dict[str, datetime]:
    """The URLs of the public file of recent entries, with their dates."""
    if RECENT not in {file.name for file in manifest_of(world).extras}:
        return {}
    return {url[0].text: datetime.fromisoformat(url[1].text) for url in urlset(world, RECENT)}


def urlset(world: World, name: str) -> Any:
    stored = world.store.public.get(name)
    assert stored is not None
    return etree.fromstring(gzip.decompress(stored.body, max_byte_size=1 << 20))


def record(world: World) -> EarlyRecord:
    early = manifest_of(world).sections["pages"].early
    assert early is not None
    return early


def feed(world: World) -> str:
    stored = world.store.public.get("recent.atom")
    assert stored is not None
    return stored.body.decode()


def shards(world: World) -> set[str]:
    """The URLs of the public shards."""
    names = [file.name for file in manifest_of(world).sections["pages"].files()]
    return {url[0].text for name in names for url in urlset(world, name)}


def waiting(world: World) -> int:
    return sum(shard.dirty_since is not None for shard in manifest_of(world).sections["pages"].shards)


def test_a_changed_row_is_listed_in_the_next_run_and_its_shard_stays() -> None:
    world = world_of()
    world.build()
    before = world.shards()
    world.clock.advance(HOUR)
    loc = change(world, 7)
    report = world.build()
    assert (report.result, report.shards.rewritten, report.shards.waiting) == ("published", 0, 1)
    assert recent(world) == {loc: world.clock.now()}
    assert {name: kept for name, kept in world.shards().items() if name != RECENT} == before
    assert world.build().result == "unchanged"


@pytest.mark.parametrize("given", [{"change_detection": "digest"}, {"recent": None}], ids=str)
def test_nothing_is_listed_early_without_an_indexed_date_or_a_file_of_recent_entries(given: dict[str, Any]) -> None:
    world = world_of(**given)
    world.build()
    world.clock.advance(HOUR)
    change(world, 7)
    world.build()
    assert waiting(world) == 1
    assert recent(world) == {}
    assert manifest_of(world).sections["pages"].early is None


def test_an_entry_stays_until_its_shard_is_written_and_then_comes_from_the_shard() -> None:
    world = world_of()
    world.build()
    world.clock.advance(HOUR)
    first = change(world, 7)
    at = world.clock.now()
    world.build()
    for hour in range(26):
        world.clock.advance(HOUR)
        second = change(world, 20 + hour % 3)
        world.build()
        assert recent(world)[first] == at
        assert recent(world)[second] == world.clock.now()
    assert f"{BASE}p/14" == first
    world.clock.advance(DAY)
    world.build()
    assert waiting(world) == 0
    assert manifest_of(world).sections["pages"].early is None
    assert recent(world)[first] == at
    assert world.crawl().entries() == world.rebuilt().entries()


def test_a_removed_row_leaves_at_once() -> None:
    world = world_of()
    world.build()
    world.clock.advance(HOUR)
    loc, other = change(world, 7), change(world, 8)
    world.build()
    assert recent(world).keys() == {loc, other}
    world.clock.advance(HOUR)
    del world.rows[7]
    change(world, 7)  # so that the watermark surveys the range
    world.build()
    assert recent(world) == {other: world.clock.now()}


@pytest.mark.parametrize(
    "more", [{}, {"recent": None}, {"change_detection": "digest"}], ids=["listed", "none", "digest"]
)
def test_rows_after_a_full_last_shard_are_no_entries_of_that_shard(more: dict[str, Any]) -> None:
    """The last range is cut after its rows were read, and its first piece, which continues the file, could wait."""
    world = world_of(**more)
    world.build()
    world.rows.append(row(99, lastmod=OLD))
    world.clock.advance(HOUR)
    world.build()
    world.build(full=True)  # which reads the new row
    world.clock.advance(HOUR)
    change(world, -2)
    world.rows += [row(key, lastmod=world.clock.now()) for key in (100, 102)]
    world.build()
    assert waiting(world) == (1 if more else 0)
    world.clock.advance(HOUR)
    del world.rows[-1]
    change(world, -1)
    world.build()
    assert recent(world).keys() <= shards(world)


def test_an_entry_leaves_when_it_is_no_longer_recent() -> None:
    world = world_of(policy=ShardPolicy(max_urls=6, fill=0.84, rewrite_after=30 * DAY))
    world.build()
    world.clock.advance(HOUR)
    loc = change(world, 7)
    world.build()
    world.clock.advance(WINDOW)
    assert recent(world).keys() == {loc}
    world.clock.advance(timedelta(minutes=1))
    world.build()
    assert recent(world) == {}
    assert manifest_of(world).sections["pages"].early is None
    assert world.build().result == "unchanged"


def test_a_feed_has_the_texts_of_rows_that_are_listed_early() -> None:
    world = world_of(recent=None, feeds=("atom",))
    world.source_settings = {"title": "title"}
    world.build()
    world.clock.advance(HOUR)
    change(world, 7, title="Now & new")
    world.build()
    assert "<title>Now &amp; new</title>" in feed(world)
    world.clock.advance(HOUR)
    change(world, 30, title="Later")
    world.build()
    assert feed(world).index("<title>Later</title>") < feed(world).index("<title>Now &amp; new</title>")
    assert waiting(world) == 0  # titles are urgent
    world.clock.advance(HOUR)
    change(world, 17)
    world.build()
    assert waiting(world) == 1
    assert "<title>Title 34</title>" in feed(world)


def test_the_row_as_it_was_read_last_is_listed_if_its_date_stays() -> None:
    world = world_of()
    world.build()
    world.clock.advance(HOUR)
    at = world.clock.now()
    world.rows[10:10] = [row(19, lastmod=at)]  # so its shard is written, and lists it with this date
    change(world, 30)  # and this one waits
    world.build()
    assert recent(world).keys() == {f"{BASE}p/19", f"{BASE}p/58"}
    for priority in (0.3, 0.4):
        world.clock.advance(timedelta(minutes=1))
        world.rows[10]["priority"] = world.rows[30]["priority"] = priority
        world.build()
        assert [url.findtext("{*}priority") for url in urlset(world, RECENT)] == [str(priority)] * 2


def test_an_entry_is_listed_as_its_shard_will_list_it() -> None:
    world = world_of()
    world.source_settings = {"images": "images"}
    for each in world.rows:
        each |= {"loc": f"{each['loc']}?a=1&b=<2>", "images": [{"loc": f"{BASE}x.png?a&b"}]}
    world.build()
    world.clock.advance(HOUR)
    change(world, 7)
    world.build()
    assert waiting(world) == 1
    (early,) = urlset(world, RECENT)
    world.build(full=True)
    assert waiting(world) == 0
    (late,) = urlset(world, RECENT)
    assert etree.tostring(early) == etree.tostring(late)
    assert early[0].text == f"{BASE}p/14?a=1&b=%3C2%3E"


def test_an_entry_stays_if_the_range_of_its_shard_begins_earlier() -> None:
    world = world_of(policy=replace(WAITS, rewrite_after=30 * DAY))
    world.build()
    world.clock.advance(HOUR)
    loc = change(world, 7)
    world.build()
    del world.rows[:5]
    for _ in range(25):  # the survey of each range comes in its turn
        world.clock.advance(timedelta(minutes=20))
        world.build()
        assert recent(world).keys() == {loc}
    assert [shard.range.lower for shard in manifest_of(world).sections["pages"].shards][:2] == [None, (20,)]
    assert waiting(world) == 1


def test_the_newest_entries_are_listed_if_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_entries, "MOST_EARLY", 3)
    world = world_of()
    world.build()
    locs = []
    for number in range(0, 40, 5):
        world.clock.advance(timedelta(minutes=1))
        locs.append(change(world, number))
    world.build()
    assert list(recent(world)) == locs[:-4:-1]


def test_the_entries_of_one_section_at_a_time_are_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the newest of the sections before it, as many as a file holds."""
    world, sizes = world_of(), []
    real = feeds.newest
    monkeypatch.setattr(Sitemap, "index_limits", replace(CURRENT, max_urls=3))

    def newest(entries: Any, limits: Any, most: int) -> Any:
        every = list(entries)
        sizes.append(len(every))
        return real(every, limits, most)

    def build_all() -> None:
        pages = world.sitemap()
        names = [replace(pages.sections[0], name=f"pages{number}") for number in range(6)]
        build(replace(pages, sections=names), clock=world.clock)

    build_all()
    for number in range(10, 20):
        world.clock.advance(timedelta(minutes=1))
        loc = change(world, number)
    monkeypatch.setattr(feeds, "newest", newest)
    build_all()
    assert max(sizes) == 10  # all of a plan; in a commit, 3 of a section and 3 of those before it
    assert next(iter(recent(world))) == loc


@pytest.mark.parametrize("date", ["2026-01-15", "2026-01-14", "2026-01-15T02:00:00-11:00"])
def test_a_page_of_a_list_is_listed_early_whatever_the_form_of_its_date(date: str) -> None:
    world = world_of()

    def build_list(date: str) -> None:
        pages = ListSource([{"loc": "/p/1", "lastmod": date}, {"loc": "/p/2", "lastmod": "2025-12-01"}])
        section = Section("pages", pages)
        build(replace(world.sitemap(), sections=[section]), clock=world.clock)

    build_list("2025-12-01")
    world.clock.advance(HOUR)
    build_list(date)
    assert waiting(world) == 1
    assert list(recent(world)) == [f"{BASE}p/1"]


@pytest.mark.parametrize("damage", ["lost", "damaged", "forged"])
def test_a_lost_record_is_said_and_the_entries_come_with_their_shards(
    damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = world_of()
    world.build()
    world.clock.advance(HOUR)
    loc = change(world, 7)
    world.clock.advance(HOUR)
    world.build()
    key = record(world).body
    stored = world.config.state.objects
    element = f"<url><loc>{BASE}x</loc><lastmod>2026-01-15T13:00:00Z</lastmod></url>\n"
    forged = EarlyEntries(entries=(EarlyEntry(lower=(10,), element=element),))
    if damage == "lost":
        del stored[key]
    else:
        stored[key] = replace(stored[key], body=b"no record" if damage == "damaged" else codec.encode(forged))
    world.clock.advance(HOUR)
    other = change(world, 20)
    with caplog.at_level(logging.WARNING):
        world.build()
    (said,) = {message for message in caplog.messages if key in message}
    assert said.endswith("missing or damaged. They are listed when their shards are written")
    assert recent(world).keys() == {other}
    world.clock.advance(DAY)
    world.build()
    assert recent(world).keys() == {loc, other}


def test_a_lost_record_of_rows_that_are_read_once_more_is_stored_again() -> None:
    world = world_of()
    world.build()
    world.clock.advance(HOUR)
    loc = change(world, 7)
    world.build()
    world.config.state.delete(record(world).body)
    world.clock.advance(timedelta(minutes=1))
    world.build()
    assert recent(world).keys() == {loc}
    assert record(world).body in world.config.state.objects


def test_a_dry_run_stores_nothing() -> None:
    world = world_of()
    world.build()
    world.clock.advance(HOUR)
    change(world, 7)
    before = dict(world.config.state.objects)
    planned = stages.plan(world.sitemap(), stages.RunRequest(dry_run=True), clock=world.clock)
    assert planned.sections["pages"].count() == {"keep": 7, "wait": 1}
    assert world.config.state.objects == before


def test_a_dry_run_says_that_a_change_of_a_shard_that_waits_is_to_be_published() -> None:
    """So the sensor starts a run for it, although the shard waits already."""
    world = world_of()
    world.build()
    for count, number in enumerate((7, 8), start=1):
        world.clock.advance(HOUR)
        change(world, number)
        planned = stages.plan(world.sitemap(), stages.RunRequest(dry_run=True), clock=world.clock)
        assert planned.changes
        (line,) = (line for line in explain(planned) if "recent entries" in line)
        assert line.startswith(f"  recent entries list {count} URL")
        world.build()
        assert not stages.plan(world.sitemap(), stages.RunRequest(dry_run=True), clock=world.clock).changes


def test_a_rollback_lists_what_its_generation_did() -> None:
    world = world_of()
    world.build()
    world.clock.advance(HOUR)
    first = change(world, 7)
    world.build()
    listed = recent(world)
    world.clock.advance(HOUR)
    second = change(world, 20)
    world.build()
    assert recent(world).keys() == {first, second}
    rollback(world.sitemap(), 2, clock=world.clock)
    assert recent(world) == listed
    world.build()
    assert recent(world) == {first: listed[first], second: world.clock.now()}


@pytest.mark.parametrize(
    ("name", "earlier"),
    [("change_detection", "digest"), ("recent", None), ("recent", HOUR), ("feeds", ())],
    ids=["detection", "none", "shorter", "feeds"],
)
def test_what_waits_already_is_listed_when_a_setting_allows_it(name: str, earlier: Any) -> None:
    world = world_of(**{name: earlier}, **({"recent": None} if name == "feeds" else {}))
    world.build()
    world.clock.advance(HOUR)
    loc = change(world, 7)
    world.build()
    world.clock.advance(5 * HOUR)
    world.build()
    assert waiting(world) == 1
    world.settings[name] = ("atom",) if name == "feeds" else WINDOW if name == "recent" else "watermark"
    world.build()
    assert waiting(world) == 1
    assert loc in feed(world) if name == "feeds" else recent(world).keys() == {loc}
    assert world.build().result == "unchanged"


def test_a_full_run_that_other_runs_overtook_loses_no_entry() -> None:
    """It read a row before its change, and wrote the shard, so the run after it finds the change by its digest."""
    world = world_of()
    world.build()
    world.clock.advance(5 * HOUR)
    planned = stages.plan(world.sitemap(), stages.RunRequest(full=True), clock=world.clock)
    receipts = [
        stages.write(world.sitemap(), planned.key, batch.number, clock=world.clock).receipt_key
        for batch in planned.batches
    ]
    loc = change(world, 7)
    world.build()
    assert recent(world).keys() == {loc}
    stages.publish(world.sitemap(), planned.key, receipts, clock=world.clock)
    world.clock.advance(5 * HOUR)
    world.build()
    assert recent(world).keys() == {loc}


def test_a_record_is_kept_while_a_generation_needs_it_and_then_swept() -> None:
    world = world_of(history=2, grace=HOUR)
    world.build()
    records = set()
    for hour in range(60):
        world.clock.advance(HOUR)
        change(world, hour % 40)
        world.build()
        early = manifest_of(world).sections["pages"].early
        if early is not None:
            assert early.body in world.config.state.objects
            records.add(early.body)
    kept = {key for key in records if key in world.config.state.objects}
    assert len(kept) <= 4 < len(records)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ("date", "date", "date", "priority", "add", "append", "remove", "wait", "full", "back", "digest")
        ),
        st.integers(0, 10**6),
    ),
    max_size=30,
)


@settings(max_examples=30)
@given(STEPS)
def test_after_every_run_each_recent_row_is_listed_with_its_date_and_no_url_without_a_shard(
    steps: list[tuple[str, int]],
) -> None:
    """Whatever is added, changed and removed between runs, if each change has a date."""
    world = world_of()
    world.build()
    for step, number in steps:
        world.clock.advance(timedelta(minutes=1))
        place = number % len(world.rows)
        if step == "wait":
            world.clock.advance(timedelta(hours=number % 30))
        elif step == "add":
            new = row(number, lastmod=world.clock.now())
            if all(each["id"] != number for each in world.rows):
                world.rows.append(new)
                world.rows.sort(key=lambda each: each["id"])
        elif step == "append":
            last = world.rows[-1]["id"]
            world.rows += [row(last + 1 + more, lastmod=world.clock.now()) for more in range(number % 4)]
            change(world, place)
        elif step == "back" and manifest_of(world).generation > 1:
            change(world, place)
            rollback(world.sitemap(), manifest_of(world).generation - 1, clock=world.clock)
        elif step == "digest":
            change(world, place)
            world.settings["change_detection"] = "digest"
            world.build()
            world.settings["change_detection"] = "watermark"
        elif step == "remove":
            if len(world.rows) > 2:
                del world.rows[place]
                change(world, place - 1 if place else 0)
                change(world, min(place, len(world.rows) - 1))  # the watermark finds the range by one of its neighbours
        elif step != "full":
            change(world, place, priority=number % 10 / 10)
        world.build(full=step == "full")
        now = world.clock.now()
        wanted = {each["loc"]: each["lastmod"] for each in world.rows if each["lastmod"] >= now - WINDOW}
        assert recent(world) == wanted
        assert recent(world).keys() <= shards(world)
