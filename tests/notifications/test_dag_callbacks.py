"""Callbacks of a whole DAG, which Airflow's DAG processor runs: what the tasks left in XCom makes the message."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
import structlog
from airflow.callbacks.callback_requests import TaskCallbackRequest
from airflow.dag_processing.processor import _execute_task_callbacks
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, TaskInstanceState

import airflow_sitemaps
from airflow_sitemaps.airflow_compat import AirflowFailException
from airflow_sitemaps.errors import PartlyPublishedError, SourceError
from airflow_sitemaps.notifications import SitemapNotifier
from airflow_sitemaps.operators import failure_facts
from airflow_sitemaps.shards.guards import Refusal
from airflow_sitemaps.shards.plan import failures_of


@dataclass
class Ti:
    """A task instance whose XComs are a mapping of task and key."""

    values: dict[tuple[str, str], Any] = field(default_factory=dict)
    fails: bool = False

    def xcom_pull(self, *, task_ids: str, key: str) -> Any:
        if self.fails:
            raise RuntimeError("no access")
        return self.values.get((task_ids, key))


A, B = "https://a.example/sitemap.xml", "https://b.example/sitemap.xml"
KINDS = ("SitemapPlanOperator", "SitemapWriteOperator", "SitemapPublishOperator", "BingWebmasterOperator")


def task(task_id: str, kind: str, index_url: str = A) -> SimpleNamespace:
    sitemap, operator = SimpleNamespace(index_url=index_url), getattr(airflow_sitemaps, kind)
    own = {"partial_kwargs": {"sitemap": sitemap}} if "Write" in kind else {"sitemap": sitemap}
    return SimpleNamespace(task_id=task_id, operator_class=type(f"Our{kind}", (operator,), {}), **own)


def context(ti: Ti, reason: str = "task_failure") -> dict[str, Any]:
    tasks = [task(kind, kind) for kind in KINDS] + [task(f"{kind}-b", kind, B) for kind in KINDS]
    tasks.append(SimpleNamespace(task_id="PythonOperator", sitemap="no sitemap"))
    theirs = SimpleNamespace(task_id="Upload", operator_class=object, sitemap=SimpleNamespace(index_url=A))
    tasks.insert(0, theirs)  # an operator of the user's own, which holds the sitemap
    run = SimpleNamespace(dag_id="shop", run_id="r1", state="failed" if "fail" in reason else "success")
    return {"dag": SimpleNamespace(tasks=tasks), "ti": ti, "reason": reason, "dag_run": run}


def text(ti: Ti, reason: str = "task_failure", **settings: Any) -> Any:
    return SitemapNotifier(**settings).message(context(ti, reason))


def test_a_refusal_is_read_from_the_planning_task() -> None:
    refusal = {"guard": "shrink", "section": "products", "message": "2,000 to 500 rows", "permit": "shrink:products"}
    ti = Ti({("SitemapPlanOperator", "sitemap_refused"): {"message": "refused", "refusals": [refusal]}})

    message = text(ti)

    assert message.result == "refused"
    assert message.lines == ("2,000 to 500 rows",)
    assert "allow=['shrink:products']" in message.action


@pytest.mark.parametrize("is_partly_published", [True, False])
@pytest.mark.parametrize("of_task", [True, False])
def test_a_refusal_that_a_person_may_answer_names_the_question_instead_of_a_permit(
    is_partly_published: bool, of_task: bool
) -> None:
    refusal = Refusal(guard="shrink", section="offers", message="Section 'offers' has 9 rows now, 20 before", value=0.6)
    report = SimpleNamespace(result="partly_published", sections={}) if is_partly_published else None
    error = PartlyPublishedError("1 section not published", report=report, failures=failures_of([refusal]))
    publish = "SitemapPublishOperator"
    question = {"section": "offers", "dag_id": "shop__sitemap__decisions", "run_id": "offers__1"}
    values: dict[tuple[str, str], Any] = {(publish, "sitemap_failed"): failure_facts(error)}
    own = {"task": task(publish, publish), "exception": error} if of_task else {}

    def action() -> str:
        said = SitemapNotifier().message({**context(Ti(values)), **own})
        assert said is not None
        return said.action

    values[publish, "sitemap_questions"] = []
    assert action().endswith("run the DAG once with allow=['shrink:offers=0.6'].")
    values[publish, "sitemap_questions"] = [question]
    assert action() == (
        "Check the source. If the data is right, answer the question about offers in Airflow's Required Actions."
    )


def test_a_question_about_one_section_hides_nothing_of_the_others() -> None:
    refusals = [
        Refusal(guard="shrink", section=name, message=f"Section '{name}' has 9 rows now, 20 before", value=0.6)
        for name in ("offers", "news")
    ]
    error = PartlyPublishedError(
        "2 sections not published",
        report=SimpleNamespace(result="partly_published", sections={}),
        failures=failures_of(refusals),
    )
    questions = [{"section": name, "dag_id": "d", "run_id": name} for name in ("offers", "of_another_sitemap")]
    publish = "SitemapPublishOperator"
    action = text(
        Ti({(publish, "sitemap_failed"): failure_facts(error), (publish, "sitemap_questions"): questions})
    ).action
    assert "shrink:news=0.6" in action
    assert action.endswith(
        "answer the question about offers in Airflow's Required Actions; a run with its permit ends it."
    )


def test_a_failure_of_a_mapped_task_is_read_from_any_of_its_instances() -> None:
    ti = Ti(
        {("SitemapWriteOperator", "sitemap_failed"): [None, {"error": "SourceError", "message": "connection lost"}]}
    )

    assert text(ti).lines == ("SourceError: connection lost",)


def test_a_success_is_read_from_the_publishing_task() -> None:
    reference = {"result": "published", "generation": 7, "urls": 12, "index_urls": ["https://a.example/sitemap.xml"]}
    ti = Ti({("SitemapPublishOperator", "return_value"): reference, ("PythonOperator", "return_value"): {"urls": 1}})

    assert text(ti, "success").text == "Sitemap published: https://a.example/sitemap.xml, 12 URLs\nGeneration 7"


@pytest.mark.parametrize("ti", [Ti(), Ti(fails=True)])
def test_without_any_xcom_the_message_names_the_dag_and_the_log(ti: Ti) -> None:
    message = text(ti)

    assert message.title == "Sitemap failed: DAG shop"
    assert message.action == "Read the task's log and clear the task."
    assert text(ti, "success") is None
    assert text(ti, "success", unchanged=True).result == "unchanged"


LOW = {"error": "AirflowFailException", "message": "1 of 2 sections are below min_crawled: section 'products': 10.0%"}


def test_a_failed_check_of_a_search_engine_says_what_it_found() -> None:
    assert text(Ti({("BingWebmasterOperator", "sitemap_failed"): LOW})).lines[0].endswith(LOW["message"])


@pytest.mark.parametrize("cause", [None, SourceError("the database is down")])
def test_a_failed_task_says_what_it_pushed_unless_its_error_says_more(cause: Exception | None) -> None:
    error = AirflowFailException("below")
    error.__cause__ = cause
    ti = Ti(
        {("BingWebmasterOperator", "sitemap_failed"): LOW, ("SitemapPlanOperator", "sitemap_failed"): {"stale": ["x"]}}
    )
    of_task = {"task": task("BingWebmasterOperator", "BingWebmasterOperator"), "exception": error}
    said = SitemapNotifier().message({**context(ti), **of_task})
    assert said is not None
    assert said.lines == (
        ("AirflowFailException: " + LOW["message"]) if cause is None else "SourceError: the database is down",
    )


def test_each_sitemap_of_a_dag_has_its_own_message() -> None:
    down = {
        "error": "PartlyPublishedError",
        "is_published": True,
        "sections": [{"section": "products", "message": "down"}],
    }
    reference = {"result": "published", "generation": 7, "urls": 12, "index_urls": [B]}
    ti = Ti(
        {("SitemapWriteOperator", "sitemap_failed"): [down], ("SitemapPublishOperator-b", "return_value"): reference}
    )
    assert text(ti, sitemap=A).title == f"Sitemap partly published: {A}; 1 section not published"
    assert text(ti, "success", sitemap=B).title == f"Sitemap published: {B}, 12 URLs"
    assert text(ti, sitemap=B).lines == ("The task's log has the details",)
    assert text(ti, sitemap="the shop").title == "Sitemap partly published: the shop; 1 section not published"


def test_the_message_of_a_dag_names_each_sitemap_that_was_published_or_failed() -> None:
    def published(index_url: str) -> dict[str, Any]:
        return {"result": "published", "generation": 7, "urls": 12, "index_urls": [index_url]}

    plan, publish = "SitemapPlanOperator", "SitemapPublishOperator"
    ti = Ti({(publish, "return_value"): published(A), (f"{publish}-b", "return_value"): published(B)})
    assert text(ti, "success").lines == ("Generation 7", f"Sitemap published: {B}, 12 URLs")

    refused = {"message": "refused", "refusals": [{"message": "2,000 to 500 rows", "permit": "shrink:products"}]}
    down = {"error": "SourceError", "message": "the database is down"}
    ti = Ti({(plan, "sitemap_failed"): down, (f"{plan}-b", "sitemap_refused"): refused})
    assert text(ti).title == f"Sitemap refused: {B}; the published sitemap is unchanged"
    assert text(ti).lines == ("2,000 to 500 rows", f"Sitemap failed: {A}; the published sitemap is whole")
    assert text(ti, sitemap=A).title == f"Sitemap failed: {A}; the published sitemap is whole"
    assert text(ti, sitemap=A).lines == ("SourceError: the database is down",)


def test_an_unchanged_sitemap_hides_no_other_that_was_published() -> None:
    of_a, of_b = (
        {"result": r, "generation": 7, "urls": 12, "index_urls": [u]} for r, u in (("unchanged", A), ("published", B))
    )
    ti = Ti({("SitemapPublishOperator", "return_value"): of_a, ("SitemapPublishOperator-b", "return_value"): of_b})
    assert text(ti, "success").title == f"Sitemap published: {B}, 12 URLs"
    assert text(ti, "success", sitemap=A) is None


def test_a_failed_announcement_does_not_hide_the_success_of_a_run_that_ended_well() -> None:
    published = {"result": "published", "generation": 7, "urls": 12, "index_url": A}
    ti = Ti({
        ("SitemapPublishOperator", "return_value"): published,
        ("BingWebmasterOperator", "sitemap_failed"): {"error": "NotAcceptedError", "message": "403"},
    })  # fmt: skip
    assert text(ti, "success").title.startswith("Sitemap published")
    assert text(ti, "task_failure").title.startswith("Sitemap failed")


@pytest.mark.parametrize("kind", ["on_failure_callback", "on_retry_callback"])
def test_the_message_about_a_task_whose_worker_is_lost_says_so(kind: str) -> None:
    """Airflow's DAG processor calls the callback of the task then, with neither an exception nor a reason."""
    said: list[Any] = []
    state = TaskInstanceState.FAILED if "failure" in kind else TaskInstanceState.UP_FOR_RETRY
    with DAG("shop", schedule=None) as dag:
        EmptyOperator(task_id="publish", **{kind: lambda context: said.append(SitemapNotifier().message(context))})
    ti = {"task_id": "publish", "dag_id": "shop", "run_id": "r1", "try_number": 1}
    request = TaskCallbackRequest.model_validate({
        "ti": {"id": uuid4(), "dag_version_id": uuid4(), **ti},
        "task_callback_type": state,
        "msg": "heartbeat timeout",
        "filepath": "shop.py",
        "bundle_name": "dags-folder",
        "bundle_version": None,
    })  # fmt: skip

    _execute_task_callbacks(SimpleNamespace(dags={"shop": dag}, get_dag=lambda _: dag), request, structlog.get_logger())

    assert [(message.result, message.title) for message in said] == [("failed", "Sitemap failed: DAG ")]
    assert said[0].lines == ("publish ended without a reason, as a task does whose worker is lost; see its log",)


@pytest.mark.parametrize("ended", [{"exception": None}, {}])
def test_the_message_of_a_task_that_runs_says_nothing_of_a_lost_worker(ended: dict[str, Any]) -> None:
    """A task's own process knows when the task started, in its success callback and before it ends."""
    ti = SimpleNamespace(start_date="now", xcom_pull=lambda **_: None)
    message = SitemapNotifier(unchanged=True).message({"task": SimpleNamespace(outlets=()), "ti": ti, **ended})
    assert message is not None
    assert message.result == "unchanged"
