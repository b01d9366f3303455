"""The tasks that publish, roll back, verify and announce a sitemap, from Airflow's asset references.

Airflow removes the references of a DAG whose file cannot be imported. The serialized form of the DAG still has them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from airflow.models.asset import (
    AssetModel,
    DagScheduleAssetReference,
    TaskInletAssetReference,
    TaskOutletAssetReference,
)
from sqlalchemy import select

from airflow_sitemaps.plugin.dag_profiles import DagProfile, TaskProfile, dag_profiles
from airflow_sitemaps.plugin.dag_runs import unimportable_dags

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from airflow_sitemaps.plugin.events import AssetName

ANNOUNCING: Final = ("indexnow", "searchconsole", "ping")
"""Kinds of tasks that announce a sitemap to search engines and other services."""

TaskKey = tuple[str, str]
"""DAG ID and task ID."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetTasks:
    """The tasks that concern one sitemap, each as (DAG, task).

    Attributes:
        publish: Tasks that publish it. Default: none.
        rollback: Tasks that publish an earlier generation again. Default: none.
        verify: Tasks that read it back and check it. Default: none.
        announce: Tasks that announce it to other services, each as (DAG, task, kind). Default: none.
        dags: Every DAG that emits the asset, declares it as an inlet, or is scheduled on it. Default: none.
    """

    publish: Sequence[TaskKey] = ()
    rollback: Sequence[TaskKey] = ()
    verify: Sequence[TaskKey] = ()
    announce: Sequence[tuple[str, str, str]] = ()
    dags: Collection[str] = field(default_factory=frozenset)

    @property
    def publishers(self) -> list[str]:
        """The DAGs that publish it, in alphabetical order."""
        return sorted({dag_id for dag_id, _ in self.publish})


@dataclass(slots=True)
class _References:
    outlets: dict[int, list[TaskKey]] = field(default_factory=dict)
    inlets: dict[int, list[TaskKey]] = field(default_factory=dict)
    schedules: dict[int, set[str]] = field(default_factory=dict)

    def dags(self, asset_id: int) -> set[str]:
        keys = (*self.outlets.get(asset_id, ()), *self.inlets.get(asset_id, ()))
        return {dag_id for dag_id, _ in keys} | self.schedules.get(asset_id, set())


def asset_tasks(session: Session, assets: Sequence[AssetName], readable: Collection[str]) -> dict[int, AssetTasks]:
    """Return the tasks that concern each asset, by the asset's ID.

    Args:
        readable: DAGs that the user may read. Tasks of other DAGs are left out.
    """
    references = _references(session, assets)
    dag_ids = {dag_id for asset in assets for dag_id in references.dags(asset.id)} & set(readable)
    profiles = dag_profiles(session, dag_ids)
    return {asset.id: _tasks_of(asset, references, profiles, dag_ids) for asset in assets}


def _references(session: Session, assets: Sequence[AssetName]) -> _References:
    references, asset_ids = _References(), [asset.id for asset in assets]
    for table, kept in ((TaskOutletAssetReference, references.outlets), (TaskInletAssetReference, references.inlets)):
        columns = select(table.asset_id, table.dag_id, table.task_id).where(table.asset_id.in_(list(asset_ids)))
        for asset_id, dag_id, task_id in session.execute(columns):
            kept.setdefault(asset_id, []).append((dag_id, task_id))
    schedule = DagScheduleAssetReference
    rows = session.execute(select(schedule.asset_id, schedule.dag_id).where(schedule.asset_id.in_(list(asset_ids))))
    for asset_id, dag_id in rows:
        references.schedules.setdefault(asset_id, set()).add(dag_id)
    ids = {asset.uri: asset.id for asset in assets}
    for profile in _unimportable(session):
        for task in profile.tasks:
            for uris, kept in ((task.outlets, references.outlets), (task.inlets, references.inlets)):
                for uri in uris:
                    if uri in ids:
                        kept.setdefault(ids[uri], []).append((profile.dag_id, task.task_id))
    return references


def _unimportable(session: Session) -> Collection[DagProfile]:
    """Return the profiles of the DAGs whose file cannot be imported."""
    return dag_profiles(session, unimportable_dags(session)).values()


def _tasks_of(
    asset: AssetName, references: _References, profiles: Mapping[str, DagProfile], readable: Collection[str]
) -> AssetTasks:
    outlets = [key for key in references.outlets.get(asset.id, ()) if key[0] in readable]
    kinds = {key: _kind(profiles.get(key[0]), key[1]) for key in outlets}
    publish = sorted(key for key, kind in kinds.items() if kind == "publish")
    inlets = {key for key in references.inlets.get(asset.id, ()) if key[0] in readable}
    groups = {(dag_id, task_id.rpartition(".")[0]) for dag_id, task_id in publish}
    following = [
        (profile.dag_id, task)
        for profile in profiles.values()
        for task in profile.tasks
        if task.kind in ("verify", *ANNOUNCING) and _concerns(profile.dag_id, task, asset, inlets, groups)
    ]
    return AssetTasks(
        publish=publish,
        rollback=sorted(key for key, kind in kinds.items() if kind == "rollback"),
        verify=[(dag_id, task.task_id) for dag_id, task in following if task.kind == "verify"],
        announce=[(dag_id, task.task_id, task.kind) for dag_id, task in following if task.kind in ANNOUNCING],
        dags=frozenset(references.dags(asset.id) & set(readable)),
    )


def _kind(profile: DagProfile | None, task_id: str) -> str:
    """Return the kind of a task that has the asset as an outlet.

    A task of a DAG without a serialized form counts as publishing.
    """
    if profile is None:
        return "publish"
    return next((task.kind for task in profile.tasks if task.task_id == task_id), "")


def _concerns(
    dag_id: str, task: TaskProfile, asset: AssetName, inlets: Collection[TaskKey], groups: Collection[TaskKey]
) -> bool:
    """Return whether a task without outlets concerns this sitemap: by its inlets, or else by its task group."""
    if task.inlets:
        return asset.uri in task.inlets or (dag_id, task.task_id) in inlets
    in_group = (dag_id, task.group_id) in groups
    beside = not task.group_id and any(dag_id == publisher for publisher, _ in groups)
    return in_group or beside


def declared_sitemaps(session: Session) -> list[int]:
    """Return the IDs of the assets that tasks declare under the name that ``Sitemap.asset`` gives them."""
    outlet = TaskOutletAssetReference
    uris = {uri for profile in _unimportable(session) for task in profile.tasks for uri in task.outlets}
    declared = AssetModel.id.in_(select(outlet.asset_id)) | AssetModel.uri.in_(uris)
    return list(session.scalars(select(AssetModel.id).where(declared, AssetModel.name.like("sitemap %"))))
