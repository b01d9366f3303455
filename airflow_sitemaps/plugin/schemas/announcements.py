"""Responses about announcements to search engines."""

from __future__ import annotations

from typing import Any, Literal

from airflow_sitemaps.plugin.schemas.strict_model import StrictModel


class AnnouncementRow(StrictModel):
    """One announcement to a search engine or another service. ``numbers`` is its response."""

    service: Literal["indexnow", "searchconsole", "ping"]
    dag_id: str
    run_id: str
    task_id: str
    state: str
    at: str | None
    summary: str
    reason: str
    numbers: dict[str, int]
    files: list[dict[str, Any]]


class Announcements(StrictModel):
    """Announcements, newest first."""

    rows: list[AnnouncementRow]


class CoverageRow(StrictModel):
    """The newest state of one index in Search Console.

    ``section`` is empty for the index of all sections. ``discovered_history`` has one number for each submission, None
    where the index was not submitted.
    """

    url: str
    section: str
    listed: int
    pending: bool
    errors: int
    warnings: int
    last_read: str | None
    discovered: dict[str, int]
    discovered_history: list[int | None]


class Coverage(StrictModel):
    """What Search Console reported at the newest submissions. ``at`` has their times, oldest first."""

    site: str
    at: list[str | None]
    indexes: list[CoverageRow]
    left_out: int
