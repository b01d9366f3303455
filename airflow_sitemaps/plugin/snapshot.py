"""The state of one sitemap at one time, and the verdict on it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.plugin.verdict import Check, Evidence, Result, Verdict, judge

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_sitemaps.plugin.dag_runs import DagState, RunState
    from airflow_sitemaps.plugin.event_payload import RunSummary
    from airflow_sitemaps.plugin.freshness import Freshness
    from airflow_sitemaps.plugin.outcomes import Activity, Outcome
    from airflow_sitemaps.plugin.verifications import Verification

VERIFICATION_LASTS: Final = timedelta(days=7)
"""Time for which a passed verification stays valid after a later run changed the files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """A DAG that publishes a sitemap.

    Attributes:
        dag: Its state. DAGs that Airflow no longer finds are not publishers.
        task_id: The publishing task.
        outcome: Its last result. Default: None, if no run has ended with a result.
    """

    dag: DagState
    task_id: str
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of one sitemap at one time.

    Attributes:
        summaries: Runs that emitted an event, oldest first; empty before the first one.
        report: Report of the newest event; a report of zeros before the first one.
        publishers: The DAGs that publish it; empty for an orphaned sitemap.
        freshness: Age of the newest published data and its objective.
        now: Time of the snapshot.
        activity: Current activity. Default: empty, none.
        active_run: Run of the activity. Default: None.
        verification: The newest verification that ended. Default: None.
        passed: The newest verification that passed. Default: None.
        rollback_failed: A rollback that failed after the newest event. Default: None.
    """

    summaries: Sequence[RunSummary]
    report: Mapping[str, Any]
    publishers: Sequence[Publisher]
    freshness: Freshness
    now: datetime
    activity: Activity = ""
    active_run: RunState | None = None
    verification: Verification | None = None
    passed: Verification | None = None
    rollback_failed: RunState | None = field(default=None)

    @property
    def published(self) -> bool:
        """Whether a run has ever published it."""
        return bool(self.summaries)

    @property
    def paused(self) -> bool:
        """Whether every DAG that publishes it is paused."""
        return bool(self.publishers) and all(publisher.dag.is_paused for publisher in self.publishers)

    @property
    def changed_at(self) -> datetime | None:
        """Time at which the public files last changed; None before the first publication."""
        if not self.summaries:
            return None
        changed = next((s for s in reversed(self.summaries) if s.result != "unchanged"), self.summaries[0])
        return moment(changed.at)

    @property
    def worst_outcome(self) -> Outcome | None:
        """The most severe last outcome: refused, then failed, then published. Of two equal outcomes, the newer one."""
        outcomes = [publisher.outcome for publisher in self.publishers if publisher.outcome is not None]
        order = {"refused": 0, "failed": 1, "published": 2}
        return min(outcomes, key=lambda o: (order[o.result], -o.run.number), default=None)


def check_of(snapshot: Snapshot) -> Check:
    """Return what the newest verification says about the files that are public now."""
    verification, changed_at = snapshot.verification, snapshot.changed_at
    if verification is None:
        return "none"
    if verification.state != "success":
        if not verification.broken:
            return "incomplete"
        return "invalid" if changed_at is None or verification.is_of(changed_at) else "invalid_before"
    if changed_at is None or verification.is_of(changed_at):
        return "passed"
    is_recent = verification.end is not None and snapshot.now - verification.end <= VERIFICATION_LASTS
    return "passed" if is_recent else "outdated"


def evidence_of(snapshot: Snapshot, *, warned: bool) -> Evidence:
    """Return the facts that the verdict depends on.

    Args:
        snapshot: State of the sitemap.
        warned: Whether the last report needs attention.
    """
    outcome = snapshot.worst_outcome
    results: dict[str, Result] = {"refused": "refused", "failed": "failed", "published": "ok"}
    fallback: Result = "ok" if snapshot.published else "none"
    dags = {publisher.dag.dag_id for publisher in snapshot.publishers}
    return Evidence(
        publishers="none" if not dags else "one" if len(dags) == 1 else "several",
        published=snapshot.published,
        result=results[outcome.result] if outcome is not None else fallback,
        verification=check_of(snapshot),
        freshness=snapshot.freshness.state,
        paused=snapshot.paused,
        import_errors=any(publisher.dag.has_import_errors for publisher in snapshot.publishers),
        warned=warned,
    )


def verdict_of(snapshot: Snapshot, *, warned: bool) -> Verdict:
    """Return the verdict on a sitemap.

    Args:
        snapshot: State of the sitemap.
        warned: Whether the last report needs attention.
    """
    return judge(evidence_of(snapshot, warned=warned))


def result_in_words(snapshot: Snapshot) -> str:
    """Return the last result: published, unchanged, refused or failed; ``none`` before the first one."""
    outcome = snapshot.worst_outcome
    if outcome is not None and outcome.result != "published":
        return outcome.result
    if snapshot.summaries:
        return snapshot.summaries[-1].result or "published"
    return "none"


def moment(text: str) -> datetime:
    """Return the time of an ISO 8601 text."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
