"""The pages after a month of runs: something is to be seen in every chart. ``make pictures`` shows a million URLs."""

from __future__ import annotations

import json
import os
import re
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from airflow.utils.state import DagRunState
from airflow.utils.types import DagRunTriggeredByType
from playwright.sync_api import expect
from sqlalchemy import insert

from airflow_sitemaps.operators import FAILED, REFUSED, failure_facts, refusal_facts
from airflow_sitemaps.operators.links import run_page
from tests.support.plugin_factories import Ran, add_event, add_run, add_task, extra
from tests.ui.browser import PANELS
from tests.ui.conftest import THEMES
from tests.ui.layout import fits
from tests.ui.month import PROPERTY, SHARES, Shop, nights, sitemap_of
from tests.ui.scale import metadata, uri_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy.orm import Session

    from tests.ui.browser import Visitor
    from tests.ui.month import Night
    from tests.ui.site import Site

pytestmark = [pytest.mark.ui, pytest.mark.timeout(1_800)]

ROWS, NIGHTS = (1_000_000, 30) if os.environ.get("SITEMAPS_PICTURES") else (5_000, 6)
SERVICES = {
    "indexnow": "IndexNowOperator",
    "console": "SearchConsoleSubmitOperator",
    "inspect": "SearchConsoleInspectOperator",
    "fetches": "SitemapFetchesOperator",
}
DAG = f"""
import os
from datetime import datetime
from pathlib import Path

from airflow.sdk import DAG

from airflow_sitemaps import (
    AccessLog, IndexNowOperator, SearchConsoleInspectOperator, SearchConsoleSubmitOperator, SitemapFetchesOperator,
    SitemapTaskGroup, SitemapVerifyOperator,
)
from tests.ui.month import sitemap_of

sitemap = sitemap_of(Path(os.environ["SITEMAPS_UI_SITES"]) / "acme", {ROWS})
with DAG(
    "acme", schedule="@daily", start_date=datetime(2026, 1, 1), catchup=False, max_active_runs=1,
    default_args={{"retries": 0}}, is_paused_upon_creation=True,
):
    SitemapTaskGroup("sitemap", sitemap) >> SitemapVerifyOperator(task_id="verify", sitemap=sitemap)
with DAG("acme_search_engines", schedule=[sitemap.asset], is_paused_upon_creation=True):
    IndexNowOperator(task_id="indexnow", sitemap=sitemap, inlets=[sitemap.asset])
    SearchConsoleSubmitOperator(task_id="console", sitemap=sitemap, inlets=[sitemap.asset], site="{PROPERTY}")
    SearchConsoleInspectOperator(task_id="inspect", sitemap=sitemap, inlets=[sitemap.asset], property="{PROPERTY}")
    log = AccessLog("acme_warehouse", query="SELECT * FROM requests WHERE requested_at >= :since")
    SitemapFetchesOperator(task_id="fetches", sitemap=sitemap, inlets=[sitemap.asset], access_log=log)
"""


@pytest.fixture(scope="module")
def acme(site: Site) -> Iterator[str]:
    """The asset of a sitemap that was published every night, and today by the schedule of Airflow."""
    url = f"duckdb:///{site.home / 'acme.duckdb'}?access_mode=read_only"
    connection = {"conn_type": "generic", "extra": json.dumps({"sqlalchemy_url": url})}
    body = {"connection_id": "acme_warehouse", **connection}
    assert site.request("POST", "/api/v2/connections", json=body).status_code == 201
    shop, now = Shop(site.home / "acme.duckdb", ROWS), datetime.now(timezone.utc)
    sitemap = sitemap_of(site.home / "sites" / "acme", ROWS)
    site.write_dag("acme", DAG)
    for dag_id in ("acme", "acme_search_engines"):
        site.wait_for_dag(dag_id)
    with pytest.MonkeyPatch.context() as patch, metadata(site, "acme") as (session, asset):
        patch.setenv("AIRFLOW_CONN_ACME_WAREHOUSE", json.dumps(connection))
        for night in nights(shop, sitemap, now, NIGHTS):
            add_night(session, asset, night, str(site.home / "sites" / "acme-state"))
    shop.day(now)
    site.airflow.unpause("acme")
    asset_uri = uri_of(site, "acme")

    def today() -> str | None:
        runs = site.request("GET", "/api/v2/dags/acme/dagRuns", params={"run_type": "scheduled"}).json()["dag_runs"]
        return runs[0]["dag_run_id"] if runs else None

    assert site.wait(("acme", site.airflow.wait("the run of today", today))) == ["success"]
    yield asset_uri
    site.archive(asset_uri, "acme")


