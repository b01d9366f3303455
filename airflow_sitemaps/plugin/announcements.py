"""Results of the announcement tasks (IndexNow, Search Console, pings), with the response of each service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.operators.facts import FAILED
from airflow_sitemaps.plugin import dag_runs
from airflow_sitemaps.plugin.event_payload import integer, items, mapping, text
from airflow_sitemaps.plugin.events import iso
from airflow_sitemaps.plugin.outcomes import RETURNED, why
from airflow_sitemaps.quantities import counted

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from airflow_sitemaps.plugin.asset_tasks import AssetTasks
    from airflow_sitemaps.plugin.dag_runs import TaskState

MAX_RUNS: Final = 20
"""Number of newest runs to read of each DAG that announces."""
MAX_FILES: Final = 50
"""Number of files of one submission that are shown."""


def announcements(session: Session, tasks: AssetTasks) -> list[dict[str, Any]]:
    """Return every announcement of the newest runs, newest first."""
    kinds = {(dag_id, task_id): kind for dag_id, task_id, kind in tasks.announce}
    runs = dag_runs.recent_runs(session, {dag_id for dag_id, _ in kinds}, MAX_RUNS)
    pairs = [(run.dag_id, run.run_id) for members in runs.values() for run in members]
    done = [t for t in dag_runs.sitemap_tasks(session, pairs, batches=False) if (t.dag_id, t.task_id) in kinds]
    done = [task for task in done if task.state not in ("skipped", "removed", "scheduled")]
    pushed = dag_runs.pushed_by(session, done, (RETURNED, FAILED))
    rows = [_row(task, kinds[task.dag_id, task.task_id], pushed) for task in done]
    return sorted(rows, key=lambda row: str(row["at"] or "~"), reverse=True)


def _row(task: TaskState, kind: str, pushed: Mapping[tuple[str, str, str, str], Any]) -> dict[str, Any]:
    key = (task.dag_id, task.run_id, task.task_id)
    returned = pushed.get((*key, RETURNED))
    reason = why(pushed.get((*key, FAILED))) if task.state in dag_runs.FAILED else ""
    numbers, files = _READERS[kind](returned)
    at = task.end or task.start
    return {
        "service": kind,
        "dag_id": task.dag_id,
        "run_id": task.run_id,
        "task_id": task.task_id,
        "state": task.state,
        "at": iso(at) if at else None,
        "summary": _SUMMARIES[kind](numbers, files) if returned is not None else "",
        "reason": reason,
        "numbers": numbers,
        "files": files,
    }


Read = tuple[dict[str, int], list[dict[str, Any]]]

INDEXNOW_NUMBERS: Final = (
    "generation",
    "since",
    "added",
    "changed",
    "removed",
    "outside",
    "urls",
    "requests",
    "unchecked",
)


def _indexnow(value: Any) -> Read:
    returned = mapping(value)
    numbers: dict[str, int] = {name: integer(returned[name]) for name in INDEXNOW_NUMBERS if name in returned}
    if returned.get("too_many") is True:
        numbers["too_many"] = 1
    return numbers, []


def _indexnow_summary(numbers: Mapping[str, int], files: Sequence[Mapping[str, Any]]) -> str:
    if numbers.get("too_many"):
        return "Too many URLs changed; none were submitted."
    urls = numbers.get("urls", 0)
    if not urls:
        return "No changed URLs to submit."
    outside = numbers.get("outside", 0)
    left_out = f"; {outside:,} on other hosts were left out" if outside else ""
    return f"{counted(urls, 'URL')} submitted in {counted(numbers.get('requests', 0), 'request')}{left_out}."


def _searchconsole(value: Any) -> Read:
    files = [_submitted(mapping(item)) for item in items(value)[:MAX_FILES]]
    numbers = {name: sum(file[name] for file in files) for name in ("errors", "warnings", "discovered")}
    return numbers, files


def _submitted(item: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "url": text(item.get("path")),
        "last_submitted": text(item.get("last_submitted")) or None,
        "last_read": text(item.get("last_downloaded")) or None,
        "pending": item.get("pending") is True,
        "errors": integer(item.get("errors")),
        "warnings": integer(item.get("warnings")),
        "discovered": sum(integer(number) for number in mapping(item.get("urls")).values()),
    }


def _searchconsole_summary(numbers: Mapping[str, int], files: Sequence[Mapping[str, Any]]) -> str:
    read = max((str(file["last_read"]) for file in files if file["last_read"]), default="")
    when = f"last read by Google {read[:10]}" if read else "not read by Google yet"
    return f"{counted(numbers['discovered'], 'URL')} discovered, {counted(numbers['errors'], 'error')}, {counted(numbers['warnings'], 'warning')}; {when}."


def _ping(value: Any) -> Read:
    statuses = {url: integer(status) for url, status in list(mapping(value).items())[:MAX_FILES]}
    accepted = sum(200 <= status < 300 for status in statuses.values())
    files = [{"url": url, "status": status} for url, status in statuses.items()]
    return {"accepted": accepted, "files": len(files)}, files


def _ping_summary(numbers: Mapping[str, int], files: Sequence[Mapping[str, Any]]) -> str:
    return f"{numbers['accepted']:,} of {numbers['files']:,} requests accepted."


_READERS: Final[Mapping[str, Any]] = {"indexnow": _indexnow, "searchconsole": _searchconsole, "ping": _ping}
_SUMMARIES: Final[Mapping[str, Any]] = {
    "indexnow": _indexnow_summary,
    "searchconsole": _searchconsole_summary,
    "ping": _ping_summary,
}
