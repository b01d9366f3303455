"""Responses about the progress of one run."""

from __future__ import annotations

from typing import Any

from airflow_sitemaps.plugin.schemas.reports import Report
from airflow_sitemaps.plugin.schemas.strict_model import StrictModel
from airflow_sitemaps.plugin.schemas.verifications import Verification


class PlanSection(StrictModel):
    """A section of a plan. ``actions`` and ``reasons`` are numbers of shards."""

    actions: dict[str, int]
    reasons: dict[str, int]
    rows: int
    rows_to_read: int
    gone: int


class PlanNumbers(StrictModel):
    """The numbers of a plan. ``lines`` explain it."""

    key: str | None
    base_generation: int
    rows_to_read: int
    batches: int
    changes: bool
    sections: dict[str, PlanSection]
    warnings: list[str]
    lines: list[str]
    more_lines: int


class Step(StrictModel):
    """A sitemap task of a run, unless it is mapped."""

    task_id: str
    kind: str
    state: str
    tries: int
    start: str | None
    end: str | None


class Batch(StrictModel):
    """One batch of the write task. Its numbers are None until it is written."""

    task_id: str
    number: int
    label: str
    state: str
    tries: int
    start: str | None
    end: str | None
    rows_planned: int | None
    rows: int | None
    urls: int | None
    dropped: int | None
    bytes: int | None


class Speed(StrictModel):
    """Completed and remaining batches and rows. ``rows_to_read`` is None without a plan."""

    batches: int
    done: int
    failed: int
    running: int
    rows: int
    rows_to_read: int | None
    urls: int
    elapsed_s: float
    urls_a_second: int | None
    seconds_left: int | None


class Refusal(StrictModel):
    """A guard that refused the run. ``permit`` lets one run pass."""

    guard: str
    section: str
    message: str
    permit: str


class RunGroup(StrictModel):
    """One sitemap's tasks in a run. ``failed`` is the reason by task."""

    group_id: str
    steps: list[Step]
    plan: PlanNumbers | None
    verifications: list[Verification]
    failed: dict[str, str]
    refused: list[Refusal]
    batches: list[Batch]
    speed: Speed


class RunReport(StrictModel):
    """The report of a run for one sitemap."""

    group_id: str
    at: str
    report: Report
    rules: dict[str, str]


class RunProgress(StrictModel):
    """A run: its steps, batches, speed, remaining work, and the reports of what it published."""

    dag_id: str
    run_id: str
    state: str
    trigger: str
    dry_run: bool
    start: str | None
    end: str | None
    conf: dict[str, Any]
    groups: list[RunGroup]
    reports: list[RunReport]
    as_of: str
