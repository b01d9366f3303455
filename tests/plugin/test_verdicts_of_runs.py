"""Which verdict the API gives after which runs: dry runs, running runs, two DAGs, DAGs that are gone or never published."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from airflow.models.asset import AssetModel, TaskInletAssetReference, TaskOutletAssetReference
from airflow.models.dag import DagModel
from airflow.models.errors import ParseImportError
from airflow.sdk import DAG
from sqlalchemy import delete, select

from airflow_sitemaps import LocalStore, MemoryStore, Section, Sitemap
from airflow_sitemaps.errors import GuardError, PartlyPublishedError
from airflow_sitemaps.operators import (
    FAILED,
    QUESTIONS,
    REFUSED,
    UNCHANGED,
    VERIFIED,
    failure_facts,
    refusal_facts,
)
from airflow_sitemaps.operators.verify import SitemapVerifyOperator
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.pipeline.report import SectionReport, ShardCounts
from airflow_sitemaps.plugin.readings import iso
from airflow_sitemaps.shards.guards import Refusal
from airflow_sitemaps.shards.plan import SectionFailure, failures_of
from airflow_sitemaps.task_group import SitemapTaskGroup
from airflow_sitemaps.testing import MemorySourceConfig
from tests.support.airflow_db import sync
from tests.support.plugin_factories import NOW, Ran, add_asset, add_dag, add_event, add_run, extra, report

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy.orm import Session

    from tests.plugin.conftest import Client

URI = "s3://shop/sitemaps/sitemap.xml"
REFUSAL = {
    "message": "refused",
    "refusals": [
        {"guard": "shrink", "section": "offers", "message": "offers shrank 3,000 → 600", "permit": "shrink:offers"}
    ],
}
DRY = {"dry_run": True}
GOOD = Ran(1)
REFUSED_RUN = Ran(2, state="failed", plan="failed", publish="upstream_failed", pushed={REFUSED: REFUSAL})
FAILED_RUN = Ran(2, state="failed", publish="failed", pushed={FAILED: {"message": "the store is down"}})


def published(session: Session, *runs: Ran, uri: str = URI, dag_id: str = "shop") -> int:
    """A sitemap whose first run published an hour ago, and further runs, ten minutes apart."""
    asset = add_asset(session, uri, dag_id)
    start = NOW - timedelta(hours=1)
    add_event(session, asset, dag_id, extra(report(1, at=start)), start, run=GOOD.run_id)
    for number, ran in enumerate((GOOD, *runs)):
        add_run(session, dag_id, ran, start + timedelta(minutes=10 * number), minutes=2)
    session.commit()
    return asset


def line(admin: Client) -> Any:
    (found,) = admin.get("api/sitemaps").json()["sitemaps"]
    return found


def shown(admin: Client, uri: str = URI) -> Any:
    return admin.get("api/sitemap", asset=uri).json()


def kinds(page: Any) -> list[str]:
    return [problem["kind"] for problem in page["problem_list"]]


@pytest.mark.parametrize("failing", [REFUSED_RUN, FAILED_RUN], ids=["refused", "failed"])
@pytest.mark.parametrize(
    "dry",
    [
        [Ran(3, publish="skipped", conf=DRY)],
        [Ran(3, state="failed", plan="failed", publish="upstream_failed", conf=DRY, pushed={REFUSED: REFUSAL})],
        [Ran(n, publish="skipped", conf=DRY) for n in range(3, 15)],
        [Ran(n, state="failed", plan="failed", publish="upstream_failed", conf=DRY) for n in range(3, 15)],
    ],
    ids=["planned", "would be refused", "twelve planned", "twelve that failed"],
)
def test_a_dry_run_hides_no_failure(admin: Client, session: Session, failing: Ran, dry: list[Ran]) -> None:
    """U1."""
    published(session, failing, *dry)

    found = line(admin)

    assert (found["state"], found["run_id"]) == ("failing", "run-2")
    assert found["result"] == ("refused" if failing is REFUSED_RUN else "failed")


def test_a_dry_run_that_fails_is_no_failure_of_the_sitemap(admin: Client, session: Session) -> None:
    published(session, Ran(2, state="failed", plan="failed", publish="upstream_failed", conf=DRY))

    assert line(admin)["state"] == "not_verified"


@pytest.mark.parametrize(
    ("active", "activity"),
    [
        (Ran(3, state="running", plan="running", publish=None), "running"),
        (Ran(3, state="queued", plan=None, publish=None), "queued"),
        (Ran(3, state="running", plan="running", publish=None, conf=DRY), "planning"),
        (Ran(3, state="running", publish="success", verify="running"), ""),
    ],
    ids=["running", "queued", "planning", "published, still verifying"],
)
def test_a_run_that_is_under_way_changes_no_verdict(
    admin: Client, session: Session, active: Ran, activity: str
) -> None:
    """U2."""
    published(session, REFUSED_RUN, active)

    found = line(admin)

    assert found["activity"] == activity
    assert found["state"] == ("failing" if active.publish is None else "not_verified")


@pytest.mark.parametrize("failing", [REFUSED_RUN, FAILED_RUN], ids=["refused", "failed"])
def test_a_run_that_found_nothing_to_change_ends_a_failure_also_where_publish_is_skipped(
    admin: Client, session: Session, failing: Ran
) -> None:
    """``skip_unchanged``: the run emits no event."""
    published(session, failing, Ran(3, publish="skipped", pushed={UNCHANGED: 1}))

    found, page = line(admin), shown(admin)
    runs = admin.get("api/sitemap/runs", asset=URI).json()["runs"]

    assert (found["state"], found["run_id"]) == ("not_verified", "run-3")
    assert page["problem_list"] == []
    assert runs[0]["result"] == "unchanged"
    assert page["freshness"]["data_at"] == f"{NOW - timedelta(minutes=40):%Y-%m-%dT%H:%M:%S.000Z}"


def test_totals_count_every_page(admin: Client, session: Session) -> None:
    """U3."""
    for number in range(7):
        published(session, *([FAILED_RUN] if number < 3 else []), uri=f"s3://{number}/sitemap.xml", dag_id=f"d{number}")

    pages = [admin.get("api/sitemaps", limit=3, offset=offset).json() for offset in (0, 3, 6)]

    assert [page["totals"]["failing"] for page in pages] == [3, 3, 3]
    assert {page["totals"]["sitemaps"] for page in pages} == {7}
    assert {page["totals"]["urls"] for page in pages} == {7_000}
    assert [len(page["sitemaps"]) for page in pages] == [3, 3, 1]


@pytest.mark.parametrize(
    ("runs", "state", "reason"),
    [
        ([], "unknown", "Never published"),
        ([Ran(1, state="running", plan="running", publish=None)], "unknown", "Never published"),
        ([Ran(1, state="failed", plan="failed", publish="upstream_failed")], "failing", "Last run failed"),
    ],
    ids=["no run", "first run running", "first run failed"],
)
def test_a_sitemap_that_was_never_published_is_in_the_list(
    admin: Client, session: Session, runs: list[Ran], state: str, reason: str
) -> None:
    """U4."""
    add_asset(session, URI, "shop")
    for ran in runs:
        add_run(session, "shop", ran, NOW - timedelta(minutes=10))
    session.commit()

    found = line(admin)

    assert (found["state"], found["reason"], found["generation"], found["at"]) == (state, reason, 0, None)
    page = shown(admin)
    assert page["actions"][0]["action"] == "run"
    if state == "failing":
        (problem,) = page["problem_list"]
        assert "Nothing has been published yet." in problem["detail"]
        assert (problem["dag_id"], problem["run_id"]) == ("shop", "run-1")
        assert problem["failed_tasks"] == [{"task_id": "sitemap.plan", "map_index": -1}]
        of_dag = admin.get("api/dags/shop/sitemaps").json()["sitemaps"]
        assert [one["state"] for one in of_dag] == ["failing"]


def test_every_dag_that_publishes_counts(admin: Client, session: Session) -> None:
    """U5: the newest event is of the DAG that succeeds, and the other one fails."""
    asset = published(session)
    add_dag(session, "second")
    session.add(TaskOutletAssetReference(asset_id=asset, dag_id="second", task_id="sitemap.publish"))
    add_run(session, "second", FAILED_RUN, NOW - timedelta(minutes=40))
    session.commit()

    found, page = line(admin), shown(admin)

    assert (found["state"], found["dag_ids"]) == ("failing", ["second", "shop"])
    assert kinds(page) == ["failed", "several-publishers"]
    assert page["problem_list"][0]["title"] == "Last run of second failed"
    assert page["problem_list"][1]["title"] == "2 DAGs publish this sitemap: second, shop"


def test_two_dags_that_both_succeed_are_a_warning(admin: Client, session: Session) -> None:
    asset = published(session)
    add_dag(session, "second")
    session.add(TaskOutletAssetReference(asset_id=asset, dag_id="second", task_id="sitemap.publish"))
    add_run(session, "second", GOOD, NOW - timedelta(minutes=40))
    session.commit()

    found = line(admin)

    assert (found["state"], found["reason"]) == ("warning", "Several DAGs publish it")


def orphan(session: Session, how: str) -> None:
    """Take the sitemap's DAG away: to another address, or altogether."""
    if how == "moved":
        session.execute(delete(TaskOutletAssetReference))
        add_asset(session, "s3://elsewhere/sitemap.xml", "shop")
    else:
        session.get_one(DagModel, "shop").is_stale = True
    session.commit()


