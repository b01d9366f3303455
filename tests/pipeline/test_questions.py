"""Questions about refused changes: what an answer publishes, and what closes a question."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps import Canary, Guards, MemoryStore, Section, ShardPolicy, Sitemap, pipeline
from airflow_sitemaps.errors import (
    ConfigurationError,
    ConflictError,
    GuardError,
    IncompleteError,
    StoreContentError,
    StoreError,
)
from airflow_sitemaps.http import Fetched
from airflow_sitemaps.pipeline import approvals, build, rollback, stages
from airflow_sitemaps.pipeline.request import OpenSitemap, RunRequest
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.shards.guards import Refusal
from airflow_sitemaps.shards.plan import failures_of
from airflow_sitemaps.stores.memory import MemoryObjects
from airflow_sitemaps.testing import FakeClock, MemorySourceConfig, crawl
from tests.support.environment import BASE, row

if TYPE_CHECKING:
    from airflow_sitemaps.pipeline.report import Report
    from airflow_sitemaps.shards.manifest import Manifest, Question

HOURS = timedelta(hours=1)


@dataclass
class Shop:
    """Products and posts; the guards refuse a fifth of the products gone."""

    clock: FakeClock = field(default_factory=FakeClock)
    products: list[dict[str, Any]] = field(default_factory=lambda: [row(key) for key in range(100)])
    posts: list[dict[str, Any]] = field(default_factory=lambda: [row(1_000 + key) for key in range(10)])
    settings: dict[str, Any] = field(default_factory=dict)
    guards: Guards = Guards(min_rows=20)  # noqa: RUF009 - frozen
    store: Any = None

    def __post_init__(self) -> None:
        self.store = self.store or MemoryStore(base_url=BASE, now=self.clock.now)

    def sitemap(self) -> Sitemap:
        return Sitemap(
            self.store,
            [
                Section("products", MemorySourceConfig(self.products), **self.settings),
                Section("posts", MemorySourceConfig(self.posts)),
            ],
            shards=ShardPolicy(max_urls=15),
            guards=self.guards,
        )

    @property
    def manifest(self) -> Manifest:
        return StateRepository(self.store.open().state).published()

    @property
    def question(self) -> Question | None:
        return self.manifest.sections["products"].question

    def locs(self) -> set[str]:
        return set(crawl(self.store.open()).locs())

    def run(self, timeout: timedelta = 4 * HOURS, **request: Any) -> tuple[Report | None, dict[str, Question]]:
        """Run the stages as the tasks of a group with an approval do; the report is None if the plan was refused."""
        sitemap = self.sitemap()
        try:
            planned = stages.plan(sitemap, RunRequest(asks=True, **request), clock=self.clock)
        except GuardError:
            return None, {}
        keys = [stages.write(sitemap, planned.key, b.number, clock=self.clock).receipt_key for b in planned.batches]
        try:
            report = stages.publish(sitemap, planned.key, keys, unwritten={}, clock=self.clock)
        except GuardError as refused:
            failures = failures_of([each for each in refused.refusals if isinstance(each, Refusal)])
            return None, approvals.ask(sitemap, planned.key, keys, failures, timeout, clock=self.clock)
        return report, approvals.ask(sitemap, planned.key, keys, report.failures, timeout, clock=self.clock)

    def answer(self, question: Question, is_allowed: bool = True) -> Report | None:
        return approvals.answer(self.sitemap(), question.run, is_allowed=is_allowed, by="Ada", clock=self.clock)

    def lose(self, number: int) -> None:
        self.products[:] = self.products[number:]

    def refused(self, lost: int = 30) -> Question:
        """Publish, lose products, and return the question about them."""
        build(self.sitemap(), clock=self.clock)
        self.lose(lost)
        self.clock.advance(timedelta(minutes=10))
        _, asked = self.run()
        return asked["products"]


@pytest.fixture
def shop() -> Shop:
    return Shop()


def everything(shop: Shop) -> set[str]:
    return {str(each["loc"]) for each in (*shop.products, *shop.posts)}


def test_an_allowed_change_is_published_exactly_as_it_was_compared(shop: Shop) -> None:
    build(shop.sitemap(), clock=shop.clock)
    shop.lose(37)  # whole files, and a part of one
    shop.posts.append(row(2_000))
    report, asked = shop.run()
    assert report is not None
    assert report.result == "partly_published"
    assert len(shop.locs()) == 111
    staged = everything(shop)
    shop.products.append(row(500))  # later rows are of no concern

    answer = shop.answer(asked["products"])

    assert answer is not None
    assert answer.result == "published"
    assert shop.locs() == staged
    assert shop.question is None
    assert any(warning.endswith("(answered by Ada)") for warning in answer.warnings)
    assert build(shop.sitemap(), clock=shop.clock).result == "published"
    assert shop.locs() == everything(shop)


def test_a_run_that_has_nothing_else_to_publish_asks_as_well(shop: Shop) -> None:
    question = shop.refused()

    assert question.permits == ("shrink:products=0.3",)
    assert question.deadline == shop.clock.now() + 4 * HOURS
    assert len(shop.locs()) == 110


def test_a_run_asks_about_every_section_if_its_plan_and_its_commit_refuse_one_each(shop: Shop) -> None:
    build(shop.sitemap(), clock=shop.clock)
    shop.lose(30)
    shop.posts[:] = [{**post, "loc": f"https://elsewhere.example/{key}"} for key, post in enumerate(shop.posts)]

    report, asked = shop.run()

    assert report is None
    assert set(asked) == {"products", "posts"}
    told = StateRepository(shop.store.open().state).read_report(asked["posts"].refused)
    assert told is not None
    assert [refusal.split("'")[1] for refusal in told.refusals] == ["products", "posts"]
    assert [failure.section for failure in told.failures] == ["products", "posts"]


def test_the_question_has_numbers_and_samples(shop: Shop) -> None:
    question = shop.refused()
    opened = OpenSitemap.of(shop.sitemap(), shop.clock)
    plan, _, _ = approvals.staged_plan(opened, question.run)

    subject, body = approvals.question_text(plan, question, "https://airflow.example/run")

    assert subject == "Publish the change of section 'products'?"
    assert "from 100 to 70 URLs" in body
    assert f"30 URLs would no longer be listed, such as {row(0)['loc']}" in body
    assert "(https://airflow.example/run)" in body


def test_a_kept_section_stays_and_the_same_loss_asks_again_after_a_day(shop: Shop) -> None:
    question = shop.refused()
    report = shop.answer(question, is_allowed=False)

    assert report is not None
    assert "the published section is kept; answered by Ada" in report.warnings
    newest, before = pipeline.status(shop.sitemap()).guard_results
    for results in (newest, before):
        assert results.lines[0].startswith("refused: Section 'products' would shrink from 100 to 70 ")
    assert newest.lines[1:] == ("the published section is kept; answered by Ada",)
    assert len(shop.locs()) == 110
    with pytest.raises(ConflictError, match="is closed"):
        shop.answer(question)
    assert shop.run() == (None, {})
    shop.clock.advance(timedelta(days=1))
    assert shop.run()[1].keys() == {"products"}


def test_a_repeated_try_writes_the_report_that_the_first_could_not(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    question = shop.refused()

    def fail(*_: Any) -> str:
        raise StoreError("503 Service Unavailable")

    with monkeypatch.context() as patch:
        patch.setattr(StateRepository, "write_report", fail)
        with pytest.raises(StoreError):
            shop.answer(question, is_allowed=False)
    recorded = shop.manifest

    report = shop.answer(question, is_allowed=False)

    assert report is not None
    assert shop.manifest == recorded, "an answer is recorded once"
    assert "the published section is kept; answered by Ada" in pipeline.status(shop.sitemap()).guard_results[0].lines


def test_an_answer_that_keeps_a_section_of_a_closed_question_reports_nothing(shop: Shop) -> None:
    before = list(shop.products)
    question = shop.refused()
    shop.products[:] = before
    shop.run()

    assert shop.answer(question, is_allowed=False) is None


def test_a_larger_loss_asks_again_at_once(shop: Shop) -> None:
    shop.answer(shop.refused(), is_allowed=False)
    shop.lose(10)

    _, asked = shop.run()

    assert asked["products"].permits[0] == "shrink:products=0.4"


def test_the_next_refused_run_leaves_the_open_question_and_writes_nothing(shop: Shop) -> None:
    question = shop.refused()
    shop.posts.append(row(2_000))

    report, asked = shop.run()

    assert report is not None
    assert report.result == "partly_published"
    assert report.rows_read == 11
    assert asked == {}
    assert shop.question == question
    assert shop.answer(question) is not None, "commits of other sections change nothing"
    assert len(shop.locs()) == 81


def test_rows_that_came_back_close_the_question_though_nothing_changed(shop: Shop) -> None:
    before = list(shop.products)
    question = shop.refused()
    shop.products[:] = before

    report, _ = shop.run()

    assert report is not None
    assert report.result == "unchanged"
    assert shop.question is None
    with pytest.raises(ConflictError, match="is closed"):
        shop.answer(question)
    assert len(shop.locs()) == 110


@pytest.mark.parametrize("close", ["commit", "rollback", "permit"])
def test_a_newer_generation_of_the_section_closes_the_question(shop: Shop, close: str) -> None:
    build(shop.sitemap(), clock=shop.clock)
    shop.products.append(row(900))
    question = shop.refused()
    if close == "commit":
        shop.products[:] = [row(key) for key in range(102)]
        build(shop.sitemap(), clock=shop.clock)
    elif close == "rollback":
        rollback(shop.sitemap(), 1, clock=shop.clock)
    else:
        build(shop.sitemap(), allow=["shrink:products"], clock=shop.clock)
    now = shop.locs()

    with pytest.raises(ConflictError):
        shop.answer(question)

    assert shop.question is None
    assert shop.locs() == now


def test_a_late_answer_publishes_nothing(shop: Shop) -> None:
    question = shop.refused()
    shop.clock.advance(5 * HOURS)

    with pytest.raises(ConflictError, match="its time is over"):
        shop.answer(question)

    assert len(shop.locs()) == 110


def test_a_swept_change_publishes_nothing(shop: Shop) -> None:
    question = shop.refused(20)
    for info in list(shop.store.open().state.list("runs/")):
        if question.refused in info.key:
            shop.store.open().state.delete(info.key)

    with pytest.raises((IncompleteError, StoreContentError)):
        shop.answer(question)

    assert len(shop.locs()) == 110


def test_another_configuration_publishes_nothing(shop: Shop) -> None:
    question = shop.refused()
    shop.settings = {"rules": {"lastmod-future": "drop_row"}}

    with pytest.raises(ConfigurationError, match="different configuration"):
        shop.answer(question)

    assert len(shop.locs()) == 110


def test_a_section_that_the_code_lost_since_the_plan_asks_nothing(shop: Shop) -> None:
    build(shop.sitemap(), clock=shop.clock)
    shop.lose(30)
    planned = stages.plan(shop.sitemap(), RunRequest(asks=True), clock=shop.clock)
    failures = failures_of([each for each in planned.refusals if isinstance(each, Refusal)])
    later = replace(shop.sitemap(), sections=shop.sitemap().sections[1:])

    assert approvals.ask(later, planned.key, [], failures, HOURS, clock=shop.clock) == {}


def test_a_repeated_answer_publishes_once(shop: Shop) -> None:
    question = shop.refused()
    shop.answer(question)

    repeated = shop.answer(question)

    assert repeated is not None
    assert shop.manifest.generation == 2
    assert len(shop.locs()) == 80


def test_a_section_that_was_never_published_asks_nothing(shop: Shop) -> None:
    shop.products[:] = [{**row(key), "loc": "not a url"} for key in range(50)]

    _, asked = shop.run()

    assert asked == {}


def test_a_change_that_only_the_commit_refuses_asks_as_well(shop: Shop) -> None:
    build(shop.sitemap(), clock=shop.clock)
    shop.products[:] = [row(5_000 + key) if key < 80 else row(key) for key in range(100)]

    report, asked = shop.run()

    assert report is None
    assert {permit.partition("=")[0] for permit in asked["products"].permits} == {"churn:products"}
    shop.answer(asked["products"])
    assert shop.locs() == everything(shop)


def test_a_refused_question_of_a_plan_that_asks_nobody_is_as_before(shop: Shop) -> None:
    build(shop.sitemap(), clock=shop.clock)
    shop.lose(30)

    with pytest.raises(GuardError):
        build(shop.sitemap(), clock=shop.clock)

    assert shop.question is None


@pytest.mark.parametrize("rival", ["asks", "keeps"])
def test_a_question_that_opens_or_closes_during_a_promotion_does_not_stop_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, rival: str
) -> None:
    """It rewrites the manifest of the same generation. The promoting run must not take that for a later generation."""
    question = shop.refused() if rival == "keeps" else None
    if question is None:
        build(shop.sitemap(), clock=shop.clock)
    shop.posts.extend(row(2_000 + key) for key in range(30))
    sitemap = shop.sitemap()
    planned = stages.plan(sitemap, RunRequest(asks=True), clock=shop.clock)
    keys = [stages.write(sitemap, planned.key, b.number, clock=shop.clock).receipt_key for b in planned.batches]
    put, left = MemoryObjects.put, [1]

    def meanwhile(objects: MemoryObjects, key: str, *args: Any, **kwargs: Any) -> Any:
        if key.startswith("posts-") and left:
            left.clear()
            if question is not None:
                shop.answer(question, is_allowed=False)
            else:
                shop.lose(30)
                assert list(shop.run()[1]) == ["products"]
        return put(objects, key, *args, **kwargs)

    monkeypatch.setattr(MemoryObjects, "put", meanwhile)
    report = stages.publish(sitemap, planned.key, keys, unwritten={}, clock=shop.clock)

    assert not left
    assert report.generation == 2
    assert shop.manifest.promoted
    assert {str(each["loc"]) for each in shop.posts} <= shop.locs()


def test_a_repaired_file_closes_the_question_and_the_next_run_asks_again(shop: Shop) -> None:
    question = shop.refused()
    name = next(file.name for file in shop.manifest.sections["products"].files())
    del shop.store.public.objects[name]

    shop.run()

    assert name in shop.store.public.objects
    assert shop.question is None
    with pytest.raises(ConflictError, match="is closed"):
        shop.answer(question)
    _, asked = shop.run()
    assert list(asked) == ["products"]

    shop.answer(asked["products"], is_allowed=False)
    del shop.store.public.objects[name]
    shop.run()
    assert name in shop.store.public.objects
    assert not shop.run()[1], "an answered question stays answered for a day"


class Site:
    """A website whose pages answer, those that were never listed and those of ``broken`` with 404."""

    def __init__(self, shop: Shop) -> None:
        self.shop, self.broken = shop, set[str]()

    def fetcher(self, address: str) -> Site:
        return self

    def get(self, url: str) -> Fetched:
        status = 200 if url in everything(self.shop) - self.broken else 404
        return Fetched(status=status, body=f"<h1>{url}".encode(), chain=(url,))


def test_an_answer_about_other_guards_does_not_answer_for_the_canary(shop: Shop) -> None:
    """An answer settles its change for a day, but broken pages are another question."""
    site, before = Site(shop), list(shop.products)
    shop.guards = Guards(min_rows=20, canary=Canary(site=site, per_second=1e6))
    question = shop.refused()
    assert question.permits == ("shrink:products=0.3",)
    shop.answer(question, is_allowed=False)
    shop.products[:] = [*before, *(row(500 + key) for key in range(40))]
    site.broken = {str(each["loc"]) for each in shop.products[100:]}

    _, asked = shop.run()

    assert asked["products"].permits == ("canary:products",)
