"""Two runs at once, backfills of old dates, a DAG changed between tries, checks that stop a cleared run: what becomes of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowSkipException
from airflow.utils.types import DagRunType

from airflow_sitemaps import Guards, LocalStore, Section, SitemapTaskGroup
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.pipeline.state.repository import ATTEMPTS
from tests.semantics.shop import URL, Shop, dag_of
from tests.semantics.steps import Steps
from tests.simulation.faults import Fault
from tests.support.airflow_db import events

if TYPE_CHECKING:
    from airflow_sitemaps.sitemap import Sitemap

OLD = datetime(2020, 2, 29, tzinfo=timezone.utc)


def test_of_two_runs_at_once_one_publishes_and_the_other_fails_for_good(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    dag = dag_of(shop.sitemap(), "rivals", publish_kwargs={"retries": 3})
    Steps.start(dag, "before").step()
    shop.sql("UPDATE products SET slug = slug || '-a' WHERE id = 1")
    slow = Steps.start(dag, "slow").step("sitemap.plan", "sitemap.write*")
    shop.sql("UPDATE products SET slug = slug || '-b' WHERE id = 2")
    fast = Steps.start(dag, "fast").step()

    slow.step()

    assert (fast.state, slow.state) == ("success", "failed")
    assert slow.tries.count("sitemap.publish") == 1
    assert "run the DAG again to plan on its result" in caplog.text
    assert shop.urls() == shop.expected()
    assert shop.generation() == 2


def test_two_runs_at_once_of_different_sections_both_publish(shop: Shop) -> None:
    dag = dag_of(shop.sitemap(), "neighbours")
    Steps.start(dag, "before").step()
    shop.add("pages", 30)
    shop.add("products", 30)
    pages = Steps.start(dag, "pages", conf={"sections": ["pages"]}).step("sitemap.plan", "sitemap.write*")

    products = Steps.start(dag, "products", conf={"sections": ["products"]}).step()
    pages.step()

    assert (products.state, pages.state) == ("success", "success")
    assert shop.generation() == 3
    assert shop.urls() == shop.expected()


def test_a_backfill_of_an_old_date_publishes_what_the_table_holds_now(shop: Shop) -> None:
    dag = dag_of(shop.sitemap(), "backfill")
    Steps.start(dag, "now").step()
    before = shop.published()

    same = Steps.start(dag, "backfill__1", logical_date=OLD, run_type=DagRunType.BACKFILL_JOB).step()
    assert same.state == "success"
    assert shop.published() == before
    assert shop.generation() == 1
    assert events("backfill")[-1]["report"]["result"] == "unchanged"

    shop.add("products", 30)
    later = Steps.start(dag, "backfill__2", logical_date=OLD.replace(day=1), run_type=DagRunType.BACKFILL_JOB).step()
    assert later.state == "success"
    assert shop.generation() == 2
    assert shop.urls() == shop.expected()


def test_a_backfill_whose_query_asks_for_its_own_date_is_refused(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    """The one way in which a backfill would publish the past: a date of the run in the query."""
    shop.sql("UPDATE products SET updated_at = '2019-01-01 00:00:00' WHERE id < 5")
    dated = Section("products", shop.source("products", where="updated_at < '{{ ds }}'"))
    dag = dag_of(shop.sitemap(dated), "dated", plan_kwargs={"retries": 3})
    Steps.start(dag, "now").step()
    before = shop.published()

    past = Steps.start(dag, "backfill__1", logical_date=OLD, run_type=DagRunType.BACKFILL_JOB).step()

    assert past.states["sitemap.plan"] == "failed"
    assert past.tries == ["sitemap.plan", "sitemap.publish"]  # publish says that there is no plan
    assert "would shrink from 25 to 5 rows" in caplog.text
    assert shop.published() == before


def changed(shop: Shop, change: str) -> Sitemap:
    """The sitemap after an edit of the DAG."""
    if change == "removed":
        return shop.sitemap(Section("pages", shop.source("pages")), retired=("products",))
    if change == "rules":
        return shop.sitemap(rules={"key-null": "fail"})
    return shop.sitemap(
        Section("products", shop.source("products", loc=URL + "p/{slug}")), Section("pages", shop.source("pages"))
    )


@pytest.mark.parametrize("change", ["removed", "rules", "mapping"])
@pytest.mark.parametrize("when", ["write", "publish"])
def test_a_changed_section_fails_the_tasks_of_the_old_plan_for_good(
    shop: Shop, change: str, when: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"write_kwargs": {"retries": 3}, "publish_kwargs": {"retries": 3}}
    first = dag_of(shop.sitemap(), f"changed_{change}_{when}", **settings)
    run = Steps.start(first, "one").step("sitemap.plan", *(["sitemap.write*"] if when == "publish" else []))
    edited = changed(shop, change)

    run.edit(dag_of(edited, first.dag_id, **settings)).step()

    assert run.state == "failed"
    assert all(run.tries.count(name) == 1 for name in run.tries)
    assert "run the DAG again, or clear this run's tasks from the plan task onwards" in caplog.text
    pages_stand = when == "write" and change != "rules"  # rules are the sitemap's; the rest concerns products alone
    assert {name.rpartition("-")[0] for name in shop.published()} == ({"pages"} if pages_stand else set())
    run.clear(*run.states).step()  # what the message says
    assert run.state == "success"
    assert build(edited).result == "unchanged"
    fresh = replace_site(shop, change)
    assert shop.urls() == fresh


def replace_site(shop: Shop, change: str) -> list[str]:
    """What the edited sitemap publishes elsewhere, from nothing."""
    build(replace(changed(shop, change), store=LocalStore(shop.folder / "fresh", base_url=URL)))
    return shop.urls("fresh")


def test_a_guard_widened_after_the_refusal_counts_for_the_cleared_task(shop: Shop) -> None:
    """Guards are no part of a plan: they are checked again."""
    sitemap = shop.sitemap(guards=Guards(min_rows=10, max_dropped=0.0), on_section_failure="fail_all")
    shop.sql("UPDATE products SET slug = ? WHERE id = 7", "x" * 3000)  # no URL can be this long
    run = Steps.start(dag_of(sitemap, "widened"), "one").step()
    assert run.states["sitemap.publish"] == "failed"
    assert shop.published() == {}

    wider = shop.sitemap(guards=Guards(min_rows=10, max_dropped=0.1), on_section_failure="fail_all")
    run.edit(dag_of(wider, "widened"))
    run.clear("sitemap.publish").step()

    assert run.state == "success"
    assert len(shop.urls()) == 33


@pytest.mark.parametrize("settings", [{"index": "per_section"}, {"limits": "original"}, {"index_name": "map.xml"}])
def test_a_promotion_is_finished_as_it_was_committed_though_the_index_is_to_be_another(
    shop: Shop, settings: dict[str, str]
) -> None:
    dag_id = f"index_{next(iter(settings))}"
    shop.faults.on("put", "sitemap*.xml", Fault.UNAVAILABLE, area="public", times=ATTEMPTS)
    run = Steps.start(dag_of(shop.sitemap(), dag_id), "one").step()
    assert run.state == "failed"
    edited = shop.sitemap(**settings)

    run.edit(dag_of(edited, dag_id)).clear("sitemap.publish").step()

    assert run.state == "success"
    assert shop.urls() == shop.expected()
    made = build(edited)
    assert made.generation == 2
    assert all((shop.folder / "site" / url.removeprefix(URL)).exists() for url in made.index_urls)
    assert build(edited).result == "unchanged"


def test_an_unchanged_run_emits_no_event_where_publish_skips_it(shop: Shop) -> None:
    dag = dag_of(shop.sitemap(), "skips_unchanged", publish_kwargs={"skip_unchanged": True})
    Steps.start(dag, "one").step()

    again = Steps.start(dag, "two").step()

    assert again.states["sitemap.publish"] == "skipped"
    assert again.state == "success"
    assert len(events("skips_unchanged")) == 1


@pytest.mark.parametrize("place", ["plan", "write"])
@pytest.mark.parametrize(("error", "state"), [(ValueError, "failed"), (AirflowSkipException, "skipped")])
def test_a_check_that_stops_a_cleared_run_publishes_nothing_of_its_first_try(
    shop: Shop, place: str, error: type[Exception], state: str
) -> None:
    """The tasks after the check do not begin, so Airflow keeps what their first try returned."""
    problems: list[Exception] = []

    def check() -> None:
        for problem in problems:
            raise problem

    with DAG(f"stopped_{place}_{state}", schedule=None, max_active_runs=1, default_args={"retries": 0}) as dag:
        group, gate = SitemapTaskGroup("sitemap", shop.sitemap()), PythonOperator(task_id="gate", python_callable=check)
        [gate >> group.plan] if place == "plan" else [group.plan >> gate >> group.write]
    run = Steps.start(dag, "one").step("gate", "sitemap.plan", "sitemap.write*").mark_failed()
    problems.append(error("the rows are bad"))

    run.clear(*(name for name in run.states if (name, place) != ("sitemap.plan", "write"))).step()

    assert run.states["sitemap.publish"] == state
    assert shop.published() == {}
    problems.clear()
    run.clear(*run.states).step()
    assert shop.urls() == shop.expected()
