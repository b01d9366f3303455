"""Where one sitemap stands: everything known of it at one moment, and in one word."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_sitemaps.plugin.facts import Point
    from airflow_sitemaps.plugin.runs import DagFacts, RunFacts, TaskFacts
    from airflow_sitemaps.plugin.verifications import Verification


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """All that is known of one sitemap.

    ``points`` oldest first, the last one is current. ``refused``, and ``failed`` by task (why): by XCom. ``verification``: the newest one.
    """

    points: Sequence[Point]
    report: Mapping[str, Any]
    dag: DagFacts | None
    run: RunFacts | None
    tasks: Sequence[TaskFacts]
    now: datetime
    refused: Sequence[Mapping[str, Any]] = field(default=())
    failed: Mapping[str, str] = field(default_factory=dict)
    verification: Verification | None = None

    @property
    def is_invalid(self) -> bool:
        """Whether verification found what is published now to be broken."""
        found = self.verification
        changed = next((p for p in reversed(self.points) if p.result != "unchanged"), self.points[-1])
        return found is not None and found.broken and found.is_of(moment(changed.at))


def last_result(situation: Situation) -> str:
    """In one word: ``running``, ``refused``, ``failed``, ``invalid`` (verify said so), or what the last event says."""
    state = tasks_state(situation.tasks)
    newer = situation.run is not None and situation.run.run_id != situation.points[-1].run_id
    if state == "running" and situation.run is not None and situation.run.state in ("running", "queued"):
        return "running"
    if state == "failed" and (newer or not _published_in_run(situation)):
        return "refused" if situation.refused else "failed"
    if situation.is_invalid:
        return "invalid"
    return situation.points[-1].result or "published"


def _published_in_run(situation: Situation) -> bool:
    return situation.run is not None and any(p.run_id == situation.run.run_id for p in situation.points)


def tasks_state(tasks: Sequence[TaskFacts]) -> str:
    """Of a group's tasks: ``failed``, ``running``, ``done``, or ``none`` where there are none."""
    states = {task.state for task in tasks}
    if not states:
        return "none"
    if states & {"failed", "upstream_failed"}:
        return "failed"
    return "done" if states <= {"success", "skipped", "removed"} else "running"


def moment(text: str) -> datetime:
    """A point's time."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
