"""Each row of the verdict table in docs/verdict.md, brought about in a real Airflow by runs of real DAGs, and seen in a browser.

Two things cannot be waited for, so they are changed in Airflow's database: that data becomes years old, and that a
verification becomes a week old. The sitemap is archived at the end, so that the other tests' list is as it was.
"""

from __future__ import annotations

import copy
import re
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from airflow.models.asset import AssetEvent
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from playwright.sync_api import expect
from sqlalchemy import select, update

from airflow_sitemaps.operators.links import sitemaps_page
from tests.plugin.test_verdict import table
from tests.support.plugin_factories import add_event
from tests.ui.scale import metadata, uri_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.ui.browser import Visitor
    from tests.ui.site import Site

pytestmark = [pytest.mark.ui, pytest.mark.timeout(1_800)]

WAIT_S = 600
"""Within which Airflow reads a DAG file, or a verdict follows, on a busy machine."""
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
    guards=Guards(max_shrink=0.2, max_dropped=0.25, min_rows=1),
    owner="judged",
"""
PUBLISH = """
with DAG("judged", schedule=%s, start_date=datetime(2999, 1, 1, tzinfo=timezone.utc), catchup=False, max_active_runs=1, default_args={"retries": 0}):
    SitemapTaskGroup("sitemap", judged)
"""
VERIFY = """
with DAG("judged_verify", schedule=None, max_active_runs=1, default_args={"retries": 0}):
    SitemapVerifyOperator(task_id="verify", sitemap=judged, inlets=[judged.asset])
"""


def dag_file(setting: str = "", schedule: str = "None") -> str:
    """The DAG file, with one more setting of the sitemap, or a schedule whose first run is far in the future."""
    return f"{DAGS}    {setting}\n){PUBLISH % schedule}{VERIFY}"


@dataclass
class Story:
    """One sitemap that goes from row to row. ``seen``: the rows so far, as state and reason."""

    site: Site
    visitor: Visitor
    seen: set[tuple[str, str]] = field(default_factory=set)

    @property
    def asset(self) -> str:
        return uri_of(self.site, "judged")

    def becomes(self, state: str, reason: str) -> None:
        """Wait for a verdict, and look at it in the list and on the sitemap's page."""
        deadline, found = time.monotonic() + WAIT_S, None
        while found != (state, reason):
            assert time.monotonic() < deadline, f"{found} instead of {(state, reason)}"
            line = self.site.listed().get(self.asset)
            found = (line["state"], line["reason"]) if line else None
            time.sleep(0.5)
        shown = re.compile(state.replace("_", " "), re.IGNORECASE)
        page = self.visitor.visit(f"{sitemaps_page()}?search=judged")
        badge = page.get_by_test_id("sitemap-line").get_by_test_id("verdict")
        expect(badge).to_have_text(shown)
        expect(badge).to_have_attribute("title", reason)
        page = self.visitor.sitemap(self.asset)
        expect(page.get_by_test_id("verdict").first).to_have_text(shown)
        expect(page.get_by_test_id("verdict").first).to_have_attribute("title", reason)
        self.seen.add((state, reason))

    def run(self, dag_id: str, ends: str) -> None:
        run_id = self.site.trigger(dag_id)
        assert self.site.wait((dag_id, run_id), seconds=WAIT_S) == [ends], f"the run of {dag_id}"

    def pause(self, dag_id: str, paused: bool) -> None:
        answer = self.site.request("PATCH", f"/api/v2/dags/{dag_id}", json={"is_paused": paused})
        assert answer.status_code == 200, answer.text

    def file(self) -> Path:
        """One of the published files."""
        return min((self.site.home / "sites" / "judged").glob("pages-*.xml.gz"))

    @contextmanager
    def without_manifest(self) -> Iterator[None]:
        """Make the manifest unreadable, so that a verification ends without a result."""
        manifest = self.site.home / "sites" / "judged-state" / "manifest.json.gz"
        kept = manifest.with_name("kept")
        manifest.rename(kept)
        manifest.write_bytes(b"not a manifest")
        try:
            yield
        finally:
            kept.replace(manifest)


@pytest.fixture
def story(site: Site, admin: Visitor) -> Iterator[Story]:
    site.execute(
        "create table judged (id integer primary key, slug text, updated_at text)",
        *[f"insert into judged values ({n}, 'page-{n}', '2026-11-{1 + n % 20:02} 08:00:00')" for n in range(1, 101)],
    )
    site.write_dag("judged", dag_file())
    made = Story(site, admin)
    yield made
    site.archive(made.asset, "judged", "judged_again")


def make_older(story: Story, age: timedelta) -> None:
    """Move the runs into the past, and replace their events by older ones: an event that was read once never changes."""
    with metadata(story.site, "judged") as (session, asset):
        for event in list(
            session.scalars(select(AssetEvent).where(AssetEvent.asset_id == asset).order_by(AssetEvent.id))
        ):
            extra = copy.deepcopy(event.extra)
            started = datetime.fromisoformat(extra["report"]["started_at"])
            extra["report"]["started_at"] = (started - age).isoformat()
            add_event(session, asset, event.source_dag_id, extra, event.timestamp - age, run=event.source_run_id or "")
            session.delete(event)
            session.flush()
        for run in session.scalars(select(DagRun).where(DagRun.dag_id == "judged")):
            run.start_date = (run.start_date or datetime.now(timezone.utc)) - age


def make_verification_older(story: Story, age: timedelta) -> None:
    with metadata(story.site, "judged") as (session, _):
        mine = TaskInstance.dag_id == "judged_verify"
        for task in session.scalars(select(TaskInstance).where(mine)):
            at = {"start_date": task.start_date, "end_date": task.end_date}
            older = {name: (moment or datetime.now(timezone.utc)) - age for name, moment in at.items()}
            session.execute(update(TaskInstance).where(TaskInstance.id == task.id).values(**older))


def test_each_row_of_the_table_in_a_real_airflow(story: Story) -> None:
    site = story.site
    story.becomes("unknown", "Never published")
    site.wait_for_dag("judged_verify")
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

    with story.without_manifest():
        story.run("judged_verify", "failed")
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
    site.wait_for_dag("judged_again")
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
    site.write_dag("judged", dag_file())
    story.becomes("warning", "No data read for 30 days")
    site.write_dag("judged", dag_file(schedule='"@yearly"'))
    story.becomes("warning", "Behind its schedule")

    site.write_dag("judged", dag_file() + "\nraise RuntimeError('this file is broken')\n")
    story.becomes("failing", "The DAG's file cannot be imported")
    site.remove_dag("judged")
    story.becomes("unknown", "Orphaned: no DAG that you may see publishes it")

    assert story.seen == {(state, reason) for _, state, reason in table()}