@pytest.mark.parametrize("how", ["moved", "removed"])
def test_an_address_that_no_dag_publishes_is_orphaned(admin: Client, session: Session, how: str) -> None:
    """U6, U15."""
    published(session, REFUSED_RUN)
    orphan(session, how)

    page = shown(admin)

    assert (page["state"], page["reason"]) == ("unknown", "Orphaned: no DAG that you may see publishes it")
    assert kinds(page) == ["orphaned"]
    assert page["problem_list"][0]["severity"] == "info"
    assert not any(action["possible"] for action in page["actions"] if action["action"] != "verify")
    assert admin.post("api/actions", {"asset": URI, "action": "run"}).status_code == 409


def test_an_orphan_can_be_archived_and_shown_again(admin: Client, viewer: Client, session: Session) -> None:
    """U15."""
    published(session)
    orphan(session, "removed")
    body = {"asset": URI, "archived": True}

    assert viewer.post("api/archive", body).status_code == 403
    assert admin.post("api/archive", body).status_code == 200

    listed = admin.get("api/sitemaps").json()
    assert (listed["sitemaps"], listed["totals"]["sitemaps"], listed["totals"]["archived"]) == ([], 0, 1)
    (archived,) = admin.get("api/sitemaps", archived=True).json()["sitemaps"]
    assert archived["asset"] == URI
    assert shown(admin)["archived_by"] == "admin"
    assert admin.post("api/archive", {**body, "archived": False}).status_code == 200
    assert len(admin.get("api/sitemaps").json()["sitemaps"]) == 1


