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
