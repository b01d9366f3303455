"""The trust of a column: dates that move without a change of the page, and changes without a new date."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_sitemaps import (
    MemoryStore,
    Observed,
    Section,
    ShardPolicy,
    Sitemap,
    SqlSource,
    metrics,
    pipeline,
    report_text,
)
from airflow_sitemaps.errors import ConfigurationError, SourceConfigurationError
from airflow_sitemaps.pipeline import rollback
from airflow_sitemaps.protocol.lastmod import LastmodTrust
from airflow_sitemaps.shards import range_actions
from airflow_sitemaps.testing import MemorySourceConfig
from tests.ledger.parts import lines, manifest_of
from tests.support.environment import BASE, World, row

HOUR = timedelta(hours=1)
OLD = "2025-05-05T05:05:05Z"
NEW = "2026-01-15T05:05:05Z"


def world_of(keys: Any, *, lastmod: str | None = OLD, page: Any = ("title",), **settings: Any) -> World:
    rows = [row(key, title=f"t{key}", lastmod=lastmod) for key in keys]
    return World(rows, source_settings={"page": page}, **settings)


def trust(world: World, **kwargs: Any) -> LastmodTrust | None:
    world.clock.advance(HOUR)
    return world.build(**kwargs).sections["pages"].lastmod_trust


def loc(key: int) -> str:
    return f"{BASE}p/{key}"


def test_dates_and_pages_are_compared_and_the_faults_of_both_are_counted_with_samples():
    world = world_of(range(24))
    assert trust(world) is None
    for key in (2, 3, 12, 13, 14, 20):
        world.rows[key]["lastmod"] = NEW
    world.rows[2]["title"] = world.rows[7]["title"] = "another"
    seen = trust(world)
    assert seen == LastmodTrust(
        both=1, date_only=5, page_only=1, date_only_samples=(loc(3), loc(12), loc(13)), page_only_samples=(loc(7),)
    )
    assert trust(world) == seen, "an unchanged run says what the week was like"
    report = world.build()
    measured = {
        m.tags["change"]: m.value for m in metrics.of_report(BASE, report, world.clock.now()) if "change" in m.tags
    }
    assert measured == {"both": 1, "date_only": 5, "page_only": 1}
    text = "\n".join(report_text.lines(report))
    assert f"of 6 dates that moved, 5 moved though no column of page= changed, for example {loc(3)}" in text
    assert f"of 2 pages that changed, 1 kept their date, for example {loc(7)}" in text


def test_the_ledger_dates_changes_of_the_page_and_not_of_the_stamp():
    world = world_of(range(8))
    world.build()
    world.clock.advance(HOUR)
    for each in world.rows:
        each["lastmod"] = NEW
    world.rows[3] |= {"title": "another", "priority": 0.3}
    world.rows[4]["priority"] = 0.3
    world.build()
    assert {url for url, line in lines(world).items() if line.changed_at} == {loc(3)}
    assert {line.lastmod for line in lines(world).values()} == {NEW}


@pytest.mark.parametrize(("before", "after"), [(None, NEW), (OLD, None), (None, None), (OLD, "no date")])
def test_a_url_that_had_or_has_no_date_is_not_judged(before, after):
    world = world_of(range(4), lastmod=before)
    world.build()
    world.rows[1] |= {"lastmod": after, "title": "another"}
    world.rows[2]["lastmod"] = after
    assert trust(world) == LastmodTrust()


def test_new_urls_and_those_whose_part_is_lost_are_not_judged():
    world = world_of(range(4))
    world.build()
    del world.config.state.objects[manifest_of(world).sections["pages"].shards[0].part.body]
    world.rows[1] |= {"lastmod": NEW, "title": "another"}
    world.rows[2]["lastmod"] = NEW
    world.rows.append(row(9, title="new", lastmod=NEW))
    assert trust(world) == LastmodTrust()


@pytest.mark.parametrize(("date", "page_only"), [("2026-01-15", 0), ("2026-01-14", 0), ("2026-01-13", 1)])
def test_a_date_without_a_time_may_stay_on_the_day_of_the_run_before(date, page_only):
    """The clock begins at noon: the table's day may be the one before."""
    world = world_of(range(4), lastmod=date)
    world.clock.advance(-HOUR)
    world.build()
    world.rows[1]["title"] = "another"
    counted = trust(world)
    assert counted is not None
    assert counted.page_only == page_only


def test_other_columns_and_another_mapping_are_not_judged():
    world = world_of(range(4))
    world.build()
    world.source_settings["page"] = ("title", "priority")
    world.rows[1]["title"] = "another"
    world.rows[2]["lastmod"] = NEW
    assert trust(world) == LastmodTrust()
    world.rows[3]["priority"] = 0.4
    assert trust(world) == LastmodTrust(page_only=1, page_only_samples=(loc(3),))


def test_the_week_is_summed_and_days_before_it_are_left_out():
    world = world_of(range(4))
    for day in range(9):
        world.rows[day % 4]["lastmod"] = f"2026-01-{day + 1:02d}T00:00:00Z"
        world.build()
        world.clock.advance(24 * HOUR)
    counted = world.build().sections["pages"]
    assert counted.lastmod_trust is not None
    assert (counted.lastmod_trust.date_only, len(counted.urls_changed)) == (6, 6)
    assert counted.lastmod_trust.date_only_samples == (loc(0), loc(3), loc(2))