def test_a_sitemap_that_a_dag_publishes_cannot_be_archived(admin: Client, session: Session) -> None:
    published(session)

    assert admin.post("api/archive", {"asset": URI, "archived": True}).status_code == 409


def test_a_sitemap_that_a_dag_still_verifies_cannot_be_archived(admin: Client, session: Session) -> None:
    """Airflow writes the asset's ``extra`` again at each parse of that DAG."""
    asset = published(session)
    orphan(session, "removed")
    add_dag(session, "checks")
    session.add(TaskInletAssetReference(asset_id=asset, dag_id="checks", task_id="verify"))
    session.commit()

    refused = admin.post("api/archive", {"asset": URI, "archived": True})

    assert shown(admin)["named_by"] == ["checks"]
    assert (refused.status_code, refused.json()["detail"].endswith("the DAGs that name it, checks.")) == (409, True)


@pytest.mark.parametrize(("planned_at_last", "listed"), [(("a",), ["a"]), ((), ["a", "old"])])
def test_a_section_that_was_retired_makes_no_sitemap_late(
    planned_at_last: tuple[str, ...], listed: list[str], admin: Client, session: Session
) -> None:
    """The report of the run that removes it still names it. A shortened report of a run of all sections plans none."""
    asset = add_asset(session, URI, "shop")
    session.get_one(AssetModel, asset).extra = {"freshness_s": 36 * 3_600}
    kept, gone = SectionReport(shards=ShardCounts(total=1)), SectionReport(shards=ShardCounts(removed=1))
    for number, (hours, old, planned) in enumerate(((40, kept, ("a", "old")), (16, gone, planned_at_last)), 1):
        at = NOW - timedelta(hours=hours)
        made = replace(report(number, at=at), sections={"a": kept, "old": old}, planned=planned)
        add_event(session, asset, "shop", extra(made), at, run=f"run-{number}")
        add_run(session, "shop", Ran(number), at - timedelta(minutes=1), minutes=1)
    session.commit()

    page = shown(admin)

    assert sorted(section["name"] for section in page["sections"]) == listed
    assert kinds(page) == []


