"""Snapshots of sitemaps, read from Airflow's database with a few SQL statements for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.assets import FRESHNESS_KEY
from airflow_sitemaps.operators.facts import VERIFIED
from airflow_sitemaps.plugin import dag_runs, events, outcomes
from airflow_sitemaps.plugin.asset_tasks import AssetTasks, TaskKey, asset_tasks, declared_sitemaps
from airflow_sitemaps.plugin.dag_profiles import DagProfile, dag_profiles
from airflow_sitemaps.plugin.event_payload import EMPTY_REPORT, report_of
from airflow_sitemaps.plugin.freshness import Freshness, freshness
from airflow_sitemaps.plugin.problems import is_warned, problems
from airflow_sitemaps.plugin.snapshot import Publisher, Snapshot, moment, verdict_of
from airflow_sitemaps.plugin.verifications import Verification, newest_ended, verification_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy.orm import Session

    from airflow_sitemaps.plugin.dag_runs import DagState, RunState, TaskState
    from airflow_sitemaps.plugin.event_payload import RunSummary
    from airflow_sitemaps.plugin.events import AssetName, Event
    from airflow_sitemaps.plugin.outcomes import Outcome, Recent
    from airflow_sitemaps.plugin.problems import Problem
    from airflow_sitemaps.plugin.verdict import Verdict

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
        if outcome is not None:
            return outcome.run.dag_id
        if self.snapshot.publishers:
            return self.snapshot.publishers[0].dag.dag_id
        return self.snapshot.summaries[-1].dag_id if self.snapshot.summaries else ""

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
        recent: The newest runs of all DAGs that concern a sitemap.
        outcomes: The last outcome of each publishing task.
        checks: The newest runs of verification tasks, by task.
        verified: Numbers that verification tasks pushed.
        now: Current time.
    """

    dags: Mapping[str, DagState]
    profiles: Mapping[str, DagProfile]
    recent: Recent
    outcomes: Mapping[TaskKey, Outcome]
    checks: Mapping[TaskKey, Sequence[TaskState]]
    verified: Mapping[tuple[str, str, str, str], object]
    now: datetime


def sitemap_assets(session: Session) -> list[AssetName]:
    """Return every asset that is a sitemap: those with an event of a sitemap, and those that a DAG declares."""
    ids = {*events.assets_with_events(session), *declared_sitemaps(session)}
    return sorted(events.assets_by_id(session, ids).values(), key=lambda asset: asset.id)


def overviews(
    session: Session, assets: Sequence[AssetName], readable: Collection[str], now: datetime
) -> list[Overview]:
    """Return an overview of each asset that the user may see.

    A sitemap is visible if a DAG that the user may read publishes it or has published it.

    Args:
        session: Session of Airflow's metadata database.
        assets: The assets. Those that are not sitemaps are skipped.
        readable: DAGs that the user may read.
        now: Current time.
    """
    summaries = events.history(session, [a.id for a in assets], dags=readable, limit=RUNS_IN_LINE)
    tasks = asset_tasks(session, assets, readable)
    seen = [a for a in assets if summaries[a.id] or (tasks[a.id].publish and a.name.startswith(NAME_PREFIX))]
    newest = events.whole_events(session, [summaries[a.id][-1].event for a in seen if summaries[a.id]])
    loaded = _load(session, [tasks[a.id] for a in seen], now)
    return [_overview(a, summaries[a.id], newest, tasks[a.id], loaded) for a in seen]


def _load(session: Session, tasks: Sequence[AssetTasks], now: datetime) -> _Loaded:
    publishing = {dag_id for each in tasks for dag_id in each.publishers}
    others = {dag_id for each in tasks for dag_id, _ in (*each.rollback, *each.verify)}
    dags = dag_runs.dags(session, publishing)
    recent = outcomes.recent(session, publishing | others)
    live = [key for each in tasks for key in each.publish if _is_live(dags.get(key[0]))]
    checks: dict[TaskKey, list[TaskState]] = {key: [] for each in tasks for key in each.verify}
    for task in (task for members in recent.tasks.values() for task in members):
        checks.get((task.dag_id, task.task_id), []).append(task)
    return _Loaded(
        dags=dags,
        profiles=dag_profiles(session, publishing),
        recent=recent,
        outcomes=outcomes.last_outcomes(session, live, recent),
        checks=checks,
        verified=dag_runs.pushed_by(session, [t for members in checks.values() for t in members], (VERIFIED,)),
        now=now,
    )


def _is_live(dag: DagState | None) -> bool:
    """Return whether a DAG can publish: Airflow finds the DAG, or it finds the DAG's file, which fails to import."""
    return dag is not None and (not dag.is_stale or dag.has_import_errors)


def _overview(
    asset: AssetName,
    summaries: Sequence[RunSummary],
    newest: Mapping[int, Event],
    tasks: AssetTasks,
    loaded: _Loaded,
) -> Overview:
    event = newest[summaries[-1].event] if summaries else None
    report = report_of(event.extra) if event is not None else EMPTY_REPORT
    live = [key for key in tasks.publish if _is_live(loaded.dags.get(key[0]))]
    publishers = [Publisher(dag=loaded.dags[d], task_id=t, outcome=loaded.outcomes.get((d, t))) for d, t in live]
    activity, active_run = outcomes.activity(live, loaded.recent)
    checks = [task for key in tasks.verify for task in loaded.checks.get(key, ())]
    snapshot = Snapshot(
        summaries=summaries,
        report=report,
        publishers=publishers,
        freshness=_freshness(asset, summaries, publishers, loaded),
        now=loaded.now,
        activity=activity,
        active_run=active_run,
        verification=_verification(newest_ended(checks), loaded),
        passed=_verification(newest_ended(checks, passed=True), loaded),
        rollback_failed=_rollback_failed(tasks, summaries, loaded.recent),
    )
    return Overview(
        asset=asset,
        event=event,
        snapshot=snapshot,
        tasks=tasks,
        problems=problems(snapshot),
        verdict=verdict_of(snapshot, warned=is_warned(report)),
    )


def _verification(task: TaskState | None, loaded: _Loaded) -> Verification | None:
    if task is None:
        return None
    return verification_of(task, loaded.verified.get((task.dag_id, task.run_id, task.task_id, VERIFIED)))


def _freshness(
    asset: AssetName, summaries: Sequence[RunSummary], publishers: Sequence[Publisher], loaded: _Loaded
) -> Freshness:
    """Return the age of the newest data of a successful run, including runs that found nothing to change."""
    moments = [moment(s.data_at or s.at) for s in summaries[-1:] if s.action != "rollback"]
    moments += [
        p.outcome.run.start for p in publishers if p.outcome and p.outcome.result == "published" and p.outcome.run.start
    ]
    moments += [moment(s.data_at or s.at) for s in summaries if s.action != "rollback"][-1:]
    explicit = asset.extra.get(FRESHNESS_KEY)
    periods = [loaded.profiles[p.dag.dag_id].period_s for p in publishers if p.dag.dag_id in loaded.profiles]
    return freshness(
        data_at=max(moments, default=None),
        now=loaded.now,
        explicit_s=float(explicit) if isinstance(explicit, (int, float)) else None,
        period_s=min((period for period in periods if period is not None), default=None),
    )


def _rollback_failed(tasks: AssetTasks, summaries: Sequence[RunSummary], recent: Recent) -> RunState | None:
    """Return the newest rollback if it failed and no run has published since; otherwise None."""
    since = moment(summaries[-1].at) if summaries else None
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
