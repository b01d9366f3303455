"""What is read from serialized DAGs, and which of their tasks concern a sitemap."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from airflow.models.asset import AssetModel
from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from airflow.sdk import DAG, Asset, AssetOrTimeSchedule, MultipleCronTriggerTimetable
from airflow.sdk.definitions.timetables.trigger import CronTriggerTimetable
from airflow.serialization.serialized_objects import DagSerialization
from pendulum import FixedTimezone
from sqlalchemy import event, insert, select

from airflow_sitemaps.operators import PART_OF, VERIFIED
from airflow_sitemaps.operators.announcements import (
    IndexNowOperator,
    SearchConsoleSubmitOperator,
    SitemapPingOperator,
)
from airflow_sitemaps.operators.decisions import Approval
from airflow_sitemaps.operators.publish import SitemapPublishOperator
from airflow_sitemaps.operators.verify import SitemapVerifyOperator
from airflow_sitemaps.plugin.dag_profiles import asset_tasks, profile_of
from airflow_sitemaps.plugin.dag_runs import PUBLISHES, RUNS_AT_ONCE, newest_ended, sitemap_tasks
from airflow_sitemaps.plugin.events import asset_by_uri
from airflow_sitemaps.plugin.pages import announcements
from airflow_sitemaps.plugin.pages.announcements import MAX_PARTS, MAX_RUNS, RETURNED
from airflow_sitemaps.sitemap import Section, Sitemap
from airflow_sitemaps.stores.local import LocalStore
from airflow_sitemaps.task_group import SitemapTaskGroup
from airflow_sitemaps.testing import MemorySourceConfig
from tests.support.airflow_db import sync
from tests.support.plugin_factories import NOW, Ran, add_event, add_run, add_task, extra, report

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy.orm import Session

    from tests.plugin.conftest import Client


def sitemap_at(folder: Path, name: str, **settings: Any) -> Sitemap:
    source = MemorySourceConfig([{"id": 1, "loc": f"https://{name}.example/1"}])
    return Sitemap(
        LocalStore(folder / name, base_url=f"https://{name}.example/"), [Section("pages", source)], **settings
    )


@pytest.mark.parametrize(
    ("schedule", "hours"),
    [
        ("@daily", 24),
        ("0 3 * * 1-5", 72),
        ("*/20 * * * *", 1 / 3),
        (timedelta(hours=3), 3),
        (CronTriggerTimetable("0 3 * * *", timezone="Europe/Berlin"), 24),
        (CronTriggerTimetable("0 3 * * *", timezone=FixedTimezone(7_200)), 24),
        ("0 9-17 * * 1-5", 64),
        ("* 9-17 * * 1-5", 63 + 1 / 60),
        (MultipleCronTriggerTimetable("0 3 * * *", "0 15 * * 1-5", timezone="UTC"), 24),
        (AssetOrTimeSchedule(timetable=CronTriggerTimetable("0 3 * * *", timezone="UTC"), assets=[Asset("load")]), 24),
        ([Asset("load")], None),
        (None, None),
        ("@continuous", None),
    ],
)
def test_the_longest_gap_of_a_schedule(schedule: Any, hours: float | None) -> None:
    dag = DAG("scheduled", schedule=schedule, max_active_runs=1)

    period = profile_of("scheduled", DagSerialization.to_dict(dag)).period_s

    assert period == (None if hours is None else pytest.approx(hours * 3_600))


@pytest.mark.parametrize("data", [{}, {"dag": None}, {"dag": {"tasks": [1, {}], "params": 7, "timetable": "x"}}])
def test_other_forms_give_an_empty_profile(data: Any) -> None:
    profile = profile_of("odd", data)

    assert (profile.tasks, profile.period_s) == ((), None)


def test_two_sitemaps_of_one_dag_keep_their_tasks_apart(session: Session, tmp_path: Path) -> None:
    first, second = sitemap_at(tmp_path, "first"), sitemap_at(tmp_path, "second")
    with DAG("pair", schedule=None, max_active_runs=1) as dag:
        for name, sitemap in (("one", first), ("two", second)):
            SitemapTaskGroup(name, sitemap)
            SitemapVerifyOperator(task_id=f"verify_{name}", sitemap=sitemap)
    sync(dag)

    assets = [asset_by_uri(session, str(sitemap.asset.uri)) for sitemap in (first, second)]
    found = asset_tasks(session, [asset for asset in assets if asset], {"pair"})

    assert [tasks.publish for tasks in found.values()] == [[("pair", "one.publish")], [("pair", "two.publish")]]
    assert [tasks.verify for tasks in found.values()] == [[("pair", "verify_one")], [("pair", "verify_two")]]


def test_the_task_that_publishes_an_answer_is_known(session: Session, tmp_path: Path) -> None:
    sitemap = sitemap_at(tmp_path, "asked")
    with DAG("asked", schedule=None, max_active_runs=1) as dag:
        group = SitemapTaskGroup("sitemap", sitemap, approval=Approval())
    sync(dag)
    sync(group.decisions)
    decisions = group.decisions.dag_id

    asset = asset_by_uri(session, str(sitemap.asset.uri))
    assert asset is not None
    tasks = asset_tasks(session, [asset], {"asked", decisions})[asset.id]
    assert (tasks.publish, tasks.answer) == ([("asked", "sitemap.publish")], [(decisions, "publish")])
    add_run(session, decisions, Ran(1, publish=None, plan=None), NOW)
    add_task(session, decisions, "run-1", "publish", "SitemapAnswerOperator", "success", NOW, NOW)
    session.commit()
    assert "answer" in {task.kind for task in sitemap_tasks(session, [(decisions, "run-1")])}


def test_a_task_of_a_subclass_counts_as_one_of_its_operator(session: Session, tmp_path: Path) -> None:
    class OurPublishOperator(SitemapPublishOperator):
        pass

    sitemap = sitemap_at(tmp_path, "ours")
    with DAG("ours", schedule=None, max_active_runs=1) as dag:
        OurPublishOperator(task_id="publish", sitemap=sitemap, plan="plan")
    sync(dag)

    asset = asset_by_uri(session, str(sitemap.asset.uri))
    assert asset is not None
    assert asset_tasks(session, [asset], {"ours"})[asset.id].publish == [("ours", "publish")]
    stored = DagSerialization.from_dict(DagSerialization.to_dict(dag)).get_task("publish")
    assert stored.task_type == PUBLISHES, "as its task instances are found"


def test_freshness_travels_with_the_asset(admin: Client, session: Session, tmp_path: Path) -> None:
    sitemap = sitemap_at(tmp_path, "fresh", freshness=timedelta(hours=6))
    with DAG("fresh", schedule="@daily", max_active_runs=1) as dag:
        SitemapTaskGroup("sitemap", sitemap)
    sync(dag)

    page = admin.get("api/sitemap", asset=str(sitemap.asset.uri)).json()

    extra = session.scalar(select(AssetModel.extra).where(AssetModel.uri == str(sitemap.asset.uri)))
    assert extra is not None
    assert extra["freshness_s"] == 21_600
    assert extra["store"]["state_url"] == str(tmp_path / "fresh-state")
    assert (page["freshness"]["objective_s"], page["freshness"]["source"]) == (21_600, "sitemap")


RESULTS: dict[str, Any] = {
    "indexnow": {"generation": 4, "since": 3, "added": 2, "changed": 1, "removed": 0, "urls": 3, "requests": 1},
    "console": [
        {"path": "https://told.example/sitemap.xml", "last_submitted": None, "pending": False, "errors": 1,
         "last_downloaded": "2026-11-19T08:00:00Z", "warnings": 2, "urls": {"web": 40, "image": 2}},
    ],
    "ping": {"https://told.example/sitemap.xml": 200, "https://told.example/b.xml": 503},
}  # fmt: skip


def test_what_was_announced_and_what_came_back(admin: Client, session: Session, tmp_path: Path) -> None:
    sitemap = sitemap_at(tmp_path, "told")
    with DAG("told", schedule=None, max_active_runs=1) as dag:
        SitemapTaskGroup("sitemap", sitemap)
        IndexNowOperator(task_id="indexnow", sitemap=sitemap)
        SearchConsoleSubmitOperator(task_id="console", sitemap=sitemap, site="sc-domain:told.example")
        SitemapPingOperator(task_id="ping", sitemap=sitemap, url="https://cdn.example/purge?u={sitemap}")
    sync(dag)
    add_run(session, "told", Ran(1), NOW)
    run = session.scalar(select(DagRun.id).where(DagRun.dag_id == "told"))
    operators = ("IndexNowOperator", "SearchConsoleSubmitOperator", "SitemapPingOperator")
    for (task_id, value), operator in zip(RESULTS.items(), operators, strict=True):
        add_task(session, "told", "run-1", task_id, operator, "success", NOW, NOW)
        session.execute(
            insert(XComModel).values(
                dag_run_id=run, dag_id="told", run_id="run-1", task_id=task_id, map_index=-1, key=RETURNED, value=value,
                timestamp=NOW,
            )
        )  # fmt: skip
    session.commit()

    rows = admin.get("api/sitemap/announcements", asset=str(sitemap.asset.uri)).json()["rows"]

    assert {row["service"]: row["summary"] for row in rows} == {
        "indexnow": "3 URLs submitted in 1 request.",
        "searchconsole": "40 URLs discovered, 1 error, 2 warnings; last read by Google 2026-11-19.",
        "ping": "1 of 2 requests accepted.",
    }
    assert admin.get("api/sitemap", asset=str(sitemap.asset.uri)).json()["announces"] is True

    for number in range(2, 2 + MAX_RUNS):  # a sensor that sees no change skips every task
        add_run(session, "told", Ran(number, plan="skipped", publish="skipped"), NOW)
        for task_id, operator in zip(RESULTS, operators, strict=True):
            add_task(session, "told", f"run-{number}", task_id, operator, "skipped", NOW, NOW)
    session.commit()

    assert admin.get("api/sitemap/announcements", asset=str(sitemap.asset.uri)).json()["rows"] == rows

    add_run(session, "told", Ran(90), NOW)
    add_task(session, "told", "run-90", "indexnow", "IndexNowOperator", "running", NOW, None)
    session.commit()

    now = admin.get("api/sitemap/announcements", asset=str(sitemap.asset.uri)).json()["rows"]
    assert [row for row in now if row["state"] == "success"] == rows, "also while the next one runs"
    assert [row["run_id"] for row in now if row["state"] == "running"] == ["run-90"]


def push(session: Session, dag_id: str, task_id: str, index: int, key: str, value: Any) -> None:
    """What a part of a mapped task of the DAG's only run pushed."""
    run = session.scalars(select(DagRun).where(DagRun.dag_id == dag_id)).one()
    where = {"dag_run_id": run.id, "dag_id": dag_id, "run_id": run.run_id, "task_id": task_id, "map_index": index}
    session.execute(insert(XComModel).values(**where, key=key, value=value, timestamp=NOW))


