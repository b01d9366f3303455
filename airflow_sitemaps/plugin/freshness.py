"""Freshness: the age of the newest published data, and the largest age that is allowed. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from datetime import datetime

    from airflow_sitemaps.plugin.verdict import Freshness as FreshnessState

SCHEDULE_ALLOWANCE: Final = 0.5
"""Duration that a run may take before the data counts as late, as a fraction of the gap between two scheduled runs."""
IDLE_S: Final = 30 * 86_400.0
"""Age in seconds at which data counts as old although no run is late: a DAG without a time schedule and without an
objective, or runs that end before they read the data."""
MIN_ALLOWANCE_S: Final = 3_600.0
"""Smallest allowance in seconds, so that a slow run of an hourly DAG causes no alarm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """Age of the newest published data, and its objective.

    Attributes:
        data_at: Time at which the newest successful run began to read its data. Default: None, before the first one.
        age_s: Seconds since ``data_at``. Default: None.
        objective_s: Largest age in seconds that counts as fresh. Default: None, no objective.
        source: Source of the objective: ``sitemap`` or ``schedule``. Default: empty, no objective.
        idle_s: Seconds since a run last ended without an error before it read the data, because a sensor saw no change
            or a branch skipped it. Such a run keeps the schedule. Default: None, no such run.
    """

    data_at: datetime | None = None
    age_s: float | None = None
    objective_s: float | None = None
    source: Literal["", "sitemap", "schedule"] = ""
    idle_s: float | None = None

    @property
    def state(self) -> FreshnessState:
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


def freshness(
    data_at: datetime | None,
    *,
    now: datetime,
    explicit_s: float | None,
    period_s: float | None,
    idle_at: datetime | None = None,
) -> Freshness:
    """Return the freshness against the sitemap's own objective, or else against the DAG's schedule.

    Args:
        data_at: Time at which the newest successful run began to read its data; None before the first one.
        explicit_s: ``Sitemap(freshness=…)`` in seconds; None if it is not set.
        period_s: Longest gap between two scheduled runs in seconds; None for a DAG without a time schedule.
        idle_at: Start of the newest run that ended without an error before it read the data. Default: None.
    """
    age_s = None if data_at is None else max(0.0, (now - data_at).total_seconds())
    if explicit_s is not None and explicit_s > 0:
        return Freshness(data_at=data_at, age_s=age_s, objective_s=explicit_s, source="sitemap")
    if period_s is None:
        return Freshness(data_at=data_at, age_s=age_s)
    objective_s = period_s + max(SCHEDULE_ALLOWANCE * period_s, MIN_ALLOWANCE_S)
    idle_s = None if idle_at is None else max(0.0, (now - idle_at).total_seconds())
    return Freshness(data_at=data_at, age_s=age_s, objective_s=objective_s, source="schedule", idle_s=idle_s)
