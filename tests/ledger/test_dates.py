"""Observed dates: when a URL's lastmod moves, and when it stays."""

from __future__ import annotations

import re
import sys
from datetime import date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from airflow_sitemaps import Guards, MemoryStore, Observed, Section, Sitemap, SqlSource
from airflow_sitemaps.errors import (
    ConfigurationError,
    GuardError,
    PartlyPublishedError,
    RequestError,
    SourceConfigurationError,
)
from airflow_sitemaps.pipeline import build, rollback, stages
from airflow_sitemaps.pipeline.plan.section_planner import plan_section
from airflow_sitemaps.pipeline.request import RunRequest
from airflow_sitemaps.protocol import feeds
from airflow_sitemaps.protocol.columnar import batch
from airflow_sitemaps.testing import FakeClock, MemorySourceConfig, crawl
from tests.ledger.parts import lines, manifest_of, parts_read
from tests.support.environment import BASE, World, row

HOUR = timedelta(hours=1)


def world_of(keys: Any, *, initial: str | None = None, columns: tuple[str, ...] = ("title",), **settings: Any) -> World:
    rows = [row(key, title=f"t{key}", born=None) for key in keys]
    return World(rows, source_settings={"lastmod": Observed(*columns, initial=initial)}, **settings)


def dates(world: World) -> dict[str, str | None]:
    lines(world)  # each part lists the dates of its shard
    return {loc.removeprefix(f"{BASE}p/"): entries[0][0] for loc, entries in world.crawl().entries().items()}