def test_a_mapped_verification_counts_and_is_as_bad_as_its_worst_part(
    admin: Client, session: Session, tmp_path: Path
) -> None:
    """It is in a DAG of its own, so that only its inlet says which sitemap it verifies."""
    first, second = sitemap_at(tmp_path, "first"), sitemap_at(tmp_path, "second")
    with DAG("both", schedule=None, max_active_runs=1) as dag:
        for name, sitemap in (("one", first), ("two", second)):
            SitemapTaskGroup(name, sitemap)
    with DAG("checks", schedule=None) as checks:
        SitemapVerifyOperator.partial(task_id="verify", sitemap=first, inlets=[Asset("load")]).expand(sample=[1, 2, 3])
    for one in (dag, checks):
        sync(one)
    for sitemap in (first, second):
        asset = asset_by_uri(session, str(sitemap.asset.uri))
        assert asset is not None
        add_event(session, asset.id, "both", extra(report(1, at=NOW)), NOW)
    add_run(session, "checks", Ran(1, state="failed", plan=None, publish=None), NOW)
    for index, (errors, minutes) in enumerate(((0, 1), (2, 2), (0, 3))):
        state, end = "failed" if errors else "success", NOW + timedelta(minutes=minutes)
        add_task(session, "checks", "run-1", "verify", "SitemapVerifyOperator", state, NOW, end, map_index=index)
        facts = {"files": 3, "urls": 9, "errors": errors, "warnings": 0, "failures": [{"where": f"{index}.xml"}]}
        push(session, "checks", "verify", index, VERIFIED, facts)
    session.commit()

    page, other = (admin.get("api/sitemap", asset=str(each.asset.uri)).json() for each in (first, second))
    steps = admin.get("api/dags/checks/runs/run-1").json()["groups"][0]

    assert (page["state"], page["reason"]) == ("failing", "Published files are invalid")
    assert (page["verification"]["errors"], page["verification"]["map_index"]) == (2, 1)
    assert page["verified_at"] is None, "a part that passed is not the whole"
    assert [task["map_index"] for problem in page["problem_list"] for task in problem["failed_tasks"]] == [1]
    assert (other["verification"], other["reason"]) == (None, "Not verified")
    assert [(v["map_index"], v["errors"]) for v in steps["verifications"]] == [(0, 0), (1, 2), (2, 0)]
    assert [step["map_index"] for step in steps["steps"]] == [0, 1, 2]


