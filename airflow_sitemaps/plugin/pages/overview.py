"""Overviews of sitemaps, read from Airflow's database with a few SQL statements for all of them, and from their stores."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from sqlalchemy.orm import Session

from airflow_sitemaps.assets import FRESHNESS_KEY, STORE_KEY
from airflow_sitemaps.operators import UNCHANGED, VERIFIED
from airflow_sitemaps.plugin import dag_runs, events
from airflow_sitemaps.plugin.dag_profiles import (
    AssetName,
    AssetTasks,
    DagProfile,
    DagState,
    TaskKey,
    asset_tasks,
    dag_profiles,
    dags_by_id,
    declared_sitemaps,
)
from airflow_sitemaps.plugin.dag_runs import Pushed, RunKey, RunState, TaskState
from airflow_sitemaps.plugin.events import NO_REPORT, Event, RunSummary, StoreFacts
from airflow_sitemaps.plugin.pages import LONG_AGO, VerificationRun, newest_ended, outcomes
from airflow_sitemaps.plugin.pages.outcomes import RecentRuns, RunOutcome
from airflow_sitemaps.plugin.pages.problems import Problem, is_warned, problems
from airflow_sitemaps.plugin.pages.verdict import (
    DataAge,
    Judgement,
    RunHistory,
    Snapshot,
    age_of,
    section_facts,
    verdict_of,
)
from airflow_sitemaps.plugin.readings import attributes, moment_of, read_as
from airflow_sitemaps.plugin.state_reader import StateUnavailableError, StoreState, StoreStates, readable

EARLIER_RUNS: Final = 60
"""Number of runs of one DAG that published nothing and may still count, since later runs were of other sections."""
PAGE_WAIT_S: Final = 1.0
LIST_WAIT_S: Final = 0.3
"""Longest time in seconds that a response waits for stores that it has not read lately."""
PAGE_FRESH_S: Final = 20.0
LIST_FRESH_S: Final = 120.0
RUNS_IN_LINE: Final = 30
NAME_PREFIX: Final = "sitemap "
"""Prefix of the name of every asset that ``Sitemap.asset`` creates."""
ARCHIVED_KEY: Final = "airflow_sitemaps_archived"
"""Key in the asset's ``extra`` that holds the time and the user of an orphaned sitemap's archiving."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What events and the store say of one sitemap. ``event`` is the newest, ``summaries`` are oldest first."""

    asset: AssetName
    tasks: AssetTasks
    event: Event | None
    summaries: Sequence[RunSummary]
    live: StoreState | None

    @property
    def reports(self) -> list[Event]:
        """Reports in the store of runs without an event, oldest first."""
        runs = {summary.store_run for summary in self.summaries}
        reports = self.live.reports if self.live is not None else ()
        return [report for report in reports if report.summary.store_run not in runs]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """One sitemap: its asset, tasks, newest event and state at one time, the verdict, its problems, the most severe first."""

    asset: AssetName
    tasks: AssetTasks
    event: Event | None
    snapshot: Snapshot
    problems: Sequence[Problem]
    verdict: Judgement

    @property
    def last_run(self) -> RunKey:
        """The run of the result that is shown, as (DAG, run ID); empty texts if there is none."""
        outcome = self.snapshot.worst_outcome
        if outcome is not None:
            return outcome.run.dag_id, outcome.run.run_id if outcome.run.dag_id else ""
        summaries = self.snapshot.summaries
        return (summaries[-1].dag_id, summaries[-1].run_id) if summaries else ("", "")

    @property
    def dag_id(self) -> str:
        """The DAG that publishes it. For an orphaned sitemap, the DAG that published it last."""
        outcome, summaries = self.snapshot.worst_outcome, self.snapshot.summaries
        if outcome is not None and outcome.run.dag_id:
            return outcome.run.dag_id
        if self.snapshot.publishers:
            return self.snapshot.publishers[0].dag_id
        return summaries[-1].dag_id if summaries else ""

    @property
    def store(self) -> StoreFacts:
        """Where its files are: as the newest event says, or else as its DAG declares it."""
        return _store(self.asset, self.event)

    @property
    def hosts(self) -> set[str]:
        """Hosts of its URLs: that of the store, and further ones of its sections."""
        settings = self.event.settings.values() if self.event is not None else ()
        further = {host for section in settings for host in section.hosts}
        with suppress(ValueError):
            further.add(urlsplit(self.store.base_url).hostname or "")
        return further - {""}

    @property
    def archived(self) -> Mapping[str, str] | None:
        """Time and user of the archiving; None if it is not archived. Only an orphaned sitemap can be archived."""
        note = self.asset.extra.get(ARCHIVED_KEY)
        return note if isinstance(note, dict) and not self.snapshot.publishers else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loaded:
    """Data that all sitemaps of one response share. ``recent`` also has earlier runs that published nothing."""

    dags: Mapping[str, DagState]
    profiles: Mapping[str, DagProfile]
    recent: RecentRuns
    checks: Mapping[TaskKey, Sequence[TaskState]]
    verified: Pushed
    now: datetime

    def verifications(self, keys: Sequence[TaskKey], asset: str) -> list[VerificationRun]:
        """Return the runs of verification tasks, of those that are mapped over sitemaps the parts of this one."""
        tasks = [task for key in keys for task in self.checks.get(key, ())]
        runs = [VerificationRun.of(task, self.verified.get((*task.key, VERIFIED))) for task in tasks]
        return [run for run in runs if run.sitemap in ("", asset)]


