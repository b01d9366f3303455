"""Each section alone: one that fails or is refused stays as it was, and the others are published."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps import Guards, MemoryStore, PartlyPublishedError, Section, ShardPolicy, Sitemap
from airflow_sitemaps.errors import (
    ConflictError,
    GuardError,
    IncompleteError,
    RuleError,
    SourceError,
    SourceMovedError,
)
from airflow_sitemaps.pipeline import build, stages
from airflow_sitemaps.pipeline.plan.dry_run import explain
from airflow_sitemaps.pipeline.request import RunRequest
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.ports import Overwrite
from airflow_sitemaps.report_text import lines
from airflow_sitemaps.shards.plan import SectionFailure
from airflow_sitemaps.testing import FakeClock, MemorySourceConfig, crawl
from tests.simulation.faults import Call, Fault, Faults, FaultyStore, SimulatedCrash
from tests.support.environment import BASE, row
from tests.support.simulated_source import SimulatedSourceConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_sitemaps.pipeline.report import Report


class Shop:
    """Products and posts; the database of the products can fail."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(base_url=BASE, now=self.clock.now)
        self.products = [row(key) for key in range(40)]
        self.posts = [row(1_000 + key) for key in range(10)]
        self.before: Callable[[str], None] = lambda _operation: None
        self.settings: dict[str, Any] = {}
        self.product_settings: dict[str, Any] = {}

    def sitemap(self) -> Sitemap:
        products = SimulatedSourceConfig(self.products, before=lambda operation: self.before(operation))  # noqa: PLW0108 - replaced later
        return Sitemap(
            self.store,
            [
                Section("products", products, **self.product_settings),
                Section("posts", MemorySourceConfig(self.posts)),
            ],
            shards=ShardPolicy(max_urls=15),
            guards=Guards(min_rows=20),
            **self.settings,
        )

    def build(self, **request: Any) -> Report:
        return build(self.sitemap(), clock=self.clock, **request)

    def locs(self) -> set[str]:
        return set(crawl(self.store.open()).locs())

    def fail(self, operation: str, error: Exception) -> None:
        def before(name: str) -> None:
            if name == operation:
                raise error

        self.before = before


@pytest.fixture
def shop() -> Shop:
    made = Shop()
    made.build()
    made.posts.append(row(2_000))
    return made


def partly(shop: Shop, **request: Any) -> PartlyPublishedError:
    with pytest.raises(PartlyPublishedError) as raised:
        shop.build(**request)
    return raised.value


def assert_others_are_published(shop: Shop, error: PartlyPublishedError) -> None:
    report: Any = error.report
    assert report.result == "partly_published"
    assert [failure.section for failure in report.failures] == ["products"]
    assert row(2_000)["loc"] in shop.locs()
    assert {row(key)["loc"] for key in range(40)} <= shop.locs()
    state = StateRepository(shop.store.open().state)
    current = state.current()
    assert current is not None
    assert current.manifest.history[-1].failed == ("products",)
    stored = state.read_report(report.run)
    assert stored is not None
    assert stored.result == "partly_published"
    assert stored.failures[0].section == "products"
    assert any(line.startswith("NOT PUBLISHED section products") for line in lines(report))


@pytest.mark.parametrize("operation", ["open", "survey", "read", "batch"])
def test_a_section_whose_database_fails_stays_and_the_others_are_published(shop: Shop, operation: str) -> None:
    shop.products[0]["priority"] = 0.5
    shop.products.append(row(41))
    shop.fail(operation, SourceError("the database is down"))
    assert_others_are_published(shop, partly(shop))
    shop.before = lambda _operation: None
    assert shop.build().result == "published"
    assert row(41)["loc"] in shop.locs()


def test_a_database_that_fails_once_is_queried_again_in_the_same_run(shop: Shop) -> None:
    failures = [SourceError("the connection was reset")]

    def before(operation: str) -> None:
        if operation == "survey" and failures:
            raise failures.pop()

    shop.products.append(row(41))
    shop.before = before
    assert shop.build().result == "published"
    assert row(41)["loc"] in shop.locs()


def test_a_refused_section_stays_and_the_others_are_published(shop: Shop) -> None:
    del shop.products[10:]
    error = partly(shop)
    assert_others_are_published(shop, error)
    assert "shrink from 40 to 10 rows" in str(error)
    assert "--allow shrink:products=0.75" in str(error)
    shop.posts.append(row(2_001))
    assert shop.build(allow=["shrink:products=0.75"]).result == "published"
    assert row(30)["loc"] not in shop.locs()


