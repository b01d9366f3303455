"""The state of one sitemap and of its sections at one time, and the verdicts on them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from airflow_sitemaps.pipeline.report import Report, SectionReport
from airflow_sitemaps.plugin.dag_profiles import DagState
from airflow_sitemaps.plugin.dag_runs import RunState
from airflow_sitemaps.plugin.events import RunSummary, SectionSettings
from airflow_sitemaps.plugin.pages.findings import VerificationRun
from airflow_sitemaps.plugin.pages.outcomes import GOOD, WORST, Activity, Result, RunOutcome
from airflow_sitemaps.plugin.pages.verdict import Check, DataAge, Evidence, Judgement, judge
from airflow_sitemaps.plugin.pages.verdict import Result as EvidentResult
from airflow_sitemaps.plugin.readings import moment_of
from airflow_sitemaps.plugin.store_state import StoreState

CHANGED_LASTS: Final = timedelta(days=7)
"""Time for which a passed verification stays valid after a later run changed the files."""
UNCHANGED_LASTS: Final = timedelta(days=30)
"""Time for which a passed verification stays valid if no run has changed the files since."""

CHANGES: Final = frozenset({"published", "partly_published"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionSnapshot:
    """What is known of one section. Times are None, and ``result`` is ``none``, if not known.

    ``name`` is empty for all sections of a sitemap whose sections are not known yet. ``published``: whether the live
    generation has it. ``result`` and ``outcome`` are those of the last run that attempted it; ``read_at`` is when a
    successful run last began to read its data; ``trend`` has its URLs after each of the last runs, oldest first.
    """

    name: str
    published: bool
    result: Literal["none"] | Result
    age: DataAge
    outcome: RunOutcome | None = None
    read_at: datetime | None = None
    changed_at: datetime | None = None
    newest_lastmod: str | None = None
    urls: int = 0
    trend: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of one sitemap at one time. ``summaries`` and ``report`` are empty before the first run.

    Attributes:
        publishers: The DAGs that publish it and that Airflow still finds; empty for an orphaned sitemap.
        age: Age of the data of the section that was read longest ago, and its objective.
        verification: The newest verification that ended; ``passed`` the newest that passed.
        rollback_failed: A rollback that failed after the newest event.
        misnamed: The newest run, if its request has a name that does not exist.
        changed_outside: Whether no run of Airflow made the live generation.
    """

    summaries: Sequence[RunSummary]
    report: Report
    settings: Mapping[str, SectionSettings]
    publishers: Sequence[DagState]
    age: DataAge
    now: datetime
    sections: Sequence[SectionSnapshot] = ()
    activity: Activity = ""
    active_run: RunState | None = None
    verification: VerificationRun | None = None
    passed: VerificationRun | None = None
    rollback_failed: RunState | None = None
    misnamed: RunOutcome | None = None
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
        return bool(self.publishers) and all(dag.paused for dag in self.publishers)

    @property
    def changed_at(self) -> datetime | None:
        """Time at which the public files last changed; None before the first publication."""
        changed = [s for s in self.summaries if s.result in CHANGES] or self.summaries[:1]
        moments = [moment_of(s.at) for s in changed[-1:]]
        return max([*moments, *([self.live.committed_at] if self.live is not None else [])], default=None)

    @property
    def worst_outcome(self) -> RunOutcome | None:
        """The outcome of the section with the most severe result. Of two equal ones, the newer one."""
        outcomes = [(section.result, section.outcome) for section in self.sections if section.outcome is not None]
        ranked = [(WORST.index(result), outcome) for result, outcome in outcomes if result != "none"]
        return min(ranked, key=lambda item: (item[0], -item[1].at.timestamp()), default=(0, None))[1]

    @property
    def result(self) -> str:
        """The last result: published, unchanged, refused or failed; ``none`` before the first one."""
        results = [section.result for section in self.sections if section.result != "none"]
        return min(results, key=WORST.index, default="published" if self.published else "none")


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


