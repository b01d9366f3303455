"""Responses about verifications."""

from __future__ import annotations

from typing import Literal

from airflow_sitemaps.plugin.schemas.strict_model import StrictModel


class VerificationFailure(StrictModel):
    """A check that failed ``count`` times in one place."""

    severity: Literal["error", "warning"]
    rule: str
    where: str
    message: str
    count: int


class Verification(StrictModel):
    """One run of a verification task.

    Numbers are None if the task pushed none. ``failures`` are the first ones.
    """

    dag_id: str
    run_id: str
    task_id: str
    state: str
    start: str | None
    end: str | None
    files: int | None
    urls: int | None
    errors: int
    warnings: int
    failures: list[VerificationFailure]