def test_a_verification_mapped_over_sitemaps_has_a_part_for_each(
    admin: Client, session: Session, tmp_path: Path
) -> None:
    class OurVerifyOperator(SitemapVerifyOperator):
        pass

    sitemaps = [sitemap_at(tmp_path, name) for name in ("good", "bad", "crashed", "other")]
    with DAG("four", schedule=None, max_active_runs=1) as dag:
        for number, sitemap in enumerate(sitemaps):
            SitemapTaskGroup(f"group_{number}", sitemap)
    with DAG("checks", schedule=None) as checks:
        OurVerifyOperator.partial(task_id="verify").expand(sitemap=sitemaps[:2])
        SitemapVerifyOperator.partial(task_id="kwargs").expand_kwargs([{"sitemap": sitemaps[2], "sample": 1}])
    for one in (dag, checks):
        sync(one)
    for sitemap in sitemaps:
        asset = asset_by_uri(session, str(sitemap.asset.uri))
        assert asset is not None
        add_event(session, asset.id, "four", extra(report(1, at=NOW)), NOW)
    add_run(session, "checks", Ran(1, state="failed", plan=None, publish=None), NOW)
    for task_id, index, facts in (("verify", 0, {"errors": 0}), ("verify", 1, {"errors": 2}), ("kwargs", 0, {})):
        state = "success" if facts.get("errors") == 0 else "failed"
        add_task(session, "checks", "run-1", task_id, "SitemapVerifyOperator", state, NOW, NOW, map_index=index)
        of = sitemaps[2 if task_id == "kwargs" else index]
        push(session, "checks", task_id, index, VERIFIED, {"sitemap": str(of.asset.uri), **facts})
    session.commit()

    pages = [admin.get("api/sitemap", asset=str(each.asset.uri)).json() for each in sitemaps]

    assert [page["reason"] for page in pages] == [
        "Healthy", "Published files are invalid", "Verification did not finish", "Not verified",
    ]  # fmt: skip


