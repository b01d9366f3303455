"""Every run of a sitemap: its result, why it failed, its wall time, its URL delta, and what triggered it."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from airflow.models.asset import AssetModel, TaskOutletAssetReference
from sqlalchemy import select

from airflow_sitemaps.operators import FAILED, QUESTIONS, REFUSED, SECTIONS
from airflow_sitemaps.operators.plan import PLAN_KEY
from airflow_sitemaps.plugin import dag_runs
from tests.plugin.test_verdicts_of_runs import DRY, REFUSAL, URI
from tests.support.plugin_factories import NOW, Ran, add_asset, add_event, add_run, add_task, extra, report

if TYPE_CHECKING:
    import pytest
    from sqlalchemy.orm import Session

    from tests.plugin.conftest import Client

START = NOW - timedelta(days=1)


def runs_of(session: Session) -> None:
    """Published, unchanged, refused, failed, a dry run, and one that runs; an hour apart."""
    asset = add_asset(session, URI, "shop")
    runs = [
        Ran(1),
        Ran(2, user="ada"),
        Ran(3, state="failed", plan="failed", publish="upstream_failed", pushed={REFUSED: REFUSAL}),
        Ran(4, state="failed", publish="failed", pushed={FAILED: {"message": "the store is down"}}),
        Ran(5, publish="skipped", conf=DRY),
        Ran(6, state="running", plan="running", publish=None),
    ]
    for number, ran in enumerate(runs):
        at = START + timedelta(hours=number)
        add_run(session, "shop", ran, at, minutes=9.75)
        if number < 2:
            result = "published" if number == 0 else "unchanged"
            made = report(1, at=at, urls=1_000 - 3 * number, result=result)
            add_event(session, asset, "shop", extra(made), at, run=ran.run_id)
    session.commit()


def test_a_run_that_published_twice(admin: Client, session: Session) -> None:
    """Its task was cleared: the second try counts, and the change is that since the run before."""
    asset = add_asset(session, URI, "shop")
    for number, (run, urls) in enumerate((("run-1", 1_000), ("run-2", 1_400), ("run-2", 1_500)), 1):
        at = START + timedelta(minutes=10 * number)
        payload = extra(report(number, at=at, urls=urls)) | {"sections_left_out": number}
        add_event(session, asset, "shop", payload, at, run=run)
    for number in (1, 2):
        add_run(session, "shop", Ran(number), START + timedelta(minutes=10 * number - 1), minutes=15)
    session.commit()

    rows = admin.get("api/sitemap/runs", asset=URI).json()["runs"]
    tab = admin.get("api/dags/shop/runs/run-2").json()

    assert [(row["run_id"], row["urls_delta"]) for row in rows] == [("run-2", 500), ("run-1", None)]
    assert [(each["report"]["generation"], each["sections_left_out"]) for each in tab["reports"]] == [(3, 3), (2, 2)]


def test_all_of_them_are_in_the_table_newest_first(admin: Client, session: Session) -> None:
    runs_of(session)

    rows = admin.get("api/sitemap/runs", asset=URI).json()["runs"]

    assert [row["result"] for row in rows] == ["running", "planned", "failed", "refused", "unchanged", "published"]
    assert [row["run_id"] for row in rows] == [f"run-{n}" for n in (6, 5, 4, 3, 2, 1)]
    assert [row["trigger"] for row in rows[-2:]] == ["ada", "schedule"]
    assert [row["reason"] for row in rows[2:4]] == ["the store is down", "offers shrank 3,000 → 600"]
    assert rows[2]["failed_tasks"] == [{"task_id": "sitemap.publish", "map_index": -1}]
    assert [row["urls_delta"] for row in rows[-2:]] == [-3, None]


def test_run_time_is_the_runs_wall_time(admin: Client, session: Session) -> None:
    """U14: not the sum of the stages, which is 30 seconds here."""
    runs_of(session)

    rows = admin.get("api/sitemap/runs", asset=URI).json()["runs"]
    history = admin.get("api/sitemap/history", asset=URI).json()

    assert rows[-1]["seconds"] == 585
    assert history["columns"]["seconds"] == [585, 585]


def test_the_charts_have_the_runs_that_failed(admin: Client, session: Session) -> None:
    """U13."""
    runs_of(session)

    history = admin.get("api/sitemap/history", asset=URI).json()

    assert [(run["result"], run["run_id"]) for run in history["failures"]] == [
        ("refused", "run-3"),
        ("failed", "run-4"),
    ]


def test_the_table_comes_in_pages(admin: Client, session: Session) -> None:
    runs_of(session)

    first = admin.get("api/sitemap/runs", asset=URI, limit=4).json()
    second = admin.get("api/sitemap/runs", asset=URI, limit=4, before=first["before"]).json()

    assert [row["run_id"] for row in first["runs"] + second["runs"]] == [f"run-{n}" for n in (6, 5, 4, 3, 2, 1)]
    assert second["before"] is None


def test_no_page_ends_between_two_tasks_of_a_run(admin: Client, session: Session) -> None:
    runs_of(session)
    asset = session.scalar(select(AssetModel.id).where(AssetModel.uri == URI))
    session.add(TaskOutletAssetReference(asset_id=asset, dag_id="shop", task_id="rollback"))
    session.commit()

    seen, before = [], 1_000_000
    while before is not None:
        page = admin.get("api/sitemap/runs", asset=URI, limit=3, before=before).json()
        seen += [row["run_id"] for row in page["runs"]]
        before = page["before"]

    assert seen == [f"run-{n}" for n in (6, 5, 4, 3, 2, 1) for _ in ("publish", "rollback")]


def test_values_that_an_xcom_backend_keeps_elsewhere_are_read_through_it(
    admin: Client, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {"file:///x/1": {"message": "the store is down"}, "file:///x/2": "", "file:///x/3": OSError("no access")}

    class Elsewhere:
        @staticmethod
        def deserialize_value(row: Any) -> Any:
            value: Any = kept.get(row.value, row.value)
            if isinstance(value, Exception):
                raise value
            return value

    monkeypatch.setattr("airflow_sitemaps.airflow_compat.XCom", Elsewhere)
    add_asset(session, URI, "shop")
    pushed = {FAILED: "file:///x/1", PLAN_KEY: "file:///x/2", SECTIONS: "file:///x/3", QUESTIONS: "file:///x/gone"}
    add_run(session, "shop", Ran(1, state="failed", publish="failed", pushed=pushed), START)
    session.commit()

    (row,) = admin.get("api/sitemap/runs", asset=URI).json()["runs"]
    publish: Any = SimpleNamespace(key=("shop", "run-1", "sitemap.publish", -1))
    values = {key: value for (*_, key), value in dag_runs.pushed_by(session, [publish], list(pushed)).items()}

    assert row["reason"] == "the store is down"
    assert values == {FAILED: kept["file:///x/1"], PLAN_KEY: "", SECTIONS: None, QUESTIONS: None}


def test_a_batch_that_failed_is_linked_by_its_number(admin: Client, session: Session) -> None:
    """U11."""
    runs_of(session)
    add_run(session, "shop", Ran(7, state="failed", publish="upstream_failed"), NOW - timedelta(hours=1))
    add_task(session, "shop", "run-7", "sitemap.write", "SitemapWriteOperator", "failed", NOW, NOW, map_index=3)
    session.commit()

    rows: list[Any] = admin.get("api/sitemap/runs", asset=URI).json()["runs"]

    assert rows[0]["failed_tasks"] == [{"task_id": "sitemap.write", "map_index": 3}]


def test_history_that_did_not_change_is_not_sent_again(admin: Client, session: Session) -> None:
    """U31."""
    runs_of(session)
    path, params = "/sitemaps-ui/api/sitemap/history", {"asset": URI}

    first = admin.client.get(path, params=params)
    again = admin.client.get(path, params=params, headers={"If-None-Match": first.headers["etag"]})

    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")
