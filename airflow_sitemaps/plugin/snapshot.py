"""The state of one sitemap at one time, and the verdicts on it and on its sections. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.plugin.event_payload import moment_of
from airflow_sitemaps.plugin.outcomes import WORST
from airflow_sitemaps.plugin.verdict import Check, Evidence, Result, Verdict, judge

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_sitemaps.plugin.dag_runs import DagState, RunState
    from airflow_sitemaps.plugin.event_payload import RunSummary
    from airflow_sitemaps.plugin.freshness import Freshness
    from airflow_sitemaps.plugin.outcomes import Activity, Outcome
    from airflow_sitemaps.plugin.section_states import SectionState
    from airflow_sitemaps.plugin.store_state import StoreState
    from airflow_sitemaps.plugin.verifications import Verification

CHANGED_LASTS: Final = timedelta(days=7)
"""Time for which a passed verification stays valid after a later run changed the files."""
UNCHANGED_LASTS: Final = timedelta(days=30)
"""Time for which a passed verification stays valid if no run has changed the files since."""

CHANGES: Final = frozenset({"published", "partly_published"})
"""Results of runs that made a generation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """A DAG that publishes a sitemap.

    Attributes:
        dag: Its state. DAGs that Airflow no longer finds are not publishers.
        task_id: The publishing task.
    """

    dag: DagState
    task_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of one sitemap at one time.

    Attributes:
        summaries: Reports of runs, from events and from the store, oldest first; empty before the first one.
        report: The newest report; a report of zeros before the first one.
        publishers: The DAGs that publish it; empty for an orphaned sitemap.
        freshness: Age of the data of the section that was read longest ago, and its objective.
        now: Time of the snapshot.
        sections: Its sections. Default: none.
        activity: Current activity. Default: empty, none.
        active_run: Run of the activity. Default: None.
        verification: The newest verification that ended. Default: None.
        passed: The newest verification that passed. Default: None.
        rollback_failed: A rollback that failed after the newest event. Default: None.
        misnamed: The newest run, if its request has a name that does not exist. Default: None.
        live: What the store says of it. Default: None, it is not known.
        changed_outside: Whether no run of Airflow made the live generation. Default: False.
    """

    summaries: Sequence[RunSummary]
    report: Mapping[str, Any]
    publishers: Sequence[Publisher]
    freshness: Freshness
    now: datetime
    sections: Sequence[SectionState] = ()
    activity: Activity = ""
    active_run: RunState | None = None
    verification: Verification | None = None
    passed: Verification | None = None
    rollback_failed: RunState | None = None
    misnamed: Outcome | None = None
    live: StoreState | None = None
    changed_outside: bool = False

    @property
    def published(self) -> bool:
        """Whether a run has ever published it."""
        return bool(self.summaries) or self.live is not None

    @property
    def generation(self) -> int:
        """Number of the live generation, as far as it is known; 0 before the first one."""
        if self.live is not None:
            return self.live.generation
        return self.summaries[-1].generation if self.summaries else 0

    @property
    def paused(self) -> bool:
        """Whether every DAG that publishes it is paused."""
        return bool(self.publishers) and all(publisher.dag.is_paused for publisher in self.publishers)

    @property
    def changed_at(self) -> datetime | None:
        """Time at which the public files last changed; None before the first publication."""
        changed = [s for s in self.summaries if s.result in CHANGES] or self.summaries[:1]
        moments = [moment_of(s.at) for s in changed[-1:]]
        return max([*moments, *([self.live.committed_at] if self.live is not None else [])], default=None)

    @property
    def worst_outcome(self) -> Outcome | None:
        """The outcome of the section with the most severe result. Of two equal ones, the newer one."""
        outcomes = [(section.result, section.outcome) for section in self.sections if section.outcome is not None]
        ranked = [(WORST.index(result), outcome) for result, outcome in outcomes if result != "none"]
        return min(ranked, key=lambda item: (item[0], -item[1].at.timestamp()), default=(0, None))[1]


def check_of(snapshot: Snapshot) -> Check:
    """Return what the newest verification says about the files that are public now."""
    verification, changed_at = snapshot.verification, snapshot.changed_at
    if verification is None:
        return "none"
    if verification.state != "success":
        if not verification.broken:
            return "incomplete"
        return "invalid" if changed_at is None or verification.is_of(changed_at) else "invalid_before"
    lasts = UNCHANGED_LASTS if changed_at is None or verification.is_of(changed_at) else CHANGED_LASTS
    is_recent = verification.end is not None and snapshot.now - verification.end <= lasts
    return "passed" if is_recent else "outdated"


def evidence_of(snapshot: Snapshot, *, warned: bool, section: SectionState | None = None) -> Evidence:
    """Return the facts that the verdict depends on.

    Args:
        warned: Whether the last report needs attention, or what it says of the section.
        section: The section to judge. Default: None, the whole sitemap, which is as bad as the worst of its sections.
    """
    results: dict[str, Result] = {"refused": "refused", "failed": "failed", "published": "ok", "unchanged": "ok"}
    judged = [section] if section is not None else snapshot.sections
    worst = min((each.result for each in judged if each.result != "none"), key=WORST.index, default=None)
    published = section.published if section is not None else snapshot.published
    fallback: Result = "ok" if published else "none"
    dags = {publisher.dag.dag_id for publisher in snapshot.publishers}
    return Evidence(
        publishers="none" if not dags else "one" if len(dags) == 1 else "several",
        published=published,
        result=results[worst] if worst is not None else fallback,
        verification=check_of(snapshot),
        freshness=(section or snapshot).freshness.state,
        paused=snapshot.paused,
        import_errors=any(publisher.dag.has_import_errors for publisher in snapshot.publishers),
        warned=warned,
    )


def verdict_of(snapshot: Snapshot, *, warned: bool, section: SectionState | None = None) -> Verdict:
    """Return the verdict on a sitemap, or on one of its sections.

    Args:
        warned: Whether the last report needs attention, or what it says of the section.
        section: The section to judge. Default: None, the whole sitemap.
    """
    return judge(evidence_of(snapshot, warned=warned, section=section))


def result_in_words(snapshot: Snapshot) -> str:
    """Return the last result: published, unchanged, refused or failed; ``none`` before the first one."""
    results = [section.result for section in snapshot.sections if section.result != "none"]
    return min(results, key=WORST.index, default="published" if snapshot.published else "none")
