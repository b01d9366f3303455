"""Serialized DAGs: their sitemap tasks, and which of these publish, roll back, verify and announce a sitemap."""

from __future__ import annotations

import functools
import heapq
import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Annotated, Any, Final
from zoneinfo import ZoneInfo

from croniter import croniter  # type: ignore[import-untyped]  # no stubs, and Airflow needs none
from pydantic import Field
from sqlalchemy import exists, func, select
from sqlalchemy.orm import Session

from airflow_sitemaps.airflow_compat import (
    AssetModel,
    DagModel,
    DagScheduleAssetReference,
    DagTag,
    DagVersion,
    ParseImportError,
    SerializedDagModel,
    TaskInletAssetReference,
    TaskOutletAssetReference,
)
from airflow_sitemaps.operators import prefix_of
from airflow_sitemaps.plugin.readings import BoundedCache, Moment, StrictModel

KINDS: Final[Mapping[str, str]] = {
    "SitemapPlanOperator": "plan",
    "SitemapWriteOperator": "write",
    "SitemapPublishOperator": "publish",
    "SitemapRollbackOperator": "rollback",
    "SitemapAnswerOperator": "answer",
    "SitemapVerifyOperator": "verify",
    "SitemapFreshnessOperator": "freshness",
    "IndexNowOperator": "indexnow",
    "SearchConsoleSubmitOperator": "searchconsole",
    "SearchConsoleInspectOperator": "inspection",
    "BingWebmasterOperator": "bing",
    "SitemapFetchesOperator": "fetches",
    "SitemapPingOperator": "ping",
}
"""Kind of a task by its operator's class name, in the order in which a run's tasks are shown."""

CRON_RUNS: Final = 15
"""Smallest number of scheduled runs to search for the longest gap. It covers daily runs that repeat every two weeks."""
CRON_SECONDS: Final = 15 * 86_400
"""Smallest period to search. It covers the weekends of a schedule with several runs a day."""
MAX_CRON_RUNS: Final = 2_000
"""Largest number of scheduled runs to search. It covers the weekend of a run each minute of the working hours."""
CRON_BASE: Final = datetime(2026, 1, 1, tzinfo=timezone.utc)
"""Start of the search for the longest gap. Any fixed time is suitable."""


TaskKey = tuple[str, str]
"""DAG ID and task ID."""


