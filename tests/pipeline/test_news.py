"""News sections: articles past their two days are expired, which is no fault; large sections stay unchanged."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps import Guards, MemoryStore, Section, Sitemap
from airflow_sitemaps.errors import GuardError, PartlyPublishedError, RefusedError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.ports import Overwrite
from airflow_sitemaps.report_text import lines
from airflow_sitemaps.testing import FakeClock, MemorySourceConfig, crawl
from tests.support.environment import BASE, row

if TYPE_CHECKING:
    from airflow_sitemaps.shards.manifest import Manifest

ARTICLES, FRESH = 1_100, 24


class Paper:
    """A news section beside a section of pages."""

    def __init__(self, articles: list[dict[str, Any]], clock: FakeClock) -> None:
        self.clock = clock
        self.articles = articles
        self.pages = [row(key) for key in range(10)]
        self.store = MemoryStore(base_url=BASE, now=clock.now)

    def sitemap(self) -> Sitemap:
        news = MemorySourceConfig(self.articles, key="id", news="news", clock=self.clock.now)
        return Sitemap(
            self.store,
            [Section("pages", MemorySourceConfig(self.pages, key="id")), Section("news", news, kind="news")],
            guards=Guards(),
        )

    def manifest(self) -> Manifest:
        current = StateRepository(self.store.open().state).current()
        assert current is not None
        return current.manifest


def article(key: int, clock: FakeClock, age: timedelta) -> dict[str, Any]:
    record = {"publication": {"name": "P", "language": "en"}, "title": f"N{key}"}
    record["publication_date"] = (clock.now() - age).isoformat()
    return row(10_000 + key, news=json.dumps(record))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def paper(clock: FakeClock) -> Paper:
    """1,100 articles of which 24 are of the last two days."""
    old = [article(key, clock, timedelta(days=3 + key)) for key in range(ARTICLES - FRESH)]
    new = [article(2_000 + key, clock, timedelta(hours=key)) for key in range(FRESH)]
    return Paper(old + new, clock)


def test_old_articles_are_expired_and_not_dropped(paper: Paper) -> None:
    report = build(paper.sitemap(), clock=paper.clock)
    news = report.sections["news"]
    assert report.result == "published"
    assert (news.urls, news.rows) == (FRESH, ARTICLES)
    assert news.rows_expired == {"news-age": ARTICLES - FRESH}
    assert report.rows_expired == {"news-age": ARTICLES - FRESH}
    assert not news.rows_dropped
    assert not news.fields_fixed
    assert f"section news: rows past their age, not listed: news-age {ARTICLES - FRESH:,}" in list(lines(report))
    assert paper.manifest().sections["news"].expired_rows == ARTICLES - FRESH
    assert len(crawl(paper.store.open()).locs()) == FRESH + len(paper.pages)


def test_faulty_rows_beside_expired_ones_are_still_refused(paper: Paper) -> None:
    """The share of faults is of the rows that are due, not of those that expired."""
    for key in range(2_000):
        paper.articles.append(article(5_000 + key, paper.clock, timedelta(hours=1)))
    for at in range(ARTICLES, ARTICLES + 100):
        paper.articles[at] = {**paper.articles[at], "loc": None}
    with pytest.raises(PartlyPublishedError, match=r"100 of 2,024 rows were dropped"):
        build(paper.sitemap(), clock=paper.clock)


def test_a_sitemap_whose_articles_are_all_past_their_age_stays_as_published(clock: FakeClock) -> None:
    """A quiet weekend: an index without files is not valid, and age is no reason to fail a run."""
    articles = [article(key, clock, timedelta(hours=key)) for key in range(30)]
    paper = Paper(articles, clock)
    sitemap = replace(paper.sitemap(), sections=paper.sitemap().sections[1:])
    assert build(sitemap, clock=clock).urls == 30
    published = dict(paper.store.public.objects)
    for _ in range(2):
        clock.advance(timedelta(days=3))
        report = build(sitemap, clock=clock)
        assert report.result == "unchanged"
        assert any("no article is young enough to be listed" in warning for warning in report.warnings)
        assert paper.store.public.objects == published
    articles.append(article(100, clock, timedelta(hours=1)))
    report = build(sitemap, clock=clock)
    assert (report.result, report.urls, report.rows_expired) == ("published", 1, {"news-age": 30})
    assert crawl(paper.store.open()).locs() == {articles[-1]["loc"]}
    assert build(sitemap, clock=clock).result == "unchanged"


def test_a_section_whose_fresh_articles_are_all_dropped_stays_as_published(clock: FakeClock) -> None:
    """Only age may empty a news section. With so few rows, no limit on dropped rows holds."""
    paper = Paper([article(key, clock, timedelta(hours=1)) for key in range(12)], clock)
    build(paper.sitemap(), clock=clock)
    published = dict(paper.store.public.objects)
    paper.articles[:] = [{**each, "loc": None} for each in paper.articles]
    with pytest.raises(GuardError, match=r"has no URLs now; 12 are published.*Rows dropped by rule: loc-missing 12"):
        build(paper.sitemap(), clock=clock)
    assert paper.store.public.objects == published


@pytest.mark.parametrize("number", [1_001, 2_300])
def test_a_large_news_section_is_unchanged_when_nothing_changes(clock: FakeClock, number: int) -> None:
    paper = Paper([article(key, clock, timedelta(hours=1)) for key in range(number)], clock)
    first = build(paper.sitemap(), clock=clock)
    files = dict(paper.store.public.objects)
    for _ in range(3):
        clock.advance(timedelta(minutes=5))
        again = build(paper.sitemap(), clock=clock)
        assert (again.result, again.generation, again.rows_read) == ("unchanged", first.generation, 0)
    assert paper.store.public.objects == files


def test_articles_that_expire_between_runs_do_not_shrink_the_section(clock: FakeClock) -> None:
    paper = Paper([article(key, clock, timedelta(hours=key // 50)) for key in range(1_900)], clock)
    build(paper.sitemap(), clock=clock)
    for _ in range(6):
        clock.advance(timedelta(hours=12))
        report = build(paper.sitemap(), clock=clock)
        section = report.sections["news"]
        assert section.urls + sum(section.rows_expired.values()) == section.rows
    assert report.sections["news"].urls == 0


def test_an_empty_table_is_refused_while_a_published_article_is_younger_than_two_days(clock: FakeClock) -> None:
    """Its rows may be being loaded again."""
    paper = Paper([article(key, clock, timedelta(hours=key)) for key in range(12)], clock)
    build(paper.sitemap(), clock=clock)
    published = dict(paper.store.public.objects)
    articles = list(paper.articles)
    paper.articles.clear()
    with pytest.raises(GuardError, match=r"Section 'news' has no rows now; 12 are published"):
        build(paper.sitemap(), clock=clock)
    clock.advance(timedelta(hours=47))
    with pytest.raises(GuardError, match=r"Section 'news' has no rows now"):
        build(paper.sitemap(), clock=clock)
    assert paper.store.public.objects == published
    paper.articles[:] = articles
    assert build(paper.sitemap(), clock=clock).sections["news"].rows == 12


def test_an_article_dated_at_the_end_of_time_stops_no_run(clock: FakeClock) -> None:
    record = {"publication": {"name": "P", "language": "en"}, "title": "N", "publication_date": "9999-12-30T00:00:01Z"}
    paper = Paper([row(10_000, news=json.dumps(record))], clock)
    assert build(paper.sitemap(), clock=clock).sections["news"].urls == 1
    paper.articles.clear()
    with pytest.raises(GuardError, match=r"Section 'news' has no rows now; 1 are published"):
        build(paper.sitemap(), clock=clock)


def test_a_table_without_recent_articles_may_be_empty(clock: FakeClock) -> None:
    """Its query selects the articles of the last two days, and nothing was written at the weekend."""
    paper = Paper([article(key, clock, timedelta(hours=key)) for key in range(12)], clock)
    build(paper.sitemap(), clock=clock)
    paper.articles.clear()
    clock.advance(timedelta(hours=48))
    assert build(paper.sitemap(), clock=clock).sections["news"].urls == 0
    assert crawl(paper.store.open()).locs() == {each["loc"] for each in paper.pages}
    assert build(paper.sitemap(), clock=clock).result == "unchanged"


def test_a_permit_lets_a_news_section_become_empty(clock: FakeClock) -> None:
    paper = Paper([article(1, clock, timedelta(hours=1))], clock)
    build(paper.sitemap(), clock=clock)
    paper.articles.clear()
    assert build(paper.sitemap(), allow=["empty:news"], clock=clock).sections["news"].urls == 0


@pytest.mark.parametrize("listed", [12, 100])
def test_fewer_articles_at_the_weekend_are_not_refused(clock: FakeClock, listed: int) -> None:
    """The query selects the articles of the last two days: the others are no longer rows."""
    paper = Paper([article(key, clock, timedelta(minutes=key)) for key in range(listed)], clock)
    build(paper.sitemap(), clock=clock)
    clock.advance(timedelta(hours=49))
    paper.articles[:] = [article(1_000 + key, clock, timedelta(hours=key)) for key in range(3)]
    assert build(paper.sitemap(), clock=clock).sections["news"].urls == 3
    clock.advance(timedelta(hours=49))
    paper.articles.clear()
    assert build(paper.sitemap(), clock=clock).sections["news"].urls == 0
    paper.articles[:] = [article(2_000 + key, clock, timedelta(hours=key)) for key in range(4)]
    assert build(paper.sitemap(), clock=clock).sections["news"].urls == 4


@pytest.mark.parametrize("archive", [0, 1_000])
def test_the_loss_of_articles_that_are_not_too_old_is_refused(clock: FakeClock, archive: int) -> None:
    """Without an archive the plan sees it. With one, its rows hide the loss until they are rendered."""
    old = [article(5_000 + key, clock, timedelta(days=9)) for key in range(archive)]
    paper = Paper([*old, *(article(key, clock, timedelta(minutes=key)) for key in range(100))], clock)
    build(paper.sitemap(), clock=clock)
    published = dict(paper.store.public.objects)
    del paper.articles[-60:]
    with pytest.raises(GuardError, match=r"Section 'news' would shrink from 100 to 40"):
        build(paper.sitemap(), clock=clock)
    assert paper.store.public.objects == published


@pytest.mark.parametrize("name", ["sitemap.xml", "news-00001.xml.gz"])
@pytest.mark.parametrize("how", ["deleted", "overwritten"])
def test_lost_files_of_a_sitemap_past_its_age_are_put_again(clock: FakeClock, name: str, how: str) -> None:
    paper = Paper([article(key, clock, timedelta(hours=key)) for key in range(30)], clock)
    sitemap = replace(paper.sitemap(), sections=paper.sitemap().sections[1:])
    build(sitemap, clock=clock)
    clock.advance(timedelta(days=3))
    build(sitemap, clock=clock)
    body = paper.store.public.objects[name].body
    if how == "deleted":
        del paper.store.public.objects[name]
    else:
        paper.store.public.put(name, b"another program's", mode=Overwrite(), content_type="text/html", metadata={})

    report = build(sitemap, clock=clock)

    assert (report.result, report.urls) == ("published", 30)
    assert paper.store.public.objects[name].body == body
    assert any("no article is young enough to be listed" in warning for warning in report.warnings)
    assert build(sitemap, clock=clock).result == "unchanged"


def test_a_retired_section_stays_if_every_other_row_is_past_its_age(clock: FakeClock) -> None:
    paper = Paper([article(key, clock, timedelta(days=9)) for key in range(5)], clock)
    sitemap = paper.sitemap()
    build(sitemap, clock=clock)
    published = dict(paper.store.public.objects)
    rest = replace(sitemap, sections=sitemap.sections[1:], retired=[sitemap.sections[0].name])
    for _ in range(2):
        report = build(rest, clock=clock)
        assert report.result == "unchanged"
        assert any("no article is young enough to be listed" in warning for warning in report.warnings)
    assert paper.store.public.objects == published


@pytest.mark.parametrize("left", ["none", "archive and a dropped row", "archive and a NULL key"])
def test_a_sitemap_whose_articles_left_with_their_age_stays_as_published(clock: FakeClock, left: str) -> None:
    """The query may select only recent articles, and a quiet weekend leaves it without rows."""
    paper = Paper([article(key, clock, timedelta(hours=key)) for key in range(30)], clock)
    sitemap = replace(paper.sitemap(), sections=paper.sitemap().sections[1:])
    build(sitemap, clock=clock)
    published = dict(paper.store.public.objects)
    clock.advance(timedelta(days=3))
    if left == "none":
        paper.articles.clear()
    else:
        fault = {"loc": "https://other.example/x"} if left == "archive and a dropped row" else {"id": None}
        paper.articles.append({**article(77, clock, timedelta(hours=1)), **fault})
    for _ in range(2):
        report = build(sitemap, clock=clock)
        assert report.result == "unchanged"
        assert any("no article is young enough to be listed" in warning for warning in report.warnings)
        assert left == "none" or any("Likely cause" in warning for warning in report.warnings)
        assert paper.store.public.objects == published

    del paper.store.public.objects["news-00001.xml.gz"]
    assert build(sitemap, clock=clock).result == "published"
    assert paper.store.public.objects.keys() == published.keys()
    assert build(sitemap, clock=clock).result == "unchanged"


def test_pages_that_disappear_beside_old_articles_are_still_an_error(clock: FakeClock) -> None:
    paper = Paper([article(1, clock, timedelta(hours=1))], clock)
    build(paper.sitemap(), clock=clock)
    clock.advance(timedelta(days=3))
    paper.pages.clear()
    with pytest.raises(RefusedError, match="no section would have any URL"):
        build(paper.sitemap(), allow=["empty"], clock=clock)


@pytest.mark.parametrize("left", ["no rows", "dropped rows"])
def test_young_articles_that_are_permitted_to_disappear_are_still_an_error(clock: FakeClock, left: str) -> None:
    paper = Paper([article(key, clock, timedelta(hours=1)) for key in range(30)], clock)
    sitemap = replace(paper.sitemap(), sections=paper.sitemap().sections[1:])
    build(sitemap, clock=clock)
    paper.articles[:] = [] if left == "no rows" else [{**each, "loc": None} for each in paper.articles]
    with pytest.raises(RefusedError, match="no section would have any URL"):
        build(sitemap, allow=["empty:news", "dropped:news=1", "shrink:news=1"], clock=clock)


def test_a_recent_file_has_room_for_a_thousand_articles(clock: FakeClock) -> None:
    paper = Paper([article(key, clock, timedelta(minutes=key)) for key in range(ARTICLES)], clock)
    news = MemorySourceConfig(paper.articles, key="id", lastmod="lastmod", news="news", clock=clock.now)
    for number, each in enumerate(paper.articles):
        each["lastmod"] = clock.now() - timedelta(minutes=number)
    build(
        replace(paper.sitemap(), sections=[Section("news", news, kind="news")], recent=timedelta(days=1)), clock=clock
    )
    recent = gzip.decompress(paper.store.public.objects["recent.xml.gz"].body)
    assert recent.count(b"<news:news>") == 1_000
    assert b"<news:title>N0<" in recent
    assert b"<news:title>N1099<" not in recent
