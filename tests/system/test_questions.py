"""What Airflow asks a person about refused changes, in a real scheduler, and what the answers do."""

from __future__ import annotations

import gzip
import json
import os
import re
import sqlite3
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import pytest

from airflow_sitemaps.operators.links import API_PREFIX
from tests.support.airflow_processes import Airflow, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.system, pytest.mark.long, pytest.mark.timeout(900)]

PRODUCTS = 100
DAGS = """
from datetime import timedelta
from airflow.sdk import DAG, TaskGroup
from airflow_sitemaps import Approval, Guards, LocalStore, Section, Sitemap, SitemapTaskGroup, SqlSource

for name, timeout in NAMES.items():
    site = "https://shop.example/" + name
    sections = [
        Section(table, SqlSource("shop", table=f"{name}_{table}", key="id", loc=f"{site}/{table}/{{id}}"))
        for table in ("products", "posts")
    ]
    store = LocalStore(f"FOLDER/site/{name}", base_url=f"{site}/")
    sitemap = Sitemap(store, sections, guards=Guards(min_rows=20))
    with DAG(name, schedule=None, max_active_runs=1, default_args={"retries": 0}):
        if name == "nested":
            with TaskGroup("outer"):
                SitemapTaskGroup("sitemap", sitemap, approval=Approval(timeout=timedelta(seconds=timeout)))
        else:
            SitemapTaskGroup("sitemap", sitemap, approval=Approval(timeout=timedelta(seconds=timeout)))
"""
NAMES = {"allowed": 14_400, "kept": 14_400, "late": 1, "back": 14_400, "nested": 14_400}
"""DAGs, each with the seconds for which its questions are open."""


@dataclass
class Shop:
    """One DAG, its tables and its published files."""

    airflow: Airflow
    folder: Path
    name: str
    group: str = "sitemap"

    @property
    def decisions(self) -> str:
        return f"{self.name}__{self.group}__decisions"

    def sql(self, *statements: str) -> None:
        with sqlite3.connect(self.folder / "shop.db") as database:
            for statement in statements:
                database.execute(statement.format(name=self.name))
        database.close()

    def run(self) -> str:
        return str(self.airflow.wait_for_run(self.name, self.airflow.trigger(self.name))["state"])

    def locs(self) -> set[str]:
        """The URLs of every file that the index lists."""
        folder = self.folder / "site" / self.name

        def listed(body: bytes) -> list[str]:
            return re.findall(r"<loc>(.*?)</loc>", body.decode())

        names = [url.rpartition("/")[2] for url in listed((folder / "sitemap.xml").read_bytes())]
        return {loc for name in names for loc in listed(gzip.decompress((folder / name).read_bytes()))}

    def questions(self) -> list[dict[str, Any]]:
        """The runs of the DAG of decisions, oldest first."""
        return list(self.airflow.get(f"/dags/{quote(self.decisions)}/dagRuns?order_by=run_after")["dag_runs"])

    def path(self, run: dict[str, Any], task: str) -> str:
        return f"/dags/{quote(self.decisions)}/dagRuns/{quote(run['dag_run_id'])}/taskInstances/{task}"

    def question(self) -> dict[str, Any]:
        """The run of the only question, after a person can answer it.

        The scheduler takes an answer that it sees before the end of the asking process for a failure of the task.
        """
        (run,) = self.airflow.wait("a question", self.questions)
        ended = (
            f"Received executor event with state success for task instance TaskInstanceKey(dag_id='{self.decisions}'"
        )
        self.airflow.wait("the form", lambda: ended in self.airflow.log("scheduler"))
        assert self.state(run, "ask") in ("awaiting_input", "deferred")
        return dict(run)

    def detail(self, run: dict[str, Any]) -> dict[str, Any]:
        return dict(self.airflow.get(self.path(run, "ask") + "/-1/hitlDetails"))

    def answer(self, run: dict[str, Any], option: str) -> dict[str, Any]:
        """Answer by REST, and return the ended run."""
        body = {"chosen_options": [option], "params_input": {}}
        self.airflow.call("PATCH", "/api/v2" + self.path(run, "ask") + "/-1/hitlDetails", body)
        return self.ended(run)

    def ended(self, run: dict[str, Any]) -> dict[str, Any]:
        return self.airflow.wait_for_run(self.decisions, run["dag_run_id"])

    def state(self, run: dict[str, Any], task: str) -> str:
        return str(self.airflow.get(self.path(run, task))["state"])

    def log(self, run: dict[str, Any], task: str) -> str:
        """Everything that a task of a question's run logged."""
        folder = self.airflow.folder / "home" / "logs" / f"dag_id={self.decisions}" / f"run_id={run['dag_run_id']}"
        return "\n".join(log.read_text() for log in sorted((folder / f"task_id={task}").iterdir()))

    def page(self, path: str, **query: str) -> Any:
        """What the sitemap's page in Airflow's UI reads."""
        return self.airflow.call("GET", f"{API_PREFIX}/api/{path}?{urlencode(query)}")

    def result(self, run: dict[str, Any]) -> Any:
        return self.airflow.get(self.path(run, "publish") + "/xcomEntries/sitemap_answer?deserialize=true")["value"]


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    folder = tmp_path_factory.mktemp("questions")
    with sqlite3.connect(folder / "shop.db") as database:
        for name in NAMES:
            for table, rows in (("products", PRODUCTS), ("posts", 3)):
                database.execute(f"CREATE TABLE {name}_{table} (id INTEGER PRIMARY KEY)")
                database.executemany(f"INSERT INTO {name}_{table} VALUES (?)", [(key,) for key in range(rows)])
    database.close()
    (folder / "dags").mkdir()
    dags = DAGS.replace("FOLDER", str(folder)).replace("NAMES", repr(NAMES))
    (folder / "dags" / "shops.py").write_text(dags)
    settings = {
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
        "AIRFLOW_CONN_SHOP": json.dumps(
            {"conn_type": "generic", "extra": {"sqlalchemy_url": f"sqlite:///{folder / 'shop.db'}"}}
        ),
    }
    python = os.environ.get("SITEMAPS_AIRFLOW_PYTHON", sys.executable)
    with running(folder, settings, python) as airflow:
        airflow.start("triggerer")  # 3.1 and 3.2 wait for the answer in it
        airflow.wait("the DAGs", lambda: airflow.get("/dags?limit=100")["total_entries"] == 2 * len(NAMES))
        for name in NAMES:
            airflow.unpause(name)
        yield airflow


