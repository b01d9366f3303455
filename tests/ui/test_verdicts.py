"""Each row of the verdict table in docs/ui.md, brought about in a real Airflow by runs of real DAGs.

Two things cannot be waited for, so they are changed in Airflow's database: that data becomes years old, and that a
verification becomes a week old.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from airflow.models.asset import AssetEvent
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from playwright.sync_api import expect
from sqlalchemy import select, update

from airflow_sitemaps.ui_routes import sitemaps_page
from tests.plugin.test_verdict import table
from tests.ui.scale import metadata, uri_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ui.browser import Visitor
    from tests.ui.conftest import Published
    from tests.ui.site import Site

pytestmark = [pytest.mark.ui, pytest.mark.timeout(1_800)]

WAIT_S = 180
DAGS = """
import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

from airflow.sdk import DAG

from airflow_sitemaps import Guards, LocalStore, Section, ShardPolicy, Sitemap, SitemapTaskGroup, SqlSource
from airflow_sitemaps.operators.verify import SitemapVerifyOperator

source = SqlSource("warehouse", table="judged", key="id", loc="https://judged.example/{slug}", lastmod="updated_at")
judged = Sitemap(
    LocalStore(Path(os.environ["SITEMAPS_UI_SITES"]) / "judged", base_url="https://judged.example/"),
    [Section("pages", source)],
    shards=ShardPolicy(max_urls=50),
    guards=Guards(max_shrink_small=0.2),
    owner="judged",
"""
PUBLISH = """
with DAG("judged", schedule=%s, start_date=datetime(2999, 1, 1, tzinfo=timezone.utc), catchup=False, max_active_runs=1):
    SitemapTaskGroup("sitemap", judged)
"""
VERIFY = """
with DAG("judged_verify", schedule=None, max_active_runs=1):
    SitemapVerifyOperator(task_id="verify", sitemap=judged, inlets=[judged.asset])
"""


def dag_file(setting: str = "", schedule: str = "None") -> str:
    """The DAG file, with one more setting of the sitemap, or a schedule whose first run is far in the future."""
    return f"{DAGS}    {setting}\n){PUBLISH % schedule}{VERIFY}"


@dataclass
class Story:
    """One sitemap that goes from row to row. ``seen``: the rows so far, as state and reason."""

    site: Site
    seen: set[tuple[str, str]] = field(default_factory=set)

    @property
    def asset(self) -> str:
        return uri_of(self.site, "judged")

    def line(self) -> Any:
        """The sitemap's line in the list; None before Airflow has read the DAG."""
        answer = self.site.request("GET", "/sitemaps-ui/api/sitemaps", params={"limit": 500})
        lines = [one for one in answer.json()["sitemaps"] if one["asset"] == self.asset]
        return lines[0] if lines else None

    def becomes(self, state: str, reason: str) -> None:
        """Wait for a verdict."""
        deadline, found = time.monotonic() + WAIT_S, None
        while time.monotonic() < deadline:
            line = self.line()
            found = (line["state"], line["reason"]) if line else None
            if found == (state, reason):
                self.seen.add(found)
                return
            time.sleep(0.5)
        raise AssertionError(f"{found} instead of {(state, reason)}")

    def run(self, dag_id: str, ends: str) -> None:
        assert self.site.run(dag_id) == [ends], f"the run of {dag_id}"

    def has_dag(self, dag_id: str) -> None:
        """Wait until Airflow has read a DAG."""
        deadline = time.monotonic() + WAIT_S
        while self.site.request("GET", f"/api/v2/dags/{dag_id}").status_code != 200:
            assert time.monotonic() < deadline, f"Airflow has not read the DAG {dag_id}"
            time.sleep(0.5)

    def pause(self, dag_id: str, paused: bool) -> None:
        answer = self.site.request("PATCH", f"/api/v2/dags/{dag_id}", json={"is_paused": paused})
        assert answer.status_code == 200, answer.text

    def file(self) -> Path:
        """One of the published files."""
        return next((self.site.home / "sites" / "judged").glob("pages-*.xml.gz"))


@pytest.fixture(scope="module")
def story(published: Published) -> Story:
    site = published.site
    site.execute(
        "create table judged (id integer primary key, slug text, updated_at text)",
        *[f"insert into judged values ({n}, 'page-{n}', '2026-11-{1 + n % 20:02} 08:00:00')" for n in range(1, 101)],
    )
    site.write_dag("judged", dag_file())
    return Story(site)


def make_older(story: Story, age: timedelta) -> None:
    """Move the runs, the events and their reports into the past."""
    with metadata(story.site, "judged") as (session, asset):
        for event in session.scalars(select(AssetEvent).where(AssetEvent.asset_id == asset)):
            event.timestamp -= age
            extra = json.loads(json.dumps(event.extra))
            started = datetime.fromisoformat(extra["report"]["started_at"])
            extra["report"]["started_at"] = (started - age).isoformat()
            event.extra = extra
        for run in session.scalars(select(DagRun).where(DagRun.dag_id == "judged")):
            run.start_date = (run.start_date or datetime.now(timezone.utc)) - age


def make_verification_older(story: Story, age: timedelta) -> None:
    with metadata(story.site, "judged") as (session, _):
        mine = TaskInstance.dag_id == "judged_verify"
        for task in session.scalars(select(TaskInstance).where(mine)):
            ended = (task.end_date or datetime.now(timezone.utc)) - age
            session.execute(update(TaskInstance).where(TaskInstance.id == task.id).values(end_date=ended))


def test_each_row_of_the_table_in_a_real_airflow(story: Story, admin: Visitor) -> None:
    site = story.site
    story.becomes("unknown", "Never published")
    story.has_dag("judged_verify")
    site.execute("alter table judged rename to judged_away")
    story.run("judged", "failed")
    story.becomes("failing", "Last run failed")
    site.execute("alter table judged_away rename to judged")
    story.run("judged", "success")
    story.becomes("not_verified", "Not verified")
    story.run("judged_verify", "success")
    story.becomes("healthy", "Healthy")

    site.execute("create table kept as select * from judged", "delete from judged where id > 40")
    story.run("judged", "failed")
    story.becomes("failing", "Last run blocked by a safety check")
    site.execute("delete from judged", "insert into judged select * from kept")
    story.run("judged", "success")
    story.becomes("healthy", "Healthy")

    file = story.file()
    file.write_bytes(b"damaged")
    story.run("judged_verify", "failed")
    story.becomes("failing", "Published files are invalid")
    site.execute("update judged set updated_at = '2026-11-05 08:00:00' where id = 7")
    story.run("judged", "success")
    story.becomes("warning", "Verification found errors before the last run")
    story.run("judged_verify", "success")
    story.becomes("warning", "The last run reported warnings")
    story.run("judged", "success")
    story.becomes("healthy", "Healthy")

    state = site.home / "sites" / "judged-state"
    state.rename(state.with_name("judged-state-away"))
    story.run("judged_verify", "failed")
    state.with_name("judged-state-away").rename(state)
    story.becomes("warning", "Verification did not finish")
    story.run("judged_verify", "success")
    make_verification_older(story, timedelta(days=8))
    site.execute("update judged set updated_at = '2026-11-06 08:00:00' where id = 8")
    story.run("judged", "success")
    story.becomes("not_verified", "Last verified too long ago")
    story.run("judged_verify", "success")
    story.becomes("healthy", "Healthy")

    site.write_dag(
        "judged_again", dag_file().split("\nwith DAG")[0] + PUBLISH.replace('"judged"', '"judged_again"') % "None"
    )
    story.has_dag("judged_again")
    story.run("judged_again", "success")
    story.becomes("warning", "Several DAGs publish it")
    site.remove_dag("judged_again")
    story.becomes("healthy", "Healthy")

    site.write_dag("judged", dag_file("freshness=timedelta(seconds=1),"))
    story.becomes("failing", "Freshness objective missed")
    story.pause("judged", True)
    story.becomes("warning", "Paused and out of date")
    story.pause("judged", False)
    make_older(story, timedelta(days=4 * 366))
    site.write_dag("judged", dag_file(schedule='"@yearly"'))
    story.becomes("warning", "Behind its schedule")

    page = admin.visit(f"{sitemaps_page()}?search=judged")
    expect(page.get_by_test_id("sitemap-line")).to_contain_text("Warning")
    site.write_dag("judged", dag_file() + "\nraise RuntimeError('this file is broken')\n")
    story.becomes("failing", "The DAG's file cannot be imported")
    page.reload()
    expect(page.get_by_test_id("sitemap-line")).to_contain_text("Failing")
    site.remove_dag("judged")
    story.becomes("unknown", "Orphaned: no DAG publishes it")
    page.reload()
    expect(page.get_by_test_id("sitemap-line")).to_contain_text("Unknown")

    assert story.seen == {(state, reason) for _, state, reason in table()}
