"""A loss of a fifth and dead new pages in a real Airflow: the assigned user finds the questions, answers, and is named.

The session's Airflow has no triggerer: Airflow 3.3 waits for an answer without one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.support.website import Page, serving
from tests.ui.scale import uri_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ui.browser import Visitor
    from tests.ui.site import Site

pytestmark = [pytest.mark.ui, pytest.mark.timeout(1_800)]

DECISIONS = "leases__sitemap__decisions"
PUBLISH, KEEP = "Publish this change", "Keep the published one"
DAGS = """
import os
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG

from airflow_sitemaps import (
    Approval, Canary, Guards, LocalStore, Section, Sitemap, SitemapTaskGroup, SqlSource, Website,
)


def source(table):
    return SqlSource("warehouse", table=table, key="id", loc="%(base)s/%%s/{id}" %% table, lastmod="updated_at")


canary = Canary(site=Website(allow_http=True, allow_private=True), per_second=1000)
leases = Sitemap(
    LocalStore(Path(os.environ["SITEMAPS_UI_SITES"]) / "leases", base_url="%(base)s/"),
    [Section("flats", source("flats")), Section("houses", source("houses"), guards=Guards(canary=canary))],
)
with DAG("leases", schedule=None, max_active_runs=1, default_args={"retries": 0}):
    SitemapTaskGroup(
        "sitemap",
        leases,
        approval=Approval(timeout=timedelta(hours=4), assigned_users=[{"id": "keeper", "name": "keeper"}]),
    )
"""


def test_the_assigned_user_answers_and_is_named_afterwards(
    site: Site, visitors: dict[str, Visitor], pictures: Path
) -> None:
    with serving() as website:
        for table, rows in (("flats", 2_000), ("houses", 1_000)):
            site.execute(
                f"create table {table} (id integer primary key, updated_at text)",
                f"with recursive ids(id) as (select 1 union all select id + 1 from ids where id < {rows})"
                f" insert into {table} select id, '2026-11-01 08:00:00' from ids",
            )
        website.pages |= {f"/houses/{key}": Page(b"House %d" % key) for key in range(1, 1_001)}
        site.write_dag("leases", DAGS % {"base": website.base})
        for dag_id in ("leases", DECISIONS):
            site.wait_for_dag(dag_id)
        assert site.run("leases") == ["success"]
        site.execute(
            "delete from flats where id > 1600",
            "update houses set updated_at = '2026-11-02 08:00:00' where id > 600",
        )
        for key in range(605, 1_001, 5):
            del website.pages[f"/houses/{key}"]
        assert site.run("leases") == ["failed"]

        questions = find_questions(site)
        refuse_others(site, questions)
        keeper = visitors["keeper"]
        keeper.errors.clear()
        for section, option in (("flats", PUBLISH), ("houses", KEEP)):
            answer(keeper, section, option, pictures / f"question-{section}.png")
            assert site.wait((DECISIONS, questions[section])) == ["success"]
        assert not keeper.errors

    visitor = visitors["light"]
    page = visitor.sitemap(uri_of(site, "leases"), "guards")
    expect(page.get_by_role("button", name="Override")).to_have_text("Override “canary:houses” for one run")
    rows = page.get_by_test_id("guard-results")
    expect(rows).to_have_count(4)
    kept, allowed, refused, first = rows.all()
    expect(kept).to_contain_text("The published section is kept; answered by keeper")
    shrunk = "Section 'flats' would shrink from 2,000 to 1,600"
    expect(allowed).to_contain_text(re.compile(f"Allowed: {shrunk} URLs.*answered by keeper", re.DOTALL))
    expect(refused).to_contain_text(f"Refused: {shrunk} rows")
    expect(refused).to_contain_text(re.compile(r"Refused: Section 'houses': \d+ of \d+ requested pages.* page-status"))
    expect(refused).to_contain_text(re.compile(r"Canary of section houses: refused, \d+ of \d+ pages faulty"))
    expect(first).to_contain_text("Canary of section houses: passed, 0 of 66 pages faulty")
    visitor.picture(pictures / "safety-checks.png")
    assert site.listed()[uri_of(site, "leases")]["urls"] == 2_600
    logged = site.request("GET", "/api/v2/eventLogs", params={"owner": "keeper", "dag_id": DECISIONS, "limit": 100})
    assert {entry["run_id"] for entry in logged.json()["event_logs"]} == set(questions.values())
    site.archive(uri_of(site, "leases"), "leases")


def find_questions(site: Site) -> dict[str, str]:
    """The run of each section's question, once a person can answer it.

    The scheduler takes an answer that it sees before the end of the asking process for a failure of the task.
    """
    ended = "Received executor event with state success for task instance TaskInstanceKey(dag_id='%s', task_id='ask', run_id='%s'"

    def asked() -> dict[str, str] | None:
        details = site.request("GET", "/api/v2/dags/~/dagRuns/~/hitlDetails").json()["hitl_details"]
        tasks = {detail["subject"].split("'")[1]: detail["task_instance"] for detail in details}
        runs = {section: task["dag_run_id"] for section, task in tasks.items() if task["dag_id"] == DECISIONS}
        log = site.airflow.log("scheduler")
        return runs if len(runs) == 2 and all(ended % (DECISIONS, run) in log for run in runs.values()) else None

    return dict(site.airflow.wait("two questions", asked))


def refuse_others(site: Site, questions: dict[str, str]) -> None:
    """Neither an administrator nor a reader may answer: they are not assigned."""
    body: dict[str, Any] = {"chosen_options": [KEEP], "params_input": {}}
    for user in ("admin", "viewer"):
        for run in questions.values():
            path = f"/api/v2/dags/{DECISIONS}/dagRuns/{quote(run)}/taskInstances/ask/-1/hitlDetails"
            assert site.request("PATCH", path, user=user, json=body).status_code == 403


def answer(visitor: Visitor, section: str, option: str, picture: Path) -> None:
    """From Airflow's home page to a section's question, and an answer."""
    page = visitor.visit("/")
    page.get_by_role("button", name="Required Actions").click()
    page.get_by_role("link", name="View all required actions").or_(
        page.get_by_text("View all required actions")
    ).click()
    page.get_by_role("link", name=f"Publish the change of section '{section}'?").first.click()
    button = page.get_by_role("button", name=option)
    button.wait_for()
    expect(page.get_by_role("link", name="The refused run")).to_have_attribute(
        "href", re.compile("/plugin/sitemaps.*compare=")
    )
    page.screenshot(path=picture)
    with page.expect_response(lambda response: response.request.method == "PATCH") as patched:
        button.click()
    assert patched.value.status == 200, patched.value.text()
