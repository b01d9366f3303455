"""``Section.each``: a run makes sections of the values of a column, and never loses a row that moves between them."""

from __future__ import annotations

import sqlite3
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import exc

from airflow_sitemaps import (
    Guards,
    ListSource,
    MemoryStore,
    Observed,
    Section,
    ShardPolicy,
    Sitemap,
    SqlSource,
    pipeline,
)
from airflow_sitemaps.errors import (
    ConfigurationError,
    GuardError,
    IncompleteError,
    PartlyPublishedError,
    RefusedError,
    RequestError,
    SourceConfigurationError,
    SourceError,
    TemplateError,
)
from airflow_sitemaps.pipeline import build, stages
from airflow_sitemaps.pipeline.find import find
from airflow_sitemaps.pipeline.plan import sections as planned_sections
from airflow_sitemaps.pipeline.request import OpenSitemap, member_name
from airflow_sitemaps.shards import Member
from airflow_sitemaps.shards.guards import BARE_LIMITS, Refusal
from airflow_sitemaps.sources.queries import siblings
from airflow_sitemaps.sources.session import SqlSession
from airflow_sitemaps.testing import FakeClock, crawl
from airflow_sitemaps.triggers import in_worker
from tests.support.environment import BASE

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_sitemaps.pipeline.report import Report

LEAST = 20
EVERYTHING = tuple(f"{guard}=1" if limit == 0.5 or guard == "churn" else guard for guard, limit in BARE_LIMITS.items())


@dataclass
class Shop:
    """A table of products with a locale in SQLite, and a sitemap of it in memory."""

    path: Path
    clock: FakeClock = field(default_factory=FakeClock)
    settings: dict[str, Any] = field(default_factory=dict)
    last: int = 0

    def __post_init__(self) -> None:
        self.store = MemoryStore(base_url=BASE, now=self.clock.now)
        self.run(
            "CREATE TABLE products (id INTEGER PRIMARY KEY, locale TEXT, slug TEXT, title TEXT, shown INTEGER DEFAULT 1)"
        )

    def run(self, sql: str, *values: Any) -> list[Any]:
        connection = sqlite3.connect(self.path)
        try:
            return connection.execute(sql, values).fetchall()
        finally:
            connection.commit()
            connection.close()

    def add(self, locale: str | None, number: int, *, slug: str = "s") -> None:
        rows = []
        for _ in range(number):
            self.last += 1
            rows.append((self.last, locale, f"{slug}{self.last}", "T"))
        connection = sqlite3.connect(self.path)
        connection.executemany("INSERT INTO products (id, locale, slug, title) VALUES (?, ?, ?, ?)", rows)
        connection.commit()
        connection.close()

    def sitemap(self, *others: Section, source: dict[str, Any] | None = None, **arguments: Any) -> Sitemap:
        own = SqlSource("shop", table="products", key="id", loc=f"{BASE}{{slug}}", **(source or {}))
        section = Section.each("locale", own, name="products", least=LEAST, **self.settings)
        return Sitemap(self.store, [section, *others], **{"shards": ShardPolicy(max_urls=10)} | arguments)

    def build(self, *allow: str, sitemap: Sitemap | None = None, **arguments: Any) -> dict[str, int]:
        report = build(sitemap or self.sitemap(), allow=allow, clock=self.clock, **arguments)
        self.clock.advance(timedelta(hours=1))
        return self.sizes(report)

    def sizes(self, report: Report) -> dict[str, int]:
        self.report = report
        return {name: section.urls for name, section in report.sections.items()}

    def listed(self) -> list[str]:
        """Every listed URL, as often as it is listed."""
        return [entry.loc for entries in crawl(self.store.open()).files.values() for entry in entries]

    def check(self) -> None:
        """Every row of the table is listed exactly once."""
        assert Counter(self.listed()) == Counter(f"{BASE}{slug}" for (slug,) in self.run("SELECT slug FROM products"))


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", f"sqlite:///{tmp_path}/shop.db")
    return Shop(tmp_path / "shop.db")


