"""The verdict on a sitemap, or on one of its sections, from a few facts. Pure. ``docs/ui.md`` has the same table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import Field, computed_field

from airflow_sitemaps.plugin.readings import Moment, StrictModel

State = Literal["healthy", "warning", "failing", "not_verified", "unknown"]
"""State that a badge shows. The current activity (running, queued, paused) has its own badge."""

Publishers = Literal["none", "one", "several"]
Result = Literal["none", "ok", "refused", "failed"]
Check = Literal["none", "passed", "outdated", "incomplete", "invalid", "invalid_before"]
Freshness = Literal["no_objective", "fresh", "idle", "behind_schedule", "missed"]

SCHEDULE_ALLOWANCE: Final = 0.5
"""Duration that a run may take before the data counts as late, as a fraction of the gap between two scheduled runs."""
IDLE_S: Final = 30 * 86_400.0
"""Age in seconds at which data counts as old although no run is late: a DAG without a time schedule and without an
objective, or runs that end before they read the data."""
MIN_ALLOWANCE_S: Final = 3_600.0
"""Smallest allowance in seconds, so that a slow run of an hourly DAG causes no alarm."""


class DataAge(StrictModel):
    """Age of the newest published data and its objective, in seconds. None if there is none.

    Attributes:
        data_at: Time at which the newest successful run began to read its data; None before the first one.
        source: Source of the objective; empty for none.
        idle_s: Seconds since a run last ended without an error before it read the data, because a sensor saw no change
            or a branch skipped it. Such a run keeps the schedule.
    """

    data_at: Moment | None = None
    age_s: float | None = None
    objective_s: float | None = None
    source: Literal["", "sitemap", "schedule"] = ""
    idle_s: Annotated[float | None, Field(exclude=True)] = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def state(self) -> Freshness:
        """The state that the verdict uses."""
        if self.age_s is None:
            return "no_objective"
        if self.objective_s is None:
            return "idle" if self.age_s > IDLE_S else "no_objective"
        if self.age_s <= self.objective_s:
            return "fresh"
        if self.source == "sitemap":
            return "missed"
        if self.idle_s is None or self.idle_s > self.objective_s:
            return "behind_schedule"
        return "idle" if self.age_s > max(IDLE_S, self.objective_s) else "fresh"


def age_of(
    data_at: datetime | None,
    *,
    now: datetime,
    explicit_s: float | None,
    period_s: float | None,
    idle_at: datetime | None = None,
) -> DataAge:
    """Return the age of data against the sitemap's own objective, or else against the DAG's schedule.

    ``explicit_s`` is ``Sitemap(freshness=…)``, ``period_s`` the longest gap between two scheduled runs, and ``idle_at``
    the start of the newest run that ended without an error before it read the data.
    """
    age_s = None if data_at is None else max(0.0, (now - data_at).total_seconds())
    if explicit_s is not None and explicit_s > 0:
        return DataAge(data_at=data_at, age_s=age_s, objective_s=explicit_s, source="sitemap")
    if period_s is None:
        return DataAge(data_at=data_at, age_s=age_s)
    objective_s = period_s + max(SCHEDULE_ALLOWANCE * period_s, MIN_ALLOWANCE_S)
    idle_s = None if idle_at is None else max(0.0, (now - idle_at).total_seconds())
    return DataAge(data_at=data_at, age_s=age_s, objective_s=objective_s, source="schedule", idle_s=idle_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The facts that the verdict depends on.

    Attributes:
        result: The last result of the section; for a sitemap the worst of its sections. Dry, running and queued runs
            have none.
        verification: Result of the newest verification that ended, for the files that are public now. ``outdated``: it
            passed, but too long ago. ``incomplete``: it ended without a result, or failed because of warnings.
            ``invalid``: it reported errors. ``invalid_before``: it reported errors, and a run has published since.
        freshness: Age of the section's data against its objective; for a sitemap the oldest. ``behind_schedule``: the
            objective is the DAG's schedule. ``missed``: it is the sitemap's. ``idle``: there is none; the data is old.
        warned: Whether the last report needs attention: dropped rows, drift, a limit or a warning.
    """

    publishers: Publishers = "one"
    published: bool = True
    result: Result = "ok"
    verification: Check = "passed"
    freshness: Freshness = "no_objective"
    paused: bool = False
    import_errors: bool = False
    warned: bool = False


@dataclass(frozen=True, slots=True)
class Judgement:
    """The state that is shown, the first reason for it, and the kind of the problem that says what to do, if any."""

    state: State
    reason: str
    kind: str = ""


Row = tuple[Judgement, Callable[[Evidence], bool]]
"""A row of the table: its judgement, and whether it applies."""

TABLE: Final[Sequence[Row]] = (
    (Judgement("unknown", "Orphaned: no DAG publishes it", "orphaned"), lambda e: e.publishers == "none"),
    (Judgement("failing", "Last run blocked by a safety check", "refused"), lambda e: e.result == "refused"),
    (Judgement("failing", "Last run failed", "failed"), lambda e: e.result == "failed"),
    (
        Judgement("failing", "Published files are invalid", "invalid"),
        lambda e: e.published and e.verification == "invalid",
    ),
    (Judgement("failing", "The DAG's file cannot be imported", "dag-broken"), lambda e: e.import_errors),
    (
        Judgement("failing", "Freshness objective missed", "late"),
        lambda e: e.published and e.freshness == "missed" and not e.paused,
    ),
    (Judgement("unknown", "Never published", "unpublished"), lambda e: not e.published),
    (Judgement("warning", "Several DAGs publish it", "several-publishers"), lambda e: e.publishers == "several"),
    (
        Judgement("warning", "Paused and out of date", "late"),
        lambda e: e.freshness in ("missed", "behind_schedule") and e.paused,
    ),
    (Judgement("warning", "Behind its schedule", "late"), lambda e: e.freshness == "behind_schedule"),
    (Judgement("warning", "No data read for 30 days", "late"), lambda e: e.published and e.freshness == "idle"),
    (Judgement("warning", "Verification did not finish", "unverified"), lambda e: e.verification == "incomplete"),
    (
        Judgement("warning", "Verification found errors before the last run", "invalid"),
        lambda e: e.verification == "invalid_before",
    ),
    (Judgement("warning", "The last run reported warnings", "warned"), lambda e: e.warned),
    (Judgement("not_verified", "Not verified", "not-verified"), lambda e: e.verification == "none"),
    (Judgement("not_verified", "Last verified too long ago", "not-verified"), lambda e: e.verification == "outdated"),
)
"""The table, in order. The first row that applies decides. If no row applies, the sitemap is healthy."""

HEALTHY: Final = Judgement("healthy", "Healthy")


def judge(evidence: Evidence) -> Judgement:
    """Return the judgement on a sitemap, or on a section."""
    return next((judgement for judgement, applies in TABLE if applies(evidence)), HEALTHY)