def test_a_section_refused_after_rendering_stays_and_the_others_are_published(shop: Shop) -> None:
    """The rows are there when the run is planned; what is rendered of them is not enough."""
    for at in range(20, 40):
        shop.products[at] = {**shop.products[at], "loc": "ftp://www.example.com/"}
    error = partly(shop)
    assert_others_are_published(shop, error)
    assert "20 of 40 rows were dropped by rules" in str(error)


def test_a_rule_set_to_fail_holds_only_its_section_back(shop: Shop) -> None:
    shop.product_settings = {"rules": {"loc-scheme": "fail"}}
    shop.products.append(row(41, loc="ftp://www.example.com/"))
    error = partly(shop)
    assert_others_are_published(shop, error)
    assert error.failures[0].error == RuleError.__name__  # type: ignore[attr-defined]


def test_with_fail_all_nothing_is_published(shop: Shop) -> None:
    shop.settings = {"on_section_failure": "fail_all"}
    shop.products.append(row(41))
    before = dict(shop.store.public.objects)
    for operation in ("open", "survey", "read"):
        shop.fail(operation, SourceError("the database is down"))
        with pytest.raises(SourceError, match="down"):
            shop.build()
    shop.before = lambda _operation: None
    del shop.products[10:]
    with pytest.raises(GuardError, match="shrink"):
        shop.build()
    assert shop.store.public.objects == before


def test_the_error_itself_is_raised_where_no_other_section_changed(shop: Shop) -> None:
    shop.posts.pop()
    shop.fail("survey", SourceMovedError("the table moved"))
    with pytest.raises(SourceMovedError, match="the table moved"):
        shop.build()
    shop.before = lambda _operation: None
    del shop.products[10:]
    with pytest.raises(GuardError, match="shrink") as refused:
        shop.build()
    assert [refusal.permit for refusal in refused.value.refusals] == ["shrink:products=0.75"]


def test_a_repeated_publication_says_the_same(shop: Shop) -> None:
    """A publishing task that is repeated after its commit still names the section that a guard refused then."""
    for at in range(20, 40):
        shop.products[at] = {**shop.products[at], "loc": "ftp://www.example.com/"}
    sitemap = shop.sitemap()
    planned = stages.plan(sitemap, RunRequest(), clock=shop.clock)
    receipts = [
        stages.write(sitemap, planned.key, batch.number, clock=shop.clock).receipt_key for batch in planned.batches
    ]
    first = stages.publish(sitemap, planned.key, receipts, clock=shop.clock)
    again = stages.publish(sitemap, planned.key, receipts, clock=shop.clock)
    assert (first.result, again.result) == ("partly_published", "partly_published")
    assert [f.section for f in again.failures] == [f.section for f in first.failures] == ["products"]
    assert [r.permit for f in again.failures for r in f.refusals] == [
        r.permit for f in first.failures for r in f.refusals
    ]
    assert first.failures[0].refusals


def test_a_repeated_publication_that_another_run_overtakes_does_not_take_its_result_for_its_own(shop: Shop) -> None:
    """The first try dies before its promotion. While the second one finishes it, another run does, and commits."""
    for at in range(20, 40):
        shop.products[at] = {**shop.products[at], "loc": "ftp://www.example.com/"}
    sitemap = shop.sitemap()
    planned = stages.plan(sitemap, RunRequest(), clock=shop.clock)
    receipts = [
        stages.write(sitemap, planned.key, batch.number, clock=shop.clock).receipt_key for batch in planned.batches
    ]
    dies = Faults().on("put", "posts-*", Fault.CRASH_BEFORE, area="public")
    with pytest.raises(SimulatedCrash):
        stages.publish(replace(sitemap, store=FaultyStore(shop.store, dies)), planned.key, receipts, clock=shop.clock)
    overtakes = True

    def rival(call: Call) -> None:
        nonlocal overtakes
        if call.verb == "get" and "/bodies/" in call.key and overtakes:
            overtakes = False
            shop.posts.append(row(3_000))
            assert shop.build(sections=["posts"]).generation == 3

    slow = replace(sitemap, store=FaultyStore(shop.store, Faults(after=rival)))
    with pytest.raises(ConflictError, match="was published before, and generation 3 of run"):
        stages.publish(slow, planned.key, receipts, clock=shop.clock)


def put_foreign_index(shop: Shop, locs: list[str]) -> None:
    """Publish another program's sitemap."""
    ns = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
    files = {
        "sitemap.xml": f"<sitemapindex {ns}><sitemap><loc>{BASE}old.xml</loc></sitemap></sitemapindex>",
        "old.xml": f"<urlset {ns}>{''.join(f'<url><loc>{loc}</loc></url>' for loc in locs)}</urlset>",
    }
    for name, body in files.items():
        shop.store.public.put(name, body.encode(), mode=Overwrite(), metadata={}, content_type="text/xml")


