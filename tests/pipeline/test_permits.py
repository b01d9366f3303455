"""A permit holds for one publication, and a second deployment with the same state is refused."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps import Guards, MemoryStore, Section, Sitemap, pipeline
from airflow_sitemaps.errors import GuardError, PartlyPublishedError, RequestError, StoreError
from airflow_sitemaps.pipeline import build, stages
from airflow_sitemaps.pipeline.publish import promotion
from airflow_sitemaps.pipeline.request import RunRequest
from airflow_sitemaps.report_text import lines
from airflow_sitemaps.shards.guards import check_permits
from airflow_sitemaps.testing import FakeClock, MemorySourceConfig, crawl
from tests.support.environment import BASE, World, row

if TYPE_CHECKING:
    from airflow_sitemaps.pipeline.report import Report

PRODUCTION = "https://airflow.example.com"
STAGING = "https://staging.example.com"


class Shop:
    """Two sections, and runs as the tasks of a DAG run make them."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(base_url=BASE, now=self.clock.now)
        self.rows = {name: [row(f"{name}-{key:05}") for key in range(2_000)] for name in ("a", "b")}

    def sitemap(self) -> Sitemap:
        sections = [Section(name, MemorySourceConfig(rows)) for name, rows in self.rows.items()]
        return Sitemap(self.store, sections, guards=Guards())

    def plan(self, **request: Any) -> tuple[str, list[str]]:
        sitemap = self.sitemap()
        planned = stages.plan(sitemap, RunRequest(**request), clock=self.clock)
        batches = planned.batches
        return planned.key, [
            stages.write(sitemap, planned.key, b.number, clock=self.clock).receipt_key for b in batches
        ]

    def run(self, **request: Any) -> Report:
        self.clock.advance(timedelta(minutes=10))
        return stages.publish(self.sitemap(), *self.plan(**request), clock=self.clock)

    def shrink(self, name: str) -> None:
        del self.rows[name][len(self.rows[name]) * 4 // 5 :]


@pytest.mark.parametrize("permit", ["shrink:a=0.2", "shrink=0.2", "shrink"])
def test_a_permit_holds_once_however_often_its_run_is_cleared(permit: str) -> None:
    """The table loses a fifth each time: four times would leave 819 of 2,000 URLs."""
    shop = Shop()
    shop.run()
    shop.shrink("a")
    assert shop.run(allow=(permit,), asked_by="shop manual-1").sections["a"].urls == 1_600
    shop.shrink("a")
    with pytest.raises(GuardError, match="shrink from 1,600 to 1,280"):
        shop.run(allow=(permit,), asked_by="shop manual-1")
    shop.rows["b"].append(row("b-99999"))
    shop.run(sections=("b",), asked_by="shop scheduled-2")
    with pytest.raises(GuardError, match="shrink from 1,600 to 1,280"):
        shop.run(allow=(permit,), asked_by="shop manual-1")
    assert shop.run(allow=(permit,), asked_by="shop manual-3").sections["a"].urls == 1_280


def test_a_cleared_run_keeps_the_permits_of_sections_that_it_did_not_publish() -> None:
    shop = Shop()
    shop.run()
    shop.shrink("a")
    shop.run(allow=("shrink",), asked_by="shop manual-1")
    shop.shrink("b")
    again = shop.run(allow=("shrink",), asked_by="shop manual-1")
    assert again.sections["b"].urls == 1_600
    assert [text for text in again.warnings if "used for an earlier publication" in text]


def test_a_permit_from_the_shell_is_a_new_request_each_time() -> None:
    shop = Shop()
    shop.run()
    for left in (1_600, 1_280):
        shop.shrink("a")
        assert shop.run(allow=("shrink:a=0.2",)).sections["a"].urls == left


def test_a_second_deployment_that_writes_to_the_same_state_is_refused() -> None:
    """Staging has the same code, production's store connection and a table of its own."""
    shop = Shop()
    shop.run(origin=PRODUCTION)
    before = dict(shop.store.public.objects)
    written = set(shop.store.state.objects)
    shop.rows["a"][0] = row("test")
    with pytest.raises(
        GuardError, match=rf"by the deployment {PRODUCTION}, and this run is of {STAGING}.*--allow moved"
    ):
        shop.run(origin=STAGING)
    assert shop.store.public.objects == before
    assert set(shop.store.state.objects) == written, "production's pages show nothing of it"
    assert shop.run(origin=STAGING, allow=("moved",)).result == "published"
    shop.rows["a"][1] = row("second")
    assert shop.run(origin=STAGING).result == "published", "the permit is needed once"
    with pytest.raises(GuardError, match="moved"):
        shop.run(origin=PRODUCTION)


def die_while_promoting(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit a generation in production whose promotion fails at its first file."""

    def fail(*arguments: object, **settings: object) -> str:
        raise StoreError("the store failed")

    with monkeypatch.context() as broken:
        broken.setattr(promotion, "_promote_file", fail)
        with pytest.raises(StoreError):
            shop.run(origin=PRODUCTION)


def test_another_deployment_finishes_no_promotion(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop()
    shop.run(origin=PRODUCTION)
    before = dict(shop.store.public.objects)
    shop.rows["a"][0] = row("first")
    die_while_promoting(shop, monkeypatch)
    assert stages.recover(shop.sitemap(), origin=STAGING, clock=shop.clock) is None
    assert shop.store.public.objects == before
    assert stages.recover(shop.sitemap(), origin=PRODUCTION, clock=shop.clock) == 2


def test_a_deployment_that_lost_the_race_is_refused_at_its_commit() -> None:
    shop = Shop()
    key, receipts = shop.plan(origin=STAGING)
    shop.run(origin=PRODUCTION)
    with pytest.raises(GuardError, match="--allow moved"):
        stages.publish(shop.sitemap(), key, receipts, clock=shop.clock)


def test_a_run_that_knows_no_deployment_passes_and_changes_no_origin() -> None:
    shop = Shop()
    build(shop.sitemap(), clock=shop.clock)
    shop.rows["a"][0] = row("first")
    shop.run(origin=PRODUCTION)
    shop.rows["a"][0] = row("second")
    assert build(shop.sitemap(), clock=shop.clock).result == "published"
    pipeline.rollback(shop.sitemap(), 2, clock=shop.clock)
    with pytest.raises(GuardError, match="moved"):
        shop.run(origin=STAGING)


def test_an_airflow_that_does_not_know_its_address_is_told_of_the_other_one(caplog: pytest.LogCaptureFixture) -> None:
    shop = Shop()
    shop.run(origin=PRODUCTION)
    with caplog.at_level(logging.WARNING):
        shop.run(asked_by="shop manual-1")
    assert f"was last published by the deployment {PRODUCTION}" in caplog.text
    assert "[api] base_url" in caplog.text


def test_a_permit_of_a_first_publication_is_used_too() -> None:
    shop = Shop()
    shop.run(allow=("shrink",), asked_by="shop manual-1")
    shop.shrink("a")
    with pytest.raises(GuardError, match="shrink from 2,000 to 1,600"):
        shop.run(allow=("shrink",), asked_by="shop manual-1")


def test_a_used_permit_stays_used_after_another_one() -> None:
    shop = Shop()
    shop.run()
    for request in ("shop manual-1", "shop manual-2"):
        shop.shrink("a")
        shop.run(allow=("shrink:a",), asked_by=request)
    shop.shrink("a")
    with pytest.raises(GuardError, match="shrink from 1,280 to 1,024"):
        shop.run(allow=("shrink:a",), asked_by="shop manual-1")


def test_another_deployment_rolls_nothing_back() -> None:
    shop = Shop()
    shop.run(origin=PRODUCTION)
    shop.rows["a"].append(row("a-99999"))
    shop.run(origin=PRODUCTION)
    with pytest.raises(GuardError, match=f"by the deployment {PRODUCTION}, and this run is of {STAGING}"):
        pipeline.rollback(shop.sitemap(), 1, origin=STAGING, clock=shop.clock)
    assert pipeline.rollback(shop.sitemap(), 1, origin=PRODUCTION, clock=shop.clock).generation == 3
    assert pipeline.rollback(shop.sitemap(), 2, origin=STAGING, allow=["moved"], clock=shop.clock).generation == 4


def test_a_permitted_move_is_recorded_though_nothing_changed() -> None:
    shop = Shop()
    shop.run(origin=PRODUCTION)
    before = dict(shop.store.public.objects)
    assert shop.run(origin=STAGING, allow=("moved",)).result == "published"
    assert shop.store.public.objects == before
    assert shop.run(origin=STAGING).result == "unchanged"
    with pytest.raises(GuardError, match="moved"):
        shop.run(origin=PRODUCTION)


def test_a_permitted_move_finishes_the_promotion_of_the_other_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop()
    shop.run(origin=PRODUCTION)
    shop.rows["a"][0] = row("first")
    die_while_promoting(shop, monkeypatch)
    assert shop.run(origin=STAGING, allow=("moved",)).result == "published"
    assert row("first")["loc"] in crawl(shop.store.open()).locs()


def test_a_bound_in_percent_is_refused() -> None:
    """A bound of 15 would let any loss pass."""
    with pytest.raises(RequestError, match=r"'15' is not a valid bound; give a fraction, like shrink:pages=0\.15"):
        check_permits(["shrink:pages=15"], ["pages"])
    check_permits(["growth:pages=15", "shrink:pages=1"], ["pages"])


def test_a_change_that_is_allowed_at_the_commit_is_named() -> None:
    world = World([row(key) for key in range(2_000)], max_urls=500, guards=Guards())
    world.build()
    for each in world.rows:
        each["loc"] = each["loc"].replace("/p/", "/q/")
    with pytest.raises(GuardError, match="churn"):
        world.build()
    report = world.build(allow=["churn=1"])
    assert any(warning.startswith("allowed: Section 'pages'") for warning in report.warnings)


def test_a_report_names_a_drifted_index_and_no_retired_section_as_not_checked() -> None:
    world = World([row(key) for key in range(5)])
    world.build()
    world.store.public.delete("sitemap.xml")
    text = list(lines(world.build()))
    assert "WARNING changed outside: sitemap.xml was changed by another program" in text
    sections = [Section("others", MemorySourceConfig([row(9)]))]
    report = build(Sitemap(world.config, sections, guards=Guards.disabled(), retired=["pages"]), clock=world.clock)
    text = list(lines(report))
    assert not [line for line in text if line.startswith("not checked")]
    assert "section pages: its 1 file left the index" in text


def test_permits_of_a_section_that_another_guard_refuses_are_not_named() -> None:
    shop = [[row(key, loc=f"{BASE}{name}/{key}") for key in range(2_000)] for name in ("a", "b")]
    store, clock = MemoryStore(base_url=BASE), FakeClock()
    sections = [Section(name, MemorySourceConfig(rows)) for name, rows in zip("ab", shop, strict=True)]
    sitemap = Sitemap(store, sections)
    build(sitemap, clock=clock)
    for each in [*shop[0], *shop[1]]:
        each["loc"] = each["loc"].replace("/a/", "/x/").replace("/b/", "/y/")
    for each in shop[1][:100]:
        each["loc"] = "ftp://www.example.com/"
    with pytest.raises(PartlyPublishedError) as partly:
        build(sitemap, allow=["churn=1"], clock=clock)
    allowed = [warning for warning in partly.value.report.warnings if warning.startswith("allowed: ")]
    assert [warning.startswith("allowed: Section 'a'") for warning in allowed] == [True]


def test_a_permitted_loss_of_a_url_that_must_be_listed_is_named() -> None:
    world = World([row(1, loc=f"{BASE}about"), row(2)], settings={"must_list": ["/about"]})
    world.build()
    del world.rows[0]
    report = world.build(allow=["must_list"])
    assert [w for w in report.warnings if w.startswith("allowed: ") and "must_list" in w]