def add_night(session: Session, asset: int, night: Night, state_url: str) -> None:
    """Tell Airflow of a run: its tasks, what they pushed, and its event."""
    if night.report is None:
        assert night.failure is not None
        pushed = {REFUSED: refusal_facts(night.failure), FAILED: failure_facts(night.failure)}
        ran = Ran(night.number, state="failed", publish="failed", pushed=pushed)
        add_run(session, "acme", ran, night.at, minutes=night.minutes)
        return
    ran = Ran(night.number, verify="success")
    add_run(session, "acme", ran, night.at, minutes=night.minutes)
    ended = night.at + timedelta(minutes=night.minutes)
    add_event(session, asset, "acme", extra(night.report, state_url=state_url), ended, run=ran.run_id)
    add_announcements(session, night, ended)


def add_announcements(session: Session, night: Night, at: datetime) -> None:
    """The run of the DAG of the services, which began when the sitemap was published."""
    run = DagRun(
        dag_id="acme_search_engines", run_id=f"run-{night.number}", run_type="manual", state=DagRunState.SUCCESS, start_date=at,
        queued_at=at, logical_date=None, run_after=at, conf={}, triggered_by=DagRunTriggeredByType.ASSET,
    )  # fmt: skip
    run.end_date = at + timedelta(minutes=2)
    session.add(run)
    session.flush()
    for task_id, operator in SERVICES.items():
        add_task(session, run.dag_id, run.run_id, task_id, operator, "success", at, run.end_date)
        xcom = {"key": "return_value", "value": night.returned[task_id], "timestamp": at, "map_index": -1}
        session.execute(
            insert(XComModel).values(dag_run_id=run.id, dag_id=run.dag_id, run_id=run.run_id, task_id=task_id, **xcom)
        )
    session.flush()


@pytest.mark.parametrize("theme", THEMES)
def test_the_first_screen_says_that_all_is_well(
    acme: str, visitors: dict[str, Visitor], pictures: Path, theme: str
) -> None:
    visitor = visitors[theme]
    page = visitor.sitemap(acme)

    expect(page.get_by_test_id("section-state")).to_have_count(len(SHARES))
    expect(page.get_by_test_id("section-state").get_by_role("img")).to_have_count(len(SHARES))
    expect(page.get_by_test_id("verdict")).to_have_text(["Healthy"] * (1 + len(SHARES)))
    fits(page)
    visitor.picture(pictures / f"sitemap-{theme}.png")
    page = visitor.visit("/dags/acme")
    page.get_by_role("link", name="Sitemap", exact=True).click()
    expect(page.get_by_test_id("section-state")).to_have_count(len(SHARES))
    visitor.picture(pictures / f"dag-{theme}.png")


@pytest.mark.parametrize("theme", THEMES)
def test_every_panel_has_something_to_show(acme: str, visitors: dict[str, Visitor], pictures: Path, theme: str) -> None:
    visitor = visitors[theme]
    page = visitor.sitemap(acme, *PANELS, "engines", "guards")

    expect(page.get_by_role("img", name=re.compile(f"URLs over {NIGHTS + 1} runs"))).to_be_visible()
    for name in SHARES:
        expect(page.get_by_test_id(f"map-{name}")).to_be_visible()
    expect(page.get_by_test_id("guard-results")).to_have_count(1)
    expect(page.get_by_test_id("coverage").get_by_role("img")).to_have_count(1)
    expect(page.get_by_test_id("index-status")).to_have_count(len(SHARES))
    expect(page.get_by_test_id("funnel")).to_have_count(1 + len(SHARES))
    fits(page)
    visitor.picture(pictures / f"open-{theme}.png")


@pytest.mark.parametrize("theme", THEMES)
def test_the_run_of_today(acme: str, site: Site, visitors: dict[str, Visitor], pictures: Path, theme: str) -> None:
    visitor = visitors[theme]
    runs: Any = site.request("GET", "/api/v2/dags/acme/dagRuns", params={"run_type": "scheduled"}).json()["dag_runs"]
    page = visitor.visit(run_page("acme", runs[0]["dag_run_id"]))

    expect(page.get_by_role("heading", name="Result")).to_be_visible()
    fits(page)
    visitor.picture(pictures / f"run-{theme}.png")