def sitemap_assets(session: Session) -> list[AssetName]:
    """Return every asset that is a sitemap: those with an event of a sitemap, and those that a DAG declares."""
    return events.assets_by_id(session, {*events.assets_with_events(session), *declared_sitemaps(session)})


def overviews(
    session: Session,
    assets: Sequence[AssetName],
    readable: Collection[str],
    now: datetime,
    states: StoreStates | None = None,
) -> list[Overview]:
    """Return an overview of each sitemap that a DAG publishes or has published that the user may read.

    Without ``states`` only Airflow's data counts.
    """
    summaries = events.history(session, [a.id for a in assets], dags=readable, limit=RUNS_IN_LINE)
    tasks = asset_tasks(session, assets, readable)
    seen = [a for a in assets if summaries[a.id] or (tasks[a.id].publish and a.name.startswith(NAME_PREFIX))]
    split = [a.id for a in seen if summaries[a.id] and not _covered(summaries[a.id])]
    if split:
        summaries |= events.history(session, split, dags=readable, limit=events.MAX_HISTORY)
    newest = events.whole_events(session, [summaries[a.id][-1].event for a in seen if summaries[a.id]])
    last = {a.id: newest[summaries[a.id][-1].event] for a in seen if summaries[a.id]}
    live = _live(seen, last, states)
    evidence = [
        _Known(asset=a, tasks=tasks[a.id], event=last.get(a.id), summaries=summaries[a.id], live=live.get(a.id))
        for a in seen
    ]
    loaded = _load(session, evidence, now, split={dag for i in split for dag in tasks[i].publishers})
    return [_overview(each, loaded) for each in evidence]


def _covered(summaries: Sequence[RunSummary]) -> bool:
    """Return whether each section of the newest report was planned by one of the runs."""
    names = set(summaries[-1].sections)
    return any(not s.planned for s in summaries) or names <= {name for s in summaries for name in s.planned}


def _live(
    assets: Sequence[AssetName], newest: Mapping[int, Event], states: StoreStates | None
) -> dict[int, StoreState]:
    """Return what the stores say of sitemaps, by the asset's ID. A page waits longer than the list."""
    stores: dict[int, StoreFacts] = {}
    for asset in assets if states is not None else ():
        with suppress(StateUnavailableError):
            stores[asset.id] = readable(_store(asset, newest.get(asset.id)))
    if states is None or not stores:
        return {}
    announced: dict[StoreFacts, int] = {}
    for i, store in stores.items():
        generation = newest[i].summary.generation if i in newest else 0
        announced[store] = max(generation, announced.get(store, 0))
    is_page = len(assets) == 1
    live = states.known(
        announced, wait_s=PAGE_WAIT_S if is_page else LIST_WAIT_S, fresh_s=PAGE_FRESH_S if is_page else LIST_FRESH_S
    )
    return {i: live[store] for i, store in stores.items() if store in live}