def verdict_of(snapshot: Snapshot, *, warned: bool, section: SectionSnapshot | None = None) -> Judgement:
    """Return the verdict on a section, or on the whole sitemap, which is as bad as the worst of its sections."""
    results: dict[str, EvidentResult] = {"published": "ok", "unchanged": "ok", "refused": "refused", "failed": "failed"}
    judged = [section] if section is not None else snapshot.sections
    worst = min((each.result for each in judged if each.result != "none"), key=WORST.index, default=None)
    published = section.published if section is not None else snapshot.published
    fallback: EvidentResult = "ok" if published else "none"
    dags = snapshot.publishers
    evidence = Evidence(
        publishers="none" if not dags else "one" if len(dags) == 1 else "several",
        published=published,
        result=results[worst] if worst is not None else fallback,
        verification=check_of(snapshot),
        freshness=(section or snapshot).age.state,
        paused=snapshot.paused,
        import_errors=any(dag.has_import_errors for dag in dags),
        warned=warned,
    )
    return judge(evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHistory:
    """What events, runs and the store say of a sitemap. Summaries are oldest first, outcomes in any order."""

    summaries: Sequence[RunSummary]
    report: Report
    outcomes: Sequence[RunOutcome]
    dags: Collection[str]
    live: StoreState | None


def section_facts(history: RunHistory, age: Callable[[datetime | None], DataAge]) -> list[SectionSnapshot]:
    """Return what is known of each section: of published ones, then of those that no run has published yet."""
    published = list(history.report.sections)
    if history.live is not None:
        live = history.live.sections
        published = [name for name in dict.fromkeys((*published, *live)) if name in live]
    names = [*published, *_unpublished(history, published)]
    return [_facts(name, history, age, published=name in published) for name in names]


def _unpublished(history: RunHistory, published: Sequence[str]) -> list[str]:
    """Return the sections that a run failed to publish, and that no run has published.

    A run of all sections ends what earlier runs said of sections that have been removed since.
    """
    whole = [moment_of(s.at) for s in history.summaries if s.action == "build" and {*published} <= {*s.planned}]
    since = max(whole, default=None)
    bad = [o for o in history.outcomes if o.result not in GOOD and (since is None or o.at > since)]
    names = (name for outcome in bad for name, result in outcome.sections.items() if result not in GOOD)
    missing = [name for name in dict.fromkeys(names) if name not in published]
    is_unknown = any(outcome.others is not None for outcome in bad)  # the run ended before it named its sections
    return missing or ([""] if is_unknown and not published else [])


def _facts(
    name: str, history: RunHistory, age: Callable[[datetime | None], DataAge], *, published: bool
) -> SectionSnapshot:
    outcome = last_outcome(name, history)
    result = outcome.of_section(name) if outcome is not None else None
    read_at = max((o.read_at for o in history.outcomes if o.of_section(name) in GOOD), default=None)
    if read_at is None and published and history.summaries:
        read_at = moment_of(history.summaries[0].data_at or history.summaries[0].at)  # at that time, or earlier
    live = history.live.sections.get(name) if history.live is not None else None
    current = live or history.report.sections.get(name) or SectionReport()
    changes = [moment_of(s.at) for s in history.summaries if s.sections.get(name, (0, False))[1]]
    changes += [live.changed_at] if live is not None and live.changed_at is not None else []
    return SectionSnapshot(
        name=name,
        published=published,
        result=result or "none",
        outcome=outcome,
        read_at=read_at,
        changed_at=max(changes, default=None),
        newest_lastmod=current.newest_lastmod,
        urls=current.urls,
        trend=[s.sections[name][0] for s in history.summaries if name in s.sections],
        age=age(read_at),
    )


def last_outcome(name: str, history: RunHistory) -> RunOutcome | None:
    """Return the outcome that counts for a section: the worst of the last ones of the DAGs that publish it.

    A run outside these DAGs, such as one in the shell, counts in place of the earlier ones. The last outcome is the one
    that ended last: an old run that is cleared and publishes ends a later failure.
    """
    newest: dict[str, RunOutcome] = {}
    for outcome in sorted(history.outcomes, key=lambda o: o.at):
        if outcome.of_section(name) is not None:
            newest[outcome.run.dag_id if outcome.run.dag_id in history.dags else ""] = outcome
    outside = newest.pop("", None)
    if outside is not None:
        newest = {dag_id: max(o, outside, key=lambda each: each.at) for dag_id, o in newest.items()} or {"": outside}
    return min(
        newest.values(), key=lambda o: (WORST.index(o.of_section(name) or "unchanged"), -o.at.timestamp()), default=None
    )
