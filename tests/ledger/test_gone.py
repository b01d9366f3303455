"""Gone URLs: which rows make them, when they leave the file, and the histories in which an earlier wording named living pages.

Each history was found by the model of the ledger, and is played here with the real pipeline.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps import Guards, MemoryStore, Section, ShardPolicy, Sitemap, report_text
from airflow_sitemaps.errors import PartlyPublishedError
from airflow_sitemaps.pipeline import build, rollback, stages
from airflow_sitemaps.pipeline.publish import gone_urls
from airflow_sitemaps.pipeline.request import RunRequest
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.shards import gone, range_actions
from airflow_sitemaps.testing import FakeClock, MemorySourceConfig, crawl
from tests.support.environment import BASE, FREE, row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_sitemaps.protocol.reader import ReadEntry

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


class Shop:
    """A sitemap of the sections ``a`` and ``b``, whose gone URLs are listed for 30 days."""

    def __init__(self, a: Any = range(20), b: Any = range(100, 110), **settings: Any) -> None:
        self.rows = {"a": [row(key) for key in a], "b": [row(key) for key in b]}
        self.clock = FakeClock()
        self.config = MemoryStore(base_url=BASE, now=self.clock.now)
        self.settings: dict[str, Any] = {"gone": 30 * DAY, **settings}
        self.section_settings: dict[str, Any] = {}
        self.mapping: dict[str, Any] = {"lastmod": "lastmod", "priority": "priority"}

    def sitemap(self) -> Sitemap:
        sections = [
            Section(
                name, MemorySourceConfig(rows, key="id", clock=self.clock.now, **self.mapping), **self.section_settings
            )
            for name, rows in self.rows.items()
        ]
        return Sitemap(self.config, sections, **{"shards": ShardPolicy(max_urls=5), "guards": FREE, **self.settings})

    def build(self, **request: Any) -> Any:
        self.clock.advance(HOUR)
        return build(self.sitemap(), clock=self.clock, **request)

    def plan(self, **request: Any) -> Any:
        self.clock.advance(HOUR)
        return stages.plan(self.sitemap(), RunRequest(**request), clock=self.clock)

    def write(self, planned: Any) -> list[str]:
        sitemap, batches = self.sitemap(), planned.batches
        return [stages.write(sitemap, planned.key, each.number, clock=self.clock).receipt_key for each in batches]

    def drop(self, *keys: int) -> None:
        for rows in self.rows.values():
            rows[:] = [each for each in rows if each["id"] not in keys]

    def gone(self) -> list[int]:
        """The keys in the file of gone URLs, in its order."""
        return [int(each.loc.removeprefix(f"{BASE}p/")) for each in self.entries()]

    def entries(self) -> Sequence[ReadEntry]:
        return crawl(self.config.open()).files.get("gone.xml.gz", ())

    def waiting(self) -> set[int]:
        """The keys of URLs about which another section has not said anything yet."""
        state = StateRepository(self.config.open().state)
        known = gone_urls.gone_urls(state.objects, state.published().gone)
        assert known is not None
        return {int(url.removeprefix(f"{BASE}p/")) for url in known.words}


def test_a_row_that_left_is_listed_with_the_time_of_its_removal_and_leaves_the_file_after_its_time():
    shop = Shop()
    shop.build()
    assert shop.gone() == []
    shop.drop(3)
    report = shop.build()
    removed = shop.clock.now()
    (entry,) = shop.entries()
    assert (entry.loc, entry.lastmod) == (f"{BASE}p/3", f"{removed:%Y-%m-%dT%H:%M:%SZ}")
    assert (report.urls, report.urls_gone) == (29, 1)
    assert "the file of gone URLs lists 1 URL" in report_text.lines(report)
    again = shop.build()
    assert (again.result, again.urls_gone) == ("unchanged", 1)
    shop.clock.advance(20 * DAY)
    shop.drop(17, 101)
    shop.build()
    assert shop.gone() == [101, 17, 3]
    shop.clock.advance(10 * DAY)
    assert shop.build().result == "published"
    assert shop.gone() == [101, 17]
    shop.clock.advance(30 * DAY)
    shop.build()
    assert shop.gone() == []
    assert shop.build().result == "unchanged"


def test_a_url_that_returns_leaves_the_file_in_whatever_section_it_returns():
    shop = Shop()
    shop.build()
    shop.drop(3, 4)
    shop.build()
    assert shop.gone() == [3, 4]
    shop.rows["a"].append(row(3))
    shop.rows["b"].append(row(200, loc=f"{BASE}p/4"))
    shop.build()
    assert shop.gone() == []


@pytest.mark.parametrize("batch_rows", [1, 5, 100])
def test_emptied_split_and_merged_ranges_name_what_left_however_batches_are_cut(batch_rows, monkeypatch):
    monkeypatch.setattr(range_actions, "BATCH_ROWS", batch_rows)
    shop = Shop(range(0, 60, 2))
    shop.build()
    shop.drop(*range(10, 20), 31)
    shop.drop(*range(40, 48))
    shop.rows["a"] += [row(key) for key in (21, 23, 25, 27)]  # its range is split
    shop.drop(22)
    shop.build()
    assert set(shop.gone()) == {*range(10, 20, 2), *range(40, 48, 2), 22}


def test_a_url_that_moves_to_another_range_or_section_is_not_gone():
    shop = Shop()
    shop.build()
    shop.rows["a"][1]["id"] = 50
    shop.rows["b"].append(shop.rows["a"].pop(9) | {"id": 300})
    shop.drop(19)
    shop.build()
    assert shop.gone() == [19]


def test_a_url_that_another_key_of_its_range_takes_over_is_not_gone():
    shop = Shop()
    shop.build()
    shop.rows["a"][2] = row(1.5, loc=f"{BASE}p/2")
    shop.build()
    assert shop.gone() == []


@pytest.mark.parametrize("max_urls", [5, 2])
def test_a_row_that_takes_over_the_url_of_another_is_not_gone(max_urls: int):
    """Each row has the next one's URL. With ``max_urls=2`` the ranges are split."""
    shop = Shop(a=range(5))
    shop.build()
    for entry, key in zip(shop.rows["a"], (1, 2, 900, 3, 4), strict=True):
        entry["loc"] = f"{BASE}p/{key}"
    shop.settings["shards"] = ShardPolicy(max_urls=max_urls)
    shop.build()
    assert shop.gone() == []
    shop.drop(3)
    shop.build()
    assert shop.gone() == [3]