def test_the_parts_of_a_mapped_announcement_have_their_own_outcomes(
    admin: Client, session: Session, tmp_path: Path
) -> None:
    sitemap = sitemap_at(tmp_path, "pinged")
    with DAG("pinged", schedule=None, max_active_runs=1) as dag:
        SitemapTaskGroup("sitemap", sitemap)
        SitemapPingOperator.partial(task_id="ping", sitemap=sitemap).expand(
            url=["https://a.example", "https://b.example"]
        )
    sync(dag)
    add_run(session, "pinged", Ran(1), NOW)
    for index, status in enumerate((200, 500)):
        add_task(session, "pinged", "run-1", "ping", "SitemapPingOperator", "success", NOW, NOW, map_index=index)
        push(session, "pinged", "ping", index, RETURNED, {f"https://{index}.example": status})
    session.commit()

    rows = admin.get("api/sitemap/announcements", asset=str(sitemap.asset.uri)).json()["rows"]

    assert [(row["map_index"], row["summary"]) for row in rows] == [
        (0, "1 of 1 requests accepted."),
        (1, "0 of 1 requests accepted."),
    ]


def mapped_over_two_sitemaps(session: Session, tmp_path: Path) -> list[Sitemap]:
    """The sitemaps of the DAG ``each``, whose task ``ping`` is mapped over them, with a run."""
    sitemaps = [sitemap_at(tmp_path, name) for name in ("one", "two")]
    with DAG("each", schedule=None, max_active_runs=1) as dag:
        for number, sitemap in enumerate(sitemaps):
            SitemapTaskGroup(f"group_{number}", sitemap)
        SitemapPingOperator.partial(task_id="ping", url="https://a.example/{sitemap}").expand(sitemap=sitemaps)
    sync(dag)
    add_run(session, "each", Ran(1), NOW)
    return sitemaps