def broken_file(session: Session, dag_id: str, error: str | None, file: str = "broken.py") -> None:
    """What Airflow's DAG processor leaves of a DAG whose file fails to import, or was removed after it had failed."""
    dag = session.get_one(DagModel, dag_id)
    dag.has_import_errors, dag.is_stale, dag.relative_fileloc = True, True, file
    for table in (TaskOutletAssetReference, TaskInletAssetReference):
        session.execute(delete(table).where(table.dag_id == dag_id))
    session.execute(delete(ParseImportError))
    if error is not None:
        session.add(ParseImportError(filename=file, bundle_name=dag.bundle_name, stacktrace=error))
    session.commit()


def test_a_dag_that_was_renamed_before_its_file_broke_publishes_no_more(
    admin: Client, session: Session, tmp_path: Path
) -> None:
    """Airflow keeps the earlier DAG with the name of the file."""
    sitemap = Sitemap(
        LocalStore(tmp_path / "site", base_url="https://renamed.example/"),
        [Section("pages", MemorySourceConfig([{"id": 1, "loc": "https://renamed.example/1"}]))],
    )
    for dag_id, parsed_at in (("earlier_name", NOW - timedelta(hours=1)), ("later_name", NOW)):
        with DAG(dag_id, schedule=None, max_active_runs=1, default_args={"retries": 0}) as dag:
            SitemapTaskGroup("sitemap", sitemap)
        sync(dag)
        session.get_one(DagModel, dag_id).last_parsed_time = parsed_at
        broken_file(session, dag_id, "RuntimeError: this file is broken", "renamed.py")

    found = line(admin)

    assert (found["dag_ids"], found["reason"]) == (["later_name"], "The DAG's file cannot be imported")


def test_a_dag_whose_file_is_broken_is_no_orphan(admin: Client, session: Session, tmp_path: Path) -> None:
    """Airflow removes the references to the asset of such a DAG; its serialized form has them."""
    sitemap = Sitemap(
        LocalStore(tmp_path / "site", base_url="https://broken.example/"),
        [Section("pages", MemorySourceConfig([{"id": 1, "loc": "https://broken.example/1"}]))],
    )
    with DAG("broken", schedule=None, max_active_runs=1, default_args={"retries": 0}) as dag:
        SitemapTaskGroup("sitemap", sitemap)
        SitemapVerifyOperator(task_id="verify", sitemap=sitemap, inlets=[sitemap.asset])
    sync(dag)
    uri = str(sitemap.asset.uri)
    broken_file(session, "broken", "RuntimeError: this file is broken")

    found = line(admin)
    assert (found["asset"], found["state"], found["reason"]) == (uri, "failing", "The DAG's file cannot be imported")
    asset = session.scalars(select(AssetModel.id).where(AssetModel.uri == uri)).one()
    add_event(session, asset, "broken", extra(report(1, at=NOW)), NOW)
    session.commit()
    page = shown(admin, uri)
    assert (page["state"], page["reason"]) == ("failing", "The DAG's file cannot be imported")
    assert [each["dag_id"] for each in page["dags"]] == ["broken"]
    assert [each["asset"] for each in admin.get("api/dags/broken/sitemaps").json()["sitemaps"]] == [uri]

    broken_file(session, "broken", None)
    assert line(admin)["reason"] == "Orphaned: no DAG that you may see publishes it"