def test_a_row_that_a_rule_leaves_out_and_a_changed_url_make_no_gone_url():
    shop = Shop()
    shop.build()
    shop.rows["a"][7]["loc"] = "http://elsewhere.example/"
    shop.rows["a"][8]["loc"] = f"{BASE}p/800"
    shop.rows["a"][11] = row(11, loc=f"{BASE}p/1100")
    shop.drop(6)
    shop.build()
    assert shop.gone() == [6]


@pytest.mark.parametrize("change", ["rules", "path", "mapping"])
def test_the_first_run_after_a_change_of_code_or_layout_makes_none(change):
    shop = Shop()
    shop.build()
    shop.drop(3)
    match change:
        case "rules":
            shop.settings["rules"] = {"lastmod-future": "keep"}
        case "path":
            shop.section_settings["path"] = "x/"
        case _:
            shop.mapping["changefreq"] = "changefreq"
    shop.build()
    assert shop.gone() == []
    shop.drop(4)
    shop.build()
    assert shop.gone() == [4]


def test_a_retired_section_makes_none():
    shop = Shop()
    shop.build()
    del shop.rows["b"]
    shop.settings["retired"] = ["b"]
    shop.build()
    assert shop.gone() == []


def test_a_partial_run_waits_for_the_other_sections():
    shop = Shop()
    shop.build()
    shop.drop(3)
    shop.build(sections=["a"])
    assert (shop.gone(), shop.waiting()) == ([], {3})
    assert shop.build(sections=["a"]).result == "unchanged"
    left = shop.clock.now()
    shop.build(sections=["b"])
    assert (shop.gone(), shop.waiting()) == ([3], set())
    (entry,) = shop.entries()
    assert entry.lastmod < f"{left:%Y-%m-%dT%H:%M:%SZ}"


def test_a_url_that_moved_between_sections_in_partial_runs_is_not_gone():
    """The word of the section that took the URL is kept, though it comes before the word of the one that it left."""
    shop = Shop()
    shop.build()
    page = next(each for each in shop.rows["a"] if each["id"] == 3)
    shop.rows["b"].append(page | {"id": 300})
    shop.build(sections=["b"])
    shop.drop(3)
    shop.build(sections=["a"])
    shop.build(sections=["b"])
    shop.build()
    assert (shop.gone(), shop.waiting()) == ([], set())


@pytest.mark.parametrize("removed", [False, True])
def test_a_section_that_lists_a_url_only_while_others_take_no_part_leaves_no_word(removed: bool):
    """The row moves to the other section, and then back or away, before the first section takes part again."""
    shop = Shop()
    shop.build()
    shop.rows["b"].append(row(3))
    shop.build(sections=["b"])
    shop.rows["b"].pop()
    if removed:
        shop.drop(3)
    shop.build(sections=["b"])
    assert shop.waiting() == {3}
    shop.build()
    assert shop.gone() == ([3] if removed else [])
    assert shop.waiting() == set()


def test_a_section_that_is_removed_does_not_take_the_words_of_others_with_it():
    shop = Shop()
    shop.rows["c"] = [row(200)]
    shop.build()
    shop.drop(3)
    shop.rows["b"].append(row(3))
    shop.build(sections=["b"])
    del shop.rows["c"]
    shop.settings["retired"] = ["c"]
    shop.build()
    assert shop.gone() == []