def test_an_announcement_mapped_over_sitemaps_has_a_part_for_each(
    admin: Client, session: Session, tmp_path: Path
) -> None:
    sitemaps = mapped_over_two_sitemaps(session, tmp_path)
    for index in (0, 1, 2):  # the last one failed before it could say whose part it is
        add_task(session, "each", "run-1", "ping", "SitemapPingOperator", "failed", NOW, NOW, map_index=index)
        if index < 2:
            push(session, "each", "ping", index, PART_OF, {"sitemap": str(sitemaps[index].asset.uri)})
    session.commit()

    answers = [admin.get("api/sitemap/announcements", asset=str(each.asset.uri)).json() for each in sitemaps]

    assert [[row["map_index"] for row in answer["rows"]] for answer in answers] == [[0, 2], [1, 2]]


def test_a_page_counts_no_part_of_another_sitemap(
    admin: Client, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announcements, "MAX_PARTS", 1)
    sitemaps = mapped_over_two_sitemaps(session, tmp_path)
    for index, sitemap in enumerate(sitemaps):
        add_task(session, "each", "run-1", "ping", "SitemapPingOperator", "success", NOW, NOW, map_index=index)
        push(session, "each", "ping", index, PART_OF, {"sitemap": str(sitemap.asset.uri)})
    session.commit()

    answers = [admin.get("api/sitemap/announcements", asset=str(each.asset.uri)).json() for each in sitemaps]

    assert [([row["map_index"] for row in a["rows"]], a["left_out"]) for a in answers] == [([0], 0), ([1], 0)]


def test_a_wide_mapped_announcement_is_read_in_part(admin: Client, session: Session, tmp_path: Path) -> None:
    sitemap = sitemap_at(tmp_path, "wide")
    with DAG("wide", schedule=None, max_active_runs=1) as dag:
        SitemapTaskGroup("sitemap", sitemap)
        SitemapPingOperator.partial(task_id="ping", sitemap=sitemap).expand(url=["https://a.example"])
    sync(dag)
    add_run(session, "wide", Ran(1), NOW)
    for index in range(MAX_PARTS + 10):
        state = "failed" if index == MAX_PARTS + 9 else "success"
        add_task(session, "wide", "run-1", "ping", "SitemapPingOperator", state, NOW, NOW, map_index=index)
    session.commit()

    answer = admin.get("api/sitemap/announcements", asset=str(sitemap.asset.uri)).json()
    rows = answer["rows"]

    assert (len(rows), answer["left_out"]) == (MAX_PARTS, 10)
    assert [row["map_index"] for row in rows if row["state"] == "failed"] == [MAX_PARTS + 9]


