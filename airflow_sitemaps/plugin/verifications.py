"""Results of verification tasks, from their task instances and the numbers that they pushed. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.plugin.dag_runs import ENDED
from airflow_sitemaps.plugin.event_payload import integer, items, mapping, text
from airflow_sitemaps.plugin.events import iso

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow_sitemaps.plugin.dag_runs import TaskState

_LONG_AGO: Final = datetime.min.replace(tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """One run of a verification task.

    Attributes:
        dag_id: DAG of the task.
        run_id: Run of the task.
        task_id: ID of the task.
        state: Airflow's state of the task.
        start: Start of its last attempt. Default: None.
        end: End of its last attempt. Default: None.
        files: Number of files that were read back. Default: None, if the task pushed no numbers.
        urls: Number of URLs in those files. Default: None, if the task pushed no numbers.
        errors: Number of broken protocol rules and of files that differ from the manifest. Default: 0.
        warnings: Number of findings that break no rule. Default: 0.
        failures: The first findings, errors first. Default: none.
    """

    dag_id: str
    run_id: str
    task_id: str
    state: str
    start: datetime | None = None
    end: datetime | None = None
    files: int | None = None
    urls: int | None = None
    errors: int = 0
    warnings: int = 0
    failures: tuple[Mapping[str, Any], ...] = ()

    @property
    def has_ended(self) -> bool:
        """Whether the task has ended."""
        return self.state in ENDED

    @property
    def broken(self) -> bool:
        """Whether the verification reported a broken rule of the protocol, or files that differ from the manifest."""
        return self.state == "failed" and self.errors > 0

    def is_of(self, published_at: datetime) -> bool:
        """Return whether the verification read what was published at a given time, or later."""
        return self.end is not None and self.end >= published_at


def verification_of(task: TaskState, pushed: object) -> Verification:
    """Return the verification of a task from the numbers that it pushed, checked and limited in size."""
    numbers = mapping(pushed)
    return Verification(
        dag_id=task.dag_id,
        run_id=task.run_id,
        task_id=task.task_id,
        state=task.state,
        start=task.start,
        end=task.end,
        files=integer(numbers["files"]) if "files" in numbers else None,
        urls=integer(numbers["urls"]) if "urls" in numbers else None,
        errors=integer(numbers.get("errors")),
        warnings=integer(numbers.get("warnings")),
        failures=tuple(map(_failure, items(numbers.get("failures")))),
    )


def _failure(value: object) -> dict[str, Any]:
    finding = mapping(value)
    severity = "error" if finding.get("severity") == "error" else "warning"
    texts = {name: text(finding.get(name)) for name in ("rule", "where", "message")}
    return {"severity": severity, **texts, "count": max(1, integer(finding.get("count")))}


def newest_ended(tasks: Iterable[TaskState], *, passed: bool = False) -> TaskState | None:
    """Return the verification task that ended last, or None. Skipped tasks and tasks without an end do not count.

    Args:
        passed: Whether only tasks that passed count. Default: False.
    """
    states = {"success"} if passed else {"success", "failed"}
    ended = [task for task in tasks if task.kind == "verify" and task.state in states]
    return max(ended, key=lambda task: task.end or _LONG_AGO, default=None)


def as_answer(verification: Verification | None) -> dict[str, Any] | None:
    """Return a verification in the form that the pages use; None for None."""
    if verification is None:
        return None
    return {
        "dag_id": verification.dag_id,
        "run_id": verification.run_id,
        "task_id": verification.task_id,
        "state": verification.state,
        "start": iso(verification.start) if verification.start else None,
        "end": iso(verification.end) if verification.end else None,
        "files": verification.files,
        "urls": verification.urls,
        "errors": verification.errors,
        "warnings": verification.warnings,
        "failures": list(verification.failures),
    }