@pytest.mark.parametrize(
    ("verify", "pushed", "reason", "state", "verified"),
    [
        ("success", {"files": 3}, "Healthy", "success", True),
        ("failed", {"files": 3, "errors": 1}, "Published files are invalid", "failed", False),
        ("success", {"files": 3, "errors": 1}, "Published files are invalid", "success", False),
    ],
)
def test_runs_that_skip_the_verification_do_not_hide_it(
    admin: Client, session: Session, tmp_path: Path, verify: str, pushed: Any, reason: str, state: str, verified: bool
) -> None:
    """``skip_unchanged`` skips the verifying task as well, in any number of runs."""
    sitemap = Sitemap(
        LocalStore(tmp_path / "site", base_url="https://quiet.example/"),
        [Section("pages", MemorySourceConfig([{"id": 1, "loc": "https://quiet.example/1"}]))],
    )
    with DAG("quiet", schedule=None, max_active_runs=1) as dag:
        SitemapTaskGroup("sitemap", sitemap) >> SitemapVerifyOperator(task_id="verify", sitemap=sitemap)
    sync(dag)
    start, uri = NOW - timedelta(hours=10), str(sitemap.asset.uri)
    asset = session.scalars(select(AssetModel.id).where(AssetModel.uri == uri)).one()
    add_event(session, asset, "quiet", extra(report(1, at=start)), start, run=GOOD.run_id)
    add_run(session, "quiet", Ran(1, state=verify, verify=verify, pushed={VERIFIED: pushed}), start)
    for number in range(2, 12):
        quiet = Ran(number, publish="skipped", verify="skipped")
        add_run(session, "quiet", quiet, start + timedelta(minutes=10 * number))
    session.commit()

    page = shown(admin, uri)

    assert page["reason"] == reason
    assert page["verification"]["state"] == state
    assert (page["verified_at"] is not None) == verified


def test_a_paused_dag_keeps_its_verdict_and_shows_no_next_run(admin: Client, session: Session) -> None:
    """U16."""
    published(session, REFUSED_RUN)
    dag = session.get_one(DagModel, "shop")
    dag.is_paused, dag.next_dagrun_create_after = True, NOW + timedelta(hours=1)
    session.commit()

    page = shown(admin)

    assert (page["state"], page["paused"]) == ("failing", True)
    assert page["dags"][0]["next_run"] is None
    assert kinds(page) == ["refused", "paused"]


@pytest.mark.parametrize(
    ("objective_h", "paused", "state", "severity"),
    [(2, False, "not_verified", None), (0.5, False, "failing", "error"), (0.5, True, "warning", "warning")],
)
def test_an_objective_set_on_the_sitemap(
    admin: Client, session: Session, objective_h: float, paused: bool, state: str, severity: str | None
) -> None:
    asset = published(session)
    session.get_one(AssetModel, asset).extra = {"freshness_s": objective_h * 3_600}
    session.get_one(DagModel, "shop").is_paused = paused
    session.commit()

    page = shown(admin)

    assert page["state"] == state
    assert [p["severity"] for p in page["problem_list"] if p["kind"] == "late"] == ([severity] if severity else [])
    assert page["freshness"]["source"] == "sitemap"


def test_an_unchanged_run_is_fresh_also_without_an_event(admin: Client, session: Session) -> None:
    asset = published(session, Ran(2, publish="skipped", pushed={UNCHANGED: 1}))
    session.get_one(AssetModel, asset).extra = {"freshness_s": 55 * 60}
    session.commit()

    page = shown(admin)

    assert page["freshness"]["age_s"] == 50 * 60
    assert page["state"] == "not_verified"
    assert line(admin)["at"] == iso(NOW - timedelta(minutes=48)), "the last successful run of the list"


def test_a_refusal_says_what_which_guard_and_where_the_log_is(admin: Client, session: Session) -> None:
    published(session, REFUSED_RUN)

    (problem,) = shown(admin)["problem_list"]

    assert problem["title"] == "Last run blocked by a safety check (shrink)"
    assert problem["detail"] == "Offers shrank 3,000 → 600. Generation 1 is still live."
    assert problem["permits"] == ["shrink:offers"]
    assert problem["failed_tasks"] == [{"task_id": "sitemap.plan", "map_index": -1}]


def test_a_refused_first_build_names_the_likely_cause(admin: Client, session: Session) -> None:
    rows = [{"id": n, "loc": f"https://www.example.com/p/{n}"} for n in range(1_200)]
    with pytest.raises(GuardError) as refused:
        build(Sitemap(MemoryStore(base_url="https://example.com/"), [Section("offers", MemorySourceConfig(rows))]))
    facts = refusal_facts(refused.value)
    published(session, Ran(2, state="failed", publish="failed", pushed={REFUSED: facts}))

    (problem,) = shown(admin)["problem_list"]

    assert "Likely cause: all 1,200 URLs are on www.example.com; base_url is https://example.com/." in problem["detail"]
    assert "Rows dropped by rule: scope-host 1,200, such as 'https://www.example.com/p/0" in problem["detail"]


