"""Callbacks of a whole DAG, which Airflow's DAG processor runs: what the tasks left in XCom makes the message."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_sitemaps.notifications import SitemapNotifier


@dataclass
class Ti:
    """A task instance whose XComs are a mapping of task and key."""

    values: dict[tuple[str, str], Any] = field(default_factory=dict)
    fails: bool = False

    def xcom_pull(self, *, task_ids: str, key: str) -> Any:
        if self.fails:
            raise RuntimeError("no access")
        return self.values.get((task_ids, key))


def context(ti: Ti, reason: str = "task_failure") -> dict[str, Any]:
    kinds = ("SitemapPlanOperator", "SitemapWriteOperator", "SitemapPublishOperator", "PythonOperator")
    tasks = [SimpleNamespace(task_id=kind, task_type=kind) for kind in kinds]
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
