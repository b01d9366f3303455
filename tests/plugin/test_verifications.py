"""What a verification found, and what the page makes of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_sitemaps.operators import MAX_FAILURES, verified_facts
from airflow_sitemaps.plugin.dag_profiles import DagState
from airflow_sitemaps.plugin.dag_runs import TaskState
from airflow_sitemaps.plugin.events import event_of
from airflow_sitemaps.plugin.pages import VerificationRun, newest_ended
from airflow_sitemaps.plugin.pages.problems import problems
from airflow_sitemaps.plugin.pages.verdict import DataAge, Snapshot, check_of, verdict_of
from airflow_sitemaps.plugin.readings import iso
from airflow_sitemaps.verification.result import Failure, Verification
from tests.support.plugin_factories import NOW, extra, report

DAG = DagState(dag_id="shop", paused=False, is_stale=False, has_import_errors=False)


def task(state: str, *, began: float | None = 0, ended: float | None = 60, run: str = "v") -> TaskState:
    """A verifying task that began and ended so many seconds after ``NOW``."""
    start, end = (None if s is None else NOW + timedelta(seconds=s) for s in (began, ended))
    return TaskState(
        dag_id="shop_verify", run_id=run, task_id="verify", map_index=-1, kind="verify", state=state, label="",
        tries=1, start=start, end=end,
    )  # fmt: skip


def failed(number: int, severity: Any = "error") -> Failure:
    where = f"https://shop.example/products-{number:05d}.xml.gz"
    return Failure(rule="sha256", where=where, message="content differs from the manifest", severity=severity)


def facts(*failures: Failure) -> Any:
    found = Verification(addresses=(), failures=failures, files=42, urls=1_579, index_urls=())
    return verified_facts(found)


def snapshot(verifying: TaskState | None, pushed: Any, *results: str, later: timedelta = timedelta(0)) -> Snapshot:
    """A sitemap with a run a minute before ``NOW``, then one for each of ``results``, seen ``later``."""
    summaries = []
    for number, result in enumerate(("published", *results), 1):
        at = NOW - timedelta(minutes=1) if number == 1 else NOW + timedelta(minutes=number)
        made = extra(report(1, at=at, result=result))
        summaries.append(event_of(made, event=number, at=iso(at), dag_id="shop", run_id=f"r{number}").summary)
    return Snapshot(
        summaries=summaries,
        report=report(1),
        settings={},
        publishers=[DAG],
        age=DataAge(),
        now=NOW + timedelta(minutes=10) + later,
        verification=VerificationRun.of(verifying, pushed) if verifying else None,
    )


def test_what_is_invalid_is_said_with_its_address() -> None:
    """U7: the advice does not speak of clearing the task, which would correct nothing."""
    found = snapshot(task("failed"), facts(failed(1), failed(2), failed(3)))

    (problem,) = problems(found)

    assert verdict_of(found, warned=False).reason == "Published files are invalid"
    assert (problem.severity, problem.kind) == ("error", "invalid")
    assert problem.title == "Verification found 3 errors in the published files"
    assert "products-00001.xml.gz: content differs from the manifest." in problem.detail
    assert problem.detail.endswith("1 more.")
    assert (problem.dag_id, problem.run_id, [(t.task_id, t.map_index) for t in problem.failed_tasks]) == (
        "shop_verify",
        "v",
        [("verify", -1)],
    )
    assert "clear" not in problem.next_step


def test_a_verification_that_is_marked_as_success_stays_invalid() -> None:
    found = snapshot(task("success"), facts(failed(1)))

    assert [problem.kind for problem in problems(found)] == ["invalid"]
    assert verdict_of(found, warned=False).reason == "Published files are invalid"


@pytest.mark.parametrize(
    ("later", "severity", "check"), [("published", "warning", "invalid_before"), ("unchanged", "error", "invalid")]
)
def test_a_run_that_wrote_since_may_have_corrected_it(later: str, severity: str, check: str) -> None:
    found = snapshot(task("failed"), facts(failed(1)), later)

    assert [(problem.kind, problem.severity) for problem in problems(found)] == [("invalid", severity)]
    assert check_of(found) == check


@pytest.mark.parametrize(
    ("state", "pushed", "check"), [("failed", facts(failed(1)), "invalid_before"), ("success", facts(), "outdated")]
)
def test_a_verification_during_a_publication_read_the_files_before(state: str, pushed: Any, check: str) -> None:
    """The second run publishes at two minutes."""
    during = task(state, began=60, ended=300)

    assert check_of(snapshot(during, pushed, "published", later=timedelta(days=8))) == check


def test_a_worker_whose_clock_is_behind_by_seconds_verifies_the_new_files() -> None:
    assert check_of(snapshot(task("failed", began=118, ended=130), facts(failed(1)), "published")) == "invalid"


@pytest.mark.parametrize(
    ("verifying", "pushed", "kinds"),
    [
        (None, None, []),
        (task("success"), facts(), []),
        (task("success"), facts(failed(1, "warning")), []),
        (task("failed"), None, ["unverified"]),
        (task("failed"), facts(failed(1, "warning")), ["unverified"]),
        (task("failed"), {"errors": "many", "failures": [None, {"where": ["<b>"], "count": -1}]}, ["unverified"]),
    ],
    ids=["none", "valid", "with a warning", "crashed", "strict", "hostile"],
)
def test_only_what_was_found_broken_is_invalid(verifying: TaskState | None, pushed: Any, kinds: list[str]) -> None:
    found = snapshot(verifying, pushed)

    assert [problem.kind for problem in problems(found)] == kinds
    assert verdict_of(found, warned=False).state != "failing"


@pytest.mark.parametrize(
    ("results", "days", "check", "state"),
    [
        ((), 0, "passed", "healthy"),
        ((), 29, "passed", "healthy"),
        ((), 60, "outdated", "not_verified"),
        (("published",), 6, "passed", "healthy"),
        (("published",), 8, "outdated", "not_verified"),
        (("unchanged",), 8, "passed", "healthy"),
        (("unchanged",), 60, "outdated", "not_verified"),
    ],
    ids=[
        "of this generation",
        "of this generation, weeks ago",
        "of this generation, months ago",
        "just before",
        "long before",
        "nothing changed since",
        "nothing changed since, months ago",
    ],
)
def test_how_long_a_verification_counts(results: tuple[str, ...], days: int, check: str, state: str) -> None:
    found = snapshot(task("success"), facts(), *results, later=timedelta(days=days))

    assert check_of(found) == check
    assert verdict_of(found, warned=False).state == state


@pytest.mark.parametrize(
    ("verifying", "pushed", "days", "check"),
    [(task("failed"), facts(failed(1)), 0, "invalid"), (task("success"), facts(), 8, "passed")],
)
def test_runs_that_changed_nothing_change_nothing_however_many(
    verifying: TaskState, pushed: Any, days: int, check: str
) -> None:
    """The pages know the newest thirty runs: after thirty more, the one that published is not among them."""
    found = snapshot(verifying, pushed, *["unchanged"] * 30, later=timedelta(days=days))
    committed = replace(report(1), committed_at=iso(NOW - timedelta(minutes=1)))

    assert check_of(replace(found, summaries=found.summaries[-30:], report=committed)) == check


def ended(state: str, at: float | None = 60, *, run: str = "v", part: int = -1, errors: int = 0) -> VerificationRun:
    return VerificationRun.of(replace(task(state, ended=at, run=run), map_index=part), {"errors": errors})


def test_the_newest_task_that_ended_counts() -> None:
    early, late = ended("failed", run="early"), ended("success", 200, run="late")

    assert newest_ended([late, early]) == late
    assert newest_ended([ended("running", None), early]) == early
    assert newest_ended([late, ended("failed", 300)], passed=True) == late
    assert newest_ended([late, ended("success", 300, errors=1)], passed=True) == late
    assert newest_ended([ended("skipped")]) is None
    assert newest_ended([]) is None


def test_a_mapped_task_is_as_bad_as_its_worst_part_and_passes_as_a_whole() -> None:
    before = ended("success", 10, run="before")
    good, crashed, bad = ended("success", 300, part=0), ended("failed", 200, part=1), ended("failed", part=2, errors=1)

    assert newest_ended([before, good, crashed, bad]) == bad
    assert newest_ended([before, good, crashed]) == crashed
    assert newest_ended([before, good, crashed], passed=True) == before
    assert newest_ended([before, good, ended("running", None, part=1)]) == before
    assert newest_ended([before, bad, ended("running", None, part=1)]) == bad
    assert newest_ended([before, good, ended("skipped", part=1)]) == good
    late = VerificationRun.of(replace(task("success", began=90, ended=400), map_index=1), {})
    assert newest_ended([late, good], passed=True) == good, "the part that began first says what was published then"


def test_facts_stay_small_with_errors_first() -> None:
    many = facts(*(failed(n, "warning") for n in range(500)), failed(1_000))

    assert len(many["failures"]) == MAX_FAILURES
    assert many["failures"][0]["severity"] == "error"
    assert (many["errors"], many["warnings"]) == (1, 500)
    answer = VerificationRun.of(task("failed"), many).model_dump(mode="json")
    assert (answer["files"], answer["urls"], answer["end"]) == (42, 1_579, "2026-11-20T12:01:00.000Z")