def test_a_store_that_is_down_is_named_once_with_one_full_stop(admin: Client, session: Session) -> None:
    """U12."""
    said = {"message": "S3 at http://127.0.0.1:9: could not connect to the endpoint."}
    published(session, Ran(2, state="failed", publish="failed", pushed={FAILED: said}))

    (problem,) = shown(admin)["problem_list"]

    assert problem["detail"] == (
        "The task sitemap.publish failed. S3 at http://127.0.0.1:9: could not connect to the endpoint. "
        "Generation 1 is still live."
    )


def test_a_run_that_published_only_some_sections_is_not_said_to_have_published_nothing(
    admin: Client, session: Session
) -> None:
    said = {
        "error": "PartlyPublishedError",
        "message": "1 section not published; the earlier files stay public, and the others are published",
        "is_published": True,
    }
    published(session, Ran(2, state="failed", publish="failed", pushed={FAILED: said}))

    (problem,) = shown(admin)["problem_list"]

    assert problem["title"] == "Last run failed for section products; the other sections are published"
    assert "is still live" not in problem["detail"]
    assert problem["detail"].endswith("The files of the last run that succeeded stay public.")


def test_a_section_that_a_guard_blocked_can_be_overridden_where_the_others_are_published(
    admin: Client, session: Session
) -> None:
    guard = Refusal(guard="shrink", section="offers", message="offers shrank 3,000 → 600", value=0.8)
    down = SectionFailure(section="news", error="SourceError", message="the database is down")
    error = PartlyPublishedError(
        "2 sections not published", report=replace(report(2), result="partly_published"),
        failures=(*failures_of([guard]), down),
    )  # fmt: skip
    pushed = {FAILED: failure_facts(error), REFUSED: refusal_facts(error)}
    published(session, Ran(2, state="failed", publish="failed", pushed=pushed))

    page = shown(admin)

    assert (page["state"], page["reason"]) == ("failing", "Last run blocked by a safety check")
    (problem,) = page["problem_list"]
    assert (
        problem["title"]
        == "Last run blocked by a safety check for sections offers, news (shrink); the other sections are published"
    )
    assert problem["permits"] == ["shrink:offers=0.8"]
    assert problem["detail"] == ("Offers shrank 3,000 → 600. Section news: SourceError: the database is down.")
    (row,) = [run for run in admin.get("api/sitemap/runs", asset=URI).json()["runs"] if run["run_id"] == "run-2"]
    assert row["result"] == "refused"
    assert row["reason"] == "offers shrank 3,000 → 600 Section news: SourceError: the database is down"


@pytest.mark.parametrize("state", ["running", "success"])
def test_a_question_can_be_answered_until_its_run_has_ended(admin: Client, session: Session, state: str) -> None:
    guard = Refusal(guard="shrink", section="offers", message="offers shrank 3,000 → 600", value=0.8)
    error = PartlyPublishedError("", report=replace(report(1), result="refused"), failures=failures_of([guard]))
    question = {"section": "offers", "dag_id": "shop__sitemap__decisions", "run_id": "run-7"}
    pushed = {FAILED: failure_facts(error), REFUSED: refusal_facts(error), QUESTIONS: [question]}
    published(session, Ran(2, state="failed", publish="failed", pushed=pushed))
    add_run(session, "shop__sitemap__decisions", Ran(7, state=state), NOW)
    session.commit()

    (problem,) = shown(admin)["problem_list"]

    assert problem["questions"] == ([question] if state == "running" else [])
    assert ("answer whether" in problem["next_step"]) == (state == "running")


def test_a_blocked_section_beside_unchanged_ones_leaves_the_last_generation_live(
    admin: Client, session: Session
) -> None:
    guard = Refusal(guard="shrink", section="offers", message="offers shrank 3,000 → 600", value=0.8)
    error = PartlyPublishedError("", report=replace(report(1), result="refused"), failures=failures_of([guard]))
    pushed = {FAILED: failure_facts(error), REFUSED: refusal_facts(error)}
    published(session, Ran(2, state="failed", publish="failed", pushed=pushed))

    (problem,) = shown(admin)["problem_list"]

    assert problem["title"] == "Last run of section offers blocked by a safety check (shrink)"
    assert problem["detail"] == "Offers shrank 3,000 → 600."


