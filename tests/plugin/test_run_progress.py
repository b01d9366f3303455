"""How far a run is, from task instances and XComs."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from airflow_sitemaps.errors import SourceError
from airflow_sitemaps.operators import FAILED, PLAN_FACTS, REFUSED, WRITTEN, failure_facts, plan_facts
from airflow_sitemaps.plugin.dag_runs import RunState, TaskState
from airflow_sitemaps.plugin.pages.runs import RETURNED, progress
from airflow_sitemaps.shards.plan import Batch, Plan, SectionPlan
from tests.support.plugin_factories import NOW

RUN = RunState(
    dag_id="shop",
    run_id="r",
    state="running",
    run_type="manual",
    queued_at=None,
    start=NOW,
    end=None,
    conf={"full": True},
)


def task(
    kind: str, state: str, index: int = -1, *, start: float | None = None, end: float | None = None, label: str = ""
) -> TaskState:
    def at(seconds: float | None) -> datetime | None:
        return None if seconds is None else NOW + timedelta(seconds=seconds)

    return TaskState(
        dag_id="shop", run_id="r", task_id=f"sitemap.{kind}", map_index=index, kind=kind, state=state, label=label,
        tries=1, start=at(start), end=at(end),
    )  # fmt: skip


def written(rows: int) -> dict[str, Any]:
    return {
        "section": "products",
        "shards": 1,
        "rows": rows,
        "urls": rows - 1,
        "dropped": 1,
        "bytes": 10,
        "seconds": 1.0,
    }


PLAN: Any = (
    "sitemap.plan",
    -1,
    PLAN_FACTS,
    {"batches": [100, 100, 200], "rows_to_read": 400, "sections": {}, "changes": True},
)
MANY = {f"s{n}": SectionPlan(name=f"s{n}", base=0, fingerprint="", digest_kind="", actions=()) for n in range(205)}
TASKS = [
    task("plan", "success", start=0, end=5),
    task("publish", "scheduled"),
    task("write", "success", 0, start=5, end=15, label="products 1/3 (2 shards)"),
    task("write", "running", 1, start=15),
    task("write", "scheduled", 2),
]


def pushed(xcoms: list[Any]) -> Any:
    """What tasks of the run pushed, by rows of task, map index, key and value."""
    return {(*RUN.key, *row[:3]): row[3] for row in xcoms}


def group(tasks: list[TaskState], xcoms: list[Any], seconds: float) -> Any:
    (found,) = progress(RUN, tasks, pushed(xcoms), NOW + timedelta(seconds=seconds)).model_dump(mode="json")["groups"]
    return found


def test_a_plan_of_very_many_sections_shows_those_with_most_to_read_and_counts_the_others() -> None:
    batch = Batch(number=0, section="s204", actions=(), rows=7)
    facts = plan_facts(Plan(run="r", created_at=NOW, base_generation=1, sections=MANY, batches=(batch,)), None, [])

    found = group(TASKS, [("sitemap.plan", -1, PLAN_FACTS, facts)], 25)["plan"]

    assert (len(found["sections"]), found["more_sections"]) == (200, 5)
    assert [*found["sections"]][::199] == ["s0", "s204"]
    assert found["sections"]["s204"]["rows_to_read"] == 7


def test_speed_and_what_is_left() -> None:
    found = group(TASKS, [PLAN, ("sitemap.write", 0, WRITTEN, written(100))], 25)

    assert found["speed"] == {
        "batches": 3, "done": 1, "failed": 0, "running": 1, "rows": 100, "rows_to_read": 400, "urls": 99,
        "elapsed_s": 20.0, "urls_a_second": 5, "seconds_left": 60,
    }  # fmt: skip
    assert [step["kind"] for step in found["steps"]] == ["plan", "publish"]
    assert [batch["rows_planned"] for batch in found["batches"]] == [100, 100, 200]


def test_batches_have_names_before_they_run() -> None:
    references = [{"plan": "p", "batch": n, "label": f"products {n + 1}/3 (2 shards)"} for n in range(3)]
    found = group(TASKS, [PLAN, ("sitemap.plan", -1, RETURNED, references)], 25)

    assert [batch["label"] for batch in found["batches"]] == [f"products {n}/3 (2 shards)" for n in (1, 2, 3)]


def test_without_xcoms_there_are_still_batches() -> None:
    found = group(TASKS, [], 25)

    assert found["plan"] is None
    assert [batch["label"] for batch in found["batches"]] == ["products 1/3 (2 shards)", "batch 2", "batch 3"]
    assert found["speed"]["seconds_left"] == 40
    assert found["speed"]["urls_a_second"] is None


def test_a_run_of_as_many_batches_as_airflow_maps_stays_a_small_answer() -> None:
    label = "a-section-with-a-long-name 1000/1024 (50 shards)"
    tasks = [task("write", "success", n, start=n, end=n + 60, label=label) for n in range(1_024)]
    plan = ("sitemap.plan", -1, PLAN_FACTS, {"batches": [2_500_000] * 1_024, "rows_to_read": 2_560_000_000})
    xcoms = [plan, *[("sitemap.write", n, WRITTEN, written(2_500_000)) for n in range(1_024)]]

    tasks = [task("plan", "success", start=0, end=5), *tasks]
    found = progress(RUN, tasks, pushed(xcoms), NOW + timedelta(hours=1)).model_dump(mode="json")

    assert found["groups"][0]["speed"]["done"] == 1_024
    assert len(json.dumps(found)) < 384 * 1_024


def test_nothing_is_left_when_all_has_ended() -> None:
    done = [task("write", "success", n, start=5 + n, end=9 + n) for n in range(3)]
    found = group(done, [PLAN, *[("sitemap.write", n, WRITTEN, written(100)) for n in range(3)]], 900)

    assert found["speed"]["seconds_left"] is None
    assert found["speed"]["elapsed_s"] == 6.0


@pytest.mark.parametrize(
    ("left", "said"),
    [
        ({"error": "SourceError", "message": "no such table: products"}, {"sitemap.plan": "no such table: products"}),
        ({"error": "KeyError", "message": ""}, {"sitemap.plan": "It ended with KeyError"}),
        ("rubbish", {}),
    ],
)
def test_why_a_task_failed(left: Any, said: dict[str, str]) -> None:
    found = group([task("plan", "failed", start=0, end=1)], [("sitemap.plan", -1, FAILED, left)], 5)

    assert found["failed"] == said


def test_only_our_own_errors_are_quoted() -> None:
    ours, theirs = failure_facts(SourceError("no such table")), failure_facts(ValueError("password=secret"))

    assert ours == {"error": "SourceError", "message": "no such table"}
    assert theirs == {"error": "ValueError", "message": ""}


def test_a_refusal_is_told_by_its_task() -> None:
    refused = {"message": "no", "refusals": [{"guard": "shrink", "section": "a", "message": "m", "permit": "shrink:a"}]}
    found = group([task("plan", "failed", start=0, end=5)], [("sitemap.plan", -1, REFUSED, refused)], 9)

    assert found["refused"] == refused["refusals"]


def test_a_permit_names_its_sitemap_where_the_run_has_several() -> None:
    """Without it, ``allow`` would let the refusals of the other sitemap pass as well."""
    tasks = [replace(task("plan", "failed"), task_id=f"{name}.plan") for name in ("de", "fr")]
    refused = {"refusals": [{"message": "m", "permit": permit} for permit in ("shrink:a=0.5", "total", "")]}
    rows = [(task.task_id, -1, REFUSED, refused) for task in tasks]

    groups = progress(RUN, tasks, pushed(rows), NOW).groups

    assert {group.group_id: [refusal.permit for refusal in group.refused] for group in groups} == {
        "de": ["shrink:de/a=0.5", "de/total", ""],
        "fr": ["shrink:fr/a=0.5", "fr/total", ""],
    }


def test_hostile_xcoms_break_nothing() -> None:
    for value in (None, "x", 7, [], {"batches": "x", "sections": [1]}, {"refusals": [None, "x"]}):
        rows = [("sitemap.plan", -1, key, value) for key in (PLAN_FACTS, REFUSED, RETURNED)]
        found = group(TASKS, [*rows, ("sitemap.write", 0, WRITTEN, value)], 25)
        assert len(found["batches"]) == 3
