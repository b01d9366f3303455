"""Guards: permits have bounds, small sections are guarded, ordinary changes pass, and refusals name their cause."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_sitemaps import Guards, MemoryStore, Section, Sitemap
from airflow_sitemaps.errors import ConfigurationError, GuardError, PartlyPublishedError, RefusedError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.testing.clock import FakeClock
from airflow_sitemaps.testing.source import MemorySourceConfig
from tests.support.environment import BASE, World, row


def world_of(number: int, **settings: Any) -> World:
    world = World([row(key) for key in range(number)], max_urls=1_000, guards=Guards(), **settings)
    world.build()
    return world


def test_a_permit_does_not_let_more_pass_than_its_bound() -> None:
    """Refused at -20 %; by the time of the permitted run the table is reloading, and 3 % of it are there."""
    world = world_of(2_000)
    del world.rows[1_600:]
    with pytest.raises(GuardError, match=r"--allow shrink:pages=0\.2,"):
        world.build()
    del world.rows[60:]
    for permit in ("shrink:pages=0.2", "shrink=0.2", "shrink:pages", "shrink"):
        with pytest.raises(GuardError, match=r"shrink from 2,000 to 60 rows .*--allow shrink:pages=0\.97"):
            world.build(allow=[permit])
    assert world.build(allow=["shrink:pages=0.97"]).urls == 60
    del world.rows[20:]
    with pytest.raises(GuardError, match="max_shrink_small"):
        world.build()


@pytest.mark.parametrize("permit", ["shrnk:pages", "shrink:page", "shrink:pages=many", "shrink:pages=-1", "foo"])
def test_a_permit_that_can_let_nothing_pass_is_refused(permit: str) -> None:
    world = world_of(10)
    with pytest.raises(ConfigurationError, match="allow="):
        world.build(allow=[permit])


def test_a_small_section_that_loses_most_of_its_pages_is_refused() -> None:
    world = world_of(900)
    del world.rows[1:]
    with pytest.raises(GuardError, match="shrink from 900 to 1 rows"):
        world.build()


def test_a_small_section_with_half_its_rows_on_another_host_is_refused() -> None:
    world = world_of(900)
    for at in range(450):
        world.rows[at] = {**world.rows[at], "loc": f"https://staging.example.com/p/{at}"}
    with pytest.raises(GuardError, match=r"450 of 900 rows were dropped .*on staging\.example\.com"):
        world.build()


def test_a_month_end_passes_and_a_known_decline_passes_again() -> None:
    world = world_of(20_000, policy=None)
    del world.rows[17_700:]
    assert world.build().result == "published"
    for _ in range(8):
        world.clock.advance(timedelta(days=1))
        assert world.build().result == "unchanged"
    world.rows.extend(row(50_000 + key) for key in range(2_300))
    world.build()
    world.clock.advance(timedelta(days=20))
    world.build(full=True)
    del world.rows[16_800:]  # -16 %: more than max_shrink, as much as last month and 5 points
    assert world.build().result == "published"


def test_a_slow_decline_teaches_nothing_within_the_week() -> None:
    world = world_of(2_000)
    for _ in range(3):
        world.clock.advance(timedelta(hours=20))
        del world.rows[-80:]
        world.build()
    del world.rows[-80:]
    with pytest.raises(GuardError, match="shrink from 2,000 to 1,680"):
        world.build()


class Mall:
    """Many small sections; the guards of each let half of it go."""

    def __init__(self, **settings: Any) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(base_url=BASE, now=self.clock.now)
        self.rows = {f"s{n}": [row(1_000 * n + key) for key in range(300)] for n in range(5)}
        self.settings = settings

    def build(self, **request: Any) -> Any:
        sections = [Section(name, MemorySourceConfig(rows)) for name, rows in self.rows.items()]
        return build(Sitemap(self.store, sections, guards=Guards(), **self.settings), clock=self.clock, **request)

    def halve(self) -> None:
        for rows in self.rows.values():
            del rows[160:]


@pytest.mark.parametrize("faulty", [False, True])
def test_sections_that_lose_too_much_together_are_refused(faulty: bool) -> None:
    """Each loses less than ``max_shrink_small``, by rows that are gone or by rows that rules drop."""
    mall = Mall(rules={"loc-scheme": "drop_row"})
    mall.build()
    if faulty:
        for rows in mall.rows.values():
            rows[205:] = [{**r, "loc": r["loc"].replace("https", "ftp")} for r in rows[205:270]]
    else:
        mall.halve()
    limit = "All sections together would shrink from 1,500 to"
    with pytest.raises(
        GuardError, match=rf"{limit} .*the limit is max_shrink_total=30\.0%.*--allow total=0\."
    ) as refused:
        mall.build()
    assert {refusal.section for refusal in refused.value.refusals} >= set(mall.rows)
    permit = next(r.permit for r in refused.value.refusals if r.guard == "total")
    mall.build(allow=[permit])
    mall.clock.advance(timedelta(days=1))
    mall.rows["s0"].append(row(90_000))
    assert mall.build().result == "published", "the permitted decline is the new measure"


def test_what_does_not_shrink_is_published_though_the_total_is_refused() -> None:
    mall = Mall()
    mall.build()
    mall.halve()
    mall.rows["s9"] = [row(9_000 + key) for key in range(30)]
    with pytest.raises(PartlyPublishedError) as partly:
        mall.build()
    assert [failure.section for failure in partly.value.failures] == ["s0", "s1", "s2", "s3", "s4"]  # type: ignore[attr-defined]


def test_a_bound_of_the_total_is_kept_and_a_section_with_a_permit_is_judged_apart() -> None:
    mall = Mall()
    mall.build()
    mall.halve()
    with pytest.raises(GuardError, match="total"):
        mall.build(allow=["total=0.4"])
    assert mall.build(allow=["shrink"]).urls == 800


def test_a_section_that_was_emptied_by_permit_holds_no_later_run_back() -> None:
    mall = Mall()
    mall.build()
    mall.rows["s0"].clear()
    mall.rows["s1"].clear()
    mall.build(allow=["empty:s0", "empty:s1"])
    mall.clock.advance(timedelta(hours=1))
    del mall.rows["s4"][-1]
    assert mall.build().urls == 899, "the other sections are measured by what is left"
    mall.rows["s0"] += [row(key) for key in range(40)]
    assert mall.build().urls == 939, "fewer rows than the emptied section had may return"


def test_growth_of_a_small_section_passes() -> None:
    world = world_of(1_100)
    world.rows.extend(row(5_000 + key) for key in range(1_150))
    assert world.build().urls == 2_250


def test_a_first_build_below_its_expected_rows_is_refused() -> None:
    world = World([row(key) for key in range(30)], guards=Guards(first_rows=1_000))
    with pytest.raises(GuardError, match=r"30 rows at its first build, and first_rows=1,000 are expected"):
        world.build()
    assert world.build(allow=["first_build:pages"]).urls == 30


def test_a_renamed_section_over_a_loading_table_is_refused() -> None:
    clock = FakeClock()
    store = MemoryStore(base_url=BASE, now=clock.now)
    rows = [row(key) for key in range(2_000)]

    def sitemap(name: str, *retired: str) -> Sitemap:
        return Sitemap(store, [Section(name, MemorySourceConfig(rows))], retired=retired)

    build(sitemap("products"), clock=clock)
    kept = list(rows)
    del rows[200:]
    with pytest.raises(GuardError, match="'shop' would replace 'products' and hold 200 URLs where 2,000 are published"):
        build(sitemap("shop", "products"), clock=clock)
    rows[:] = kept
    assert build(sitemap("shop", "products"), clock=clock).urls == 2_000


@pytest.mark.parametrize("published", [False, True])
def test_the_commonest_first_mistake_is_named(published: bool) -> None:
    """``base_url`` without ``www.``, rows with it: the refusal names the rule, a sample and the likely cause."""
    rows = [row(key, loc=f"https://www.example.com/p/{key}") for key in range(1_200)]
    source = MemorySourceConfig(rows)
    store = MemoryStore(base_url="https://example.com/")
    if published:
        good = [row(key, loc=f"https://example.com/p/{key}") for key in range(1_200)]
        build(Sitemap(store, [Section("pages", MemorySourceConfig(good))]))
    with pytest.raises(GuardError) as refused:
        build(Sitemap(store, [Section("pages", source)]))
    text = str(refused.value)
    assert "scope-host 1,200, such as 'https://www.example.com/p/0" in text
    assert "all 1,200 URLs are on www.example.com; base_url is https://example.com/" in text


@pytest.mark.parametrize(
    ("loc", "cause"),
    [
        ("http://www.example.com/p/{}", "all 1,200 URLs are on http://www.example.com; base_url is https://www.example.com/"),
        ("red-shoe-{}", 'all 1,200 values of loc= are only parts of URLs; write a template, such as loc="https://www.example.com/{{slug}}"'),
        ("shoes/{}", 'such as loc="https://www.example.com/{{slug:path}}"'),
        ("www.example.com/p/{}", 'such as loc="https://{{slug:path}}"'),
        ("ftp://www.example.com/{}", "all 1,200 values of loc= begin with neither https:// nor http://"),
        ("https://www.example.com/p", "1,199 rows repeat the URL of another row; check loc= and the joins of the query"),
        ("", "a column of loc= is NULL or empty in all 1,200 rows"),
    ],
)  # fmt: skip
def test_other_first_mistakes_are_named(loc: str, cause: str) -> None:
    source = MemorySourceConfig([row(key, loc=loc.format(key)) for key in range(1_200)])
    with pytest.raises(GuardError) as refused:
        build(Sitemap(MemoryStore(base_url="https://www.example.com/"), [Section("pages", source)]))
    text = str(refused.value)
    assert "Likely cause: " in text
    assert cause.format() in text


def test_what_an_article_lacks_is_named() -> None:
    article = '{"title": "T", "publication_date": "2026-03-04", "name": "N", "language": "en"}'
    source = MemorySourceConfig([row(key, news=article) for key in range(30)], news="news")
    clock = FakeClock(datetime(2026, 3, 4, 12, tzinfo=timezone.utc))
    with pytest.raises(RefusedError) as refused:
        build(Sitemap(MemoryStore(base_url=BASE), [Section("news", source, kind="news")]), clock=clock)
    cause = "Likely cause: the article is not complete in all 30 rows, such as 'news left out: it has no publication ("
    assert cause in str(refused.value)


def test_a_small_section_that_lost_most_rows_is_published_with_the_likely_cause() -> None:
    strangers = [row(key, loc=f"https://example.com/p/{key}") for key in range(8)]
    world = World([*strangers, row(9)], guards=Guards())
    (warning,) = [line for line in world.build().warnings if "rows are listed" in line]
    assert warning.startswith(
        f"section 'pages': only 1 of 9 rows are listed. Likely cause: 8 URLs seem to be on example.com; base_url is {BASE}. "
        "Rows dropped by rule: scope-host 8, such as 'https://example.com/p/0"
    )
    world.rows.extend(row(key) for key in range(10, 20))
    assert not [line for line in world.build().warnings if "rows are listed" in line]


def test_null_keys_are_named() -> None:
    rows = [row(None, loc=f"{BASE}p/{key}") for key in range(60)] + [row(key) for key in range(40)]
    with pytest.raises(GuardError, match=r"60 of 100 rows .*NULL key.*key-null"):
        World(rows, guards=Guards()).build()


@pytest.mark.parametrize(
    ("allow", "said"),
    [
        ("shrink:nope", "allow='shrink:nope': there is no section 'nope'; the sections are pages"),
        ("foo", "there is no guard 'foo'"),
        ("shrink=many", "'many' is not a valid bound; give a fraction, like shrink=0.15"),
    ],
)
def test_a_permit_for_nothing_is_refused_before_anything_is_read(allow: str, said: str) -> None:
    world = World([row(key) for key in range(3)])
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        world.build(allow=(allow,))
    assert world.public() == {}
