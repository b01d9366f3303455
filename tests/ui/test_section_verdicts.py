"""V1, V2, V5 to V8, V10 and V11 in a real Airflow: what a person, the scheduler or a shell does to runs, and what the pages say then.

``tests/semantics/test_verdicts.py`` brings about the same cases quickly, one by one. Here the scheduler ends a run by its
time-out, a person clears a run over Airflow's own API, and all runs are removed from Airflow's database.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from airflow.models.asset import AssetEvent
from airflow.models.dagrun import DagRun
from sqlalchemy import delete

from tests.ui.scale import metadata, uri_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.ui.site import Site

pytestmark = [pytest.mark.ui, pytest.mark.timeout(1_800)]

WAIT_S = 600
DAGS = """
import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

from airflow.sdk import DAG, task

from airflow_sitemaps import LocalStore, Section, Sitemap, SitemapTaskGroup, SqlSource
from airflow_sitemaps.operators.publish import SitemapRollbackOperator


def source(table, **settings):
    return SqlSource("warehouse", table=table, key="id", loc="https://locales.example/%s/{slug}" % table, **settings)


locales = Sitemap(
    LocalStore(Path(os.environ["SITEMAPS_UI_SITES"]) / "locales", base_url="https://locales.example/"),
    [Section("de", source("de")), Section("fr", source("fr"))],
    owner="locales",
)
with DAG("locales", schedule=None, max_active_runs=1, dagrun_timeout=timedelta(seconds=SECONDS)) as dag:

    @task
    def hold():
        import time

        until = Path(os.environ["SITEMAPS_UI_SITES"]) / "hold"
        while until.exists():
            time.sleep(0.5)

    hold() >> SitemapTaskGroup("sitemap", locales, plan_kwargs={"retries": 0}, publish_kwargs={"retries": 0})
"""


@dataclass
class Locales:
    """A sitemap of two sections, published once."""

    site: Site

    @property
    def asset(self) -> str:
        return uri_of(self.site, "locales")

    def page(self) -> dict[str, Any]:
        answer = self.site.request("GET", "/sitemaps-ui/api/sitemap", params={"asset": self.asset})
        assert answer.status_code == 200, answer.text
        page: dict[str, Any] = answer.json()
        return page

    def becomes(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until the page says what it should; the API server asks the store again after 20 seconds."""
        deadline = time.monotonic() + WAIT_S
        while not wanted(page := self.page()):
            assert time.monotonic() < deadline, {
                name: page[name] for name in ("state", "reason", "sections", "problems")
            }
            time.sleep(1)
        return page

    def states(self, de: str, fr: str) -> dict[str, Any]:
        """Wait for the results of both sections."""
        return self.becomes(lambda page: {s["name"]: s["result"] for s in page["sections"]} == {"de": de, "fr": fr})

    def run(self, ends: str, **conf: Any) -> str:
        run_id = self.site.trigger("locales", conf)
        assert self.site.wait(("locales", run_id), seconds=WAIT_S) == [ends]
        return run_id

    def add(self, table: str, number: int) -> None:
        self.site.execute(f"insert into {table} values ({number}, 'page-{number}')")

    def clear(self, run_id: str) -> None:
        """Clear a whole run, and wait for its end."""
        path = f"/api/v2/dags/locales/dagRuns/{run_id}/clear"
        answer = self.site.request("POST", path, json={"dry_run": False})
        assert answer.status_code == 200, answer.text
        assert self.site.wait(("locales", run_id), seconds=WAIT_S) == ["success"]


@pytest.fixture
def locales(site: Site) -> Iterator[Locales]:
    for table in ("de", "fr"):
        site.execute(
            f"create table {table} (id integer primary key, slug text)",
            *[f"insert into {table} values ({n}, 'page-{n}')" for n in range(1, 21)],
        )
    site.write_dag("locales", DAGS.replace("SECONDS", "3600"))
    site.wait_for_dag("locales")
    yield Locales(site)
    (site.home / "sites" / "hold").unlink(missing_ok=True)
    site.archive(uri_of(site, "locales"), "locales")


def test_the_page_says_what_became_of_each_section(locales: Locales) -> None:
    site, first = locales.site, locales.run("success")
    locales.states("published", "published")

    # V11, V1: the wrong table of one section is its failure, and stays it while the other section is published
    site.execute("alter table fr rename to away")
    locales.add("de", 100)
    locales.run("failed")
    locales.states("published", "failed")
    locales.add("de", 101)
    locales.run("success", sections=["de"])
    page = locales.states("published", "failed")
    assert (page["state"], page["reason"]) == ("failing", "Last run failed")
    assert page["sections"][0]["state"] != "failing"

    # V7: an older run is cleared, publishes, and ends the failure
    site.execute("alter table away rename to fr")
    locales.clear(first)
    page = locales.becomes(lambda page: page["state"] != "failing")
    assert page["run_id"] == first

    # V8: a typo is no failure of the sitemap
    locales.run("failed", sections=["dee"])
    page = locales.becomes(lambda page: any(p["kind"] == "misnamed" for p in page["problem_list"]))
    assert page["state"] != "failing"

    hold = site.home / "sites" / "hold"

    # V5: a rollback outside Airflow
    from airflow_sitemaps import LocalStore, Section, Sitemap, SqlSource  # noqa: PLC0415 - as a shell does it
    from airflow_sitemaps.pipeline import rollback  # noqa: PLC0415

    sections = [Section(name, SqlSource("warehouse", table=name, key="id", loc="{slug}")) for name in ("de", "fr")]
    store = LocalStore(site.home / "sites" / "locales", base_url="https://locales.example/")
    before = locales.page()
    rollback(Sitemap(store, sections, owner="locales"), 1)
    page = locales.becomes(lambda page: page["changed_outside"] is not None)
    assert (page["generation"], page["urls"]) == (before["generation"] + 1, 40)
    locales.run("success")
    locales.becomes(lambda page: page["changed_outside"] is None and page["urls"] == before["urls"])

    # V2: the scheduler ends a run that takes too long, and calls its tasks skipped
    hold.write_text("")
    details = "/api/v2/dags/locales/details"
    long = site.request("GET", details).json()["dag_run_timeout"]
    site.write_dag("locales", DAGS.replace("SECONDS", "10"))
    shorter = lambda: site.request("GET", details).json()["dag_run_timeout"] != long  # noqa: E731 - of one line
    site.airflow.wait("the shorter time-out", shorter, seconds=WAIT_S)
    late = locales.run("failed")
    page = locales.becomes(lambda page: page["state"] == "failing")
    assert (page["run_id"], "dagrun_timeout" in page["problem_list"][0]["detail"]) == (late, True)
    hold.unlink()

    # V10, V6: Airflow forgets every run and event; the store does not
    with metadata(site, "locales") as (session, asset):
        session.execute(delete(AssetEvent).where(AssetEvent.asset_id == asset))
        session.execute(delete(DagRun).where(DagRun.dag_id == "locales"))
    page = locales.becomes(lambda page: page["result"] not in ("failed", "none"))
    assert (page["generation"], page["urls"]) == (before["generation"] + 2, before["urls"])
    assert all(section["last_checked"] for section in page["sections"])
    assert datetime.now(timezone.utc) - datetime.fromisoformat(page["data_read_at"]) < timedelta(hours=1)