def test_urls_changed_a_day_are_counted_at_commits():
    world = World([row(key) for key in range(12)], section_settings={"ledger": True})
    assert world.build().sections["pages"].urls_changed == {"2026-01-15": 0}
    for key in (1, 2, 7):
        world.rows[key]["priority"] = 0.3
    assert world.build().sections["pages"].urls_changed == {"2026-01-15": 3}
    world.clock.advance(24 * HOUR)
    world.rows[1]["priority"] = 0.4
    world.build()
    state = pipeline.status(world.sitemap()).sections["pages"]
    assert (state.urls_changed, state.lastmod_trust) == ({"2026-01-15": 3, "2026-01-16": 1}, None)
    plain = World([row(1)])
    assert plain.build().sections["pages"].urls_changed == {}


def test_a_rollback_keeps_what_the_week_was_like():
    world = world_of(range(4))
    world.build()
    read_at = manifest_of(world).sections["pages"].dated_at
    world.clock.advance(HOUR)
    world.rows[1]["lastmod"] = NEW
    world.build()
    rollback(world.sitemap(), 1, clock=world.clock)
    assert manifest_of(world).sections["pages"].dated_at == read_at is not None, "a part says what was read then"
    state = pipeline.status(world.sitemap()).sections["pages"]
    assert state.lastmod_trust == LastmodTrust(date_only=1, date_only_samples=(loc(1),))


CHANGES = st.lists(st.sampled_from(["", "lastmod", "title", "both"]), min_size=12, max_size=12)


@settings(max_examples=12, deadline=None)
@given(changes=CHANGES, rows=st.sampled_from([1, 4, 100]), max_urls=st.sampled_from([3, 5, 50]))
def test_every_change_is_counted_once_however_batches_and_shards_are_cut(changes, rows, max_urls):
    patch = pytest.MonkeyPatch()
    patch.setattr(range_actions, "BATCH_ROWS", rows)
    with patch.context():
        world = world_of(range(12), max_urls=max_urls)
        world.build()
        new = {"lastmod": NEW, "title": "another"}
        for each, change in zip(world.rows, changes, strict=True):
            each.update({name: value for name, value in new.items() if change in (name, "both")})
        counted = trust(world) or LastmodTrust()
    patch.undo()
    numbers = (counted.both, counted.date_only, counted.page_only)
    assert numbers == tuple(map(changes.count, ("both", "lastmod", "title")))
    faults = [loc(key) for key, change in enumerate(changes) if change == "lastmod"]
    assert counted.date_only_samples == tuple(faults[:3])


def test_sums_have_the_newest_samples_first_and_each_url_once():
    old = LastmodTrust(date_only=4, date_only_samples=("a", "b", "c"))
    new = LastmodTrust(both=1, date_only=2, date_only_samples=("d", "a"))
    assert LastmodTrust.total([new, None, old]) == LastmodTrust(both=1, date_only=6, date_only_samples=("d", "a", "b"))
    assert LastmodTrust.total([None]) is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"page": ["title"]}, "give lastmod= too"),
        ({"page": "title"}, "one or more different columns"),
        ({"page": ["title"], "lastmod": Observed("title")}, r"Omit page="),
        ({"page": ["title", "title"], "lastmod": "at"}, "one or more different columns"),
        ({"page": "title", "lastmod": "at"}, "one or more different columns"),
        ({"page": [3], "lastmod": "at"}, "one or more different columns"),
        ({"page": ["title", "at"], "lastmod": "at"}, "leave out the column of lastmod="),
    ],
)
def test_invalid_pages_are_refused(arguments, message):
    with pytest.raises(SourceConfigurationError, match=message):
        SqlSource("w", table="t", key="id", loc="/p/{id}", **arguments)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"format": "text"}, r"page=\[…\] cannot be used with format='text'"),
        ({"change_detection": "watermark"}, r"page=\[…\] cannot be used with change_detection='watermark'"),
        ({"rules": {"loc-duplicate": "keep"}}, "rows of one URL"),
    ],
)
def test_combinations_without_sense_are_refused(given, message):
    source = MemorySourceConfig([], lastmod="at", page=["title"])
    with pytest.raises(ConfigurationError, match=message):
        Sitemap(MemoryStore(base_url=BASE), [Section("pages", source, **given)])


def test_a_page_implies_a_ledger_and_is_part_of_the_sources_identity():
    source = SqlSource("w", table="t", key=["id"], loc="/p/{id}", lastmod="at", page=["title", "price"])
    assert Section("pages", source).ledger
    assert (source.identity()["lastmod"], source.identity()["page"]) == ("at", ["title", "price"])
    assert "page" not in SqlSource("w", table="t", key=["id"], loc="/p/{id}", lastmod="at").identity()
    assert SqlSource.restored(source.resolved()).page_columns == ("title", "price")


def test_a_shard_that_waited_is_compared_since_its_first_change():
    """The pages change twice on a day, and the date names the day. Another shard is written in between, a week long."""
    world = world_of(range(20), lastmod="2026-01-15", policy=ShardPolicy(max_urls=10, rewrite_after=timedelta(days=7)))
    world.clock.moment = datetime(2026, 1, 15, 10, tzinfo=timezone.utc)
    world.build()
    for each in world.rows[10:]:
        each["title"] = "another"
    trust(world)
    for day in range(16, 24):
        world.clock.moment = datetime(2026, 1, day, 10, tzinfo=timezone.utc)
        world.rows[0] |= {"loc": f"{BASE}p/0-{day}", "lastmod": f"2026-01-{day}"}
        seen = trust(world)
    assert seen is not None
    assert seen.page_only == 0