def run_time(world: World) -> str:
    return (world.clock.now() + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_a_first_build_has_no_dates_and_a_later_one_dates_what_changed_and_what_is_new():
    world = world_of(range(12))
    world.build()
    assert set(dates(world).values()) == {None}
    world.clock.advance(HOUR)
    second = run_time(world)
    world.rows[3]["title"] = "another"
    world.rows.append(row(50, title="new"))
    report = world.build()
    assert {url: date for url, date in dates(world).items() if date} == {"3": second, "50": second}
    assert report.sections["pages"].lastmods_moved == 1
    before = world.public()
    world.clock.advance(HOUR)
    assert world.build().result == "unchanged"
    assert world.build(full=True).result == "unchanged"
    assert world.public() == before


def test_the_lastmod_in_the_index_is_not_older_than_the_dates_in_the_file():
    """The dates have the database's time, which may be later than the worker's."""
    rows, store, clock = [row(key, title="t", born=None) for key in range(12)], MemoryStore(base_url=BASE), FakeClock()
    source = MemorySourceConfig(rows, lastmod=Observed("title"), clock=lambda: clock.now() + timedelta(seconds=5))
    sitemap = Sitemap(store, [Section("pages", source)], recent=timedelta(days=1))
    build(sitemap, clock=clock)
    rows[3]["title"] = "another"
    clock.advance(HOUR)
    build(sitemap, clock=clock)
    files = crawl(store.open())
    (newest,) = {entry.lastmod for entries in files.files.values() for entry in entries} - {None}
    assert files.lastmods == {"pages-00001.xml.gz": newest, "recent.xml.gz": newest}


def test_a_report_counts_no_dates_of_a_section_that_is_refused():
    rows = {name: [row(key, title="t", born=None) for key in range(1_200)] for name in ("pages", "posts")}
    for each in rows["posts"]:
        each["loc"] = each["loc"].replace("/p/", "/q/")
    store, clock = MemoryStore(base_url=BASE), FakeClock()

    def built() -> None:
        clock.advance(HOUR)
        sections = [
            Section(name, MemorySourceConfig(rows[name], lastmod=Observed("title"), clock=clock.now)) for name in rows
        ]
        build(Sitemap(store, sections), clock=clock)

    built()
    for each in [*rows["pages"], rows["posts"][0]]:
        each["title"] = "another"
    with pytest.raises(PartlyPublishedError, match="1,200 of 1,200 URLs changed") as partly:
        built()
    assert {name: each.lastmods_moved for name, each in partly.value.report.sections.items()} == {
        "pages": 0,
        "posts": 1,
    }


def test_a_section_under_a_new_name_begins_without_dates_and_the_plan_warns():
    rows, store, clock = [row(key, title="t", born=None) for key in range(12)], MemoryStore(base_url=BASE), FakeClock()

    def built(name: str, *retired: str) -> tuple[str, ...]:
        clock.advance(HOUR)
        source = MemorySourceConfig(rows, lastmod=Observed("title"), clock=clock.now)
        return build(Sitemap(store, [Section(name, source)], retired=retired), clock=clock).warnings

    assert built("pages") == ()
    (warning,) = built("goods", "pages")
    assert "section 'goods' begins without observed dates: a retired section (pages) passes none on" in warning
    assert built("goods", "pages") == ()


def test_a_change_of_another_column_moves_no_date():
    world = world_of(range(12))
    world.build()
    world.rows[3]["title"] = "another"
    world.clock.advance(HOUR)
    second = run_time(world)
    world.build()
    world.clock.advance(HOUR)
    world.rows[3]["priority"] = 0.2
    world.rows[4]["priority"] = 0.2
    assert world.build().result == "published"
    assert (dates(world)["3"], dates(world)["4"]) == (second, None)


def test_initial_counts_in_the_first_build_and_later_only_where_no_run_has_published_since():
    world = world_of(range(6), initial="born")
    now = world.clock.now()
    for key, born in enumerate([None, now - 100 * HOUR, now + HOUR, now - HOUR, None, now.date()]):
        world.rows[key]["born"] = born
    world.rows[5]["born"] = None
    world.build()
    assert dates(world) == {
        "0": None, "1": "2026-01-11T08:00:00Z", "2": None, "3": "2026-01-15T11:00:00Z", "4": None, "5": None,
    }  # fmt: skip
    world.clock.advance(10 * HOUR)
    second = run_time(world)
    world.rows.append(row(60, title="", born=now - HOUR))
    world.rows.append(row(61, title="", born=now + 2 * HOUR))
    world.rows.append(row(62, title="", born=now + 99 * HOUR))
    world.build()
    assert [dates(world)[key] for key in ("60", "61", "62", "2")] == [second, "2026-01-15T14:00:00Z", second, None]


@pytest.mark.parametrize(
    ("zone", "hour", "today"), [("Asia/Tokyo", 23, 15), ("America/Los_Angeles", 4, 13), ("UTC", 12, 14)]
)
def test_an_initial_date_without_a_time_is_that_of_the_sections_zone(zone, hour, today):
    world = World(
        [row(day, title="t", born=date(2026, 1, day)) for day in range(12, 17)],
        source_settings={"lastmod": Observed("title", initial="born"), "timezone": zone},
    )
    world.clock.moment = datetime(2026, 1, 14, hour, tzinfo=timezone.utc)
    world.build()
    assert dates(world) == {str(day): f"2026-01-{day}" if day <= today else None for day in range(12, 17)}
    world.clock.advance(HOUR / 2)
    second = run_time(world)
    world.rows += [row(day + 20, title="t", born=date(2026, 1, day)) for day in range(12, 17)]
    world.build()
    assert {dates(world)[str(day + 20)] for day in range(12, 17)} == {second}


@pytest.mark.parametrize(("zone", "today"), [("Asia/Tokyo", 15), ("America/Los_Angeles", 14)])
def test_a_day_that_began_after_the_last_run_dates_a_new_url(zone, today):
    world = world_of([1], initial="born")
    world.source_settings["timezone"] = zone
    begins = datetime(2026, 1, today, tzinfo=ZoneInfo(zone)).astimezone(timezone.utc)
    world.clock.moment = begins - HOUR / 2
    world.build()
    world.clock.advance(HOUR)
    second = run_time(world)
    world.rows += [row(day, title="t", born=date(2026, 1, day)) for day in range(today - 1, today + 2)]
    world.build()
    assert dates(world) == {
        "1": None, str(today - 1): second, str(today): f"2026-01-{today}", str(today + 1): second
    }  # fmt: skip


def test_a_date_is_later_than_the_one_before_when_the_clock_goes_back():
    world = world_of(range(3))
    world.build()
    listed = []
    for title in ("a", "b", "c"):
        world.rows[0]["title"] = title
        world.build()
        world.clock.advance(-HOUR)
        listed.append(dates(world)["0"])
    assert listed == ["2026-01-15T12:00:01Z", "2026-01-15T12:00:02Z", "2026-01-15T12:00:03Z"]


@pytest.mark.parametrize("max_urls", [5, 50])
def test_rows_that_change_between_plan_and_reading_are_dated_after_the_reading(max_urls):
    world = world_of(range(12), max_urls=max_urls)
    world.build()
    world.clock.advance(HOUR)
    world.rows[0]["title"] = "before the plan"
    world.rows[11]["title"] = "before the plan"

    def change(operation: str) -> None:
        if operation == "read":
            world.clock.advance(HOUR)
            world.rows[1]["title"] = "after the plan"

    planned = run_time(world)
    world.source_settings["before"] = change
    world.build()
    after = dates(world)
    assert after["0"] == after["1"] == run_time(world) > planned
    assert after["11"] == (planned if max_urls == 5 else run_time(world))


def test_a_range_that_grows_into_several_files_while_it_is_read_is_dated_after_the_reading():
    world = world_of(range(5))
    world.build()
    world.clock.advance(HOUR)
    world.rows[0]["title"] = "other"

    def change(operation: str) -> None:
        if operation == "read" and len(world.rows) == 5:
            world.clock.advance(HOUR)
            world.rows.extend(row(key, title="") for key in range(20, 32))

    world.source_settings["before"] = change
    world.build()
    assert {date for date in dates(world).values() if date} == {run_time(world)}
    assert len(dates(world)) == 17


def test_other_columns_keep_the_dates_and_record_the_fingerprints_again():
    world = world_of(range(8))
    world.build()
    world.rows[2]["title"] = "x"
    world.clock.advance(HOUR)
    second = run_time(world)
    world.build()
    world.source_settings["lastmod"] = Observed("title", "priority")
    world.clock.advance(HOUR)
    world.rows[2]["title"] = "y"
    world.build()
    assert {url: date for url, date in dates(world).items() if date} == {"2": second}
    world.clock.advance(HOUR)
    world.rows[2]["priority"] = 0.7
    fourth = run_time(world)
    world.build()
    assert {url: date for url, date in dates(world).items() if date} == {"2": fourth}


def test_dates_of_a_column_do_not_carry_over():
    world = world_of(range(4))
    for each in world.rows:
        each |= {"lastmod": "2025-05-05", "born": "2024-04-04"}
    observed = world.source_settings.pop("lastmod")
    world.section_settings["ledger"] = True
    world.build()
    assert set(dates(world).values()) == {"2025-05-05"}
    world.source_settings["lastmod"] = observed
    world.build()
    assert set(dates(world).values()) == {None}
    world.source_settings["lastmod"] = "lastmod"
    world.build()
    world.source_settings["lastmod"] = Observed("title", initial="born")
    world.build()
    assert set(dates(world).values()) == {"2024-04-04"}


def test_a_lost_part_keeps_the_dates():
    world = world_of(range(4))
    world.build()
    world.rows[0]["title"] = "x"
    world.clock.advance(HOUR)
    second = run_time(world)
    world.build()
    del world.config.state.objects[manifest_of(world).sections["pages"].shards[0].part.body]
    world.clock.advance(HOUR)
    world.rows[1]["title"] = "y"
    report = world.build()
    assert {url: date for url, date in dates(world).items() if date} == {"0": second}
    assert "is not known" in " ".join(report.warnings)


def test_splits_and_merges_keep_the_dates():
    world = world_of(range(0, 100, 10))
    world.build()
    world.rows[0]["title"] = world.rows[9]["title"] = "x"
    world.clock.advance(HOUR)
    second = run_time(world)
    world.build()
    world.clock.advance(HOUR)
    third = run_time(world)
    world.rows.extend(row(key, title="") for key in range(1, 8))
    world.build()
    world.rows[:] = [each for each in world.rows if each["id"] not in range(20, 80)]
    world.clock.advance(HOUR)
    world.build()
    assert dates(world) == {"0": second, "90": second, "10": None, "80": None} | {str(k): third for k in range(1, 8)}


def with_one_date(url: str = "0", title: str = "x", **settings: Any) -> tuple[World, str]:
    """A site of twelve pages of which one changed; return it with the date."""
    world = world_of(range(12), **settings)
    world.build()
    world.rows[int(url)]["title"] = title
    world.clock.advance(HOUR)
    second = run_time(world)
    world.build()
    return world, second


def test_a_new_path_keeps_ranges_and_dates_of_any_number(monkeypatch):
    world, second = with_one_date()
    before, ranges = lines(world), [shard.range for shard in manifest_of(world).sections["pages"].shards]
    monkeypatch.setattr(sys.modules[plan_section.__module__], "MOST_JOINED", 3)
    world.section_settings["path"] = "de/"
    world.clock.advance(HOUR)
    report = world.build()
    assert report.warnings == ()
    assert (report.shards.created, report.shards.removed) == (len(ranges), len(ranges))
    assert set(report.sections["pages"].reasons) == {"the section's path or format changed"}
    assert lines(world) == before
    assert [shard.range for shard in manifest_of(world).sections["pages"].shards] == ranges
    assert {url: date for url, date in dates(world).items() if date} == {"0": second}
    assert all(file.name.startswith("de/pages-") for file in manifest_of(world).files())
    assert world.build().result == "unchanged"
    world.rows[5]["id"], world.rows[5]["title"] = 100, "moved, in the run that also changes the path"
    world.rows.extend(row(key) for key in range(13, 20))
    world.section_settings["path"] = "fr/"
    world.clock.advance(HOUR)
    world.build()
    assert len(dates(world)) == 19
    assert [lines(world)[loc][3:] == line[3:] for loc, line in before.items()].count(False) == 1  # its key moved


def test_a_new_key_begins_the_dates_of_a_large_section_again(monkeypatch):
    world, second = with_one_date()
    for letter, begun in (("a", {"0": second}), ("b", {})):
        for each in world.rows:
            each["id"] = f"{letter}{each['id']}" if letter == "a" else int(each["id"][1:])
        warnings = " ".join(world.build().warnings)
        assert ("the observed dates of 12 URLs begin again" in warnings) == (not begun)
        assert {url: date for url, date in dates(world).items() if date} == begun
        monkeypatch.setattr(sys.modules[plan_section.__module__], "MOST_JOINED", 3)


def without_state(**settings: Any) -> tuple[World, str]:
    """A site with one date whose state is lost; return it with the date."""
    world, second = with_one_date("3", "x & y", **settings)
    world.config.state.objects.clear()
    world.clock.advance(HOUR)
    return world, second


def test_after_the_state_is_lost_an_adoption_takes_the_dates_of_the_public_files_over(caplog):
    world, second = without_state()
    world.rows.append(row(50, title="new"))
    now = run_time(world)
    report = world.build(adopt=True)
    assert {url: date for url, date in dates(world).items() if date} == {"3": second, "50": now}
    assert {loc for loc, line in lines(world).items() if line.first_listed is not None} == {f"{BASE}p/50"}
    assert "whether 12 URLs changed is not known" in " ".join(report.warnings)
    assert "pages-00001.xml.gz, pages-00002.xml.gz, pages-00003.xml.gz is lost" in caplog.text
    world.clock.advance(HOUR)
    assert world.build().result == "unchanged"
    world.rows[4]["title"] = "y"
    third = run_time(world)
    world.build()
    assert {url: date for url, date in dates(world).items() if date} == {"3": second, "4": third, "50": now}


def test_dates_of_more_public_files_than_a_task_compares_begin_again_only_with_a_permit(monkeypatch):
    monkeypatch.setattr(sys.modules[plan_section.__module__], "MOST_JOINED", 6)
    world, _ = without_state(guards=Guards())
    before = world.public()
    with pytest.raises(GuardError, match=r"its public files list 10 URLs or more.*--allow redated:pages"):
        world.build(adopt=True)
    assert world.public() == before
    world.build(adopt=True, allow=["redated:pages"])
    assert set(dates(world).values()) == {None}


def test_an_adoption_takes_no_dates_of_another_owner_or_section_over():
    world, _ = without_state(settings={"owner": "shop"})
    world.settings["owner"] = "another"
    world.build(adopt=True)
    assert set(dates(world).values()) == {None}
    world, _ = without_state()
    world.section_settings["path"] = "de/"
    world.build(adopt=True)
    assert set(dates(world).values()) == {None}


def test_a_rollback_brings_the_dates_back_and_the_next_run_dates_what_differs():
    world = world_of(range(6))
    world.build()
    world.rows[3]["title"] = "x"
    world.clock.advance(HOUR)
    world.build()
    rollback(world.sitemap(), 1, clock=world.clock)
    assert set(dates(world).values()) == {None}
    world.clock.advance(HOUR)
    third = run_time(world)
    world.build()
    assert {url: date for url, date in dates(world).items() if date} == {"3": third}


def test_rows_of_one_url_with_different_fingerprints_are_read_at_every_run():
    world = world_of(range(4))
    world.rows[1] |= {"loc": world.rows[0]["loc"], "title": "second"}
    world.build()
    assert not manifest_of(world).sections["pages"].shards[0].settled
    world.rows[0]["title"], world.rows[1]["title"] = world.rows[1]["title"], world.rows[0]["title"]
    world.clock.advance(HOUR)
    second = run_time(world)
    world.build()
    assert dates(world)["0"] == second
    world.clock.advance(HOUR)
    assert world.build().result == "unchanged"


def test_the_guard_redated_and_what_it_permits():
    world = world_of(range(1_200), max_urls=400, guards=Guards())
    world.build()
    for each in world.rows[:650]:
        each["title"] += " "
    world.clock.advance(HOUR)
    second = run_time(world)
    with pytest.raises(GuardError, match="650 of 1,200 URLs changed"):
        world.build()
    assert set(dates(world).values()) == {None}
    for each in world.rows[500:650]:
        each["title"] = each["title"].strip()
    world.build()
    assert list(dates(world).values()).count(second) == 500
    for each in world.rows:
        each["title"] += "!"
    with pytest.raises(GuardError, match="1,200 of 1,200"):
        world.build()
    world.clock.advance(HOUR)
    report = world.build(keep_lastmods=["pages"])
    assert (report.sections["pages"].lastmods_kept, report.sections["pages"].lastmods_moved) == (1_200, 0)
    assert list(dates(world).values()).count(second) == 500
    for each in world.rows:
        each["title"] += "!"
    third = run_time(world)
    world.build(allow=["redated:pages"])
    assert set(dates(world).values()) == {third}
    assert world.build().result == "unchanged"
    assert parts_read(world)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "news"}, "cannot be used with kind='news': articles expire"),
        ({"format": "text"}, "cannot be used with format='text'"),
        ({"change_detection": "watermark"}, "change_detection='watermark'"),
        ({"rules": {"loc-duplicate": "keep"}}, "rows of one URL could give it two dates"),
    ],
)
def test_combinations_without_sense_are_refused(settings, message):
    source = MemorySourceConfig([], lastmod=Observed("title"))
    with pytest.raises(ConfigurationError, match=message):
        Sitemap(MemoryStore(base_url=BASE), [Section("pages", source, **settings)])


