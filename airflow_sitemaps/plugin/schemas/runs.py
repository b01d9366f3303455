"""Responses about runs: the history of a sitemap and the table of runs."""

from __future__ import annotations

from typing import Literal

from airflow_sitemaps.plugin.schemas.strict_model import StrictModel


class FailedTask(StrictModel):
    """A failed task. ``map_index`` is -1 for a task that is not mapped."""

    task_id: str
    map_index: int


class HistoryColumns(StrictModel):
    """Runs that published, oldest first, one column for each number.

    ``seconds`` is the wall time of the DAG run, or None if it is not known.
    """

    event: list[int]
    at: list[str]
    dag_id: list[str]
    run_id: list[str]
    result: list[str]
    action: list[str]
    generation: list[int]
    urls: list[int]
    shards: list[int]
    created: list[int]
    rewritten: list[int]
    removed: list[int]
    repaired: list[int]
    dropped: list[int]
    file_bytes: list[int]
    bytes_written: list[int]
    rows_read: list[int]
    seconds: list[float | None]


class FailedRun(StrictModel):
    """A run that published nothing, because it was refused or failed."""

    at: str
    dag_id: str
    run_id: str
    result: Literal["refused", "failed"]
    seconds: float | None


class History(StrictModel):
    """Runs for the charts. Pass ``before`` to get earlier runs; None: there are none."""

    columns: HistoryColumns
    failures: list[FailedRun]
    before: int | None


class RunRow(StrictModel):
    """One run in the table of runs.

    ``urls_delta`` is the difference from the run before; ``reason`` is why the run was refused or failed.
    """

    number: int
    dag_id: str
    run_id: str
    kind: Literal["publish", "rollback"]
    state: str
    result: Literal["published", "unchanged", "refused", "failed", "planned", "skipped", "running", "queued"]
    trigger: str
    start: str | None
    end: str | None
    seconds: float | None
    generation: int | None
    urls: int | None
    urls_delta: int | None
    shards_written: int | None
    dropped: int | None
    reason: str
    failed_tasks: list[FailedTask]


class RunTable(StrictModel):
    """Runs, newest first. Pass ``before`` to get earlier runs; None: there are none."""

    runs: list[RunRow]
    before: int | None