@pytest.mark.parametrize("cause", ["a guard refuses it", "a batch cannot be written"])
def test_an_adoption_publishes_all_sections_or_none(cause: str) -> None:
    shop = Shop()
    put_foreign_index(shop, [entry["loc"] for entry in (*shop.products, *shop.posts)])
    before = set(crawl(shop.store.open()).locs())
    if cause == "a guard refuses it":
        for at in range(20, 40):
            shop.products[at] = {**shop.products[at], "loc": "ftp://www.example.com/"}
    sitemap = shop.sitemap()
    planned = stages.plan(sitemap, RunRequest(adopt=True, batch_rows=10), clock=shop.clock)
    receipts = [
        stages.write(sitemap, planned.key, batch.number, clock=shop.clock).receipt_key for batch in planned.batches
    ]
    unwritten: dict[int, str] = {}
    if cause == "a batch cannot be written":
        lost = next(batch for batch in planned.batches if batch.section == "products")
        unwritten = {lost.number: "the worker was stopped"}
        del receipts[lost.number]

    with pytest.raises((GuardError, IncompleteError), match=r"[sS]ection 'products'"):
        stages.publish(sitemap, planned.key, receipts, unwritten=unwritten, clock=shop.clock)
    assert set(crawl(shop.store.open()).locs()) == before


@pytest.mark.parametrize("cause", ["its database fails", "a guard refuses it", "a batch cannot be written"])
def test_a_retired_section_stays_until_the_new_section_that_may_replace_it_is_published(shop: Shop, cause: str) -> None:
    """A section gets another name, and its first build under this name fails."""
    products = {entry["loc"] for entry in shop.products}
    goods = [dict(entry) for entry in shop.products]
    source = SimulatedSourceConfig(goods, before=lambda operation: shop.before(operation))  # noqa: PLW0108 - replaced later
    renamed = replace(
        shop.sitemap(),
        sections=[Section("goods", source), Section("posts", MemorySourceConfig(shop.posts))],
        retired=("products",),
    )
    if cause == "its database fails":
        shop.fail("survey", SourceError("the database is down"))
    elif cause == "a guard refuses it":
        for at in range(30):
            goods[at]["loc"] = "ftp://www.example.com/"
    planned = stages.plan(renamed, RunRequest(batch_rows=10), clock=shop.clock)
    receipts = [
        stages.write(renamed, planned.key, batch.number, clock=shop.clock).receipt_key for batch in planned.batches
    ]
    unwritten: dict[int, str] = {}
    if cause == "a batch cannot be written":
        unwritten = {0: "the worker was stopped"}
        del receipts[0]
    report = stages.publish(renamed, planned.key, receipts, unwritten=unwritten, clock=shop.clock)

    assert report.result == "partly_published"
    assert [failure.section for failure in report.failures] == ["goods"]
    assert shop.locs() == products | {entry["loc"] for entry in shop.posts}
    assert any("'products' is retired, but stays as published: section 'goods'" in text for text in report.warnings)

    shop.before = lambda _operation: None
    goods[:] = [{**entry, "loc": f"{entry['loc']}-new"} for entry in shop.products]
    assert build(renamed, clock=shop.clock).result == "published"
    assert shop.locs() == {f"{loc}-new" for loc in products} | {entry["loc"] for entry in shop.posts}


@pytest.mark.parametrize("gone", [None, timedelta(days=30)])
def test_a_repeated_publication_adds_the_new_section_and_the_next_run_removes_the_retired_one(
    shop: Shop, gone: timedelta | None
) -> None:
    """A person clears the writing task that failed, and the publishing task."""
    products, posts = {entry["loc"] for entry in shop.products}, {entry["loc"] for entry in shop.posts}
    tags = [row(9_000)]
    goods = [{**entry, "loc": f"{entry['loc']}-new"} for entry in shop.products]
    renamed = replace(
        shop.sitemap(),
        sections=[
            Section("goods", MemorySourceConfig(goods)),
            Section("posts", MemorySourceConfig(shop.posts)),
            Section("tags", MemorySourceConfig(tags)),
        ],
        retired=("products",),
        gone=gone,
    )
    planned = stages.plan(renamed, RunRequest(batch_rows=10), clock=shop.clock)
    receipts = [
        stages.write(renamed, planned.key, batch.number, clock=shop.clock).receipt_key for batch in planned.batches
    ]
    first = stages.publish(renamed, planned.key, receipts[1:], unwritten={0: "it was stopped"}, clock=shop.clock)
    assert first.result == "partly_published"
    again = stages.publish(renamed, planned.key, receipts, unwritten={}, clock=shop.clock)
    assert (again.result, again.warnings) == ("published", ())
    new = {entry["loc"] for entry in (*goods, *tags)}
    assert shop.locs() == products | posts | new
    assert build(renamed, clock=shop.clock).result == "published"
    assert shop.locs() == posts | new


