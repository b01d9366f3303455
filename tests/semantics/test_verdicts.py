"""What the pages say of a sitemap after runs that Airflow's task states describe badly: results belong to sections.

Runs are real, in Airflow's own database. What cannot be waited for (months, a time-out, a cleaned database) is written
into the database as Airflow writes it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from airflow.models.asset import AssetEvent, AssetModel
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, XComArg
from airflow.sdk.exceptions import AirflowSkipException
from airflow.utils.session import create_session
from sqlalchemy import delete, select, update

from airflow_sitemaps import LocalStore, Section, SitemapPlanOperator, SitemapPublishOperator, SitemapWriteOperator
from airflow_sitemaps.operators.plan import PLAN_KEY
from airflow_sitemaps.pipeline import rollback
from airflow_sitemaps.plugin import dag_runs, events
from airflow_sitemaps.plugin.pages import overview, runs
from airflow_sitemaps.plugin.pages.sitemap_pages import SitemapLine, line_of, page_of
from airflow_sitemaps.plugin.readings import BoundedCache
from airflow_sitemaps.plugin.state_reader import StateReader, StoreStates, open_state
from airflow_sitemaps.task_group import define_params
from tests.semantics.shop import URL, Shop, dag_of
from tests.semantics.steps import Steps
from tests.support.airflow_db import database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_sitemaps.sitemap import Sitemap

ORDER = ("failing", "warning", "not_verified", "healthy")
"""The states, the worst first. A sitemap is as bad as the worst of its sections."""


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No events and runs of other tests; and a page waits for the store, however busy the machine is."""
    monkeypatch.setattr(overview, "PAGE_WAIT_S", 60.0)
    forget()
    yield
    forget()


def forget() -> None:
    """What `airflow db clean` leaves: nothing of any run."""
    database()
    with create_session() as session:
        for table in (AssetEvent, XComModel, TaskInstance, DagRun):
            session.execute(delete(table))
    overview.events.SUMMARIES = BoundedCache(1_000)


def look(sitemap: Sitemap, *, later: timedelta = timedelta(), store: bool = True) -> dict[str, Any]:
    """The page of a sitemap, as the API answers it; ``store``: the API server can read it."""
    states = StoreStates(StateReader(open_state)) if store else None
    now = datetime.now(timezone.utc) + later
    with create_session() as session:
        named = overview.events.asset_by_uri(session, str(sitemap.asset.uri))
        assert named is not None
        dags = {"verdicts", *session.scalars(select(DagRun.dag_id))}
        (found,) = overview.overviews(session, [named], dags, now, states)
        line = SitemapLine(**line_of(found)).model_dump()
        page: dict[str, Any] = page_of(session, found, lambda _: True, may_archive=True).model_dump()
        assert {name: page[name] for name in line} == line
        assert min(ORDER.index(each["state"]) for each in page["sections"]) >= ORDER.index(page["state"])
        return page


def section(page: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in page["sections"] if each["name"] == name)


