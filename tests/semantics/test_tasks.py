"""Retries, cleared tasks, runs marked failed: what docs/airflow.md says becomes of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.python import ShortCircuitOperator
from airflow.sdk import DAG

from airflow_sitemaps import Guards, Section, SitemapTaskGroup
from airflow_sitemaps.airflow_compat import AirflowTaskTimeout
from airflow_sitemaps.errors import RuleError, SourceError
from airflow_sitemaps.pipeline import stages
from airflow_sitemaps.pipeline.state.repository import ATTEMPTS
from tests.semantics.shop import URL, dag_of
from tests.semantics.steps import Steps
from tests.simulation.faults import Fault
from tests.support.airflow_db import events, xcom_of

if TYPE_CHECKING:
    from tests.semantics.shop import Shop

WRITES = [f"sitemap.write[{number}]" for number in range(4)]


def test_a_retried_write_leaves_what_the_failed_try_staged_out(shop: Shop) -> None:
    """The first try stores its bodies, then dies before its receipt is stored."""
    shop.faults.on("put", "runs/*/receipts/0001-*", Fault.UNAVAILABLE, area="state", times=ATTEMPTS)
    run = Steps.start(dag_of(shop.sitemap(), "retry", write_kwargs={"retries": 1, "retry_delay": 0}), "one").step()

    assert run.tries.count("sitemap.write[1]") == 2
    assert run.state == "success"
    assert shop.urls() == shop.expected()
    assert len(list((shop.folder / "site-state").rglob("bodies/*.xml.gz"))) == 5  # one of them of no run
    shop.heal()


def test_a_retried_plan_plans_anew(shop: Shop) -> None:
    shop.faults.on("put", "plans/*", Fault.UNAVAILABLE, area="state", times=ATTEMPTS)

    run = Steps.start(dag_of(shop.sitemap(), "replan", plan_kwargs={"retries": 1, "retry_delay": 0}), "one").step()

    assert run.tries[:2] == ["sitemap.plan", "sitemap.plan"]
    assert run.state == "success"
    assert shop.urls() == shop.expected()


def test_a_retried_publish_goes_on_where_the_first_try_stopped(shop: Shop) -> None:
    """The manifest is committed, some files are promoted, then the store goes away."""
    shop.faults.on("put", "products-00002*", Fault.UNAVAILABLE, area="public", times=ATTEMPTS)

    run = Steps.start(
        dag_of(shop.sitemap(), "promotion", publish_kwargs={"retries": 1, "retry_delay": 0}), "one"
    ).step()

    assert run.tries.count("sitemap.publish") == 2
    assert run.state == "success"
    assert shop.generation() == 1
    assert shop.urls() == shop.expected()
    shop.heal()


def test_a_cleared_write_task_changes_nothing_public(shop: Shop) -> None:
    run = Steps.start(dag_of(shop.sitemap(), "cleared_write"), "one").step()
    before = shop.published()
    first = run.xcom("sitemap.write", 1)
    shop.sql("UPDATE products SET slug = 'renamed' WHERE id = 12")

    run.clear("sitemap.write[1]").step()

    assert run.state == "success"
    assert run.xcom("sitemap.write", 1) != first
    assert shop.published() == before
    assert shop.generation() == 1
    shop.heal()


@pytest.mark.parametrize("policy", ["publish_others", "fail_all"])
def test_a_cleared_write_task_that_had_failed_lets_the_run_go_on(shop: Shop, policy: str) -> None:
    """Its section is published by the same run, whether the others are public already or not."""
    shop.faults.on("put", "runs/*/bodies/products-00001*", Fault.UNAVAILABLE, area="state", times=20)
    run = Steps.start(dag_of(shop.sitemap(on_section_failure=policy), f"failed_write_{policy}"), "one").step()
    assert run.state == "failed"
    assert len(shop.urls()) == (9 if policy == "publish_others" else 0)
    shop.faults._rules.clear()

    run.clear("sitemap.write[1]", "sitemap.publish").step()

    assert run.state == "success"
    assert run.tries.count("sitemap.write[0]") == 1  # the batches that were written stay written
    assert shop.urls() == shop.expected()


def test_a_refused_section_fails_publish_after_the_others_are_published(shop: Shop) -> None:
    dag = dag_of(shop.sitemap(), "partly", publish_kwargs={"retries": 3})
    Steps.start(dag, "one").step()
    old = shop.urls()
    shop.sql("DELETE FROM products")
    shop.add("pages", 30)

    run = Steps.start(dag, "two").step()

    assert run.states["sitemap.publish"] == run.state == "failed"
    assert run.tries.count("sitemap.publish") == 1
    assert shop.urls() == sorted([*old, f"{URL}pages-30"])
    assert len(events("partly")) == 1


def test_with_fail_all_a_refused_section_fails_the_plan(shop: Shop) -> None:
    dag = dag_of(shop.sitemap(on_section_failure="fail_all"), "wholly")
    Steps.start(dag, "one").step()
    old = shop.urls()
    shop.sql("DELETE FROM products")
    shop.add("pages", 30)

    run = Steps.start(dag, "two").step()

    assert run.states["sitemap.plan"] == run.state == "failed"
    assert shop.urls() == old


def with_a_failing_section(shop: Shop, dag_id: str, policy: str, **settings: Any) -> tuple[Steps, list[str]]:
    """A second run, whose batch of pages cannot be stored; and the URLs that were published before it."""
    dag = dag_of(shop.sitemap(on_section_failure=policy), dag_id, **settings)
    Steps.start(dag, "one").step()
    old = shop.urls()
    shop.add("products", 26)
    shop.add("pages", 30)
    shop.faults.on("put", "runs/*/bodies/pages-*", Fault.UNAVAILABLE, area="state", times=20)
    return Steps.start(dag, "two").step(), old


def test_the_sections_of_other_write_tasks_are_published_where_one_fails(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """``publish`` waits until the retries are used up, publishes the others, and fails without retries."""
    retrying = {"write_kwargs": {"retries": 2, "retry_delay": 0}, "publish_kwargs": {"retries": 3}}
    run, old = with_a_failing_section(shop, "failed_section", "publish_others", **retrying)

    publish, write = sorted(name for name, state in run.states.items() if state == "failed")
    assert (publish, run.tries[0], run.tries[-1]) == ("sitemap.publish", "sitemap.plan", "sitemap.publish")
    assert (run.tries.count(write), run.tries.count(publish)) == (3, 1)
    assert run.state == "failed"
    assert shop.urls() == sorted([*old, f"{URL}products-26"])
    assert shop.generation() == 2
    assert len(events("failed_section")) == 1, "Airflow emits no event of a failed task"
    assert "Partly published. 1 section not published; the earlier files stay public" in caplog.text
    said = xcom_of("failed_section", "two", "sitemap.publish", "sitemap_failed")
    assert said["error"] == "PartlyPublishedError"
    assert "section pages: IncompleteError: its only batch could not be written" in said["message"]
    assert "outcome unknown after" in said["message"]
    report = last_report(shop)
    assert report["result"] == "partly_published"
    assert [failure["section"] for failure in report["failures"]] == ["pages"]
    shop.faults._rules.clear()
    last = Steps.start(run.dag, "three").step()
    assert last.state == "success"
    assert shop.urls() == shop.expected()
    assert len(events("failed_section")) == 2


def last_report(shop: Shop) -> dict[str, Any]:
    """The newest report in the state area."""
    reports = (shop.folder / "site-state" / "reports").iterdir()  # their names order them by the second only
    found: dict[str, Any] = json.loads(max(reports, key=lambda report: report.stat().st_mtime_ns).read_text())
    return found


def test_with_fail_all_a_write_task_that_fails_stops_the_run_before_its_commit(shop: Shop) -> None:
    run, old = with_a_failing_section(shop, "wholly_written", "fail_all")

    assert run.states["sitemap.publish"] == "upstream_failed"
    assert shop.urls() == old
    assert shop.generation() == 1


def test_where_every_write_task_fails_publish_fails_and_nothing_changes(shop: Shop) -> None:
    dag = dag_of(shop.sitemap(), "nothing_written", publish_kwargs={"retries": 3})
    Steps.start(dag, "one").step()
    old = shop.published()
    shop.add("products", 26)
    shop.faults.on("put", "runs/*/bodies/*", Fault.UNAVAILABLE, area="state", times=40)

    run = Steps.start(dag, "two").step()

    assert run.states["sitemap.publish"] == run.state == "failed"
    assert run.tries.count("sitemap.publish") == 1
    assert shop.published() == old
    assert last_report(shop)["result"] == "refused"


def test_publish_fails_with_a_failed_plan_and_is_skipped_with_a_skipped_one(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    shop.faults.on("put", "plans/*", Fault.UNAVAILABLE, area="state", times=40)
    failed = Steps.start(dag_of(shop.sitemap(), "no_plan", publish_kwargs={"retries": 3}), "one").step()

    assert failed.states["sitemap.plan"] == failed.states["sitemap.publish"] == failed.state == "failed"
    assert failed.tries.count("sitemap.publish") == 1
    assert "rendering Jinja template" not in caplog.text
    assert shop.published() == {}
    shop.faults._rules.clear()
    with DAG("skipped_plan", schedule=None, max_active_runs=1, default_args={"retries": 0}) as dag:
        gate = ShortCircuitOperator(
            task_id="gate", python_callable=lambda: False, ignore_downstream_trigger_rules=False
        )
        gate >> SitemapTaskGroup("sitemap", shop.sitemap())

    skipped = Steps.start(dag, "one").step()

    assert skipped.states["sitemap.publish"] == "skipped"
    assert skipped.state == "success"
    assert shop.published() == {}


def test_a_cleared_publish_task_publishes_nothing_twice(shop: Shop) -> None:
    run = Steps.start(dag_of(shop.sitemap(), "cleared_publish"), "one").step()
    before = {path: path.read_bytes() for path in (shop.folder / "site").iterdir()}

    run.clear("sitemap.publish").step()

    assert run.state == "success"
    assert {path: path.read_bytes() for path in (shop.folder / "site").iterdir()} == before
    assert [event["report"]["generation"] for event in events("cleared_publish")] == [1, 1]


def test_a_publish_task_cleared_after_later_runs_fails_and_says_so(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    dag = dag_of(shop.sitemap(), "late_publish", publish_kwargs={"retries": 3})
    early = Steps.start(dag, "early").step()
    shop.add("products", 30)
    Steps.start(dag, "later").step()
    now = shop.published()

    early.clear("sitemap.publish").step()

    assert early.states["sitemap.publish"] == "failed"
    assert early.tries.count("sitemap.publish") == 2  # no useless retry
    assert "was published before, and generation 2" in caplog.text
    assert shop.published() == now


def test_a_run_cleared_as_a_whole_plans_anew(shop: Shop) -> None:
    run = Steps.start(dag_of(shop.sitemap(), "cleared_run"), "one").step()
    shop.add("products", 31)

    run.clear(*run.states).step()

    assert run.state == "success"
    assert shop.generation() == 2
    assert shop.urls() == shop.expected()


def test_a_run_marked_failed_before_its_commit_leaves_nothing_public(shop: Shop) -> None:
    dag = dag_of(shop.sitemap(), "marked")
    Steps.start(dag, "one").step()
    before = shop.published()
    shop.add("products", *range(30, 45))
    shop.sql("UPDATE products SET slug = 'renamed' WHERE id = 3")

    broken = Steps.start(dag, "two").step("sitemap.plan", "sitemap.write[[]0[]]").mark_failed()

    assert broken.state == "failed"
    assert broken.states["sitemap.publish"] == "skipped"
    assert shop.published() == before
    Steps.start(dag, "three").step()
    assert shop.urls() == shop.expected()


def test_a_run_marked_failed_can_be_taken_up_again(shop: Shop) -> None:
    run = Steps.start(dag_of(shop.sitemap(), "taken_up"), "one").step("sitemap.plan", "sitemap.write[[]0[]]")
    run.mark_failed()

    run.clear(*WRITES[1:], "sitemap.publish").step()

    assert run.state == "success"
    assert run.tries.count("sitemap.write[0]") == 1
    assert shop.urls() == shop.expected()


@pytest.mark.parametrize(("is_teardown", "state"), [(False, "success"), (True, "failed")])
def test_a_task_after_the_group_hides_its_failure_from_airflow_unless_it_is_a_teardown(
    is_teardown: bool, state: str, shop: Shop
) -> None:
    shop.faults.on("put", "*", Fault.UNAVAILABLE, area="public", times=50)
    dag = dag_of(shop.sitemap(), f"followed_{is_teardown}")
    with dag:
        end = EmptyOperator(task_id="end", trigger_rule="all_done")
    dag.get_task("sitemap.publish") >> (end.as_teardown() if is_teardown else end)

    run = Steps.start(dag, "one").step()

    assert (run.states["sitemap.publish"], run.states["end"]) == ("failed", "success")
    assert run.state == state


def test_a_run_stopped_in_the_middle_of_its_promotion_is_finished_by_the_next(shop: Shop) -> None:
    """What the killed task leaves: a committed manifest, some of its files public, the old index."""
    dag = dag_of(shop.sitemap(guards=Guards.disabled()), "stopped")
    Steps.start(dag, "one").step()
    old = shop.published()
    shop.sql("UPDATE products SET slug = slug || '-new'")
    shop.faults.on("put", "*.xml*", Fault.UNAVAILABLE, area="public", after=1, times=50)

    stopped = Steps.start(dag, "two").step()

    assert stopped.state == "failed"
    assert list(shop.published()) == list(old)  # every file that the index lists is there and whole
    shop.faults._rules.clear()
    shop.add("pages", 30)
    last = Steps.start(dag, "three").step()
    assert last.state == "success"
    assert shop.generation() == 3  # generation 2 was finished, then the new page published
    assert shop.urls() == shop.expected()


def of_one_task(shop: Shop, dag_id: str, **settings: Any) -> DAG:
    """A DAG whose only write task holds the sections a, b and c."""
    for name in "abc":
        shop.sql(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, slug TEXT, updated_at TEXT)")
        shop.add(name, 1, 2)
    sections = [Section(name, shop.source(name)) for name in "abc"]
    sitemap = shop.sitemap(*sections, rules={"loc-missing": "fail"}, **settings)
    with DAG(dag_id, schedule=None, max_active_runs=1, default_args={"retries": 1, "retry_delay": 0}) as dag:
        SitemapTaskGroup("sitemap", sitemap)
    return dag


def test_a_section_that_fails_leaves_the_others_of_its_task_to_be_published(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """Each failed section has its own reason, and is published once its task is cleared together with ``publish``."""
    dag = of_one_task(shop, "shared")
    Steps.start(dag, "one").step()
    for name in "abc":
        shop.add(name, 3)
    shop.sql("UPDATE a SET slug = NULL WHERE id = 1")
    shop.sql("UPDATE c SET slug = NULL WHERE id = 2")

    run = Steps.start(dag, "two").step()

    assert run.tries == ["sitemap.plan", "sitemap.write[0]", "sitemap.publish"], "a refusal is not retried"
    assert {run.states["sitemap.write[0]"], run.states["sitemap.publish"], run.state} == {"failed"}
    assert shop.urls() == [URL + slug for slug in ("a-1", "a-2", "b-1", "b-2", "b-3", "c-1", "c-2")]
    assert "2 of 3 batches not written; complete sections can be published" in caplog.text
    reasons = {failure["section"]: failure["message"] for failure in last_report(shop)["failures"]}
    assert [*reasons] == ["a", "c"]
    assert all(f"could not be written: {name}: 1 row broke the rule" in reason for name, reason in reasons.items())
    shop.sql("UPDATE a SET slug = 'a-1' WHERE id = 1")
    shop.sql("UPDATE c SET slug = 'c-2' WHERE id = 2")

    run.clear("sitemap.write[0]", "sitemap.publish").step()

    assert run.state == "success"
    assert shop.urls() == [f"{URL}{name}-{number}" for name in "abc" for number in (1, 2, 3)]
    assert shop.generation() == 3


@pytest.mark.parametrize(("heals", "expected"), [(True, "success"), (False, "failed")])
def test_an_error_that_a_retry_may_fix_ends_all_tries_but_the_last(
    heals: bool, expected: str, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that is down gets no query for each further section while a retry is to come."""
    dag = of_one_task(shop, f"down_{heals}")
    asked: list[int] = []
    write = stages.write

    def fails(sitemap: Any, plan: str, number: int, **settings: Any) -> Any:
        asked.append(number)
        if number == 0 and not (heals and len(asked) > 1):
            raise SourceError("a: the database is down")
        return write(sitemap, plan, number, **settings)

    monkeypatch.setattr(stages, "write", fails)

    run = Steps.start(dag, "one").step()

    assert asked == [0, 0, 1, 2]
    assert run.state == expected
    assert shop.urls() == [f"{URL}{name}-{number}" for name in ("abc" if heals else "bc") for number in (1, 2)]


@pytest.mark.parametrize("settings", [{"on_section_failure": "fail_all"}, {}])
def test_an_error_of_the_whole_task_ends_it_at_once(
    settings: dict[str, str], shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    error: BaseException = RuleError("a: refused") if settings else AirflowTaskTimeout("too long")
    asked: list[int] = []

    def fails(sitemap: Any, plan: str, number: int, **settings: Any) -> Any:
        asked.append(number)
        raise error

    monkeypatch.setattr(stages, "write", fails)

    run = Steps.start(of_one_task(shop, f"whole_{len(settings)}", **settings), "one").step()

    assert asked == [0] * run.tries.count("sitemap.write[0]")
    assert run.state == "failed"
    assert shop.urls() == []