class DagState(StrictModel):
    """A DAG that publishes the sitemap. ``next_run`` is None if no run is scheduled, or the DAG is paused.

    ``is_stale``: whether Airflow no longer finds the DAG in a DAG file. ``has_import_errors``: whether that file currently
    fails to import.
    """

    dag_id: str
    paused: bool
    has_import_errors: bool
    next_run: Moment | None = None
    is_stale: Annotated[bool, Field(exclude=True)] = False
    tags: Annotated[tuple[str, ...], Field(exclude=True)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetName:
    """An asset. ``extra`` is the metadata from its declaration."""

    id: int
    name: str
    uri: str
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskProfile:
    """A sitemap task of a DAG. ``generation`` is the text of a rollback's argument, usually a template.

    ``next`` are the tasks directly after it.
    """

    task_id: str
    kind: str
    outlets: tuple[str, ...] = ()
    inlets: tuple[str, ...] = ()
    generation: str = ""
    next: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DagProfile:
    """The parts of a serialized DAG that concern sitemaps: the names of its params, and its sitemap tasks in order.

    ``period_s`` is the longest gap between two scheduled runs in seconds; None for a DAG without a time schedule.
    """

    dag_id: str
    params: frozenset[str] = frozenset()
    tasks: Sequence[TaskProfile] = field(default=())
    period_s: float | None = None

    def of_kind(self, kind: str) -> list[TaskProfile]:
        """Return the DAG's tasks of one kind."""
        return [task for task in self.tasks if task.kind == kind]

    def chains(self) -> dict[str, str]:
        """Return the publishing task of each task that plans, writes or publishes, where several plans have one prefix."""
        plans, chains = self.of_kind("plan"), dict[str, str]()
        prefixes = [prefix_of(plan.task_id) for plan in plans]
        for plan in plans:
            publish = [task.task_id for task in self.of_kind("publish") if task.task_id in plan.next]
            if publish and prefixes.count(prefix_of(plan.task_id)) > 1:
                # A task of the DAG may be between the plan and the writing task.
                writes = [w.task_id for w in self.of_kind("write") if w.task_id in plan.next or publish[0] in w.next]
                chains |= dict.fromkeys((plan.task_id, *writes, *publish), publish[0])
        return chains


PROFILES: Final = BoundedCache[tuple[str, str], DagProfile](5_000)
"""Profiles by DAG and hash of its serialized form. A profile takes about one kilobyte."""


def dag_profiles(session: Session, dag_ids: Iterable[str]) -> dict[str, DagProfile]:
    """Return the profile of the newest version of each DAG. DAGs that were never serialized are left out."""
    versions = _newest_versions(session, list(dag_ids))
    profiles = PROFILES.get([(dag_id, dag_hash) for dag_id, _, dag_hash in versions])
    for dag_id, row_id, dag_hash in versions:
        row = session.get(SerializedDagModel, row_id) if (dag_id, dag_hash) not in profiles else None
        if row is not None and row.data is not None:
            profiles[dag_id, dag_hash] = profile_of(dag_id, row.data)
            session.expunge(row)  # its data may take megabytes
    PROFILES.add(profiles)
    return {dag_id: profile for (dag_id, _), profile in profiles.items()}


def newest_of(each: Any, rows: Any, *, by: Any, limit: int) -> Any:
    """Return the statement of the newest rows of a statement for each value of a column, ``by`` another one."""
    place = func.row_number().over(partition_by=each, order_by=by.desc()).label("place")
    *columns, number = rows.add_columns(place).subquery().c
    return select(*columns).where(number <= limit)


def _newest_versions(session: Session, dag_ids: list[str]) -> list[Any]:
    """Return rows of (DAG, ID of its newest serialized form, hash of that form)."""
    if not dag_ids:
        return []
    form = SerializedDagModel
    versions = select(form.dag_id, form.id, form.dag_hash).join(DagVersion, form.dag_version_id == DagVersion.id)
    chosen = versions.where(form.dag_id.in_(dag_ids))
    return list(session.execute(newest_of(form.dag_id, chosen, by=DagVersion.version_number, limit=1)).all())


def profile_of(dag_id: str, data: Mapping[str, Any]) -> DagProfile:
    """Return the profile of a serialized DAG. Parts in an unknown form are left out."""
    dag = _mapping(data.get("dag"))
    tasks = [_task(_mapping(_mapping(task).get("__var", task))) for task in dag.get("tasks") or ()]
    params = dag.get("params")
    pairs = params if isinstance(params, list) else []
    names = params if isinstance(params, Mapping) else [pair[0] for pair in pairs if isinstance(pair, list) and pair]
    return DagProfile(
        dag_id=dag_id,
        params=frozenset(map(str, names)),
        tasks=tuple(task for task in tasks if task is not None),
        period_s=period_of(_mapping(dag.get("timetable"))),
    )


def _task(task: Mapping[str, Any]) -> TaskProfile | None:
    kind = KINDS.get(str(task.get("task_type", "")))
    if kind is None:
        return None
    task = {**_mapping(task.get("partial_kwargs")), **task}  # of a mapped task
    return TaskProfile(
        task_id=str(task.get("task_id", "")),
        kind=kind,
        outlets=_uris(task.get("outlets")),
        inlets=_uris(task.get("inlets")),
        generation=str(task.get("generation", "")),
        next=tuple(map(str, task.get("downstream_task_ids") or ())),
    )


def _uris(assets: Any) -> tuple[str, ...]:
    uris = [_mapping(_mapping(asset).get("__var", asset)).get("uri") for asset in assets or ()]
    return tuple(uri for uri in uris if isinstance(uri, str))


def period_of(timetable: Mapping[str, Any]) -> float | None:
    """Return the longest gap between two scheduled runs in seconds; None if no part of the timetable is time-based."""
    settings = _mapping(timetable.get("__var"))
    if isinstance(settings.get("timetable"), Mapping):
        return period_of(settings["timetable"])
    delta, expression = settings.get("delta"), settings.get("expression")
    if isinstance(delta, (int, float)) and delta > 0:
        return float(delta)
    several = settings.get("expressions")
    expressions = several if isinstance(several, list) else [expression]
    if not expressions or not all(isinstance(each, str) for each in expressions):
        return None
    zone = settings.get("timezone")  # a number for a fixed offset, which changes no gap
    return _longest_gap(tuple(expressions), zone if isinstance(zone, str) else "UTC")


@functools.lru_cache(maxsize=1_024)
def _longest_gap(expressions: tuple[str, ...], zone: str) -> float | None:
    """Return the longest gap between two times of cron expressions in seconds; None if one cannot be read."""
    try:
        start = CRON_BASE.astimezone(ZoneInfo(zone))
        every = heapq.merge(*(_times(croniter(expression, start)) for expression in expressions))
        moments = list(itertools.islice(every, 1))
        for moment in itertools.islice(every, MAX_CRON_RUNS):
            moments.append(moment)
            if len(moments) >= CRON_RUNS and moment - moments[0] >= CRON_SECONDS:
                break
    except (ValueError, KeyError, TypeError):  # croniter's errors are ValueErrors; an unknown zone is a KeyError
        return None
    return max(later - earlier for earlier, later in itertools.pairwise(moments))


def _times(fires: croniter) -> Iterator[float]:
    while True:
        yield fires.get_next(float)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


ONE_PARSE_S: Final = 10.0
"""Longest time in seconds in which Airflow records the DAGs that it found in one file."""


def unimportable_dags(session: Session) -> set[str]:
    """Return the IDs of the DAGs whose file currently fails to import, and that its last import found.

    A DAG that was renamed or removed earlier stays in Airflow's database with the name of the file. And its
    ``has_import_errors`` stays set after the file is gone, so the import errors themselves count.
    """
    columns = select(DagModel.bundle_name, DagModel.relative_fileloc, DagModel.dag_id, DagModel.last_parsed_time)
    of_file = (ParseImportError.filename == DagModel.relative_fileloc) & (
        ParseImportError.bundle_name == DagModel.bundle_name
    )
    files: defaultdict[tuple[str, str | None], list[tuple[str, float]]] = defaultdict(list)
    for bundle, file, dag_id, parsed in session.execute(columns.where(exists().where(of_file).correlate(DagModel))):
        files[bundle, file].append((dag_id, parsed.timestamp() if parsed is not None else 0.0))
    return {
        dag_id
        for dags in files.values()
        for dag_id, parsed_at in dags
        if parsed_at >= max(newest for _, newest in dags) - ONE_PARSE_S
    }


def dags_by_id(session: Session, dag_ids: Iterable[str]) -> dict[str, DagState]:
    """Return DAGs by ID. Unknown DAGs are left out."""
    chosen = list(dag_ids)
    columns = select(DagModel.dag_id, DagModel.is_paused, DagModel.is_stale, DagModel.next_dagrun_create_after)
    rows, broken = session.execute(columns.where(DagModel.dag_id.in_(chosen))).all(), unimportable_dags(session)
    tags: dict[str, list[str]] = {}
    for dag_id, tag in session.execute(select(DagTag.dag_id, DagTag.name).where(DagTag.dag_id.in_(chosen))):
        tags.setdefault(dag_id, []).append(tag)
    return {
        dag_id: DagState(
            dag_id=dag_id,
            paused=bool(paused),
            is_stale=bool(stale),
            has_import_errors=dag_id in broken,
            next_run=None if paused else next_run,
            tags=tuple(sorted(tags.get(dag_id, ()))),
        )
        for dag_id, paused, stale, next_run in rows
    }


ANNOUNCING: Final = ("indexnow", "searchconsole", "inspection", "bing", "fetches", "ping")
FOLLOWING: Final = ("verify", *ANNOUNCING)
"""Kinds of the tasks that work on what is published, whose inlet is the sitemap's asset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetTasks:
    """The tasks that concern one sitemap, each as (DAG, task), of ``announce`` as (DAG, task, kind).

    ``dags``: every DAG that emits the asset, declares it as an inlet, or is scheduled on it.
    """

    publish: Sequence[TaskKey] = ()
    rollback: Sequence[TaskKey] = ()
    answer: Sequence[TaskKey] = ()
    verify: Sequence[TaskKey] = ()
    announce: Sequence[tuple[str, str, str]] = ()
    dags: Collection[str] = field(default_factory=frozenset)

    @property
    def publishers(self) -> list[str]:
        """The DAGs that publish it, in alphabetical order."""
        return sorted({dag_id for dag_id, _ in self.publish})


def asset_tasks(session: Session, assets: Sequence[AssetName], readable: Collection[str]) -> dict[int, AssetTasks]:
    """Return the tasks of readable DAGs that concern each asset, by the asset's ID."""
    outlets, dags = _references(session, assets)
    own = {asset.id: dags[asset.id] & set(readable) for asset in assets}
    profiles = dag_profiles(session, {dag_id for dag_ids in own.values() for dag_id in dag_ids})
    return {asset.id: _tasks_of(asset, outlets[asset.id], own[asset.id], profiles) for asset in assets}


def unimportable(session: Session) -> Collection[DagProfile]:
    """Return the profiles of the DAGs whose file cannot be imported: Airflow drops their references to assets."""
    return dag_profiles(session, unimportable_dags(session)).values()


def _references(
    session: Session, assets: Sequence[AssetName]
) -> tuple[defaultdict[int, list[TaskKey]], defaultdict[int, set[str]]]:
    """Return the tasks that emit each asset, and every DAG that refers to it, by the asset's ID."""
    outlets, dags = defaultdict[int, list[TaskKey]](list), defaultdict[int, set[str]](set)
    outlet, chosen = TaskOutletAssetReference, [asset.id for asset in assets]
    emitting = select(outlet.asset_id, outlet.dag_id, outlet.task_id).where(outlet.asset_id.in_(chosen))
    for asset_id, dag_id, task_id in session.execute(emitting):
        outlets[asset_id].append((dag_id, task_id))
        dags[asset_id].add(dag_id)
    for table in (TaskInletAssetReference, DagScheduleAssetReference):
        referring = select(table.asset_id, table.dag_id).where(table.asset_id.in_(chosen))
        for asset_id, dag_id in session.execute(referring):
            dags[asset_id].add(dag_id)
    ids = {asset.uri: asset.id for asset in assets}
    for profile in unimportable(session):
        for task in profile.tasks:
            for uri in ids.keys() & {*task.outlets, *task.inlets}:
                dags[ids[uri]].add(profile.dag_id)
                outlets[ids[uri]] += [(profile.dag_id, task.task_id)] if uri in task.outlets else []
    return outlets, dags


def _tasks_of(
    asset: AssetName, outlets: Sequence[TaskKey], dags: Collection[str], profiles: Mapping[str, DagProfile]
) -> AssetTasks:
    kind_of = {(dag_id, task.task_id): task.kind for dag_id, profile in profiles.items() for task in profile.tasks}
    # Without a serialized form of the DAG, a task that has the asset as an outlet counts as publishing.
    kinds = {key: kind_of.get(key, "" if key[0] in profiles else "publish") for key in outlets if key[0] in dags}
    publish = sorted(key for key, kind in kinds.items() if kind == "publish")
    groups = {(dag_id, prefix_of(task_id)) for dag_id, task_id in publish}
    following = [
        (profile.dag_id, task)
        for profile in profiles.values()
        for task in profile.tasks
        if task.kind in FOLLOWING and _concerns(profile.dag_id, task, asset, groups)
    ]
    return AssetTasks(
        publish=publish,
        rollback=sorted(key for key, kind in kinds.items() if kind == "rollback"),
        answer=[key for key, kind in kinds.items() if kind == "answer"],
        verify=[(dag_id, task.task_id) for dag_id, task in following if task.kind == "verify"],
        announce=[(dag_id, task.task_id, task.kind) for dag_id, task in following if task.kind in ANNOUNCING],
        dags=dags,
    )


def _concerns(dag_id: str, task: TaskProfile, asset: AssetName, groups: Collection[TaskKey]) -> bool:
    """Return whether a task without outlets concerns this sitemap: by its inlets, or else by its task group."""
    if task.inlets:
        return asset.uri in task.inlets
    group = prefix_of(task.task_id)
    beside = not group and any(dag_id == publisher for publisher, _ in groups)
    return (dag_id, group) in groups or beside


def declared_sitemaps(session: Session) -> list[int]:
    """Return the IDs of the assets that tasks declare under the name that ``Sitemap.asset`` gives them."""
    outlet = TaskOutletAssetReference
    uris = {uri for profile in unimportable(session) for task in profile.tasks for uri in task.outlets}
    declared = AssetModel.id.in_(select(outlet.asset_id)) | AssetModel.uri.in_(uris)
    return list(session.scalars(select(AssetModel.id).where(declared, AssetModel.name.like("sitemap %"))))