def test_a_section_that_a_guard_refuses_says_nothing():
    shop = Shop(range(200), range(300, 500), guards=Guards(min_rows=10), shards=ShardPolicy(max_urls=50))
    shop.build()
    shop.rows["b"][:] = shop.rows["b"][:20]
    shop.drop(3)
    with pytest.raises(PartlyPublishedError):
        shop.build()
    assert (shop.gone(), shop.waiting()) == ([], {3})
    shop.rows["b"] += [row(key) for key in range(320, 500)]
    shop.drop(499)
    shop.build()
    assert shop.gone() == [499, 3]


def test_a_full_run_names_nothing_of_the_ranges_that_a_rival_wrote():
    shop = Shop()
    shop.build()
    shop.drop(3, 18)
    planned = shop.plan(full=True)
    keys = shop.write(planned)
    shop.rows["a"].insert(3, row(3))
    shop.rows["a"][0]["priority"] = 0.1
    shop.drop(4)
    shop.build(sections=["a"])
    stages.publish(shop.sitemap(), planned.key, keys, clock=shop.clock)
    assert shop.gone() == [4, 18] or shop.gone() == [18, 4]


def test_a_rollback_brings_the_gone_urls_of_its_generation_back():
    shop = Shop()
    shop.build()
    shop.drop(3)
    shop.build()
    shop.drop(4)
    shop.build()
    assert shop.gone() == [4, 3]
    shop.clock.advance(HOUR)
    rollback(shop.sitemap(), 2, clock=shop.clock)
    assert shop.gone() == [3]
    assert f"{BASE}p/4" in crawl(shop.config.open()).entries()
    shop.build()
    assert shop.gone() == [4, 3]
    rollback(shop.sitemap(), 1, clock=shop.clock)
    assert shop.gone() == []


def test_more_urls_than_a_file_holds_make_none_and_a_warning(monkeypatch):
    monkeypatch.setattr(gone_urls, "MOST_GONE", 4)
    shop = Shop(range(40))
    shop.build()
    shop.drop(1)
    shop.build()
    shop.drop(*range(10, 16))
    report = shop.build()
    assert shop.gone() == [1]
    (warning,) = report.warnings
    assert "URLs or more left the source in one run, and gone.xml.gz takes at most 4" in warning
    shop.drop(2)
    shop.build()
    assert shop.gone() == [2, 1]


def test_the_oldest_leave_a_full_file_first_and_equal_dates_are_ordered_by_url(monkeypatch):
    monkeypatch.setattr(gone, "MOST_GONE", 3)
    shop = Shop()
    shop.build()
    shop.drop(5, 1)
    shop.build()
    shop.drop(7, 6)
    shop.build()
    assert shop.gone() == [6, 7, 1]


def test_too_many_words_are_forgotten_and_no_url_is_named_until_every_section_has_taken_part(monkeypatch):
    monkeypatch.setattr(gone_urls, "MOST_GONE", 2)
    shop = Shop()
    shop.build()
    shop.rows["b"] += [row(key + 300, loc=f"{BASE}p/{key}") for key in (1, 2, 3)]
    shop.build(sections=["b"])
    shop.drop(3)
    shop.rows["a"] = [each for each in shop.rows["a"] if each["id"] not in (1, 2)]
    shop.build(sections=["a"])
    assert (shop.gone(), shop.waiting()) == ([], set())
    shop.build()
    assert shop.gone() == []
    shop.drop(12)
    shop.build()
    assert shop.gone() == [12]


def test_a_lost_record_ends_the_file_and_no_url_is_named_until_every_section_has_taken_part(caplog):
    shop = Shop()
    shop.build()
    shop.drop(3)
    shop.build()
    record = StateRepository(shop.config.open().state).published().gone
    assert record is not None
    del shop.config.state.objects[record.body]
    shop.drop(4)
    shop.build()
    assert shop.gone() == []
    assert "the record of gone URLs" in caplog.text
    shop.drop(5)
    shop.build()
    assert shop.gone() == [5]


def test_turned_off_the_file_ends_and_it_begins_anew_when_it_is_turned_on():
    shop = Shop()
    shop.build()
    shop.drop(3)
    shop.build()
    shop.settings["gone"] = None
    assert shop.build().result == "published"
    assert shop.gone() == []
    shop.settings["gone"] = DAY
    shop.build()
    assert shop.gone() == []
    shop.drop(4)
    shop.build()
    assert shop.gone() == [4]


def test_a_record_is_swept_with_its_generation():
    shop = Shop(history=1, grace=timedelta(0))
    shop.build()
    for key in range(6):
        shop.drop(key)
        shop.build()
        shop.clock.advance(DAY)
    shop.build(full=True)
    kept = [key for key in shop.config.state.objects if key.endswith(".json.gz") and "/bodies/" in key]
    assert len(kept) <= 2


def test_of_rows_that_share_a_key_those_that_left_are_named():
    shop = Shop()
    for each in shop.rows["a"]:
        each["id"] //= 4
    shop.build()
    shop.rows["a"] = [each for each in shop.rows["a"] if not each["loc"].endswith(("/5", "/6"))]
    shop.build()
    assert shop.gone() == [5, 6]