@pytest.mark.parametrize("columns", [(), ("",), (3,), ("title", "title")])
def test_invalid_columns_are_refused(columns):
    with pytest.raises(SourceConfigurationError, match=r"Observed\("):
        Observed(*columns)


def test_observed_dates_imply_a_ledger_and_are_part_of_the_sources_identity():
    source = SqlSource("w", table="t", key=["id"], loc="/p/{id}", lastmod=Observed("title", initial="born"))
    assert Section("pages", source).ledger
    assert source.identity()["lastmod"] == {"observed": ["title"], "initial": "born"}
    assert SqlSource.restored(source.resolved()) == source
    assert source.field_columns == {"lastmod": "born"}
    with pytest.raises(RequestError, match="is no section of this run with observed dates"):
        World([row(1)]).build(keep_lastmods=["pages"])


def test_a_url_that_a_rollback_removed_is_not_dated_by_initial_when_it_returns():
    """A crawler fetched the page while it was listed, and a later change has to be later than that."""
    world = world_of(range(6), initial="born")
    world.build()
    world.clock.advance(HOUR)
    world.rows.append(row(60, title="x", born=world.clock.now()))
    world.clock.advance(HOUR)
    world.build()
    assert dates(world)["60"] == "2026-01-15T13:00:00Z"
    world.clock.advance(HOUR)
    rollback(world.sitemap(), 1, clock=world.clock)
    world.rows[-1]["title"] = "y"
    world.clock.advance(HOUR)
    fourth = run_time(world)
    world.build()
    assert dates(world)["60"] == fourth