def test_a_mapped_task_is_looked_up_with_all_its_parts(session: Session) -> None:
    """Run 1 failed in a part, and all of run 2 failed: the newest part that succeeded is of run 1, which did not pass."""
    for number, states in ((1, ("failed", "success")), (2, ("failed", "failed"))):
        at = NOW + timedelta(hours=number)
        add_run(session, "m", Ran(number), at)
        for index, state in enumerate(states):
            add_task(session, "m", f"run-{number}", "x", "SitemapVerifyOperator", state, at, at, map_index=index)

    tasks = newest_ended(session, {("m", "x")})

    assert sorted((*task.key[1:], task.state) for task in tasks) == [
        ("run-1", "x", 0, "failed"), ("run-1", "x", 1, "success"), ("run-2", "x", 0, "failed"), ("run-2", "x", 1, "failed"),
    ]  # fmt: skip


@pytest.mark.parametrize("default_args", [{}, {"inlets": [Asset("load")]}])
def test_a_mapped_task_keeps_the_inlets_of_default_args(tmp_path: Path, default_args: dict[str, Any]) -> None:
    sitemap = sitemap_at(tmp_path, "inlets")
    with DAG("inlets", schedule=None, default_args=default_args):
        mapped = SitemapVerifyOperator.partial(task_id="verify", sitemap=sitemap).expand(sample=[1])
        own = SitemapVerifyOperator.partial(task_id="own", sitemap=sitemap, inlets=[sitemap.asset]).expand(sample=[1])

    assert mapped.inlets == [*default_args.get("inlets", ()), sitemap.asset]
    assert own.inlets == [sitemap.asset]


def test_a_mapped_task_has_the_type_and_the_inlets_of_its_parts(tmp_path: Path) -> None:
    class OurVerifyOperator(SitemapVerifyOperator):
        pass

    one, two = sitemap_at(tmp_path, "one"), sitemap_at(tmp_path, "two")
    with DAG("parts", schedule=None) as dag:
        OurVerifyOperator.partial(task_id="verify").expand(sitemap=[one, two])
        OurVerifyOperator.partial(task_id="pairs").expand_kwargs([{"sitemap": two, "sample": 1}])

    tasks = profile_of("parts", DagSerialization.to_dict(dag)).tasks

    assert [task.kind for task in tasks] == ["verify", "verify"], "as its task instances are looked up"
    assert [task.inlets for task in tasks] == [(str(one.asset.uri), str(two.asset.uri)), (str(two.asset.uri),)]


def test_the_last_task_that_ended_is_looked_up_by_key_and_state(session: Session) -> None:
    """Without a limit of its own each would read every instance of the task, and of other tasks."""
    for dag_id, number, state in (("a", 1, "success"), ("a", 2, "failed"), ("a", 3, "success"), ("b", 1, "failed")):
        at = NOW + timedelta(hours=number)
        add_run(session, dag_id, Ran(number), at)
        for task_id in ("x", "y"):
            add_task(session, dag_id, f"run-{number}", task_id, "SitemapVerifyOperator", state, at, at)
    statements: list[str] = []
    engine = session.get_bind()
    event.listen(engine, "before_cursor_execute", note := lambda *arguments: statements.append(arguments[2]))
    try:
        tasks = newest_ended(session, {("a", "x"), ("b", "y"), *((f"c{number}", "x") for number in range(30))})
    finally:
        event.remove(engine, "before_cursor_execute", note)

    assert sorted((*task.key, task.state) for task in tasks) == [
        ("a", "run-2", "x", -1, "failed"), ("a", "run-3", "x", -1, "success"), ("b", "run-1", "y", -1, "failed"),
    ]  # fmt: skip
    assert [statement.count("LIMIT") for statement in statements] == [RUNS_AT_ONCE, 64 - RUNS_AT_ONCE]
