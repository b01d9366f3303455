"""What verifying tasks found, from their task instances and what they left in XCom. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.plugin.events import iso
from airflow_sitemaps.plugin.facts import items, mapping, text, whole
from airflow_sitemaps.plugin.runs import ENDED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow_sitemaps.plugin.runs import TaskFacts

_LONG_AGO: Final = datetime.min.replace(tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """One task that verified, or is about to. The numbers are None where it left none."""

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
        """Whether it runs no more."""
        return self.state in ENDED

    @property
    def broken(self) -> bool:
        """Whether it found that a rule of the protocol is broken, or that files are not what the manifest says."""
        return self.state == "failed" and self.errors > 0

    def is_of(self, published_at: datetime) -> bool:
        """Whether it read what was published at that moment, or later."""
        return self.end is not None and self.end >= published_at


def verification_of(task: TaskFacts, left: object) -> Verification:
    """A verifying task with what it left under the key ``VERIFIED``, cleaned."""
    found = mapping(left)
    return Verification(
        dag_id=task.dag_id,
        run_id=task.run_id,
        task_id=task.task_id,
        state=task.state,
        start=task.start,
        end=task.end,
        files=whole(found["files"]) if "files" in found else None,
        urls=whole(found["urls"]) if "urls" in found else None,
        errors=whole(found.get("errors")),
        warnings=whole(found.get("warnings")),
        failures=tuple(map(_failure, items(found.get("failures")))),
    )


def _failure(value: object) -> dict[str, Any]:
    found = mapping(value)
    severity = "error" if found.get("severity") == "error" else "warning"
    texts = {name: text(found.get(name)) for name in ("rule", "where", "message")}
    return {"severity": severity, **texts, "count": max(1, whole(found.get("count")))}


def newest(tasks: Iterable[TaskFacts]) -> TaskFacts | None:
    """Of verifying tasks the one that began last; one that waits to begin is later still."""
    waiting = datetime.max.replace(tzinfo=timezone.utc)

    def began(task: TaskFacts) -> datetime:
        return task.start or (_LONG_AGO if task.state in ENDED else waiting)

    return max((task for task in tasks if task.kind == "verify" and task.state != "skipped"), key=began, default=None)


def as_answer(found: Verification | None) -> dict[str, Any] | None:
    """For the page."""
    if found is None:
        return None
    return {
        "dag_id": found.dag_id,
        "run_id": found.run_id,
        "state": found.state,
        "start": iso(found.start) if found.start else None,
        "end": iso(found.end) if found.end else None,
        "files": found.files,
        "urls": found.urls,
        "errors": found.errors,
        "warnings": found.warnings,
        "failures": list(found.failures),
    }
