"""Snapshots of sitemaps, read from Airflow's database with a few SQL statements for all of them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.assets import FRESHNESS_KEY, STORE_KEY
from airflow_sitemaps.operators.facts import UNCHANGED, VERIFIED
from airflow_sitemaps.pipeline.state.repository import MANIFEST
from airflow_sitemaps.plugin import dag_runs, event_payload, events, outcomes
from airflow_sitemaps.plugin.asset_tasks import AssetTasks, TaskKey, asset_tasks, declared_sitemaps
from airflow_sitemaps.plugin.dag_profiles import DagProfile, dag_profiles
from airflow_sitemaps.plugin.dag_runs import RunState
from airflow_sitemaps.plugin.event_payload import EMPTY_REPORT, moment_of
from airflow_sitemaps.plugin.freshness import freshness
from airflow_sitemaps.plugin.problems import is_warned, problems
from airflow_sitemaps.plugin.section_states import History, section_states
from airflow_sitemaps.plugin.snapshot import Publisher, Snapshot, verdict_of
from airflow_sitemaps.plugin.state_reader import StateFile, StateUnavailableError
from airflow_sitemaps.plugin.verifications import Verification, newest_ended, verification_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from sqlalchemy.orm import Session

    from airflow_sitemaps.plugin.dag_runs import DagState, TaskState
    from airflow_sitemaps.plugin.event_payload import RunSummary
    from airflow_sitemaps.plugin.events import AssetName, Event
    from airflow_sitemaps.plugin.freshness import Freshness
    from airflow_sitemaps.plugin.outcomes import Outcome, Recent
    from airflow_sitemaps.plugin.problems import Problem
    from airflow_sitemaps.plugin.store_state import StoreState, StoreStates
    from airflow_sitemaps.plugin.verdict import Verdict

EARLIER_RUNS: Final = 60
"""Number of runs of one DAG that published nothing and may still count, since later runs were of other sections."""
PAGE_WAIT_S: Final = 1.0
LIST_WAIT_S: Final = 0.3
"""Longest time in seconds that a response waits for stores that it has not read lately."""
PAGE_FRESH_S: Final = 20.0
LIST_FRESH_S: Final = 120.0
"""Seconds after which a store is read again."""
LONG_AGO: Final = datetime.min.replace(tzinfo=timezone.utc)
RUNS_IN_LINE: Final = 30
"""Number of runs in the small chart of the list."""
NAME_PREFIX: Final = "sitemap "
"""Prefix of the name of every asset that ``Sitemap.asset`` creates."""
ARCHIVED_KEY: Final = "airflow_sitemaps_archived"
"""Key in the asset's ``extra`` that holds the time and the user of an orphaned sitemap's archiving."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """One sitemap, as Airflow's database describes it.

    Attributes:
        asset: Its asset.
        event: The newest event; None before the first one.
        snapshot: Its state at one time.
        tasks: The tasks that concern it.
        problems: Everything that needs attention, the most severe first.
        verdict: The verdict.
    """

    asset: AssetName
    event: Event | None
    snapshot: Snapshot
    tasks: AssetTasks
    problems: Sequence[Problem]
    verdict: Verdict

    @property
    def dag_id(self) -> str:
        """The DAG that publishes it. For an orphaned sitemap, the DAG that published it last."""
        outcome = self.snapshot.worst_outcome
        if outcome is not None and outcome.run.dag_id:
            return outcome.run.dag_id
        if self.snapshot.publishers:
            return self.snapshot.publishers[0].dag.dag_id
        return self.snapshot.summaries[-1].dag_id if self.snapshot.summaries else ""

    @property
    def extra(self) -> Mapping[str, Any]:
        """Content of the newest event. Without an event, where the sitemap is stored, as its DAG declares it."""
        return _extra(self.asset, self.event)

    @property
    def archived(self) -> Mapping[str, str] | None:
        """Time and user of the archiving; None if it is not archived. Only an orphaned sitemap can be archived."""
        note = self.asset.extra.get(ARCHIVED_KEY)
        return note if isinstance(note, dict) and not self.snapshot.publishers else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loaded:
    """Data that all sitemaps of one response share.

    Attributes:
        dags: The DAGs that publish, by ID.
        profiles: Their profiles, by ID.
        recent: The newest runs of all DAGs that concern a sitemap, and earlier runs that published nothing.
        checks: The newest runs of verification tasks, by task.
        verified: Numbers that verification tasks pushed.
        now: Current time.
    """

    dags: Mapping[str, DagState]
    profiles: Mapping[str, DagProfile]
    recent: Recent
    checks: Mapping[TaskKey, Sequence[TaskState]]
    verified: Mapping[tuple[str, str, str, str], object]
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What events and the store say of one sitemap.

    Attributes:
        asset: Its asset.
        tasks: The tasks that concern it.
        event: The newest event; None before the first one.
        summaries: Summaries of events, oldest first.
        live: What the store says of it; None if that is not known.
    """

    asset: AssetName
    tasks: AssetTasks
    event: Event | None
    summaries: Sequence[RunSummary]
    live: StoreState | None

    @property
    def reports(self) -> list[tuple[RunSummary, Mapping[str, Any]]]:
        """Reports in the store of runs without an event, oldest first."""
        runs = {summary.store_run for summary in self.summaries}
        return [each for each in (self.live.reports if self.live is not None else ()) if each[0].store_run not in runs]


