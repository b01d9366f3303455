"""The result of each section in a run that failed, from what its tasks pushed."""

from __future__ import annotations

from dataclasses import replace

from airflow_sitemaps.errors import PartlyPublishedError
from airflow_sitemaps.operators.facts import FAILED, REFUSED, SECTIONS, failure_facts, refusal_facts
from airflow_sitemaps.pipeline.report import SectionReport, ShardCounts
from airflow_sitemaps.plugin.dag_runs import RunState, TaskState
from airflow_sitemaps.plugin.pages.outcomes import RecentRuns, run_outcome
from airflow_sitemaps.shards.guards import Refusal
from airflow_sitemaps.shards.plan import failures_of
from tests.support.plugin_factories import NOW, report


def task(name: str, state: str) -> TaskState:
    return TaskState(
        dag_id="shop", run_id="r", task_id=f"sitemap.{name}", map_index=-1, kind=name, state=state, label=name, tries=1,
        start=NOW, end=NOW,
    )  # fmt: skip


def test_beside_a_refused_section_one_that_did_not_change_is_unchanged() -> None:
    sections = {
        "pages": SectionReport(shards=ShardCounts(total=2, rewritten=1, kept=1)),
        "articles": SectionReport(shards=ShardCounts(total=2, kept=2)),
    }
    refused = failures_of([Refusal(guard="shrink", section="products", message="too few", value=0.6)])
    made = replace(report(2), result="partly_published", sections=sections, failures=refused)
    error = PartlyPublishedError("1 section not published", report=made, failures=refused)
    run = RunState(
        dag_id="shop", run_id="r", state="failed", run_type="manual", queued_at=NOW, start=NOW, end=NOW
    )  # fmt: skip
    publish = task("publish", "failed")
    pushed = {
        (*task("plan", "success").key, SECTIONS): ["articles", "pages", "products"],
        (*publish.key, FAILED): failure_facts(error),
        (*publish.key, REFUSED): refusal_facts(error),
    }
    known = RecentRuns(runs={"shop": [run]}, tasks={run.key: [task("plan", "success"), publish]}, pushed=pushed)

    outcome = run_outcome(run, publish.task_id, known)

    assert outcome is not None
    assert outcome.sections == {"articles": "unchanged", "pages": "published", "products": "refused"}
    assert outcome.is_partial