def test_a_full_run_that_began_earlier_does_not_make_urls_of_later_runs_new_again():
    world = world_of(range(0, 30, 2), initial="born")
    world.build()
    world.clock.advance(HOUR)
    world.rows[0]["title"] = "z"
    planned = stages.plan(world.sitemap(), RunRequest(full=True), clock=world.clock)
    written = [stages.write(world.sitemap(), planned.key, b.number, clock=world.clock) for b in planned.batches]
    world.rows[0]["title"] = "t0"
    world.clock.advance(HOUR)
    world.rows.append(row(29, title="x", born=world.clock.now()))
    world.build()
    returning = world.rows.pop() | {"title": "y"}
    world.clock.advance(HOUR)
    world.build()
    stages.publish(world.sitemap(), planned.key, [each.receipt_key for each in written], clock=world.clock)
    world.rows.append(returning)
    world.clock.advance(HOUR)
    fifth = run_time(world)
    world.build()
    assert dates(world)["29"] == fifth


def test_a_reading_after_the_plan_moves_no_other_date_and_none_back():
    world = world_of(range(4))
    world.build()
    world.rows[0]["title"] = world.rows[1]["title"] = "a"
    world.clock.advance(2 * HOUR)
    second = world.clock.now() + timedelta(seconds=1)
    world.build()
    world.rows[1]["title"] = "b"
    world.clock.advance(-HOUR)

    def change(operation: str) -> None:
        if operation == "read":
            world.rows[2]["title"] = "while it is read"

    world.source_settings["before"] = change
    world.build()
    later = f"{second + timedelta(seconds=1):%Y-%m-%dT%H:%M:%SZ}"
    assert dates(world) == {"0": f"{second:%Y-%m-%dT%H:%M:%SZ}", "1": later, "2": run_time(world), "3": None}