def test_a_url_that_must_be_listed_stays_where_it_is_if_its_new_section_is_refused(shop: Shop) -> None:
    """The URL moves from the posts to the products, whose other rows are faulty."""
    home = shop.posts[0]["loc"]
    shop.settings = {"must_list": [home]}
    shop.build()
    moved = shop.posts.pop(0)
    shop.products[:] = [{**entry, "loc": "ftp://www.example.com/"} for entry in shop.products[:30]] + shop.products[30:]
    shop.products.append({**moved, "id": 5_000})
    with pytest.raises((GuardError, PartlyPublishedError), match="must_list"):
        shop.build()
    assert home in shop.locs()


def test_a_retired_section_stays_if_only_it_lists_a_url_that_must_be_listed(shop: Shop) -> None:
    home = shop.products[0]["loc"]
    shop.settings = {"must_list": [home]}
    shop.build()
    rest = replace(shop.sitemap(), sections=[Section("posts", MemorySourceConfig(shop.posts))], retired=("products",))
    shop.posts.append(row(3_000))
    with pytest.raises(
        PartlyPublishedError, match=r"Section 'products': no section lists 1 URL of must_list"
    ) as partly:
        build(rest, clock=shop.clock)
    assert [failure.section for failure in partly.value.failures] == ["products"]
    assert {home, row(3_000)["loc"]} <= shop.locs()
    assert build(rest, allow=["must_list:products"], clock=shop.clock).result == "published"
    assert shop.locs() == {entry["loc"] for entry in shop.posts}


def test_a_dry_run_names_what_would_fail(shop: Shop) -> None:
    shop.fail("survey", SourceError("the database is down"))
    planned = stages.plan(shop.sitemap(), RunRequest(dry_run=True), clock=shop.clock)
    assert "not published: section products: SourceError: the database is down" in explain(planned)


def test_a_plan_with_a_refused_section_does_not_say_that_nothing_changed(shop: Shop) -> None:
    build(shop.sitemap(), clock=shop.clock)
    assert explain(stages.plan(shop.sitemap(), clock=shop.clock))[-1].startswith("nothing changed: ")
    del shop.products[5:]
    explained = explain(stages.plan(shop.sitemap(), RunRequest(asks=True), clock=shop.clock))
    assert any(line.startswith("refused: Section 'products'") for line in explained)
    assert explained[-1] == "nothing will be written"


def test_a_lost_file_is_put_again_though_the_only_section_cannot_be_read(shop: Shop) -> None:
    sitemap = replace(shop.sitemap(), sections=shop.sitemap().sections[:1], retired=["posts"])
    build(sitemap, allow=["vanished"], clock=shop.clock)
    shop.fail("survey", SourceError("the database is down"))
    name = next(name for name in shop.store.public.objects if name.startswith("products-"))
    del shop.store.public.objects[name]
    with pytest.raises(PartlyPublishedError):
        build(sitemap, clock=shop.clock)
    assert name in shop.store.public.objects
    with pytest.raises(SourceError, match="the database is down"):
        build(sitemap, clock=shop.clock)


def test_a_missing_receipt_after_a_section_was_left_out_is_named_by_its_batch(shop: Shop) -> None:
    sitemap = shop.sitemap()
    planned = stages.plan(sitemap, RunRequest(full=True), clock=shop.clock)
    left_out = SectionFailure(section=planned.batches[0].section, error="SourceError", message="down")
    last = planned.batches[-1]
    with pytest.raises(IncompleteError, match=f"the first is batch {last.number} of section '{last.section}'"):
        stages.publish(sitemap, planned.key, [], failures=[left_out], clock=shop.clock)


def test_a_database_that_is_down_for_a_moment_is_left_to_airflows_retry_though_a_feed_is_due(shop: Shop) -> None:
    """A report of a partly published run would end the task without a retry."""
    products: Any = shop.sitemap().sections[0]
    dated = replace(products, source=replace(products.source, lastmod="updated_at"))
    sitemap = replace(shop.sitemap(), sections=[dated], retired=["posts"], feeds=["atom"])
    build(sitemap, allow=["vanished"], clock=shop.clock)
    shop.clock.advance(timedelta(days=4))
    shop.fail("survey", SourceError("the database is down"))
    with pytest.raises(SourceError, match="the database is down"):
        build(replace(sitemap, recent=timedelta(days=1)), clock=shop.clock)
