"""Questions that meet trouble in a real scheduler: paused, unknown, cleared, too old, in a race, or more than one."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.system.test_questions import PRODUCTS, Shop, refused, shops

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.airflow_processes import Airflow

pytestmark = [pytest.mark.system, pytest.mark.long, pytest.mark.timeout(900)]

DAGS = """
from datetime import timedelta
from pathlib import Path
from airflow.sdk import DAG, dag
from airflow_sitemaps import Approval, Guards, LocalStore, Section, Sitemap, SitemapTaskGroup, SqlSource

def sitemap(name):
    site = "https://shop.example/" + name
    query = Path(f"FOLDER/query_{name}")
    suffix = query.read_text() if query.exists() else ""
    sections = [
        Section(table, SqlSource("shop", table=f"{name}_{table}", key="id", loc=f"{site}/{table}/{{id}}{suffix}"))
        for table in ("products", "posts")
    ]
    return Sitemap(LocalStore(f"FOLDER/site/{name}", base_url=f"{site}/"), sections, guards=Guards(min_rows=20))

for name in ("paused", "unknown", "cleared", "aged", "changed", "raced"):
    with DAG(name, schedule=None, max_active_runs=1, default_args={"retries": 0}):
        SitemapTaskGroup("sitemap", sitemap(name), approval=Approval())

@dag(schedule=None, max_active_runs=1, default_args={"retries": 0})
def pair():
    for group in ("first", "second"):
        SitemapTaskGroup(group, sitemap(group), approval=Approval())

pair()
"""
NAMES = ("paused", "unknown", "cleared", "aged", "changed", "raced", "pair")
SITES = (*NAMES[:-1], "first", "second")


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    tables = {f"{site}_products": PRODUCTS for site in SITES}
    tables |= {f"{site}_posts": PRODUCTS if site == "first" else 3 for site in SITES}
    with shops(tmp_path_factory.mktemp("trouble"), DAGS, NAMES, tables) as airflow:
        yield airflow


def test_a_paused_dag_of_decisions_asks_when_it_is_not_paused_any_more(airflow: Airflow) -> None:
    shop = Shop(airflow, airflow.folder, "paused")
    airflow.pause(shop.decisions)
    refused(airflow, "paused")
    (run,) = airflow.wait("the run of the question", shop.questions)
    assert run["state"] == "queued"

    airflow.unpause(shop.decisions)

    assert shop.answer(shop.question(), "Publish this change")["state"] == "success"
    assert len(shop.locs()) == PRODUCTS - 30 + 4


def test_a_run_says_that_it_cannot_ask_and_a_later_one_asks(airflow: Airflow) -> None:
    """Someone deleted the DAG of decisions."""
    shop = Shop(airflow, airflow.folder, "unknown")
    airflow.stop("dag-processor")
    airflow.call("DELETE", f"/api/v2/dags/{shop.decisions}")
    refused(airflow, "unknown")

    newest = airflow.get("/dags/unknown/dagRuns?order_by=-run_after")["dag_runs"][0]
    logged = shop.log(newest, "sitemap.publish", shop.name)
    assert (
        "section products: Airflow asks no one, because it starts no run of DAG unknown__sitemap__decisions" in logged
    )

    airflow.start("dag-processor")
    known = f"/dags?dag_id_pattern={quote(shop.decisions)}"
    airflow.wait("the DAG of decisions", lambda: airflow.get(known)["total_entries"])
    assert shop.run() == "failed"
    assert shop.answer(shop.question(), "Publish this change")["state"] == "success"
    assert len(shop.locs()) == PRODUCTS - 30 + 4


def test_a_cleared_question_is_posed_again_until_it_is_answered(airflow: Airflow) -> None:
    shop = refused(airflow, "cleared")
    question = shop.question()
    run = f"/api/v2/dags/{shop.decisions}/dagRuns/{quote(question['dag_run_id'])}"
    airflow.call("PATCH", f"{run}?update_mask=state", {"state": "failed"})
    assert shop.run() == "failed"
    assert len(shop.questions()) == 1, "a failed run does not close its question"

    airflow.call("POST", f"{run}/clear", {"dry_run": False})
    shop.wait_for_form(question, tries=2)
    ended = shop.answer(question, "Publish this change")

    assert ended["state"] == "success"
    assert len(shop.locs()) == PRODUCTS - 30 + 4
    airflow.call("POST", f"{run}/clear", {"dry_run": False})
    airflow.wait("the skipped task", lambda: shop.state(question, "ask") == "skipped")
    assert len(shop.locs()) == PRODUCTS - 30 + 4


def test_the_answer_to_a_change_that_was_swept_is_expired(airflow: Airflow) -> None:
    shop = refused(airflow, "aged")
    question = shop.question()
    state, run = airflow.folder / "site" / "aged-state", question["conf"]["run"]
    (state / "plans" / f"{run}.json.gz").unlink()
    shutil.rmtree(state / "runs" / run)

    ended = shop.answer(question, "Publish this change")

    assert ended["state"] == "failed"
    assert shop.result(question)["result"] == "expired"
    assert len(shop.locs()) == PRODUCTS + 4


def test_the_answer_under_another_configuration_changes_nothing(airflow: Airflow) -> None:
    shop = refused(airflow, "changed")
    question = shop.question()
    (airflow.folder / "query_changed").write_text("?from=sitemap")

    ended = shop.answer(question, "Publish this change")

    assert ended["state"] == "failed"
    assert shop.result(question)["result"] == "changed"
    assert len(shop.locs()) == PRODUCTS + 4


def test_an_answer_and_a_run_at_the_same_time_lose_nothing(airflow: Airflow) -> None:
    shop = refused(airflow, "raced")
    question = shop.question()
    shop.sql(*(f"INSERT INTO {{name}}_products VALUES ({key})" for key in range(30)))

    with ThreadPoolExecutor() as threads:
        run = threads.submit(shop.run)
        threads.submit(shop.respond, question, "Publish this change").result()
        assert run.result() in ("success", "failed")
    shop.ended(question)

    assert shop.state(question, "ask") == "skipped" or shop.result(question)["result"] in ("published", "superseded")
    assert shop.run() == "success"
    assert len(shop.locs()) == PRODUCTS + 4


def test_each_section_of_each_group_has_a_question_of_its_own(airflow: Airflow) -> None:
    first, second = (Shop(airflow, airflow.folder, "pair", group, site=group) for group in ("first", "second"))
    assert first.run() == "success"
    first.sql("DELETE FROM {name}_products WHERE id < 30", "DELETE FROM {name}_posts WHERE id < 40")
    second.sql("DELETE FROM {name}_products WHERE id < 50")
    assert first.run() == "failed"
    runs = airflow.wait("two questions", lambda: len(first.questions()) == 2 and first.questions())
    posts, products = sorted(runs, key=lambda run: str(run["conf"]["section"]))
    for run in runs:
        first.wait_for_form(run)
    other = second.question()

    assert first.answer(posts, "Keep the published one")["state"] == "success"
    assert second.answer(other, "Publish this change")["state"] == "success"
    assert first.answer(products, "Publish this change")["state"] == "success"

    assert len(first.locs()) == PRODUCTS - 30 + PRODUCTS
    assert len(second.locs()) == PRODUCTS - 50 + 3