def test_values_with_enough_rows_get_a_section_and_the_others_share_one(shop: Shop) -> None:
    for locale, number in (("de", 40), ("pt-BR", 25), ("xx", 3), ("", 30), (None, 4)):
        shop.add(locale, number)
    assert shop.build() == {"products-de": 40, "products-pt-br": 25, "products-other": 37}
    shop.check()
    assert "products-pt-br-00001.xml.gz" in crawl(shop.store.open()).files


@pytest.mark.parametrize("column", ["local", '"local"'])
def test_a_missing_column_of_the_values_is_an_error_of_the_setting(column: str, shop: Shop) -> None:
    """Airflow does not retry it."""
    shop.add("de", LEAST)
    own = SqlSource("shop", table="products", key="id", loc=f"{BASE}{{slug}}")
    sitemap = Sitemap(shop.store, [Section.each(column, own, name="products", least=LEAST)])
    said = r"Section.each='local': there is no such column. Did you mean 'locale'\?"
    with pytest.raises(SourceConfigurationError, match=said):
        shop.build(sitemap=sitemap)


def test_a_failure_that_passes_says_nothing_of_the_column(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database may have more columns than it describes, such as the number of a row."""

    def locked(*_: Any) -> None:
        raise exc.OperationalError("SELECT", {}, sqlite3.OperationalError("database is locked"))

    shop.add("de", LEAST)
    own = SqlSource("shop", table="products", key="id", loc=f"{BASE}{{slug}}")
    sitemap = Sitemap(shop.store, [Section.each("rowid", own, name="products", least=LEAST)])
    monkeypatch.setattr(siblings, "values", locked)
    with pytest.raises(SourceError, match="database is locked"):
        shop.build(sitemap=sitemap)


def test_a_value_is_no_template(shop: Shop) -> None:
    shop.add("{{ x }}", LEAST)
    shop.add("{% y", LEAST)
    for _ in range(2):
        assert shop.build() == {"products-x": LEAST, "products-y": LEAST, "products-other": 0}
    shop.check()


def test_a_wrong_template_says_what_is_wrong(shop: Shop) -> None:
    def render(text: str) -> str:
        raise TemplateError("there is no such word")

    sitemap = shop.sitemap(Section("pages", ListSource(["/about"])), source={"where": "slug <> '{{ word }}'"})
    with pytest.raises(PartlyPublishedError, match="there is no such word"):
        shop.build(sitemap=sitemap.rendered(render))


def test_values_without_a_name_of_their_own_stay_in_the_section_of_the_others(shop: Shop) -> None:
    for locale in ("a b", "a-b", "other", "日本", "de"):
        shop.add(locale, LEAST)
    assert shop.build() == {"products-de": LEAST, "products-other": 4 * LEAST}
    shop.check()


@pytest.mark.parametrize(
    ("value", "name"),
    [("pt-BR", "f-pt-br"), ("zh_Hans", "f-zh_hans"), ("Österreich", "f-osterreich"), (5, "f-5"), (True, "f-true"),
     ("Home & Garden", "f-home-garden"), ("other", ""), ("日本", ""), ("x" * 63, "")],
)  # fmt: skip
def test_the_name_of_a_value(value: object, name: str) -> None:
    assert member_name("f", value) == name


def test_a_value_that_reaches_the_number_leaves_the_others_with_a_notice(shop: Shop) -> None:
    shop.add("de", 40)
    shop.add("sv", LEAST - 1)
    assert shop.build() == {"products-de": 40, "products-other": 19}
    shop.add("sv", 1)
    assert shop.build() == {"products-de": 40, "products-sv": 20, "products-other": 0}
    assert "section 'products-sv' is new: 20 rows have its value, and leave 'products-other'" in shop.report.warnings
    shop.check()
    before = shop.report.generation
    assert shop.build() == {"products-de": 40, "products-sv": 20, "products-other": 0}
    assert shop.report.generation == before


def test_a_large_new_value_is_no_loss_and_no_growth_of_the_others(shop: Shop) -> None:
    shop.add("de", 2_000)
    for number in range(60):
        shop.add(f"x{number}", LEAST - 1)
    shop.settings["guards"] = Guards.strict()
    assert shop.build() == {"products-de": 2_000, "products-other": 60 * (LEAST - 1)}
    shop.add("sv", 9_000)
    for number in range(50):
        shop.add(f"x{number}", 1)
    assert shop.build()["products-sv"] == 9_000
    assert shop.build()["products-other"] == 10 * (LEAST - 1)
    shop.check()


@pytest.mark.parametrize(("kept", "guard"), [(0, "shrink"), (1_400, "churn")])
def test_a_large_new_value_hides_no_loss_of_the_others(shop: Shop, kept: int, guard: str) -> None:
    shop.add("de", 2_000)
    for number in range(100):
        shop.add(f"x{number}", LEAST - 5)
    shop.build()
    before = crawl(shop.store.open()).locs()
    shop.run("DELETE FROM products WHERE locale LIKE 'x%' AND id > 2020")
    shop.add("sv", 5_000)
    shop.add(None, kept)
    with pytest.raises(GuardError) as caught:
        shop.build()
    assert f"{guard}:products-other" in str(caught.value)
    assert crawl(shop.store.open()).locs() == before


def test_a_large_new_value_hides_no_loss_of_other_sections(shop: Shop) -> None:
    shop.add("de", 2_000)
    shop.add("sv", LEAST - 1)
    shop.build()
    shop.run("DELETE FROM products WHERE locale = 'de' AND id > 1600")
    shop.add("sv", 5_000)
    with pytest.raises(PartlyPublishedError, match="All sections together would shrink from 2,019 to 1,619 rows"):
        shop.build(sitemap=shop.sitemap(guards=Guards(max_shrink=0.5, max_shrink_total=0.1)))


def test_the_week_before_a_move_does_not_refuse_the_runs_after_it(shop: Shop) -> None:
    shop.add("de", 1_000)
    shop.add("sv", LEAST - 1)
    shop.add("no", LEAST - 1)
    shop.build()
    shop.add("sv", 1)
    shop.build()
    shop.add("no", 1)
    assert shop.build() == {"products-de": 1_000, "products-no": 20, "products-sv": 20, "products-other": 0}
    shop.add("xx", 5)
    assert shop.build()["products-other"] == 5
    shop.check()


def test_a_section_stays_when_its_rows_become_few(shop: Shop) -> None:
    shop.add("de", 40)
    shop.add("sv", 25)
    shop.build()
    shop.run("DELETE FROM products WHERE locale = 'sv' AND id > 55")
    assert shop.build() == {"products-de": 40, "products-sv": 15, "products-other": 0}
    shop.check()


def test_a_vanished_value_is_refused_until_a_permit_and_then_released(shop: Shop) -> None:
    shop.add("de", 40)
    shop.add("sv", 25)
    shop.build()
    shop.run("DELETE FROM products WHERE locale = 'sv'")
    with pytest.raises(GuardError, match="Section 'products-sv' has no rows now; 25 are published"):
        shop.build()
    assert shop.build("empty:products-sv") == {"products-de": 40, "products-sv": 0, "products-other": 0}
    assert "products-sv" in shop.build()
    assert shop.build() == {"products-de": 40, "products-other": 0}
    shop.add("sv", 3)
    assert shop.build() == {"products-de": 40, "products-other": 3}
    shop.check()


def test_a_truncated_table_keeps_every_section(shop: Shop) -> None:
    shop.add("de", 40)
    shop.add("sv", 25)
    shop.build()
    listed = crawl(shop.store.open()).locs()
    shop.run("DELETE FROM products")
    with pytest.raises(GuardError):
        shop.build()
    assert crawl(shop.store.open()).locs() == listed


def test_a_new_section_that_guards_refuse_leaves_the_family_as_it_is(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.add("de", 40)
    shop.build()
    shop.add("sv", LEAST)
    judge = planned_sections.rows_at_plan  # type: ignore[attr-defined]

    def refuse(change: Any, plan: Any) -> Any:
        refusal = Refusal(guard="dropped", section=change.name, message="too many rows without a key", value=0.9)
        return (refusal,) if change.name == "products-sv" else judge(change, plan)

    with monkeypatch.context() as patched:
        patched.setattr(planned_sections, "rows_at_plan", refuse)
        assert shop.build() == {"products-de": 40, "products-other": 20}
    assert "the sections of 'products' stay the same in this run: too many rows without a key" in shop.report.warnings
    shop.check()
    assert shop.build()["products-sv"] == 20


def test_a_failing_count_leaves_the_family_as_it_is(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.add("de", 40)
    shop.build()
    shop.add("sv", LEAST)

    def fail(*_: object) -> None:
        raise SourceError("the database is tired")

    with monkeypatch.context() as patched:
        patched.setattr(SqlSession, "values", fail)
        assert shop.build() == {"products-de": 40, "products-other": 20}
    assert "the sections of 'products' stay the same in this run: the database is tired" in shop.report.warnings
    shop.check()
    assert shop.build() == {"products-de": 40, "products-sv": 20, "products-other": 0}
    shop.check()


def test_a_failing_plan_of_a_new_section_leaves_the_family_as_it_is(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.add("de", 40)
    shop.build()
    shop.add("sv", LEAST)
    boundaries = SqlSession.boundaries

    def fail(self: SqlSession, *arguments: Any) -> Any:
        if "products-sv" in self.context.name:
            raise SourceError("the database is tired")
        return boundaries(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(SqlSession, "boundaries", fail)
        assert shop.build() == {"products-de": 40, "products-other": 20}
    shop.check()
    assert shop.build()["products-sv"] == 20
    shop.check()


@pytest.mark.parametrize("written", ["products-other", "products-sv"])
def test_rows_that_move_are_published_in_both_sections_or_in_neither(shop: Shop, written: str) -> None:
    shop.add("de", 40)
    shop.add("sv", LEAST - 1)
    shop.add("xx", 5)
    shop.build()
    before = set(crawl(shop.store.open()).locs())
    shop.add("sv", 1)
    shop.add("de", 1)
    sitemap = shop.sitemap()
    planned = stages.plan(sitemap, stages.RunRequest(), clock=shop.clock)
    assert planned.tied == (("products-sv", "products-other"),)
    keys = [
        stages.write(sitemap, planned.key, batch.number, clock=shop.clock).receipt_key
        for batch in planned.batches
        if batch.section in (written, "products-de")
    ]
    report = stages.publish(sitemap, planned.key, keys, unwritten={}, clock=shop.clock)
    assert {failure.section for failure in report.failures} == {"products-other", "products-sv"}
    assert set(crawl(shop.store.open()).locs()) == before | {f"{BASE}s66"}
    assert shop.build()["products-sv"] == LEAST
    shop.check()


def test_a_family_is_not_tied_to_another(shop: Shop) -> None:
    shop.add("de", 40)
    shop.add("sv", LEAST - 1)
    source = SqlSource("shop", table="products", key="id", loc=f"{BASE}more/{{slug}}")
    more = Section.each("locale", source, name="more", least=LEAST)
    sitemap = shop.sitemap(more)
    shop.build(sitemap=sitemap)
    shop.add("sv", 1)
    planned = stages.plan(sitemap, stages.RunRequest(), clock=shop.clock)
    keys = [
        stages.write(sitemap, planned.key, batch.number, clock=shop.clock).receipt_key
        for batch in planned.batches
        if batch.section != "products-sv"
    ]
    report = stages.publish(sitemap, planned.key, keys, unwritten={}, clock=shop.clock)
    assert {failure.section for failure in report.failures} == {"products-other", "products-sv"}
    assert shop.sizes(report) == {
        "products-de": 40,
        "products-other": 19,
        "more-de": 40,
        "more-sv": 20,
        "more-other": 0,
    }


def test_rows_that_a_guard_refuses_at_the_commit_keep_both_sections_as_published(shop: Shop) -> None:
    shop.add("de", 40)
    shop.add("xx", 5)
    shop.build()
    before = set(crawl(shop.store.open()).locs())
    shop.run("DELETE FROM products WHERE locale = 'xx'")
    shop.add("xx", 6)
    shop.add("sv", 200, slug="x" * 3_000)  # rules drop them when they are written
    with pytest.raises(PartlyPublishedError) as caught:
        shop.build(sitemap=shop.sitemap(Section("pages", ListSource(["/about"]))))
    assert "section products-sv: GuardError: " in str(caught.value)
    assert "rows move between it and section products-sv, which is not published" in str(caught.value)
    assert set(crawl(shop.store.open()).locs()) == before | {f"{BASE}about"}


def test_the_permits_that_a_refused_new_section_names_let_it_pass(shop: Shop) -> None:
    shop.add("de", 40)
    shop.add("xx", 100, slug="x" * 3_000)
    shop.add("xx", 100)
    with pytest.raises(PartlyPublishedError, match="--allow dropped:products-xx="):
        shop.build()
    assert shop.build("dropped:products-xx=0.6") == {"products-de": 40, "products-xx": 100, "products-other": 0}
    with pytest.raises(RequestError, match="there is no section 'pages'"):
        shop.build("dropped:pages")


def test_the_triggerer_compares_no_section_of_a_column(shop: Shop) -> None:
    shop.add("de", 40)
    shop.build()
    for names in ((), ("products",), ("products-de",), ("products-other",)):
        assert "is of a Section.each" in in_worker(shop.sitemap(), names)


def test_a_run_of_one_section_finds_no_new_ones(shop: Shop) -> None:
    shop.add("de", 40)
    shop.build()
    shop.add("sv", LEAST)
    shop.add("de", 1)
    assert shop.build(sections=["products-de"]) == {"products-de": 41, "products-other": 0}
    assert shop.build(sections=["products"]) == {"products-de": 41, "products-sv": 20, "products-other": 0}
    shop.check()
    with pytest.raises(RequestError, match="there is no section products-fr"):
        shop.build(sections=["products-fr"])


def test_a_run_of_the_others_alone_publishes_them_first(shop: Shop) -> None:
    shop.add("de", 40)
    shop.add("xx", 5)
    planned = stages.plan(shop.sitemap(), stages.RunRequest(), clock=shop.clock)
    keys = [
        stages.write(shop.sitemap(), planned.key, batch.number, clock=shop.clock).receipt_key
        for batch in planned.batches
        if batch.section != "products-other"
    ]
    assert shop.sizes(stages.publish(shop.sitemap(), planned.key, keys, unwritten={}, clock=shop.clock)) == {
        "products-de": 40
    }
    shop.add("sv", LEAST)
    assert shop.build(sections=["products-other"]) == {"products-de": 40, "products-other": 25}
    shop.check()
    assert shop.build() == {"products-de": 40, "products-sv": 20, "products-other": 5}


def test_an_earlier_generation_returns_with_its_sections(shop: Shop) -> None:
    shop.add("de", 40)
    shop.add("sv", LEAST - 1)
    shop.build()
    first = crawl(shop.store.open()).locs()
    shop.add("sv", 1)
    shop.build()
    report = pipeline.rollback(shop.sitemap(), 1, clock=shop.clock)
    assert shop.sizes(report) == {"products-de": 40, "products-other": 19, "products-sv": 0}
    assert sorted(crawl(shop.store.open()).locs()) == sorted(first)
    shop.clock.advance(timedelta(hours=1))
    assert shop.build() == {"products-de": 40, "products-sv": 20, "products-other": 0}
    shop.check()


def test_a_family_that_is_retired_leaves_with_all_its_sections(shop: Shop) -> None:
    shop.add("de", 40)
    shop.add("xx", 3)
    pages = Section("pages", ListSource(["/about"]))
    shop.build(sitemap=shop.sitemap(pages))
    with pytest.raises(PartlyPublishedError, match="'products-de' is published but no longer in the code"):
        shop.build(sitemap=Sitemap(shop.store, [pages, Section("more", ListSource(["/more"]))]))
    shop.build(sitemap=Sitemap(shop.store, [pages], retired=["products", "more"]))
    assert list(crawl(shop.store.open()).locs()) == [f"{BASE}about"]


@pytest.mark.parametrize("number", [25, 3])
def test_sections_of_a_loop_go_on_as_those_of_a_column(shop: Shop, number: int) -> None:
    shop.add("de", 40)
    shop.add("sv", number)
    shop.add("no", LEAST - 1)
    loop = [
        Section(
            f"products-{code}",
            SqlSource("shop", table="products", key="id", loc=f"{BASE}{{slug}}", where="locale = :code", parameters={"code": code}),
        )
        for code in ("de", "sv")
    ]  # fmt: skip
    shop.build(sitemap=Sitemap(shop.store, loop, shards=ShardPolicy(max_urls=10)))
    names = set(crawl(shop.store.open()).files)
    for _ in range(2):
        assert shop.build() == {"products-de": 40, "products-sv": number, "products-other": 19}
        assert set(crawl(shop.store.open()).files) - names == {f"products-other-0000{n}.xml.gz" for n in (1, 2)}
    shop.check()


def test_a_section_is_retired_for_a_family_of_its_name(shop: Shop) -> None:
    shop.add("de", 40)
    shop.add("xx", 3)
    whole = Section("products", SqlSource("shop", table="products", key="id", loc=f"{BASE}{{slug}}"))
    shop.build(sitemap=Sitemap(shop.store, [whole]))
    retired = shop.sitemap(retired=["products"])
    assert shop.build(sitemap=retired) == {"products-de": 40, "products-other": 3, "products": 0}
    shop.check()
    assert shop.build(sitemap=retired) == shop.build() == {"products-de": 40, "products-other": 3}


def test_observed_dates_begin_again_only_with_a_permit(shop: Shop) -> None:
    shop.add("de", 40)
    shop.add("sv", LEAST - 1)
    sitemap = shop.sitemap(source={"lastmod": Observed("title")})
    shop.build(sitemap=sitemap)
    shop.add("sv", 1)
    assert shop.build(sitemap=sitemap) == {"products-de": 40, "products-other": 20}
    assert any("--allow redated:products-other" in warning for warning in shop.report.warnings)
    assert shop.build("redated:products-other", sitemap=sitemap)["products-sv"] == 20
    shop.check()


def test_a_page_that_changes_while_another_section_is_made_is_dated(shop: Shop) -> None:
    shop.add("de", 40)
    shop.add("xx", 3)
    sitemap = shop.sitemap(source={"lastmod": Observed("title"), "where": "shown = 1"})
    shop.build(sitemap=sitemap)
    shop.run("UPDATE products SET title = 'U' WHERE id = 42")
    shop.add("sv", LEAST)
    assert shop.build("redated:products-other", sitemap=sitemap)["products-sv"] == LEAST
    assert shop.report.sections["products-other"].lastmods_moved == 1
    shop.run("UPDATE products SET title = 'U' WHERE id = 43")
    shop.build(sitemap=shop.sitemap(source={"lastmod": Observed("title"), "where": "shown = 1 AND id > 0"}))
    assert shop.report.sections["products-other"].lastmods_moved == 1
    for number, least in ((41, 0), (42, -1)):
        shop.run(f"UPDATE products SET title = 'V' WHERE id = {number}")
        source = {"lastmod": Observed("title"), "where": "shown = 1 AND id > :least", "parameters": {"least": least}}
        shop.build(sitemap=shop.sitemap(source=source))
        assert shop.report.sections["products-other"].lastmods_moved == 1


def test_a_family_keeps_its_observed_dates_for_a_run(shop: Shop) -> None:
    """Airflow's form offers its name."""
    shop.add("de", 40)
    sitemap = shop.sitemap(source={"lastmod": Observed("title")})
    shop.build(sitemap=sitemap)
    shop.run("UPDATE products SET title = 'U' WHERE id <= 5")
    shop.build(sitemap=sitemap, keep_lastmods=["products"])
    assert shop.report.sections["products-de"].lastmods_kept == 5
    with pytest.raises(RequestError, match="those are: products-de, products-other"):
        shop.build(sitemap=sitemap, keep_lastmods=["pages"])


def test_a_row_that_moves_is_not_gone(shop: Shop) -> None:
    shop.add("de", 40)
    shop.add("sv", LEAST - 1)
    sitemap = shop.sitemap(gone=timedelta(days=30))
    shop.build(sitemap=sitemap)
    shop.add("sv", 1)
    shop.run("DELETE FROM products WHERE id = 1")
    shop.build(sitemap=sitemap)
    manifest = OpenSitemap.of(sitemap, shop.clock).state.published()
    assert manifest.gone is not None
    assert manifest.gone.urls == 1


def test_at_most_so_many_sections_are_made_the_largest_first(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned_sections, "MOST_MEMBERS", 2)
    for place, locale in enumerate("abcd"):
        shop.add(locale, LEAST + place)
    assert shop.build() == {"products-c": 22, "products-d": 23, "products-other": 41}
    assert any("at most 2 sections" in warning for warning in shop.report.warnings)
    shop.check()


def test_a_name_that_another_section_has_is_left_to_it(shop: Shop) -> None:
    shop.add("de", 40)
    shop.add("sv", 40)
    assert shop.build(sitemap=shop.sitemap(Section("products-de", ListSource(["/about"])))) == {
        "products-sv": 40,
        "products-other": 40,
        "products-de": 1,
    }


def test_dates_are_those_of_the_section_of_the_name_and_else_of_the_family(shop: Shop) -> None:
    one = Section("products-de", ListSource(["/about"], timezone="Asia/Tokyo"))
    sitemap = shop.sitemap(one)
    assert [sitemap.timezone_of(name) for name in ("products-de", "products-sv", "x")] == ["Asia/Tokyo", "UTC", "UTC"]


def test_a_url_is_found_in_the_section_of_its_value(shop: Shop) -> None:
    shop.add("de", 40)
    shop.build()
    assert [match.section for match in find(shop.sitemap(), f"{BASE}s7").matches] == ["products-de"]


def test_the_manifest_says_which_value_a_section_has(shop: Shop) -> None:
    shop.add("pt-BR", 40)
    shop.build()
    manifest = OpenSitemap.of(shop.sitemap(), shop.clock).state.published()
    assert {name: section.member for name, section in manifest.sections.items()} == {
        "products-pt-br": Member(family="products", column="locale", value="pt-BR"),
        "products-other": Member(family="products", column="locale"),
    }


def test_another_column_needs_another_name(shop: Shop) -> None:
    shop.add("de", 40)
    shop.build()
    source = SqlSource("shop", table="products", key="id", loc=f"{BASE}{{slug}}")
    by_title = Section.each("title", source, name="products", least=LEAST)
    with pytest.raises(ConfigurationError, match="its published sections are those of the column 'locale'"):
        shop.build(sitemap=Sitemap(shop.store, [by_title]))
    renamed = Section.each("title", source, name="titles", least=LEAST)
    shop.build(sitemap=Sitemap(shop.store, [renamed], retired=["products"]))
    assert {file.rpartition("-")[0] for file in crawl(shop.store.open()).files} == {"titles-t"}
    shop.check()


def test_a_column_in_quotes_is_the_same_column(shop: Shop) -> None:
    shop.add("de", 40)
    files = shop.build()
    source = SqlSource("shop", table="products", key="id", loc=f"{BASE}{{slug}}")
    quoted = Section.each('"locale"', source, name="products", least=LEAST)
    assert shop.build(sitemap=Sitemap(shop.store, [quoted])) == files
    shop.check()


def test_a_later_section_may_not_have_the_name_of_a_value(shop: Shop) -> None:
    shop.add("de", 40)
    shop.build()
    with pytest.raises(ConfigurationError, match=r"name='products'\) made one of this name in an earlier run"):
        shop.build(sitemap=shop.sitemap(Section("products-de", ListSource(["/about"]))))


@pytest.mark.parametrize(
    ("column", "source", "message"),
    [
        ("lower(locale)", {}, "give a column's name"),
        ("locale", {"group": "id", "language": "locale"}, "cannot be used with group="),
        ("locale", {"query": "SELECT 1", "table": None, "materialize": "s"}, "cannot be used with materialize="),
    ],
)
def test_settings_that_concern_several_sections_are_refused(column: str, source: dict[str, Any], message: str) -> None:
    settings: dict[str, Any] = {"table": "products", "key": "id", "loc": "url", **source}
    with pytest.raises(ConfigurationError, match=message):
        Section.each(column, SqlSource("shop", **settings), name="products")


def test_the_name_leaves_room_for_that_of_the_others() -> None:
    with pytest.raises(ConfigurationError, match="-other' is the name of a section too"):
        Section.each("locale", SqlSource("shop", table="products", key="id", loc="url"), name="x" * 60)


def test_a_list_has_no_columns() -> None:
    with pytest.raises(ConfigurationError, match="source= is a ListSource; give a SqlSource"):
        Section.each("locale", ListSource(["/"]), name="pages")


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(["de", "DE", "fr", "a b", "", None]), st.integers(1, 30)),
        st.tuples(st.just("move"), st.sampled_from(["de", "fr", "sv", None]), st.integers(2, 5)),
        st.tuples(st.just("delete"), st.sampled_from(["de", "fr", "sv"]), st.integers(1, 3)),
        st.tuples(st.just("build"), st.booleans(), st.just(0)),
        st.tuples(st.just("unwritten"), st.sampled_from(["products-de", "products-fr", "products-other"]), st.just(0)),
    ),
    min_size=3,
    max_size=12,
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(operations=OPERATIONS)
def test_no_history_loses_or_repeats_a_row(
    operations: list[Any], tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("history")
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", f"sqlite:///{folder}/shop.db")
    shop = Shop(folder / "shop.db", settings={"guards": Guards.disabled()})
    shop.add("de", 5)
    moved: set[str] = set()  # between sections that stay, so one of the two may be published without the other
    for what, value, number in operations:
        if what == "add":
            shop.add(value, number)
        elif what == "move":
            rows = shop.run(f"SELECT slug FROM products WHERE id % {number} = 0 AND locale IS NOT ?", value)
            moved |= {f"{BASE}{slug}" for (slug,) in rows}
            shop.run(f"UPDATE products SET locale = ? WHERE id % {number} = 0", value)
        elif what == "delete":
            shop.run(f"DELETE FROM products WHERE locale = ? AND id % {number} = 0 AND id > 5", value)
        elif what == "build":
            shop.build(*EVERYTHING, full=value)
            shop.check()
            moved.clear()
        else:
            listed = set(crawl(shop.store.open()).locs()) if shop.store.public.objects else set()
            planned = stages.plan(shop.sitemap(), stages.RunRequest(allow=EVERYTHING), clock=shop.clock)
            keys = [
                stages.write(shop.sitemap(), planned.key, batch.number, clock=shop.clock).receipt_key
                for batch in planned.batches
                if batch.section != value
            ]
            try:
                stages.publish(shop.sitemap(), planned.key, keys, unwritten={}, clock=shop.clock)
            except (RefusedError, IncompleteError):
                continue  # nothing to publish
            kept = {f"{BASE}{slug}" for (slug,) in shop.run("SELECT slug FROM products")}
            if listed:
                assert (listed & kept) - moved <= set(crawl(shop.store.open()).locs())
            shop.clock.advance(timedelta(hours=1))
    shop.build(*EVERYTHING)
    shop.check()
