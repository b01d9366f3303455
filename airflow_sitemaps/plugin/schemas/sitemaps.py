"""Responses about sitemaps: the list, and the page of one sitemap."""

from __future__ import annotations

from typing import Literal

from airflow_sitemaps.plugin.schemas.actions import ActionState
from airflow_sitemaps.plugin.schemas.reports import Report
from airflow_sitemaps.plugin.schemas.runs import FailedTask
from airflow_sitemaps.plugin.schemas.strict_model import StrictModel
from airflow_sitemaps.plugin.schemas.verifications import Verification

VerdictState = Literal["healthy", "warning", "failing", "not_verified", "unknown"]
Activity = Literal["", "running", "planning", "queued"]


class FreshnessState(StrictModel):
    """Age of the newest published data and its objective, in seconds. None if there is none."""

    data_at: str | None
    age_s: float | None
    objective_s: float | None
    source: Literal["", "sitemap", "schedule"]
    state: Literal["no_objective", "fresh", "idle", "behind_schedule", "missed"]


class SitemapLine(StrictModel):
    """One sitemap in the list. Sizes are in bytes, times ISO 8601 in UTC.

    ``generation`` is the live one; ``data_read_at`` is the time at which the newest successful run began to read its
    data; ``newest_lastmod`` is the newest lastmod of all entries; ``history`` is the number of URLs after each of the
    last runs.
    """

    asset: str
    name: str
    dag_id: str
    dag_ids: list[str]
    tags: list[str]
    index_url: str | None
    index_files: int
    state: VerdictState
    reason: str
    activity: Activity
    paused: bool
    orphaned: bool
    archived: bool
    problems: list[str]
    result: str
    run_dag_id: str
    run_id: str
    generation: int
    at: str | None
    committed_at: str | None
    verified_at: str | None
    data_read_at: str | None
    newest_lastmod: str | None
    freshness: FreshnessState
    urls: int
    shards: int
    file_bytes: int
    rows: int
    dropped: int
    history: list[int]


class ListTotals(StrictModel):
    """Counts over all sitemaps that the user may see, except archived ones."""

    sitemaps: int
    urls: int
    healthy: int
    warning: int
    failing: int
    not_verified: int
    unknown: int
    running: int
    archived: int


class SitemapList(StrictModel):
    """One page of the list.

    ``total`` is the number of sitemaps that match the filter; ``totals`` are over all sitemaps.
    """

    sitemaps: list[SitemapLine]
    total: int
    totals: ListTotals
    dags: list[str]
    tags: list[str]
    as_of: str


class DagSitemaps(StrictModel):
    """The sitemaps that a DAG publishes or verifies."""

    sitemaps: list[SitemapLine]


class Problem(StrictModel):
    """A condition that needs attention, and the next step."""

    severity: Literal["error", "warning", "info"]
    kind: str
    title: str
    detail: str
    next_step: str
    permits: list[str]
    dag_id: str
    run_id: str
    failed_tasks: list[FailedTask]


class SectionState(StrictModel):
    """One section: its state and the reason, and what the live generation holds of it.

    ``last_checked`` is the time at which a successful run last began to read its data; ``last_changed`` the time at
    which its files last changed; ``urls_trend`` its number of URLs after each of the last runs, oldest first.
    """

    name: str
    state: VerdictState
    reason: str
    next_step: str
    last_checked: str | None
    last_changed: str | None
    newest_lastmod: str | None
    urls: int
    urls_trend: list[int]
    generation: int
    result: Literal["none", "published", "unchanged", "refused", "failed"]


class OutsideChange(StrictModel):
    """The live generation, if no DAG run of Airflow made it, such as a rollback in the shell."""

    generation: int
    action: str
    at: str | None


class Gauge(StrictModel):
    """Usage of one limit, in ``unit``."""

    name: str
    used: int
    limit: int
    unit: str
    source: str
    next_step: str
    warns: bool
    limit_note: str = ""


class PublishingDag(StrictModel):
    """A DAG that publishes the sitemap."""

    dag_id: str
    paused: bool
    has_import_errors: bool
    schedule: str
    next_run: str | None


class SitemapPage(SitemapLine):
    """One sitemap: its last report, its problems, its usage of limits, and the available actions."""

    sections: list[SectionState]
    changed_outside: OutsideChange | None
    report: Report
    event_at: str | None
    store: dict[str, str | None]
    problem_list: list[Problem]
    verification: Verification | None
    gauges: list[Gauge]
    rules: dict[str, str]
    sections_left_out: int
    shortened: list[str]
    dags: list[PublishingDag]
    actions: list[ActionState]
    may_archive: bool
    archived_by: str
    announces: bool
    as_of: str