def test_a_section_that_returns_is_dated_by_the_run_for_crawlers_know_its_pages():
    world = world_of([])
    sections = [
        Section(name, MemorySourceConfig([row(name, title="t")], lastmod=Observed("title"), clock=world.clock.now))
        for name in ("a", "b")
    ]
    for listed, retired in ((sections, ()), (sections[:1], ("b",)), (sections, ())):
        second = run_time(world)
        build(Sitemap(world.config, listed, guards=world.guards, retired=retired), clock=world.clock)
        world.clock.advance(HOUR)
    assert dates(world) == {"a": None, "b": second}


def test_feeds_have_the_titles_of_pages_that_are_dated_after_the_reading(monkeypatch):
    """A batch keeps the texts of its newest entries, which are chosen by the dates that are listed in the end."""
    for module in (feeds, batch):
        monkeypatch.setattr(module, "FEED_ENTRIES", 3)
    world = world_of(range(10), settings={"feeds": ("atom",)})
    world.source_settings["title"] = "title"
    world.build()
    world.clock.advance(HOUR)
    for each in world.rows:
        each["title"] = f"new {each['id']}"

    def change(operation: str) -> None:
        if operation == "read":
            world.clock.advance(HOUR)
            world.rows[9]["title"] = "newest"

    world.source_settings["before"] = change
    world.build()
    assert dates(world)["0"] < dates(world)["5"]
    atom = world.config.public.objects["recent.atom"].body.decode()
    assert re.findall("<title>(.*?)</title>", atom)[1:] == ["new 5", "new 6", "new 7"]
