"""The state of one sitemap and of its sections at one time, and the verdicts on them. Pure.

``docs/verdict.md`` has the table of verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal

from pydantic import Field, computed_field

from airflow_sitemaps.pipeline.report import Report, SectionReport
from airflow_sitemaps.plugin.dag_profiles import DagState
from airflow_sitemaps.plugin.dag_runs import RunState
from airflow_sitemaps.plugin.events import RunSummary, SectionSettings
from airflow_sitemaps.plugin.pages import VerificationRun
from airflow_sitemaps.plugin.pages.outcomes import GOOD, WORST, Activity, RunOutcome
from airflow_sitemaps.plugin.readings import Moment, StrictModel, moment_of
from airflow_sitemaps.plugin.state_reader import StoreState

State = Literal["healthy", "warning", "failing", "not_verified", "unknown"]
"""State that a badge shows. The current activity (running, queued, paused) has its own badge."""

Publishers = Literal["none", "one", "several"]
LastResult = Literal["none", "published", "unchanged", "refused", "failed"]
"""Result of the last run that attempted a section; ``none`` if no such run is known."""
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

    ``data_at``: when the newest successful run began to read its data. ``source``: of the objective; empty for none.
    ``idle_s``: seconds since a run last ended without an error before it read the data, because a sensor saw no change or
    a branch skipped it. Such a run keeps the schedule.
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
        result: The last result of the section; for a sitemap the worst of its sections.
        verification: Result of the newest verification that ended, for the files that are public now. ``outdated``: it
            passed, but too long ago. ``incomplete``: it ended without a result, or failed because of warnings.
            ``invalid``: it reported errors. ``invalid_before``: it reported errors, and a run has published since.
        freshness: Age of the section's data against its objective; for a sitemap the oldest. ``behind_schedule``: the
            objective is the DAG's schedule. ``missed``: it is the sitemap's. ``idle``: there is none; the data is old.
        warned: Whether the last report needs attention: dropped rows, drift, a limit or a warning.
    """

    publishers: Publishers = "one"
    published: bool = True
    result: LastResult = "published"
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


TABLE: Final[Sequence[tuple[State, str, str, Callable[[Evidence], bool]]]] = (
    ("unknown", "Orphaned: no DAG that you may see publishes it", "orphaned", lambda e: e.publishers == "none"),
    ("failing", "Last run blocked by a safety check", "refused", lambda e: e.result == "refused"),
    ("failing", "Last run failed", "failed", lambda e: e.result == "failed"),
    ("failing", "Published files are invalid", "invalid", lambda e: e.published and e.verification == "invalid"),
    ("failing", "The DAG's file cannot be imported", "dag-broken", lambda e: e.import_errors),
    (
        "failing",
        "Freshness objective missed",
        "late",
        lambda e: e.published and e.freshness == "missed" and not e.paused,
    ),
    ("unknown", "Never published", "unpublished", lambda e: not e.published),
    ("warning", "Several DAGs publish it", "several-publishers", lambda e: e.publishers == "several"),
    ("warning", "Paused and out of date", "late", lambda e: e.freshness in ("missed", "behind_schedule") and e.paused),
    ("warning", "Behind its schedule", "late", lambda e: e.freshness == "behind_schedule"),
    ("warning", "No data read for 30 days", "late", lambda e: e.published and e.freshness == "idle"),
    ("warning", "Verification did not finish", "unverified", lambda e: e.verification == "incomplete"),
    (
        "warning",
        "Verification found errors before the last run",
        "invalid",
        lambda e: e.verification == "invalid_before",
    ),
    ("warning", "The last run reported warnings", "warned", lambda e: e.warned),
    ("not_verified", "Not verified", "not-verified", lambda e: e.verification == "none"),
    ("not_verified", "Last verified too long ago", "not-verified", lambda e: e.verification == "outdated"),
)
"""The table, in order: state, reason, kind of the problem, and whether the row applies. The first that does decides."""


def judge(evidence: Evidence) -> Judgement:
    """Return the judgement on a sitemap, or on a section."""
    rows = (Judgement(state, reason, kind) for state, reason, kind, applies in TABLE if applies(evidence))
    return next(rows, Judgement("healthy", "Healthy"))


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
    result: LastResult
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
        committed = self.report.committed_at  # of the live generation, also after a run that changed nothing
        changed = [s.at for s in self.summaries if s.result in CHANGES][-1:] or ([committed] if committed else [])
        moments = [moment_of(at) for at in changed] + ([self.live.committed_at] if self.live is not None else [])
        return max(moments or [moment_of(s.at) for s in self.summaries[:1]], default=None)

    @property
    def worst(self) -> SectionSnapshot | None:
        """The section with the most severe result, of several the one with the newest outcome; None without results."""
        attempted = [section for section in self.sections if section.outcome is not None]
        return min(attempted, key=lambda section: severity(section.outcome, section.name), default=None)

    @property
    def worst_outcome(self) -> RunOutcome | None:
        """The outcome of the section with the most severe result."""
        return self.worst.outcome if self.worst is not None else None

    @property
    def result(self) -> LastResult:
        """The worst of the sections' last results; ``none`` before the first one."""
        unknown: LastResult = "published" if self.published else "none"
        return self.worst.result if self.worst is not None else unknown


def severity(outcome: RunOutcome | None, section: str) -> tuple[int, float]:
    """Return a sort key of an outcome for a section: the most severe first, then the newest."""
    result = outcome.of_section(section) if outcome is not None else None
    return WORST.index(result or "unchanged"), -outcome.at.timestamp() if outcome is not None else 0.0


def check_of(snapshot: Snapshot) -> Check:
    """Return what the newest verification says about the files that are public now."""
    verification, changed_at = snapshot.verification, snapshot.changed_at
    if verification is None:
        return "none"
    if verification.broken:
        return "invalid" if changed_at is None or verification.is_of(changed_at) else "invalid_before"
    if verification.state != "success":
        return "incomplete"
    lasts = UNCHANGED_LASTS if changed_at is None or verification.is_of(changed_at) else CHANGED_LASTS
    is_recent = verification.end is not None and snapshot.now - verification.end <= lasts
    return "passed" if is_recent else "outdated"


def verdict_of(snapshot: Snapshot, *, warned: bool, section: SectionSnapshot | None = None) -> Judgement:
    """Return the verdict on a section, or on the whole sitemap, which is as bad as the worst of its sections."""
    dags, judged = snapshot.publishers, section or snapshot
    evidence = Evidence(
        publishers="none" if not dags else "one" if len(dags) == 1 else "several",
        published=judged.published,
        result=judged.result,
        verification=check_of(snapshot),
        freshness=judged.age.state,
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
    report, parts = history.report, history.report.sections.items()
    planned = report.planned or [name for name in report.sections if report.action == "build"]
    published = [n for n, part in parts if n in planned or part.shards.total or not part.shards.removed]
    if history.live is not None:
        live = history.live.sections
        published = [name for name in dict.fromkeys((*published, *live)) if name in live]
    names = [*published, *_unpublished(history, published)]
    return [_facts(name, history, age, published=name in published) for name in names]


def _unpublished(history: RunHistory, published: Sequence[str]) -> list[str]:
    """Return the sections that a run failed to publish, and that no run has published.

    A run of all sections ends what earlier runs said of sections that have been removed since.
    """
    since = max((moment_of(s.at) for s in history.summaries if s.is_of_all(published)), default=None)
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
    return min(newest.values(), key=lambda outcome: severity(outcome, name), default=None)
