"""What a verification came to, and what the page makes of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_sitemaps.operators.facts import MAX_FAILURES, verified_facts
from airflow_sitemaps.pipeline.verification import Failure, Verification
from airflow_sitemaps.plugin.events import iso
from airflow_sitemaps.plugin.facts import point_of, report_of
from airflow_sitemaps.plugin.health import problems
from airflow_sitemaps.plugin.runs import DagFacts, TaskFacts
from airflow_sitemaps.plugin.situation import Situation, last_result
from airflow_sitemaps.plugin.verifications import as_answer, newest, verification_of
from tests.plugin.factories import NOW, extra, report

DAG = DagFacts(dag_id="shop", is_paused=False, is_stale=False, has_import_errors=False, every="", next_run=None)


def task(state: str, *, began: float | None = 0, ended: float | None = 60, run: str = "v") -> TaskFacts:
    """A verifying task that began and ended so many seconds after ``NOW``."""
    start, end = (None if s is None else NOW + timedelta(seconds=s) for s in (began, ended))
    return TaskFacts(
        dag_id="shop_verify", run_id=run, task_id="verify", map_index=-1, kind="verify", state=state, label="",
        tries=1, start=start, end=end,
    )  # fmt: skip


def failed(number: int, severity: Any = "error") -> Failure:
    where = f"https://shop.example/products-{number:05d}.xml.gz"
    return Failure(rule="sha256", where=where, message="is not what the manifest says", severity=severity)


def facts(*failures: Failure) -> Any:
    found = Verification(addresses=(), failures=failures, files=42, urls=1_579, index_urls=())
    return verified_facts(found)


def situation(verifying: TaskFacts | None, left: Any, *results: str) -> Situation:
    """A sitemap with a run a minute before ``NOW``, and then one at ``NOW`` for each of ``results``."""
    points = []
    for number, result in enumerate(("published", *results), 1):
        at = NOW - timedelta(minutes=1) if number == 1 else NOW + timedelta(minutes=number)
        made = extra(report(1, at=at, result=result))
        points.append(point_of(made, event=number, at=iso(at), dag_id="shop", run_id=f"r{number}"))
    found = verification_of(verifying, left) if verifying else None
    shown = report_of(extra(report(1)))
    return Situation(points=points, report=shown, dag=DAG, run=None, tasks=(), now=NOW, verification=found)


def test_what_is_invalid_is_said_with_its_address() -> None:
    found = situation(task("failed"), facts(failed(1), failed(2), failed(3)))

    (problem,) = problems(found)

    assert last_result(found) == "invalid"
    assert (problem.severity, problem.kind) == ("error", "invalid")
    assert problem.title == "Verification found 3 errors in what is published"
    assert "products-00001.xml.gz: is not what the manifest says." in problem.detail
    assert problem.detail.endswith("And 1 more.")
    assert (problem.run_dag_id, problem.run_id) == ("shop_verify", "v")


@pytest.mark.parametrize(("later", "severity"), [("published", "warning"), ("unchanged", "error")])
def test_a_run_that_wrote_since_may_have_mended_it(later: str, severity: str) -> None:
    found = situation(task("failed"), facts(failed(1)), later)

    assert [(problem.kind, problem.severity) for problem in problems(found)] == [("invalid", severity)]
    assert last_result(found) == ("invalid" if severity == "error" else later)


@pytest.mark.parametrize(
    ("verifying", "left", "kinds"),
    [
        (None, None, []),
        (task("success"), facts(), []),
        (task("success"), facts(failed(1, "warning")), []),
        (task("running", ended=None), None, []),
        (task("failed"), None, ["unverified"]),
        (task("failed"), facts(failed(1, "warning")), ["unverified"]),
        (task("failed"), {"errors": "many", "failures": [None, {"where": ["<b>"], "count": -1}]}, ["unverified"]),
    ],
    ids=["none", "valid", "with a warning", "running", "crashed", "strict", "hostile"],
)
def test_only_what_was_found_broken_is_invalid(verifying: TaskFacts | None, left: Any, kinds: list[str]) -> None:
    found = situation(verifying, left)

    assert [problem.kind for problem in problems(found)] == kinds
    assert last_result(found) == "published"


def test_the_newest_task_counts_and_one_that_waits_is_newer_still() -> None:
    early, late = task("failed", run="early"), task("success", began=100, ended=None, run="late")

    assert newest([late, early]) == late
    assert newest([task("scheduled", began=None, ended=None, run="next"), late]).run_id == "next"  # type: ignore[union-attr]
    assert newest([task("skipped", run="skipped")]) is None
    assert newest([]) is None


def test_facts_stay_small_with_errors_first() -> None:
    many = facts(*(failed(n, "warning") for n in range(500)), failed(1_000))

    assert len(many["failures"]) == MAX_FAILURES
    assert many["failures"][0]["severity"] == "error"
    assert (many["errors"], many["warnings"]) == (1, 500)
    answer = as_answer(verification_of(task("failed"), many))
    assert answer is not None
    assert (answer["files"], answer["urls"], answer["end"]) == (42, 1_579, "2026-11-20T12:01:00.000Z")
