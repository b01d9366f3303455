"""From listed to indexed: how many URLs of each section reached each stage, from what the tasks observed."""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec.structs import replace

from airflow_sitemaps.plugin.pages.announcements import MAX_SECTIONS, Funnel, coverage_of, funnel_of
from airflow_sitemaps.plugin.pages.verdict import DataAge, SectionSnapshot
from airflow_sitemaps.ports import Overwrite
from airflow_sitemaps.search_engines.fetches import SUMMARY, CrawlerFetches, Fetches, SectionFetches
from airflow_sitemaps.search_engines.index_status import Observation, Stratum, keep
from airflow_sitemaps.search_engines.searchconsole import IndexCoverage
from airflow_sitemaps.search_engines.searchconsole import Observation as Submission
from tests.plugin.test_coverage_columns import URI, publish
from tests.support.plugin_factories import NOW

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy.orm import Session

    from tests.plugin.conftest import Client

AT = NOW.isoformat()


def section(name: str, urls: int, *, published: bool = True) -> SectionSnapshot:
    age = DataAge()
    return SectionSnapshot(
        name=name, published=published, result="published", age=age, urls=urls, changed_at=NOW - timedelta(hours=1)
    )


def fetches(**urls: int) -> Fetches:
    sections = {name: SectionFetches(files=2, fetched=1, urls=number, last=AT) for name, number in urls.items()}
    return Fetches(at=AT, crawlers={"google": CrawlerFetches(sections=sections), "bing": CrawlerFetches()})


def submission(**discovered: int) -> list[Submission]:
    indexes = tuple(
        IndexCoverage(
            url=f"https://x.org/{name}.xml", section="" if name == "all" else name, listed=1,
            discovered={"web": number, "image": 7}, errors=0, warnings=0, pending=False, last_downloaded=AT,
        )
        for name, number in discovered.items()
    )  # fmt: skip
    return [Submission(at=AT, generation=1, site="sc-domain:x.org", indexes=indexes)]


def inspections(urls: int = 1_000, **sections: tuple[int, int, int]) -> list[Observation]:
    """The inspected, crawled and indexed URLs of sections, each with so many URLs in a property."""
    strata = {
        name: {"other": Stratum(urls=urls, inspected=n, crawled=crawled, indexed=indexed)}
        for name, (n, crawled, indexed) in sections.items()
    }
    return [Observation(engine="google", day=NOW.date(), at=AT, sections=strata)]


def numbers(funnel: Funnel) -> dict[str, dict[str, int]]:
    return {row.section: {stage.stage: stage.urls for stage in row.stages} for row in funnel.sections}


def test_every_stage_of_the_only_section_whose_index_is_that_of_all() -> None:
    inspected = inspections(pages=(100, 70, 50))

    found = funnel_of([section("pages", 1_000)], fetches(pages=900), submission(all=800), inspected)

    assert numbers(found) == {
        "pages": {"listed": 1_000, "fetched": 900, "discovered": 800, "crawled": 700, "indexed": 500}
    }
    listed, fetched, discovered, crawled, indexed = found.sections[0].stages
    assert listed.at == (NOW - timedelta(hours=1)).isoformat()
    assert {fetched.at, discovered.at, crawled.at, indexed.at} == {AT}
    assert {(each.low, each.high) for each in (listed, fetched, discovered)} == {(None, None)}
    assert (indexed.low or 0) < 500 < (indexed.high or 0)
    assert indexed.low


def test_all_sections_come_first_and_stand_for_their_sum() -> None:
    sections = [section("news", 1_000), section("pages", 3_000), section("planned", 0, published=False)]
    inspected = inspections(pages=(100, 100, 50), news=(100, 100, 100))
    inspected[0].sections["pages"]["other"].urls = 3_000

    found = funnel_of(sections, fetches(pages=2_000, news=1_000), submission(pages=1_500, news=500), inspected)

    assert numbers(found) == {
        "": {"listed": 4_000, "fetched": 3_000, "discovered": 2_000, "crawled": 4_000, "indexed": 2_500},
        "pages": {"listed": 3_000, "fetched": 2_000, "discovered": 1_500, "crawled": 3_000, "indexed": 1_500},
        "news": {"listed": 1_000, "fetched": 1_000, "discovered": 500, "crawled": 1_000, "indexed": 1_000},
    }


def test_a_stage_that_no_task_observed_is_left_out() -> None:
    sections = [section("pages", 10), section("news", 5)]

    nothing = funnel_of(sections, Fetches(), [], [])
    some = funnel_of(sections, fetches(pages=10), submission(all=12), inspections(pages=(10, 10, 10)))

    assert all(set(stages) == {"listed"} for stages in numbers(nothing).values())
    # One index for all says nothing of a section, and the inspections of one section say nothing of all.
    assert numbers(some) == {
        "": {"listed": 15, "fetched": 10, "discovered": 12},
        "pages": {"listed": 10, "fetched": 10, "crawled": 10, "indexed": 10},
        "news": {"listed": 5},
    }


def test_an_estimate_counts_no_url_that_is_in_no_property() -> None:
    inspected = inspections(urls=100, pages=(100, 100, 80))

    found = funnel_of([section("pages", 1_000)], Fetches(), [], inspected)

    assert numbers(found) == {"pages": {"listed": 1_000, "crawled": 100, "indexed": 80}}