def _store(asset: AssetName, event: Event | None) -> StoreFacts:
    return event.store if event is not None else read_as(StoreFacts, asset.extra.get(STORE_KEY))


def _load(session: Session, evidence: Sequence[_Known], now: datetime, *, split: Collection[str]) -> _Loaded:
    tasks = [each.tasks for each in evidence]
    publishing = {dag_id for each in tasks for dag_id in each.publishers}
    others = {dag_id for each in tasks for dag_id, _ in (*each.rollback, *each.answer, *each.verify)}
    runs = dag_runs.recent_runs(session, publishing | others, outcomes.RECENT)
    more = set(_unpublished(session, evidence, publishing))
    if split:
        more |= set(dag_runs.runs_that_pushed(session, split, UNCHANGED, EARLIER_RUNS))
    more -= {run.key for members in runs.values() for run in members}
    for run in sorted(dag_runs.runs_by_id(session, more).values(), key=lambda run: -run.number):
        runs[run.dag_id].append(run)
    recent = outcomes.recent(session, runs, events=[summary for each in evidence for summary in each.summaries])
    checks: dict[TaskKey, list[TaskState]] = {key: [] for each in tasks for key in each.verify}
    for task in (task for members in recent.tasks.values() for task in members):
        checks.get((task.dag_id, task.task_id), []).append(task)
    # The newest runs may have skipped it, or it may have failed in all of them.
    without = {key for key, members in checks.items() if all(task.state != "success" for task in members)}
    for task in dag_runs.newest_ended(session, without):
        checks[task.dag_id, task.task_id].append(task)
    return _Loaded(
        dags=dags_by_id(session, publishing),
        profiles=dag_profiles(session, publishing),
        recent=recent,
        checks=checks,
        verified=dag_runs.pushed_by(session, [t for members in checks.values() for t in members], (VERIFIED,)),
        now=now,
    )


def _unpublished(session: Session, evidence: Sequence[_Known], publishing: Collection[str]) -> list[RunKey]:
    """Return runs that published nothing and that no later run of all sections has made good."""
    since: dict[str, datetime] = {}
    for each in evidence:
        names = set(each.summaries[-1].sections) if each.summaries else set()
        whole = [summary for summary in each.summaries if summary.is_of_all(names)]
        for dag_id in each.tasks.publishers:
            at = max((moment_of(s.at) for s in whole if s.dag_id == dag_id), default=LONG_AGO)
            since[dag_id] = min(at, since.get(dag_id, at))
    ended = dag_runs.unpublished_runs(session, publishing, EARLIER_RUNS)
    return [(dag_id, run_id) for dag_id, run_id, end in ended if end is None or end >= since[dag_id]]