def sitemap_assets(session: Session) -> list[AssetName]:
    """Return every asset that is a sitemap: those with an event of a sitemap, and those that a DAG declares."""
    ids = {*events.assets_with_events(session), *declared_sitemaps(session)}
    return sorted(events.assets_by_id(session, ids).values(), key=lambda asset: asset.id)


def overviews(
    session: Session,
    assets: Sequence[AssetName],
    readable: Collection[str],
    now: datetime,
    states: StoreStates | None = None,
) -> list[Overview]:
    """Return an overview of each asset that the user may see.

    A sitemap is visible if a DAG that the user may read publishes it or has published it.

    Args:
        assets: The assets. Those that are not sitemaps are skipped.
        readable: DAGs that the user may read.
        states: The known states of stores. Default: None, only Airflow's data counts.
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
    files: dict[int, StateFile] = {}
    for asset in assets if states is not None else ():
        with suppress(StateUnavailableError):
            store = event_payload.store_of(_extra(asset, newest.get(asset.id)))
            files[asset.id] = StateFile.of(store, MANIFEST)
    if states is None or not files:
        return {}
    announced: dict[StateFile, int] = {}
    for i, file in files.items():
        generation = newest[i].summary.generation if i in newest else 0
        announced[file] = max(generation, announced.get(file, 0))
    is_page = len(assets) == 1
    live = states.known(
        announced,
        wait_s=PAGE_WAIT_S if is_page else LIST_WAIT_S,
        fresh_s=PAGE_FRESH_S if is_page else LIST_FRESH_S,
    )
    return {i: live[file] for i, file in files.items() if file in live}


def _extra(asset: AssetName, event: Event | None) -> Mapping[str, Any]:
    return event.extra if event is not None else {"store": asset.extra.get(STORE_KEY)}


def _load(session: Session, evidence: Sequence[_Known], now: datetime, *, split: Collection[str]) -> _Loaded:
    tasks = [each.tasks for each in evidence]
    publishing = {dag_id for each in tasks for dag_id in each.publishers}
    others = {dag_id for each in tasks for dag_id, _ in (*each.rollback, *each.verify)}
    dags = dag_runs.dags(session, publishing)
    runs = dag_runs.recent_runs(session, publishing | others, outcomes.RECENT)
    more = set(_unpublished(session, evidence, publishing))
    if split:
        more |= set(dag_runs.runs_that_pushed(session, split, UNCHANGED, EARLIER_RUNS))
    more -= {(run.dag_id, run.run_id) for members in runs.values() for run in members}
    for run in sorted(dag_runs.runs_by_id(session, more).values(), key=lambda run: -run.number):
        runs[run.dag_id].append(run)
    recent = outcomes.recent(session, runs, events=[summary for each in evidence for summary in each.summaries])
    checks: dict[TaskKey, list[TaskState]] = {key: [] for each in tasks for key in each.verify}
    for task in (task for members in recent.tasks.values() for task in members):
        checks.get((task.dag_id, task.task_id), []).append(task)
    return _Loaded(
        dags=dags,
        profiles=dag_profiles(session, publishing),
        recent=recent,
        checks=checks,
        verified=dag_runs.pushed_by(session, [t for members in checks.values() for t in members], (VERIFIED,)),
        now=now,
    )


def _unpublished(session: Session, evidence: Sequence[_Known], publishing: Collection[str]) -> list[tuple[str, str]]:
    """Return runs that published nothing and that no later run of all sections has made good."""
    since: dict[str, datetime] = {}
    for each in evidence:
        names = set(each.summaries[-1].sections) if each.summaries else set()
        whole = [
            s for s in each.summaries if s.action == "build" and names <= {*s.planned, *(() if s.planned else names)}
        ]
        for dag_id in each.tasks.publishers:
            at = max((moment_of(s.at) for s in whole if s.dag_id == dag_id), default=LONG_AGO)
            since[dag_id] = min(at, since.get(dag_id, at))
    ended = dag_runs.unpublished_runs(session, publishing, EARLIER_RUNS)
    return [(dag_id, run_id) for dag_id, run_id, end in ended if end is None or end >= since[dag_id]]


def _is_live(dag: DagState | None) -> bool:
    """Return whether a DAG can publish: Airflow finds the DAG, or it finds the DAG's file, which fails to import."""
    return dag is not None and (not dag.is_stale or dag.has_import_errors)