def test_a_section_with_several_indexes_is_their_sum_and_no_count_exceeds_what_is_listed() -> None:
    submitted = submission(pages=80)[0]
    twice = replace(submitted, indexes=submitted.indexes * 2)

    found = funnel_of([section("pages", 100)], fetches(pages=120), [twice], [])

    assert numbers(found) == {"pages": {"listed": 100, "fetched": 100, "discovered": 100}}


@pytest.mark.parametrize("names", [["pages"], ["pages", "news"]])
def test_the_index_of_recent_entries_counts_no_url_beside_the_indexes_of_sections(names: list[str]) -> None:
    submitted = submission(all=90, **dict.fromkeys(names, 500))

    found = numbers(funnel_of([section(name, 1_000) for name in names], Fetches(), submitted, []))

    assert {name: stages["discovered"] for name, stages in found.items()} == {
        **({} if len(names) == 1 else {"": 1_000}),
        **dict.fromkeys(names, 500),
    }
    assert [row.section for row in coverage_of(submitted).indexes] == names


def test_the_estimates_cover_the_truth_of_all_sections() -> None:
    """Seeded draws: the interval of all sections holds their share in at least 95 of 100."""
    draw, covered, draws = random.Random(7), 0, 400
    truth = {"pages": 0.9, "news": 0.35}
    sections = [section("pages", 1_000), section("news", 1_000)]
    for _ in range(draws):
        inspected = {name: (60, 60, sum(draw.random() < share for _ in range(60))) for name, share in truth.items()}
        indexed = funnel_of(sections, Fetches(), [], inspections(**inspected)).sections[0].stages[-1]
        covered += (indexed.low or 0) <= 1_250 <= (indexed.high or 0)
    assert covered >= 0.95 * draws


def test_bing_has_no_stage_of_its_index_and_its_numbers_are_those_of_its_server() -> None:
    """Seeded draws from what the server holds: its numbers are in the intervals in at least 95 of 100."""
    draw, covered, draws = random.Random(11), Counter[str](), 400
    truth = {"discovered": 1_800, "crawled": 700}
    held = [(number < truth["discovered"], number < truth["crawled"]) for number in range(2_000)]
    fetched = fetches(pages=7)
    fetched.crawlers["bing"] = fetches(pages=1_500).crawlers["google"]
    for _ in range(draws):
        sample = draw.sample(held, 150)
        discovered, crawled = (sum(each) for each in zip(*sample, strict=True))
        stratum = Stratum(urls=2_000, inspected=150, discovered=discovered, crawled=crawled)
        inspected = Observation(
            engine="bing", day=NOW.date(), at=AT, stages=("discovered", "crawled"),
            sections={"pages": {"other": stratum}},
        )  # fmt: skip
        (row,) = funnel_of([section("pages", 2_000)], fetched, [], [inspected], "bing").sections
        assert [each.stage for each in row.stages] == ["listed", "fetched", "discovered", "crawled"]
        assert [each.urls for each in row.stages[:2]] == [2_000, 1_500]
        for each in row.stages[2:]:
            covered[each.stage] += (each.low or 0) <= truth[each.stage] <= (each.high or 0)
    assert min(covered[stage] for stage in truth) >= 0.95 * draws


def test_only_so_many_sections_are_shown() -> None:
    found = funnel_of([section(f"s{n}", n) for n in range(MAX_SECTIONS + 5)], Fetches(), [], [])

    assert (len(found.sections), found.left_out) == (MAX_SECTIONS + 1, 5)
    assert found.sections[1].section == f"s{MAX_SECTIONS + 4}"


def test_the_route_reads_what_the_tasks_kept(admin: Client, session: Session, tmp_path: Path) -> None:
    objects = publish(session, tmp_path).store.open().state
    listed = {row["name"]: row["urls"] for row in admin.get("api/sitemap", asset=URI).json()["sections"]}
    keep(objects, inspections(**dict.fromkeys(listed, (10, 10, 10)))[0])
    summary = msgspec.json.encode(fetches(**dict.fromkeys(listed, 2)))
    objects.put(SUMMARY, summary, mode=Overwrite(), metadata={}, content_type="application/json")

    found: dict[str, Any] = admin.get("api/sitemap/funnel", asset=URI).json()

    rows = {row["section"]: {stage["stage"]: stage["urls"] for stage in row["stages"]} for row in found["sections"]}
    assert rows[""] == {"listed": 10, "fetched": 4, "crawled": 10, "indexed": 10}
    assert rows["news"] == {"listed": listed["news"], "fetched": 2, "crawled": 3, "indexed": 3}
    assert (set(rows), found["left_out"]) == ({"", *listed}, 0)


def test_damaged_objects_leave_stages_out(admin: Client, session: Session, tmp_path: Path) -> None:
    objects = publish(session, tmp_path).store.open().state
    objects.put(SUMMARY, b"[", mode=Overwrite(), metadata={}, content_type="application/json")

    found = admin.get("api/sitemap/funnel", asset=URI).json()

    assert {stage["stage"] for row in found["sections"] for stage in row["stages"]} == {"listed"}