def test_a_section_that_a_later_run_published_is_no_longer_named_as_blocked(admin: Client, session: Session) -> None:
    """Two sections are blocked, and the answer to a question publishes one of them."""
    guards = [
        Refusal(guard="shrink", section="offers", message="offers shrank 3,000 → 600", value=0.8),
        Refusal(guard="canary", section="news", message="news has faulty pages"),
    ]
    error = PartlyPublishedError("", report=replace(report(1), result="refused"), failures=failures_of(guards))
    pushed = {FAILED: failure_facts(error), REFUSED: refusal_facts(error)}
    asset = published(session, Ran(2, state="failed", publish="failed", pushed=pushed))
    answered = report(2, planned=("offers",), sections={"offers": SectionReport(), "news": SectionReport()})
    add_event(session, asset, "shop__sitemap__decisions", extra(answered), NOW, run="run-7")
    add_dag(session, "shop__sitemap__decisions")
    session.commit()

    (problem,) = shown(admin)["problem_list"]

    assert problem["title"] == "Last run of section news blocked by a safety check (canary)"
    assert problem["permits"] == ["canary:news"]
    assert problem["detail"] == "News has faulty pages. The files of the last run that succeeded stay public."


def test_files_that_a_run_restored_are_counted_as_written(admin: Client, session: Session) -> None:
    """U24."""
    asset = add_asset(session, URI, "shop")
    counts = ShardCounts(total=10, kept=8, repaired=2)
    made = replace(report(1, shards=10), shards=counts, drift=("a.xml.gz was deleted", "b.xml.gz was replaced"))
    add_event(session, asset, "shop", extra(made), NOW, run=GOOD.run_id)
    add_run(session, "shop", GOOD, NOW - timedelta(minutes=2))
    session.commit()

    (problem,) = shown(admin)["problem_list"]
    (row,) = admin.get("api/sitemap/runs", asset=URI).json()["runs"]

    assert problem["title"] == "2 files were modified outside Airflow"
    assert "The run restored the files that it found changed." in problem["detail"]
    assert row["shards_written"] == 2
    assert shown(admin)["report"]["shards"]["repaired"] == 2


def test_a_section_that_drops_many_of_its_own_rows_is_a_warning_however_large_the_others_are(
    admin: Client, session: Session
) -> None:
    """A sitemap is as bad as the worst of its sections."""
    asset = add_asset(session, URI, "shop")
    small = SectionReport(urls=90, rows=100, rows_dropped={"loc-missing": 10})
    large = SectionReport(urls=100_000, rows=100_000)
    made = report(1, urls=100_090, rows=100_100, rows_dropped={"loc-missing": 10}, sections={"a": small, "b": large})
    add_event(session, asset, "shop", extra(made), NOW, run=GOOD.run_id)
    add_run(session, "shop", GOOD, NOW - timedelta(minutes=2))
    session.commit()

    page = shown(admin)

    assert [(each["name"], each["state"]) for each in page["sections"]] == [("a", "warning"), ("b", "not_verified")]
    assert page["state"] == "warning"
    assert page["problem_list"][0]["title"].startswith("Section a: 10 of 100 rows are not in the sitemap")


def test_two_runs_that_were_blocked_in_different_sections_each_name_what_they_would_publish(
    admin: Client, session: Session
) -> None:
    asset = add_asset(session, URI, "shop")
    sections = {name: SectionReport(urls=10, rows=10) for name in ("news", "offers")}
    add_event(session, asset, "shop", extra(report(1, sections=sections)), NOW - timedelta(hours=1), run=GOOD.run_id)
    add_run(session, "shop", GOOD, NOW - timedelta(hours=1))
    for number, name in enumerate(sections, 2):
        refusal = {"guard": "shrink", "section": name, "message": "shrank", "permit": f"shrink:{name}"}
        pushed = {"message": "refused", "refusals": [refusal], "run": f"store-{number}", "sections": [name]}
        ran = Ran(number, state="failed", plan="failed", publish="upstream_failed", pushed={REFUSED: pushed})
        add_run(session, "shop", ran, NOW - timedelta(minutes=40 - 10 * number))
    session.commit()

    problems = [problem for problem in shown(admin)["problem_list"] if problem["kind"] == "refused"]

    assert {(problem["permits"][0], problem["store_run"]) for problem in problems} == {
        ("shrink:news", "store-2"),
        ("shrink:offers", "store-3"),
    }
