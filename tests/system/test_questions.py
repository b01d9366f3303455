"""What Airflow asks a person about refused changes, in a real scheduler, and what the answers do."""

from __future__ import annotations

import gzip
import json
import os
import re
import sqlite3
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import pytest

from airflow_sitemaps.operators.links import API_PREFIX
from tests.support.airflow_processes import Airflow, running

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
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
NAMES = dict.fromkeys(("allowed", "kept", "back", "nested", "overridden", "alone"), 14_400) | {"late": 1}
"""DAGs, each with the seconds for which its questions are open."""


@dataclass
class Shop:
    """One DAG, its tables and its published files."""

    airflow: Airflow
    folder: Path
    name: str
    group: str = "sitemap"
    site: str = ""

    def __post_init__(self) -> None:
        self.site = self.site or self.name

    @property
    def decisions(self) -> str:
        return f"{self.name}__{self.group}__decisions"

    def sql(self, *statements: str) -> None:
        with sqlite3.connect(self.folder / "shop.db") as database:
            for statement in statements:
                database.execute(statement.format(name=self.site))
        database.close()

    def run(self, conf: dict[str, Any] | None = None) -> str:
        return str(self.airflow.wait_for_run(self.name, self.airflow.trigger(self.name, conf))["state"])

    def locs(self) -> set[str]:
        """The URLs of every file that the index lists."""
        folder = self.folder / "site" / self.site

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
        """The run of the only question, after a person can answer it."""
        (run,) = self.airflow.wait("a question", self.questions)
        self.wait_for_form(run)
        return dict(run)

    def wait_for_form(self, run: dict[str, Any], tries: int = 1) -> None:
        """Wait until a person can answer a question, which was posed this often.

        The scheduler takes an answer that it sees before the end of the asking process for a failure of the task.
        """
        key = f"TaskInstanceKey(dag_id='{self.decisions}', task_id='ask', run_id='{run['dag_run_id']}'"
        ended = f"Received executor event with state success for task instance {key}"
        self.airflow.wait("the form", lambda: self.airflow.log("scheduler").count(ended) == tries)
        assert self.state(run, "ask") in ("awaiting_input", "deferred")

    def detail(self, run: dict[str, Any]) -> dict[str, Any]:
        return dict(self.airflow.get(self.path(run, "ask") + "/-1/hitlDetails"))

    def respond(self, run: dict[str, Any], option: str) -> None:
        """Answer by REST."""
        body = {"chosen_options": [option], "params_input": {}}
        self.airflow.call("PATCH", "/api/v2" + self.path(run, "ask") + "/-1/hitlDetails", body)

    def answer(self, run: dict[str, Any], option: str) -> dict[str, Any]:
        """Answer by REST, and return the ended run."""
        self.respond(run, option)
        return self.ended(run)

    def ended(self, run: dict[str, Any]) -> dict[str, Any]:
        return self.airflow.wait_for_run(self.decisions, run["dag_run_id"])

    def state(self, run: dict[str, Any], task: str) -> str:
        return str(self.airflow.get(self.path(run, task))["state"])

    def log(self, run: dict[str, Any], task: str, dag_id: str = "") -> str:
        """Everything that a task of a run logged. Default: of a question's run."""
        dag_id = dag_id or self.decisions
        folder = self.airflow.folder / "home" / "logs" / f"dag_id={dag_id}" / f"run_id={run['dag_run_id']}"
        return "\n".join(log.read_text() for log in sorted((folder / f"task_id={task}").iterdir()))

    def page(self, path: str, **query: str) -> Any:
        """What the sitemap's page in Airflow's UI reads."""
        return self.airflow.call("GET", f"{API_PREFIX}/api/{path}?{urlencode(query)}")

    def result(self, run: dict[str, Any]) -> Any:
        return self.airflow.get(self.path(run, "publish") + "/xcomEntries/sitemap_answer?deserialize=true")["value"]


@contextmanager
def shops(folder: Path, code: str, dags: Collection[str], tables: Mapping[str, int]) -> Iterator[Airflow]:
    """An Airflow with DAGs, each of which has one DAG of decisions at least, and tables with this number of rows."""
    with sqlite3.connect(folder / "shop.db") as database:
        for table, rows in tables.items():
            database.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY)")
            database.executemany(f"INSERT INTO {table} VALUES (?)", [(key,) for key in range(rows)])
    database.close()
    (folder / "dags").mkdir()
    (folder / "dags" / "shops.py").write_text(code.replace("FOLDER", str(folder)))
    settings = {
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
        "AIRFLOW_CONN_SHOP": json.dumps(
            {"conn_type": "generic", "extra": {"sqlalchemy_url": f"sqlite:///{folder / 'shop.db'}"}}
        ),
    }
    python = os.environ.get("SITEMAPS_AIRFLOW_PYTHON", sys.executable)
    with running(folder, settings, python) as airflow:
        airflow.start("triggerer")  # 3.1 and 3.2 wait for the answer in it
        airflow.wait("the DAGs", lambda: set(dags) <= {dag["dag_id"] for dag in airflow.get("/dags?limit=100")["dags"]})
        for name in dags:
            airflow.unpause(name)
        yield airflow


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    tables = {f"{name}_{table}": rows for name in NAMES for table, rows in (("products", PRODUCTS), ("posts", 3))}
    code = DAGS.replace("NAMES", repr(NAMES))
    with shops(tmp_path_factory.mktemp("questions"), code, NAMES, tables) as airflow:
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


def test_a_permit_for_one_run_ends_the_question(airflow: Airflow) -> None:
    shop = refused(airflow, "overridden")
    question = shop.question()

    assert shop.run({"allow": ["shrink:products"]}) == "success"
    shop.ended(question)

    assert (shop.state(question, "ask"), shop.state(question, "publish")) == ("skipped", "skipped")
    assert len(shop.locs()) == PRODUCTS - 30 + 4


def test_a_question_waits_for_a_triggerer_at_most_where_the_release_needs_one(airflow: Airflow) -> None:
    airflow.stop("triggerer")
    shop = refused(airflow, "alone")
    question = shop.question()
    needs_one = shop.state(question, "ask") == "deferred"
    shop.respond(question, "Publish this change")
    if needs_one:
        assert shop.run() == "failed", "the scheduler has gone on meanwhile, and the question is open"
        assert shop.state(question, "ask") == "deferred"
        airflow.start("triggerer")

    assert shop.ended(question)["state"] == "success"
    assert len(shop.locs()) == PRODUCTS - 30 + 4
    if not needs_one:
        airflow.start("triggerer")


def test_a_group_within_a_group_asks_as_well(airflow: Airflow) -> None:
    shop = refused(airflow, "nested", "outer.sitemap")

    shop.answer(shop.question(), "Publish this change")

    assert len(shop.locs()) == PRODUCTS - 30 + 4
