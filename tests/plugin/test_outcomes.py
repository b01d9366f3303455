"""The result of each section in a run that failed, from what its tasks pushed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_sitemaps.errors import GuardError, PartlyPublishedError, SitemapError, SourceError
from airflow_sitemaps.operators import FAILED, MAX_LINES, REFUSED, SECTIONS, failure_facts, refusal_facts
from airflow_sitemaps.pipeline.report import SectionReport, ShardCounts
from airflow_sitemaps.plugin.dag_runs import RunState, TaskState
from airflow_sitemaps.plugin.events import event_of
from airflow_sitemaps.plugin.pages.outcomes import RecentRuns, RunOutcome, run_outcome
from airflow_sitemaps.plugin.readings import iso
from airflow_sitemaps.shards.guards import Refusal
from airflow_sitemaps.shards.plan import SectionFailure, failures_of
from tests.support.plugin_factories import NOW, extra, report


def task(name: str, state: str) -> TaskState:
    return TaskState(
        dag_id="shop", run_id="r", task_id=f"sitemap.{name}", map_index=-1, kind=name, state=state, label=name, tries=1,
        start=NOW, end=NOW,
    )  # fmt: skip


def outcome_of(planned: list[str], facts: dict[str, Any]) -> RunOutcome:
    """The outcome of a run whose publishing task pushed these facts, and failed."""
    run = RunState(
        dag_id="shop", run_id="r", state="failed", run_type="manual", queued_at=NOW, start=NOW, end=NOW
    )  # fmt: skip
    plan, publish = task("plan", "success"), task("publish", "failed")
    pushed = {(*plan.key, SECTIONS): planned, **{(*publish.key, key): value for key, value in facts.items()}}
    outcome = run_outcome(
        run, publish.task_id, RecentRuns(runs={"shop": [run]}, tasks={run.key: [plan, publish]}, pushed=pushed)
    )
    assert outcome is not None
    return outcome


def test_beside_a_refused_section_one_that_did_not_change_is_unchanged() -> None:
    sections = {
        "pages": SectionReport(shards=ShardCounts(total=2, rewritten=1, kept=1)),
        "articles": SectionReport(shards=ShardCounts(total=2, kept=2)),
    }
    refused = failures_of([Refusal(guard="shrink", section="products", message="too few", value=0.6)])
    made = replace(report(2), result="partly_published", sections=sections, failures=refused)
    error = PartlyPublishedError("1 section not published", report=made, failures=refused)

    outcome = outcome_of(
        ["articles", "pages", "products"], {FAILED: failure_facts(error), REFUSED: refusal_facts(error)}
    )

    assert outcome.sections == {"articles": "unchanged", "pages": "published", "products": "refused"}
    assert outcome.is_partial


def test_more_sections_than_refusals_are_pushed_are_refused() -> None:
    names = [f"s{number:03}" for number in range(101)]
    refused = failures_of([Refusal(guard="shrink", section=n, message="too few", value=0.6) for n in names[:100]])
    made = replace(report(2), result="partly_published", failures=refused)
    error = PartlyPublishedError("100 sections not published", report=made, failures=refused)

    outcome = outcome_of(names, {FAILED: failure_facts(error), REFUSED: refusal_facts(error)})

    assert outcome.sections == {**dict.fromkeys(names[:100], "refused"), "s100": "published"}
    assert [refusal.permit for refusal in outcome.refusals] == [f"shrink:{name}=0.6" for name in names[:100]]


NAMES = [f"s{number:03}" for number in range(400)]
FAILURES = tuple(SectionFailure(section=name, error="SourceError", message="down") for name in NAMES[:300])
PARTLY = PartlyPublishedError("down", report=replace(report(2), result="partly_published"), failures=FAILURES)


def of_sections(error: SitemapError) -> SitemapError:
    error.sections = tuple(NAMES[:300])
    return error


@pytest.mark.parametrize(
    ("facts", "others"),
    [
        ({FAILED: failure_facts(PARTLY)}, "published"),
        ({FAILED: failure_facts(of_sections(SourceError("down")))}, "unchanged"),
        ({REFUSED: refusal_facts(of_sections(GuardError("no")))}, "unchanged"),
    ],
)
def test_each_of_many_sections_that_failed_is_known_to_have_failed(facts: dict[str, Any], others: str) -> None:
    outcome = outcome_of(NAMES, facts)

    assert outcome.sections == {**dict.fromkeys(NAMES[:300], "failed"), **dict.fromkeys(NAMES[300:], others)}
    assert len(outcome.reasons) <= MAX_LINES


def test_a_mapped_publishing_task_did_what_its_worst_part_did() -> None:
    run = RunState(
        dag_id="shop", run_id="r", state="failed", run_type="manual", queued_at=NOW, start=NOW, end=NOW
    )  # fmt: skip
    parts = [
        replace(task(kind, state), map_index=place)
        for place, state in enumerate(("success", "failed"))
        for kind in ("plan", "publish")
    ]
    pushed = {(*parts[2].key, SECTIONS): ["pages"], (*parts[0].key, SECTIONS): ["products"]}
    recent = RecentRuns(runs={"shop": [run]}, tasks={run.key: parts}, pushed=pushed)
    of_the_other = event_of(extra(report()), event=1, at=iso(NOW), dag_id="shop", run_id="r")

    outcome = run_outcome(run, "sitemap.publish", recent, of_the_other.summary)

    assert outcome is not None
    assert outcome.result == "failed"
    assert outcome.sections == {"pages": "failed"}