def _overview(known: _Known, loaded: _Loaded) -> Overview:
    live = [key for key in known.tasks.publish if _is_live(loaded.dags.get(key[0]))]
    publishers = [Publisher(dag=loaded.dags[dag_id], task_id=task_id) for dag_id, task_id in live]
    activity, active_run = outcomes.activity(live, loaded.recent)
    of_store = [(summary, extra) for summary, extra in known.reports if summary.result != "refused"]
    summaries = sorted((*known.summaries, *(summary for summary, _ in of_store)), key=lambda s: moment_of(s.at))
    extra = known.event.extra if known.event is not None else None
    if of_store and summaries[-1] is of_store[-1][0]:
        extra = of_store[-1][1]
    report = EMPTY_REPORT if extra is None else event_payload.report_of(extra)
    results = _outcomes(known, live, loaded)
    history = History(
        summaries=summaries, report=report, outcomes=results, dags={key[0] for key in live}, live=known.live
    )
    age = _age(known, live, loaded)
    sections = section_states(history, age)
    read = [section.read_at for section in sections if section.published and section.read_at is not None]
    checks = [task for key in known.tasks.verify for task in loaded.checks.get(key, ())]
    newest = max(results, key=lambda outcome: outcome.at, default=None)
    snapshot = Snapshot(
        summaries=summaries[-RUNS_IN_LINE:],
        report=report,
        publishers=publishers,
        freshness=age(min(read, default=None)),
        now=loaded.now,
        sections=sections,
        activity=activity,
        active_run=active_run,
        verification=_verification(newest_ended(checks), loaded),
        passed=_verification(newest_ended(checks, passed=True), loaded),
        rollback_failed=_rollback_failed(known.tasks, summaries, loaded.recent),
        misnamed=newest if newest is not None and newest.is_misnamed else None,
        live=known.live,
        changed_outside=not activity and _is_changed_outside(known, loaded.recent),
    )
    warned = is_warned(report)
    return Overview(
        asset=known.asset,
        event=known.event,
        snapshot=snapshot,
        tasks=known.tasks,
        problems=problems(snapshot),
        verdict=verdict_of(snapshot, warned=warned),
    )


def _outcomes(known: _Known, live: Sequence[TaskKey], loaded: _Loaded) -> list[Outcome]:
    """Return the outcomes of a sitemap's runs: of those with an event, of those without, and of those in the store."""
    of_run = {(s.dag_id, s.run_id): s for s in known.summaries}
    states = {(run.dag_id, run.run_id): run for members in loaded.recent.runs.values() for run in members}
    results = [
        outcomes.report_outcome(s, states.get((s.dag_id, s.run_id)) or RunState.known_by_report(s.dag_id, s.run_id))
        for s in (*known.summaries, *(summary for summary, _ in known.reports))
    ]
    results += [
        outcomes.run_outcome(run, task_id, loaded.recent, of_run.get((dag_id, run.run_id)))
        for dag_id, task_id in live
        for run in loaded.recent.runs.get(dag_id, ())
    ]
    return [outcome for outcome in results if outcome is not None]


def _verification(task: TaskState | None, loaded: _Loaded) -> Verification | None:
    if task is None:
        return None
    return verification_of(task, loaded.verified.get((task.dag_id, task.run_id, task.task_id, VERIFIED)))


def _age(known: _Known, live: Sequence[TaskKey], loaded: _Loaded) -> Callable[[datetime | None], Freshness]:
    """Return a function from the time at which data was read to its freshness."""
    explicit = known.asset.extra.get(FRESHNESS_KEY)
    periods = [loaded.profiles[dag_id].period_s for dag_id, _ in live if dag_id in loaded.profiles]
    idle = [
        run.start
        for dag_id, task_id in live
        for run in loaded.recent.runs.get(dag_id, ())
        if outcomes.is_idle(run, task_id, loaded.recent) and run.start is not None
    ]
    return partial(
        freshness,
        now=loaded.now,
        explicit_s=float(explicit) if isinstance(explicit, (int, float)) else None,
        period_s=min((period for period in periods if period is not None), default=None),
        idle_at=max(idle, default=None),
    )


def _is_changed_outside(known: _Known, recent: Recent) -> bool:
    """Return whether no run of Airflow made the live generation: a later one than events announce, outside every run."""
    live = known.live
    if live is None or known.event is None or live.generation <= known.event.summary.generation:
        return False
    dags = {dag_id for dag_id, _ in (*known.tasks.publish, *known.tasks.rollback)}
    runs = [run for dag_id in dags for run in recent.runs.get(dag_id, ()) if run.start is not None]
    return not any(run.start <= live.committed_at and (not run.end or live.committed_at <= run.end) for run in runs)  # type: ignore[operator]


def _rollback_failed(tasks: AssetTasks, summaries: Sequence[RunSummary], recent: Recent) -> RunState | None:
    """Return the newest rollback if it failed and no run has published since; otherwise None."""
    since = moment_of(summaries[-1].at) if summaries else None
    ended = [
        (run, task)
        for dag_id, task_id in tasks.rollback
        for run in recent.runs.get(dag_id, ())
        if (task := recent.task(run, task_id)) is not None and task.has_ended and task.end is not None
    ]
    run, task = max(ended, key=lambda item: item[0].number, default=(None, None))
    if run is None or task is None or task.state != "failed":
        return None
    return run if since is None or (task.end is not None and task.end > since) else None
