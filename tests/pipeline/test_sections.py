"""Sitemaps of several sections: paths, addresses, indexes, formats, kinds, and sections that go."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_sitemaps import MemoryStore, Section, ShardPolicy, Sitemap
from airflow_sitemaps.errors import ConfigurationError, GuardError, OwnershipError
from airflow_sitemaps.pipeline import build, stages
from airflow_sitemaps.pipeline.publish import commit_files
from airflow_sitemaps.pipeline.status import robots
from airflow_sitemaps.protocol import MAX_INDEXES, PROFILES
from airflow_sitemaps.protocol.reader import read
from airflow_sitemaps.testing import FakeClock, MemorySourceConfig, crawl
from airflow_sitemaps.verification import of_sitemap, verifier
from tests.support.environment import BASE, FREE, row


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def config(clock) -> MemoryStore:
    return MemoryStore(base_url=BASE, now=clock.now)


def source(number: int, folder: str = "p", **mapping) -> MemorySourceConfig:
    rows = [row(n, loc=f"{BASE}{folder}/{n}") for n in range(1, number + 1)]
    return MemorySourceConfig(rows, key="id", **mapping)


def sitemap(config, *sections: Section, **kwargs) -> Sitemap:
    return Sitemap(config, sections, shards=ShardPolicy(max_urls=5), guards=FREE, **kwargs)


def test_sections_have_their_own_folders_and_addresses(config, clock):
    german = Section("pages", source(7, "de"), path="de/")
    french = Section(
        "pages-fr",
        MemorySourceConfig([row(1, loc="https://fr.example.com/1")], key="id"),
        path="fr/",
        base_url="https://fr.example.com/",
    )
    build(sitemap(config, german, french), clock=clock)
    found = crawl(config.open(), folders={"https://fr.example.com/": "fr/"})
    assert list(found.files) == ["de/pages-00001.xml.gz", "de/pages-00002.xml.gz", "fr/pages-fr-00001.xml.gz"]
    assert "https://fr.example.com/1" in found.locs()


def test_an_index_for_each_section(config, clock):
    report = build(
        sitemap(config, Section("a", source(7, "a")), Section("b", source(3, "b")), index="per_section"), clock=clock
    )
    assert report.index_urls == (BASE + "sitemap-a.xml", BASE + "sitemap-b.xml")
    assert len(crawl(config.open(), "sitemap-a.xml").files) == 2
    assert len(crawl(config.open(), "sitemap-b.xml").files) == 1


def test_several_index_files_when_one_is_not_enough(config, clock, monkeypatch):
    assert PROFILES["original"].max_sitemaps == 1_000
    monkeypatch.setitem(PROFILES, "original", replace(PROFILES["original"], max_sitemaps=10))
    rows = [row(n) for n in range(1, 24)]
    one = Section("pages", MemorySourceConfig(rows, key="id"), shards=ShardPolicy(max_urls=2), limits="original")
    report = build(sitemap(config, one), clock=clock)
    assert report.index_urls == (BASE + "sitemap.xml", BASE + "sitemap-2.xml")
    parts = [crawl(config.open(), name) for name in ("sitemap.xml", "sitemap-2.xml")]
    assert [len(part.files) for part in parts] == [10, 2]
    assert len(parts[0].locs() | parts[1].locs()) == 23
    del rows[15:]
    assert build(sitemap(config, one), clock=clock).index_urls == (BASE + "sitemap.xml",)


def test_a_gzipped_index(clock):
    config = MemoryStore(base_url=BASE, index_name="sitemap.xml.gz")
    build(sitemap(config, Section("a", source(7))), clock=clock)
    assert config.public.objects["sitemap.xml.gz"].body[:2] == b"\x1f\x8b"
    assert len(crawl(config.open()).files) == 2


def test_a_vanished_section_is_refused_until_it_is_retired(config, clock):
    build(sitemap(config, Section("a", source(7, "a")), Section("b", source(3, "b"))), clock=clock)
    with pytest.raises(GuardError, match="vanished:b"):
        build(sitemap(config, Section("a", source(7, "a"))), clock=clock)
    report = build(sitemap(config, Section("a", source(7, "a")), retired=("b",)), clock=clock)
    assert report.shards.removed == 1
    assert list(crawl(config.open()).files) == ["a-00001.xml.gz", "a-00002.xml.gz"]


def test_only_the_sections_asked_for_are_looked_at(config, clock):
    both = [Section("a", source(7, "a")), Section("b", source(3, "b"))]
    build(sitemap(config, *both), clock=clock)
    both[0].source.rows.append(row(99, loc=BASE + "a/99"))
    both[1].source.rows.append(row(99, loc=BASE + "b/99"))
    build(sitemap(config, *both), sections=["b"], clock=clock)
    assert BASE + "b/99" in crawl(config.open()).locs()
    assert BASE + "a/99" not in crawl(config.open()).locs()
    with pytest.raises(ConfigurationError, match="there is no section c"):
        build(sitemap(config, *both), sections=["c"], clock=clock)


def test_another_pipeline_at_the_same_address_is_refused(config, clock):
    build(sitemap(config, Section("a", source(7))), clock=clock)
    with pytest.raises(OwnershipError, match="two pipelines"):
        build(sitemap(config, Section("b", source(7))), clock=clock)
    with pytest.raises(OwnershipError, match="belongs to another"):
        build(sitemap(config, Section("a", source(7)), owner="team b"), clock=clock)


def test_a_moved_section_is_written_at_its_new_place(config, clock):
    build(sitemap(config, Section("a", source(7))), clock=clock)
    build(sitemap(config, Section("a", source(7), path="new/")), clock=clock)
    assert list(crawl(config.open()).files) == ["new/a-00003.xml.gz", "new/a-00004.xml.gz"]


def test_text_sitemaps(config, clock):
    text = Section("a", source(7), format="text")
    build(sitemap(config, text), clock=clock)
    found = crawl(config.open())
    assert list(found.files) == ["a-00001.txt.gz", "a-00002.txt.gz"]
    assert found.locs() == {f"{BASE}p/{n}" for n in range(1, 8)}
    # Listed in the index, not in robots.txt: docs/decisions/protocol-policy.md says why.
    assert b"a-00001.txt.gz</loc>" in config.public.objects["sitemap.xml"].body
    assert robots(sitemap(config, text)) == (BASE + "sitemap.xml",)
    text.source.rows[0]["loc"] = BASE + "p/changed"
    assert build(sitemap(config, text), clock=clock).shards.rewritten == 1


def news(clock: FakeClock, n: int, age: timedelta) -> dict:
    moment = (clock.now() - age).isoformat()
    record = {"publication": {"name": "The Post", "language": "en"}, "title": f"News {n}", "publication_date": moment}
    return row(n, news=json.dumps(record))


def test_news_leave_after_two_days_and_the_file_keeps_its_name(config, clock):
    rows = [news(clock, 1, timedelta(hours=47)), news(clock, 2, timedelta(hours=1)), news(clock, 3, timedelta(days=9))]
    section = Section("news", MemorySourceConfig(rows, key="id", news="news"), kind="news")
    build(sitemap(config, section), clock=clock)
    assert crawl(config.open()).locs() == {BASE + "p/1", BASE + "p/2"}
    clock.advance(timedelta(hours=2))
    build(sitemap(config, section), clock=clock)
    found = crawl(config.open())
    assert found.locs() == {BASE + "p/2"}
    assert list(found.files) == ["news-00001.xml.gz"]
    urlset = read(config.public.objects["news-00001.xml.gz"].body)
    assert urlset.entries[0].extensions["news"][0]["title"] == "News 2"


def test_more_index_files_than_google_takes_are_told_before_and_after(config, clock, monkeypatch):
    """Sections with an index each: one too many for one site. In one index they are no trouble."""
    assert MAX_INDEXES == 500
    monkeypatch.setattr(commit_files, "MAX_INDEXES", 4)
    monkeypatch.setattr(verifier, "MAX_INDEXES", 4)
    sections = [Section(f"s{n}", source(1, f"s{n}")) for n in range(5)]
    many = sitemap(config, *sections, index="per_section")
    planned = stages.plan(many, stages.RunRequest(dry_run=True), clock=clock)
    (warning,) = planned.warnings
    assert "5 index files at https://www.example.com/: Google reads at most 4 " in warning
    report = build(many, clock=clock)
    assert report.warnings == (warning,)
    assert len(report.index_urls) == 5
    (failure,) = of_sitemap(many).verify().failures
    assert (failure.rule, failure.severity, failure.where) == ("limit-indexes", "warning", report.index_urls[0])
    assert "www.example.com has 5 index files (limit 4)" in failure.message

    fewer = sitemap(config, *sections[1:], index="per_section", retired=("s0",))
    assert build(fewer, clock=clock).warnings == ()
    assert of_sitemap(fewer).verify().failures == ()
    again = sitemap(config, *sections, index="per_section")
    only_one = stages.plan(again, stages.RunRequest(dry_run=True, sections=("s0",)), clock=clock)
    assert len(only_one.warnings) == 1, "the sections that this run leaves alone count as well"
    assert build(sitemap(MemoryStore(base_url=BASE), *sections), clock=clock).warnings == ()