def refused(airflow: Airflow, name: str, group: str = "sitemap") -> Shop:
    """Publish, lose a third of the products, write a post, and run again."""
    shop = Shop(airflow, airflow.folder, name, group)
    assert shop.run() == "success"
    shop.sql("DELETE FROM {name}_products WHERE id < 30", "INSERT INTO {name}_posts VALUES (3)")
    assert shop.run() == "failed"
    assert len(shop.locs()) == PRODUCTS + 4, "the post is published, and every product stays"
    return shop


def test_the_staged_change_is_published_when_a_person_allows_it(airflow: Airflow) -> None:
    shop = refused(airflow, "allowed")
    question = shop.question()

    detail = shop.detail(question)
    asset = f"file://{airflow.folder}/site/allowed/sitemap.xml"
    page = shop.page("sitemap", asset=asset)
    changes = shop.page("sitemap/changes", asset=asset, run=question["dag_run_id"].partition("__")[2])
    ended = shop.answer(question, "Publish this change")

    assert detail["subject"] == "Publish the change of section 'products'?"
    assert "from 100 to 70 URLs" in detail["body"]
    assert "30 URLs would no longer be listed, such as https://shop.example/allowed/products/0" in detail["body"]
    assert f"{airflow.url}/plugin/sitemaps?asset=" in detail["body"]
    assert [problem["questions"] for problem in page["problem_list"]] == [
        [{"section": "products", "dag_id": shop.decisions, "run_id": question["dag_run_id"]}]
    ]
    assert (changes["urls"]["removed"], changes["urls"]["added"]) == (30, 0)
    assert [section["section"] for section in changes["sections"] if section["files_changed"]] == ["products"]
    assert ended["state"] == "success", shop.log(question, "publish")
    assert len(shop.locs()) == PRODUCTS - 30 + 4
    (note,) = shop.page("sitemap", asset=asset)["problem_list"]
    assert (note["severity"], note["questions"]) == ("info", [])
    assert note["title"].startswith("Override used: Section 'products' would shrink from 100 to 70 URLs")
    assert shop.result(question)["result"] == "published"
    assert shop.run() == "success", "nothing is left to refuse"
    (event,) = airflow.get(f"/assets/events?source_dag_id={quote(shop.decisions)}")["asset_events"]
    assert event["extra"]["report"]["result"] == "published"


def test_the_published_section_is_kept_when_a_person_says_so(airflow: Airflow) -> None:
    shop = refused(airflow, "kept")
    question = shop.question()

    ended = shop.answer(question, "Keep the published one")

    assert ended["state"] == "success", shop.log(question, "publish")
    assert shop.state(question, "publish") == "skipped"
    assert shop.result(question)["result"] == "kept"
    assert shop.result(question)["by"]
    assert len(shop.locs()) == PRODUCTS + 4
    assert shop.run() == "failed"
    assert len(shop.questions()) == 1, "the same loss is asked about again after a day"
    shop.sql("DELETE FROM {name}_products WHERE id < 50")
    assert shop.run() == "failed"
    airflow.wait("a question about the greater loss", lambda: len(shop.questions()) == 2)


def test_the_published_section_is_kept_when_nobody_answers_in_time(airflow: Airflow) -> None:
    shop = refused(airflow, "late")
    (question,) = airflow.wait("the question", shop.questions)

    shop.ended(question)

    assert shop.state(question, "publish") == "skipped"
    assert len(shop.locs()) == PRODUCTS + 4


def test_rows_that_are_back_end_the_question(airflow: Airflow) -> None:
    shop = refused(airflow, "back")
    question = shop.question()
    with sqlite3.connect(shop.folder / "shop.db") as database:
        database.executemany("INSERT INTO back_products VALUES (?)", [(key,) for key in range(30)])
    database.close()

    assert shop.run() == "success"
    shop.ended(question)

    assert shop.state(question, "ask") == "skipped"
    assert len(shop.locs()) == PRODUCTS + 4


def test_a_group_within_a_group_asks_as_well(airflow: Airflow) -> None:
    shop = refused(airflow, "nested", "outer.sitemap")

    shop.answer(shop.question(), "Publish this change")

    assert len(shop.locs()) == PRODUCTS - 30 + 4