def _overview(known: _Known, loaded: _Loaded) -> Overview:
    # A DAG can publish if Airflow finds it, or finds its file, which fails to import.
    live = {dag_id for dag_id, dag in loaded.dags.items() if not dag.is_stale or dag.has_import_errors}
    publish = [key for key in known.tasks.publish if key[0] in live]
    publishers = [loaded.dags[dag_id] for dag_id in dict.fromkeys(dag_id for dag_id, _ in publish)]
    activity = outcomes.activity(publish, loaded.recent)
    reports = [event for event in known.reports if event.summary.result != "refused"]
    summaries = sorted((*known.summaries, *(event.summary for event in reports)), key=lambda s: moment_of(s.at))
    newest = reports[-1] if reports and summaries[-1] is reports[-1].summary else known.event
    report = newest.report if newest is not None else NO_REPORT
    results = _outcomes(known, publish, loaded)
    age = _age(known, publish, loaded)
    history = RunHistory(
        summaries=summaries, report=report, outcomes=results, dags={key[0] for key in publish}, live=known.live
    )
    sections = section_facts(history, age)
    read = [section.read_at for section in sections if section.published and section.read_at is not None]
    checks = loaded.verifications(known.tasks.verify, known.asset.uri)
    last = max(results, key=lambda outcome: outcome.at, default=None)
    snapshot = Snapshot(
        summaries=summaries[-RUNS_IN_LINE:],
        report=report,
        settings=known.event.settings if known.event is not None else {},  # a report in the store has none
        publishers=publishers,
        age=age(min(read, default=None)),
        now=loaded.now,
        sections=sections,
        activity=activity,
        verification=newest_ended(checks),
        passed=newest_ended(checks, passed=True),
        rollback_failed=_rollback_failed(known.tasks, summaries, loaded),
        misnamed=last if last is not None and last.is_misnamed else None,
        live=known.live,
        changed_outside=not activity and _is_changed_outside(known, loaded),
    )
    return Overview(
        **attributes(known, "asset", "tasks", "event"),
        snapshot=snapshot,
        problems=problems(snapshot),
        verdict=verdict_of(snapshot, warned=is_warned(snapshot)),
    )


def _outcomes(known: _Known, publish: Sequence[TaskKey], loaded: _Loaded) -> list[RunOutcome]:
    """Return the outcomes of a sitemap's runs: of those with an event, of those without, and of those in the store."""
    of_run = {(s.dag_id, s.run_id): s for s in known.summaries}
    states = {run.key: run for members in loaded.recent.runs.values() for run in members}
    results = [
        outcomes.report_outcome(s, states.get((s.dag_id, s.run_id)) or RunState.known_by_report(s.dag_id, s.run_id))
        for s in (*known.summaries, *(event.summary for event in known.reports))
    ]
    results += [
        outcomes.run_outcome(run, task_id, loaded.recent, of_run.get(run.key))
        for run, task_id in loaded.recent.of_tasks(publish)
    ]
    return [outcome for outcome in results if outcome is not None]


def _age(known: _Known, publish: Sequence[TaskKey], loaded: _Loaded) -> Callable[[datetime | None], DataAge]:
    """Return a function from the time at which data was read to its age."""
    explicit: Any = known.asset.extra.get(FRESHNESS_KEY)
    periods = [loaded.profiles[dag_id].period_s for dag_id, _ in publish if dag_id in loaded.profiles]
    idle = [
        run.start for run, task_id in loaded.recent.of_tasks(publish) if outcomes.is_idle(run, task_id, loaded.recent)
    ]
    return partial(
        age_of,
        now=loaded.now,
        explicit_s=float(explicit) if isinstance(explicit, (int, float)) else None,
        period_s=min((period for period in periods if period is not None), default=None),
        idle_at=max((start for start in idle if start is not None), default=None),
    )


def _is_changed_outside(known: _Known, loaded: _Loaded) -> bool:
    """Return whether no run of Airflow made the live generation: a later one than events announce, outside every run."""
    live = known.live
    if live is None or known.event is None or live.generation <= known.event.summary.generation:
        return False
    spans = [
        (start, run.end)
        for run, _ in loaded.recent.of_tasks([*known.tasks.publish, *known.tasks.rollback, *known.tasks.answer])
        if (start := run.cleared_after or run.start) is not None
    ]
    return not any(start <= live.committed_at and (not end or live.committed_at <= end) for start, end in spans)


def _rollback_failed(tasks: AssetTasks, summaries: Sequence[RunSummary], loaded: _Loaded) -> RunState | None:
    """Return the newest rollback if it failed and no run has published since; otherwise None."""
    since = moment_of(summaries[-1].at) if summaries else LONG_AGO
    ended = [
        (run, task)
        for run, task_id in loaded.recent.of_tasks(tasks.rollback)
        if (task := loaded.recent.task(run, task_id)) is not None and task.has_ended and task.end is not None
    ]
    run, task = max(ended, key=lambda item: item[0].number, default=(None, None))
    if run is None or task is None or task.state != "failed" or task.end is None:
        return None
    return run if task.end > since else None