def states(page: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {each["name"]: (each["state"], each["result"]) for each in page["sections"]}


@pytest.fixture
def dag(shop: Shop) -> DAG:
    """A DAG whose first run has published both sections."""
    found = dag_of(site(shop), "verdicts", publish_kwargs={"retries": 0}, plan_kwargs={"retries": 0})
    Steps.start(found, "first").step()
    with create_session() as session:
        session.execute(update(DagModel).where(DagModel.dag_id == "verdicts").values(is_paused=False))
    Steps.start(found, "unchanged").step()  # so that the last report has no warning of a first build
    return found


def site(shop: Shop, *sections: Section) -> Sitemap:
    """The shop's sitemap in a plain store, whose place the asset names."""
    return replace(shop.sitemap(*sections), store=LocalStore(shop.folder / "site", base_url=URL))


def titles(page: dict[str, Any]) -> list[str]:
    return [problem["title"] for problem in page["problem_list"]]


def run(dag: DAG, run_id: str, *sections: str) -> Steps:
    return Steps.start(dag, run_id, conf={"sections": list(sections)} if sections else {}).step()


def broken(shop: Shop, *, where: str = "missing = 1") -> DAG:
    """The same DAG, after its second section's query has become wrong."""
    wrong = Section("pages", shop.source("pages", where=where))
    return dag_of(site(shop, Section("products", shop.source("products")), wrong), "verdicts")


def test_v1_a_failed_section_stays_failed_when_another_section_succeeds(shop: Shop, dag: DAG) -> None:
    run(broken(shop), "pages-fail", "pages")
    shop.add("products", 40)

    assert run(broken(shop), "products-succeed", "products").state == "success"
    page = look(site(shop))

    assert (page["state"], page["reason"], page["run_id"]) == ("failing", "Last run failed", "pages-fail")
    assert states(page) == {"products": ("not_verified", "published"), "pages": ("failing", "failed")}
    assert page["problem_list"][0]["title"] == "Last run of section pages failed"
    assert section(page, "pages")["next_step"].startswith("Read the failed task's log.")
    assert section(page, "pages")["last_checked"] < section(page, "products")["last_checked"]
    assert page["data_read_at"] == section(page, "pages")["last_checked"]
    assert [each["urls_trend"] for each in page["sections"]] == [[25, 25, 26], [9, 9, 9]]

    run(dag, "pages-succeed", "pages")
    assert states(look(site(shop))) == {
        "products": ("not_verified", "published"),
        "pages": ("not_verified", "unchanged"),
    }


@pytest.mark.parametrize("others", [8, 40])
def test_v1_a_failure_counts_however_many_runs_of_another_section_follow(shop: Shop, dag: DAG, others: int) -> None:
    run(broken(shop), "pages-fail", "pages")
    steps = run(dag, "products", "products")
    with create_session() as session:  # further runs of that section, as the first one left them
        event = session.scalars(select(AssetEvent).where(AssetEvent.source_run_id == steps.run_id)).one()
        for number in range(others):
            at = event.timestamp + timedelta(seconds=number)
            copied = {"asset_id": event.asset_id, "extra": event.extra, "source_dag_id": "verdicts"}
            session.add(AssetEvent(**copied, source_run_id=f"later-{number}", timestamp=at))

    assert states(look(site(shop), store=False))["pages"] == ("failing", "failed")


def timed_out(steps: Steps) -> None:
    """What the scheduler does to a run that takes longer than ``dagrun_timeout``."""
    with create_session() as session:
        of_run = (TaskInstance.dag_id == "verdicts") & (TaskInstance.run_id == steps.run_id)
        unfinished = of_run & (
            TaskInstance.state.is_(None) | TaskInstance.state.in_(["scheduled", "queued", "running"])
        )
        session.execute(update(TaskInstance).where(unfinished).values(state="skipped"))
        now = datetime.now(timezone.utc)
        whole = (DagRun.dag_id == "verdicts") & (DagRun.run_id == steps.run_id)
        session.execute(update(DagRun).where(whole).values(_state="failed", end_date=now))


@pytest.mark.parametrize("ran", [(), ("sitemap.plan",), ("sitemap.plan", "sitemap.write*")])
def test_v2_a_run_that_timed_out_has_failed(shop: Shop, dag: DAG, ran: tuple[str, ...]) -> None:
    shop.add("products", 40)
    steps = Steps.start(dag, "slow")
    timed_out(steps.step(*ran) if ran else steps)

    page = look(site(shop))

    assert (page["state"], page["reason"], page["run_id"]) == ("failing", "Last run failed", "slow")
    assert "dagrun_timeout" in page["problem_list"][0]["detail"]


def test_v3_a_sitemap_without_an_objective_is_not_healthy_for_ever(shop: Shop, dag: DAG) -> None:
    assert look(site(shop), later=timedelta(days=29))["reason"] == "Not verified"

    page = look(site(shop), later=timedelta(days=60))

    assert (page["state"], page["reason"]) == ("warning", "No data read for 30 days")
    assert [each["reason"] for each in page["sections"]] == ["No data read for 30 days"] * 2
    assert "freshness" in section(page, "pages")["next_step"]


def marked_as_successful(steps: Steps) -> None:
    """What Airflow does when a person marks the tasks of a run as successful."""
    now = datetime.now(timezone.utc)
    with create_session() as session:
        of_run = (TaskInstance.dag_id == "verdicts") & (TaskInstance.run_id == steps.run_id)
        session.execute(update(TaskInstance).where(of_run).values(state="success", end_date=now))
        whole = (DagRun.dag_id == "verdicts") & (DagRun.run_id == steps.run_id)
        session.execute(update(DagRun).where(whole).values(_state="success", end_date=now))


@pytest.mark.parametrize("how", ["after it failed", "while it ran"])
def test_v4_a_run_marked_as_successful_published_nothing(shop: Shop, dag: DAG, how: str) -> None:
    before = look(site(shop))
    shop.add("pages", 40)
    ran = ("sitemap.plan", "sitemap.write*")
    steps = run(broken(shop), "marked") if how == "after it failed" else Steps.start(dag, "marked").step(*ran)
    if how == "after it failed":
        marked_as_successful(steps)
    else:
        steps.mark_successful()

    page = look(site(shop))

    assert (page["state"], page["reason"], page["run_id"]) == ("failing", "Last run failed", "marked")
    said = "marked as successful by hand" if how == "after it failed" else "a person marked the run as successful"
    assert said in page["problem_list"][0]["detail"]
    assert section(page, "pages")["last_checked"] == section(before, "pages")["last_checked"]
    assert page["data_read_at"] == before["data_read_at"]


def test_a_check_that_skips_publish_leaves_the_last_result(shop: Shop, dag: DAG) -> None:
    def skip() -> None:
        raise AirflowSkipException

    before = look(site(shop))
    shop.add("pages", 40)
    checked = dag_of(site(shop), "verdicts")
    with checked:
        check = PythonOperator(task_id="check", python_callable=skip)
    checked.get_task("sitemap.write") >> check >> checked.get_task("sitemap.publish")

    steps = Steps.start(checked, "skipped").step()

    assert (steps.state, steps.states["sitemap.publish"]) == ("success", "skipped")
    page = look(site(shop))
    assert (page["state"], page["run_id"]) == (before["state"], before["run_id"])


@pytest.mark.parametrize("running", ["sitemap.plan", "sitemap.publish"])
def test_a_run_marked_as_failed_while_it_ran_has_failed(shop: Shop, dag: DAG, running: str) -> None:
    shop.add("pages", 40)
    steps = Steps.start(dag, "marked")
    if running == "sitemap.publish":
        steps.step("sitemap.plan", "sitemap.write*")
    begun = (TaskInstance.dag_id == "verdicts") & (TaskInstance.run_id == "marked") & (TaskInstance.task_id == running)
    with create_session() as session:
        session.execute(
            update(TaskInstance).where(begun).values(state="running", start_date=datetime.now(timezone.utc))
        )
    steps.mark_failed()
    assert steps.states[running] == "failed"

    page = look(site(shop))

    assert (page["state"], page["reason"], page["run_id"]) == ("failing", "Last run failed", "marked")
    assert f"The task {running} failed" in page["problem_list"][0]["detail"]
    assert ("marked as failed before it published" in page["problem_list"][0]["detail"]) == (running == "sitemap.plan")


def test_v5_a_rollback_in_the_shell_is_shown(shop: Shop, dag: DAG) -> None:
    shop.add("products", *range(40, 45))
    run(dag, "second")
    assert (look(site(shop))["generation"], look(site(shop))["urls"]) == (2, 39)

    rollback(site(shop), 1)
    page = look(site(shop))

    assert (page["generation"], page["urls"], section(page, "products")["urls"]) == (3, 34, 25)
    assert page["changed_outside"]["generation"] == 3
    assert page["changed_outside"]["action"] == "rollback to 1"
    assert titles(page) == ["Changed outside Airflow: generation 3 is live"]
    assert page["report"]["generation"] == 3

    run(dag, "third")
    assert look(site(shop))["changed_outside"] is None


def test_a_run_keeps_its_result_after_one_of_its_tasks_was_cleared(shop: Shop, dag: DAG) -> None:
    Steps(dag, "first").clear("sitemap.write[0]")

    with create_session() as session:
        (event,) = overview.events.events_of_run(session, "verdicts", "first")
    assert event.summary.generation == 1


def test_a_partly_published_run_whose_failed_task_was_cleared_made_the_generation(shop: Shop, dag: DAG) -> None:
    shop.add("products", 40)
    steps = run(broken(shop), "partly")
    assert (look(site(shop))["generation"], look(site(shop))["changed_outside"]) == (2, None)
    failed = [task_id for task_id, state in steps.states.items() if state == "failed"]

    steps.clear(*failed).step()

    assert (failed, steps.states["sitemap.publish"]) == (["sitemap.publish"], "failed")
    assert (look(site(shop))["generation"], look(site(shop))["changed_outside"]) == (2, None)

    steps.clear(*steps.states).step()

    assert (look(site(shop))["generation"], look(site(shop))["changed_outside"]) == (2, None)


def test_v6_a_partly_published_run_that_is_deleted_is_still_known_by_its_report(shop: Shop, dag: DAG) -> None:
    shop.add("products", 40)
    run(broken(shop), "partly")
    with create_session() as session:
        session.execute(delete(DagRun).where(DagRun.run_id == "partly"))

    page = look(site(shop))

    assert states(page) == {"products": ("not_verified", "published"), "pages": ("failing", "failed")}
    assert page["state"] == "failing"
    assert "no such column" in page["problem_list"][0]["detail"]
    assert page["problem_list"][0]["next_step"].startswith("Airflow has no log of that run")


def test_v7_an_older_run_that_is_cleared_and_publishes_ends_a_later_failure(shop: Shop, dag: DAG) -> None:
    older = Steps(dag, "first")
    run(broken(shop), "fails")
    assert look(site(shop))["state"] == "failing"
    shop.add("pages", 40)

    older.edit(dag).clear("sitemap.plan", "sitemap.write[0]", "sitemap.publish").step()
    page = look(site(shop))

    assert (page["state"], page["result"], page["run_id"]) == ("warning", "published", "first")
    assert states(page) == {"products": ("not_verified", "unchanged"), "pages": ("not_verified", "published")}


def test_v8_a_typo_in_the_sections_is_no_failure_of_the_sitemap(shop: Shop, dag: DAG) -> None:
    assert run(dag, "typo", "prodcuts").state == "failed"

    page = look(site(shop))

    assert page["state"] == "not_verified"
    (problem,) = page["problem_list"]
    assert problem["severity"] == "info"
    assert "There is no section prodcuts; the sections are products, pages" in problem["detail"]
    assert "clear" not in problem["next_step"]


def test_v9_a_sensor_that_ends_softly_is_not_behind_schedule(shop: Shop, dag: DAG) -> None:
    with create_session() as session:
        session.execute(update(AssetModel).values(extra={}))
    skipped = Steps.start(dag, "softly")
    with create_session() as session:
        now = datetime.now(timezone.utc) + timedelta(days=3)
        of_run = (TaskInstance.dag_id == "verdicts") & (TaskInstance.run_id == "softly")
        session.execute(update(TaskInstance).where(of_run).values(state="skipped", start_date=now, end_date=now))
        whole = (DagRun.dag_id == "verdicts") & (DagRun.run_id == "softly")
        session.execute(update(DagRun).where(whole).values(_state="success", start_date=now, end_date=now))
    assert skipped.state == "success"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("airflow_sitemaps.plugin.dag_profiles.period_of", lambda _: 86_400.0)
        patch.setattr("airflow_sitemaps.plugin.dag_profiles.PROFILES", BoundedCache(10))
        assert look(site(shop), later=timedelta(days=3, hours=1))["reason"] == "Not verified"
        assert look(site(shop), later=timedelta(days=6))["reason"] == "Behind its schedule"


def test_v10_what_airflow_has_forgotten_the_manifest_and_the_reports_say(shop: Shop, dag: DAG) -> None:
    shop.add("products", 40)
    run(broken(shop), "partly")
    forget()

    page = look(site(shop))

    assert (page["generation"], page["urls"], page["state"]) == (2, 35, "failing")
    assert states(page) == {"products": ("not_verified", "published"), "pages": ("failing", "failed")}
    assert page["changed_outside"] is None
    assert section(page, "products")["last_checked"] is not None
    assert page["report"]["generation"] == 2

    run(dag, "afterwards")
    assert look(site(shop))["state"] == "not_verified"


@pytest.mark.parametrize("where", ["missing = 1", "{{ missing }} = 1"], ids=["a column", "a template"])
def test_v11_a_wrong_query_of_one_section_is_that_sections_failure(shop: Shop, dag: DAG, where: str) -> None:
    shop.add("products", 40)

    steps = run(broken(shop, where=where), "wrong")
    page = look(site(shop))

    assert steps.states["sitemap.plan"] == "success"
    assert "https://shop.example/products-40" in shop.urls()
    assert states(page) == {"products": ("not_verified", "published"), "pages": ("failing", "failed")}


def test_sitemaps_of_single_operators_are_told_apart(shop: Shop) -> None:
    def chain(name: str, table: str, **settings: Any) -> Sitemap:
        sitemap = replace(
            shop.sitemap(Section("things", shop.source(table, **settings))),
            store=LocalStore(shop.folder / name, base_url=URL),
            shards=replace(shop.sitemap().shards, max_urls=100),
        )
        plan = SitemapPlanOperator(task_id=f"{name}_plan", sitemap=sitemap)
        write = SitemapWriteOperator.partial(task_id=f"{name}_write", sitemap=sitemap).expand(batch=plan.output)
        SitemapPublishOperator(
            task_id=f"{name}_publish", sitemap=sitemap, plan=XComArg(plan, PLAN_KEY), receipts=write.output
        )
        return sitemap

    def both(**settings: Any) -> tuple[DAG, Sitemap, Sitemap]:
        with DAG("singles", schedule=None, max_active_runs=1, default_args={"retries": 0}) as dag:
            first, second = chain("a", "pages", **settings), chain("b", "products")
        define_params(dag, first)
        return dag, first, second

    dag, first, second = both()
    assert Steps.start(dag, "first").step().state == "success"
    shop.sql("DELETE FROM products WHERE id > 3")
    wrong, _, _ = both(lastmod="missing")

    Steps.start(wrong, "second").step()

    (refused,) = [each for each in look(second)["problem_list"] if each["severity"] == "error"]
    assert refused["permits"] == ["shrink:things=0.84"]
    (failed,) = [each for each in look(first)["problem_list"] if each["severity"] == "error"]
    assert "missing" in failed["detail"]
    assert [each["task_id"] for each in failed["failed_tasks"]] == ["a_plan"]
    conf = {"sections": ["b_publish/"], "allow": ["shrink:b_publish/things=0.9"]}
    own = [wrong.get_task(f"{name}_plan").request(conf) for name in "ab"]  # type: ignore[attr-defined]
    assert own[0] is None
    assert own[1].allow == ("shrink:things=0.9",)
    Steps.start(dag, "third", conf={"allow": conf["allow"]}).step()
    with create_session() as session:
        run_id = ("singles", "third")
        tasks = dag_runs.in_chains(session, dag_runs.sitemap_tasks(session, [run_id]))
        emitted = events.events_of_run(session, *run_id)
        assert {event.summary.group_id for event in emitted} == {"a_publish", "b_publish"}
        # As an earlier version emitted them, which gave all sitemaps without a group one name.
        emitted = [replace(event, summary=replace(event.summary, group_id="")) for event in emitted]
        page = runs.progress(
            dag_runs.runs_by_id(session, [run_id])[run_id],
            tasks,
            dag_runs.pushed_by(session, tasks, runs.KEYS),
            datetime.now(timezone.utc),
            emitted,
        )
    assert [(group.group_id, len(group.steps) + len(group.batches)) for group in page.groups] == [
        ("a_publish", 3),
        ("b_publish", 3),
    ]
    assert {report.group_id: report.report.urls for report in page.reports} == {"a_publish": 9, "b_publish": 4}
