"""Progress of a run, from its task instances and the numbers that its tasks pushed. Pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow_sitemaps.operators.facts import FAILED, PLAN_FACTS, REFUSED, VERIFIED, WRITTEN
from airflow_sitemaps.plugin.dag_profiles import KINDS
from airflow_sitemaps.plugin.dag_runs import ENDED
from airflow_sitemaps.plugin.dag_runs import FAILED as FAILED_STATES
from airflow_sitemaps.plugin.event_payload import counts, integer, items, mapping, text, texts
from airflow_sitemaps.plugin.events import iso
from airflow_sitemaps.plugin.outcomes import RETURNED, refusals_of, why
from airflow_sitemaps.plugin.run_table import trigger_of
from airflow_sitemaps.plugin.verifications import as_answer, verification_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from airflow_sitemaps.plugin.dag_runs import RunState, TaskState

XComRow = tuple[str, int, str, Any]


def progress(run: RunState, tasks: Sequence[TaskState], xcoms: Sequence[XComRow], now: datetime) -> dict[str, Any]:
    """Return the run and, for each group with sitemap tasks, its steps, batches, speed and remaining work.

    Args:
        xcoms: Their XCom values, as rows of (task, map index, key, value).
    """
    groups: dict[str, list[TaskState]] = {}
    for task in tasks:
        groups.setdefault(task.group_id, []).append(task)
    return {
        "dag_id": run.dag_id,
        "run_id": run.run_id,
        "state": run.state,
        "trigger": trigger_of(run),
        "dry_run": run.is_dry,
        "start": iso(run.start) if run.start else None,
        "end": iso(run.end) if run.end else None,
        "conf": {name: run.conf[name] for name in list(run.conf)[:50]},
        "groups": [_group(name, members, xcoms, now) for name, members in sorted(groups.items())],
        "as_of": iso(now),
    }


def _group(name: str, tasks: Sequence[TaskState], xcoms: Sequence[XComRow], now: datetime) -> dict[str, Any]:
    ids = {task.task_id for task in tasks}
    mine = [row for row in xcoms if row[0] in ids]
    plan = next((mapping(value) for _, _, key, value in mine if key == PLAN_FACTS), None)
    written = {(task, index): mapping(value) for task, index, key, value in mine if key == WRITTEN}
    batches = [task for task in tasks if task.kind == "write" and task.map_index >= 0]
    verified = {task: value for task, _, key, value in mine if key == VERIFIED}
    labels = _labels(mine)
    return {
        "group_id": name,
        "steps": [_step(task) for task in sorted(tasks, key=_place) if task not in batches],
        "plan": plan_of(plan),
        "verifications": [as_answer(verification_of(t, verified.get(t.task_id))) for t in tasks if t.kind == "verify"],
        "failed": _failures(mine),
        "refused": [asdict(r) for _, _, key, value in mine if key == REFUSED for r in refusals_of(value)],
        "batches": [
            _batch(task, labels.get(task.map_index, ""), plan, written.get((task.task_id, task.map_index)))
            for task in batches
        ],
        "speed": _speed(batches, plan, written, now),
    }


def _failures(mine: Sequence[XComRow]) -> dict[str, str]:
    """Return why tasks failed, by task. Each different reason of the batches of one task stands once, with a batch."""
    failed: dict[str, dict[str, str]] = {}
    for task, index, key, value in sorted(mine, key=lambda row: row[:2]):
        if key == FAILED and (said := why(value)):
            failed.setdefault(task, {}).setdefault(said, f"Batch {index + 1}: " if index >= 0 else "")
    return {task: "\n".join(batch + said for said, batch in reasons.items()) for task, reasons in failed.items()}


def _place(task: TaskState) -> tuple[int, str]:
    """Return a sort key: the order in which tasks run."""
    return list(KINDS.values()).index(task.kind), task.task_id


def _step(task: TaskState) -> dict[str, Any]:
    return {
        "task_id": task.task_id,
        "kind": task.kind,
        "state": task.state,
        "tries": task.tries,
        "start": iso(task.start) if task.start else None,
        "end": iso(task.end) if task.end else None,
    }


def _labels(mine: Sequence[XComRow]) -> dict[int, str]:
    """Return the names of batches by number, as the planning task pushed them.

    Airflow names a batch only when it runs.
    """
    returned = next((items(value) for _, index, key, value in mine if key == RETURNED and index < 0), [])
    return {number: text(mapping(reference).get("label")) for number, reference in enumerate(returned)}


def _batch(
    task: TaskState, label: str, plan: Mapping[str, Any] | None, written: Mapping[str, Any] | None
) -> dict[str, Any]:
    planned = items(plan.get("batches")) if plan else []
    return {
        "task_id": task.task_id,
        "number": task.map_index,
        "label": task.label or label or f"batch {task.map_index + 1}",
        "state": task.state,
        "tries": task.tries,
        "start": iso(task.start) if task.start else None,
        "end": iso(task.end) if task.end else None,
        "rows_planned": integer(planned[task.map_index]) if task.map_index < len(planned) else None,
        "rows": integer(written.get("rows")) if written else None,
        "urls": integer(written.get("urls")) if written else None,
        "dropped": integer(written.get("dropped")) if written else None,
        "bytes": integer(written.get("bytes")) if written else None,
    }


def _speed(
    batches: Sequence[TaskState],
    plan: Mapping[str, Any] | None,
    written: Mapping[tuple[str, int], Mapping[str, Any]],
    now: datetime,
) -> dict[str, Any]:
    """Return the batches and rows done and left, the URLs per second, and the seconds left at that rate.

    The rate counts from the start of the first batch.
    """
    done = [task for task in batches if task.state == "success"]
    starts = [task.start for task in batches if task.start]
    ended = all(task.state in ENDED for task in batches)
    until = max((task.end for task in batches if task.end), default=now) if ended else now
    elapsed = max(0.0, (until - min(starts)).total_seconds()) if starts else 0.0
    rows, urls = (sum(integer(w.get(name)) for w in written.values()) for name in ("rows", "urls"))
    to_read = integer(plan.get("rows_to_read")) if plan else None
    share = rows / to_read if to_read else (len(done) / len(batches) if batches else 0.0)
    running = bool(starts) and not ended
    return {
        "batches": len(batches),
        "done": len(done),
        "failed": sum(task.state in FAILED_STATES for task in batches),
        "running": sum(task.state == "running" for task in batches),
        "rows": rows,
        "rows_to_read": to_read,
        "urls": urls,
        "elapsed_s": round(elapsed, 1),
        "urls_a_second": round(urls / elapsed) if elapsed > 0 and urls else None,
        "seconds_left": round(elapsed * (1 - share) / share) if running and 0 < share < 1 else None,
    }


def plan_of(found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the plan that a planning task pushed, checked and limited in size."""
    if not found:
        return None
    return {
        "key": text(found.get("key")) or None,
        "base_generation": integer(found.get("base_generation")),
        "rows_to_read": integer(found.get("rows_to_read")),
        "batches": len(items(found.get("batches"))),
        "changes": bool(found.get("changes")),
        "sections": {
            name: {
                "actions": counts(mapping(section).get("actions")),
                "reasons": counts(mapping(section).get("reasons")),
                "rows": integer(mapping(section).get("rows")),
                "rows_to_read": integer(mapping(section).get("rows_to_read")),
                "gone": integer(mapping(section).get("gone")),
            }
            for name, section in mapping(found.get("sections")).items()
        },
        "warnings": texts(found.get("warnings")),
        "lines": texts(found.get("lines")),
        "more_lines": integer(found.get("more_lines")),
    }
