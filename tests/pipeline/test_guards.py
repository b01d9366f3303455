"""Guards: permits have bounds, small sections are guarded, ordinary changes pass, and refusals name their cause."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sitemaps import Guards, MemoryStore, Section, Sitemap
from airflow_sitemaps.errors import ConfigurationError, GuardError, PartlyPublishedError, RefusedError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.shards.guards import judgement, permitted
from airflow_sitemaps.testing import FakeClock, MemorySourceConfig
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
    with pytest.raises(GuardError, match=r"limit is 50\.0%, max_shrink below min_rows=1,000"):
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


def test_a_decline_that_passed_once_gives_no_right_to_a_greater_one() -> None:
    """Neither a decline of the section when it was small, nor one by permit, nor one below the limit raises the limit."""
    world = world_of(40, policy=None)
    del world.rows[21:]
    world.build()
    world.clock.advance(timedelta(days=20))
    world.rows.extend(row(1_000 + key) for key in range(3_979))
    world.build()
    for _ in range(2):
        world.clock.advance(timedelta(days=8))
        del world.rows[-len(world.rows) * 3 // 20 :]
        world.build(allow=["shrink=0.16"])
    world.clock.advance(timedelta(days=260))
    del world.rows[-len(world.rows) * 17 // 100 :]
    with pytest.raises(GuardError, match=r"the limit is 15\.0%, max_shrink\)"):
        world.build()


@pytest.mark.parametrize("quiet_days", [0, 10])
def test_declines_of_one_week_add_up(quiet_days: int) -> None:
    """Also after a quiet time: the number before the first of them counts."""
    world = world_of(2_000)
    world.clock.advance(timedelta(days=quiet_days))
    for _ in range(3):
        world.clock.advance(timedelta(hours=20))
        del world.rows[-80:]
        world.build()
    del world.rows[-80:]
    with pytest.raises(
        GuardError, match=r"from 2,000 \(the most of the last seven days; 1,760 are published\) to 1,680"
    ):
        world.build()


@pytest.mark.parametrize("quiet_days", [0, 10])
def test_replacements_of_one_week_add_up(quiet_days: int) -> None:
    """49 % of the URLs are replaced each hour: after two hours three quarters of the first are gone."""
    world = world_of(2_000)
    world.clock.advance(timedelta(days=quiet_days))

    def replace_half(first: int) -> None:
        world.clock.advance(timedelta(hours=1))
        for at in range(980):
            place = (first + at) % 2_000
            world.rows[place] = row(place, loc=f"{BASE}new/{first}/{place}")

    replace_half(0)
    assert world.build().result == "published"
    replace_half(980)
    with pytest.raises(
        GuardError, match=r"of the 2,000 URLs .* are replaced by others .*--allow churn:pages="
    ) as refused:
        world.build()
    assert re.search(r"about 9\d%|about 100%", str(refused.value))
    world.build(allow=["churn:pages=1"])
    world.clock.advance(timedelta(hours=1))
    world.rows[0] = row(0, loc=f"{BASE}another")
    assert world.build().result == "published", "the permitted replacement is the new measure"
    world.clock.advance(timedelta(days=8))
    replace_half(0)
    assert world.build().result == "published", "the week before does not count"


def test_the_shrink_of_a_section_is_no_replacement_of_its_urls() -> None:
    """Half of the URLs leave, and a third of the rest is replaced: about 17 % of the earlier ones have a successor."""
    world = world_of(900)
    del world.rows[450:]
    for at in range(150):
        world.rows[at] = row(at, loc=f"{BASE}new/{at}")
    world.guards = Guards(max_churn=0.1)
    with pytest.raises(GuardError, match=r"about (1|2)\d% of the 900 URLs .* are replaced"):
        world.build(allow=["shrink=0.5"])
    world.guards = Guards(max_churn=0.3)
    assert world.build(allow=["shrink=0.5"]).urls == 450


@pytest.fixture
def hundredth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Growth at a hundredth of its sizes: 50 URLs may always be added, and 10 URLs are recorded."""
    monkeypatch.setattr(judgement, "ADDED", 50)
    monkeypatch.setattr(judgement, "GROWN", 10)


@pytest.mark.usefixtures("hundredth")
@pytest.mark.parametrize("quiet_days", [0, 10])
def test_growth_of_one_week_adds_up(quiet_days: int) -> None:
    """+99 % an hour."""
    world = world_of(100)
    world.guards = Guards(min_rows=10)
    world.clock.advance(timedelta(days=quiet_days))
    world.rows.extend(row(10_000 + key) for key in range(99))
    world.clock.advance(timedelta(hours=1))
    assert world.build().urls == 199
    world.rows.extend(row(20_000 + key) for key in range(197))
    world.clock.advance(timedelta(hours=1))
    with pytest.raises(GuardError, match=r"grow from 100 to 396 URLs .*--allow growth:pages=2\.96"):
        world.build()
    assert world.build(allow=["growth:pages=2.96"]).urls == 396
    world.rows.append(row(90_000))
    world.clock.advance(timedelta(hours=1))
    assert world.build().result == "published", "the permitted growth is the new measure"


@pytest.mark.usefixtures("hundredth")
def test_a_small_section_may_grow_and_is_measured_from_then_on() -> None:
    world = world_of(5)
    world.guards = Guards(min_rows=10)
    world.rows.extend(row(10_000 + key) for key in range(59))
    assert world.build().urls == 64
    world.rows.extend(row(20_000 + key) for key in range(60))
    world.clock.advance(timedelta(hours=1))
    assert world.build().urls == 124
    world.rows.extend(row(30_000 + key) for key in range(10))
    with pytest.raises(GuardError, match="grow from 64 to 134 URLs"):
        world.build()


@given(number=st.integers(20, 10**7), limit=st.floats(0, 1), min_rows=st.integers(20, 10**5))
def test_a_larger_section_may_lose_no_fewer_urls_and_no_greater_part(number: int, limit: float, min_rows: int) -> None:
    guards = Guards(max_shrink=limit, min_rows=min_rows)
    smaller, larger = guards.shrink_limit(number), guards.shrink_limit(number + 1)
    assert limit <= larger <= smaller <= max(limit, 0.5)
    assert number * smaller <= (number + 1) * larger + 1e-6


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
    """Each loses less than half, by rows that are gone or by rows that rules drop."""
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


def test_the_total_is_measured_by_the_greatest_of_the_week() -> None:
    """Each day's loss of all sections together is small."""
    mall = Mall()
    mall.build()
    for left in (260, 230):
        mall.clock.advance(timedelta(days=1))
        for rows in mall.rows.values():
            del rows[left:]
        assert mall.build().urls == 5 * left
    mall.clock.advance(timedelta(days=1))
    for rows in mall.rows.values():
        del rows[205:]
    with pytest.raises(GuardError, match=r"together would shrink from 1,500 to 1,025 rows \(-31\.7%"):
        mall.build()


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
        ("www.example.com/p/{}", 'or for a column write loc="https://{{slug:path}}"'),
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


@pytest.mark.parametrize(("before", "now"), [(1_500, 20_000_300), (3_000, 40_000_700), (1_100, 14_000_900)])
def test_the_permit_that_a_refusal_of_a_great_growth_names_lets_it_pass(before: int, now: int) -> None:
    refusals = judgement.check_size(Guards(), "products", now=now, before=before, peak=before, what="rows")
    assert [refusal.guard for refusal in refusals] == ["growth"]
    assert permitted(refusals, [refusals[0].permit])[0] == ()
