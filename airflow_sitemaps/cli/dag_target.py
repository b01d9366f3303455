"""Targets of the form ``DAG_ID``: the sitemap that a DAG publishes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.cli.target import Target, TargetError, load, operator_of, run_file

if TYPE_CHECKING:
    from airflow_sitemaps.sitemap import Sitemap

DAG_TARGET: Final = re.compile(r"(?P<dag>[\w.-]+)(?::(?P<group>[\w.-]+))?", re.ASCII)
"""Pattern of ``DAG_ID`` and ``DAG_ID:GROUP_ID``."""


def load_target(target: str) -> Target:
    """Return the sitemap of a target of any form.

    Args:
        target: ``path/to/file.py:sitemap``, or ``DAG_ID`` or ``DAG_ID:GROUP_ID`` of a DAG that Airflow lists.

    Raises:
        TargetError: The target does not exist.
        ConfigurationError: The file holds an invalid setting.
    """
    return load(target) if ".py" in target or "/" in target else load_dag(target)


def load_dag(target: str) -> Target:
    """Return the sitemap of a DAG that Airflow's database lists.

    Args:
        target: ``DAG_ID``, or ``DAG_ID:GROUP_ID`` for a DAG with several sitemaps.

    Raises:
        TargetError: The DAG, its file or the group does not exist, or the DAG publishes several sitemaps.
    """
    match = DAG_TARGET.fullmatch(target)
    if match is None:
        raise TargetError(f"{target!r}: name a sitemap as path/to/file.py:sitemap, DAG_ID or DAG_ID:GROUP_ID")
    dag_id, group_id = match["dag"], match["group"] or ""
    _, dags = run_file(_file_of(dag_id))
    dag = next((dag for dag in dags if dag.dag_id == dag_id), None)
    if dag is None:
        raise TargetError(f"DAG {dag_id!r} is no longer defined in its file")
    return Target(_sitemap_of(dag, group_id), dag.params.dump())


def sitemaps_of(dag: Any) -> dict[str, Sitemap]:
    """Return the sitemaps of a DAG by the ID of their task group, or by the task's ID outside a group."""
    sitemaps: dict[str, Sitemap] = {}
    for task in dag.tasks:
        sitemap = getattr(operator_of(task), "sitemap", None)
        group = getattr(task, "task_group", None)
        name = (group.group_id if group is not None else None) or task.task_id
        if sitemap is not None and sitemap not in sitemaps.values():
            sitemaps.setdefault(str(name), sitemap)
    return sitemaps


def _sitemap_of(dag: Any, group_id: str) -> Sitemap:
    sitemaps = sitemaps_of(dag)
    if not sitemaps:
        raise TargetError(f"DAG {dag.dag_id!r} publishes no sitemap")
    if group_id in sitemaps:
        return sitemaps[group_id]
    targets = ", ".join(f"{dag.dag_id}:{name}" for name in sitemaps)
    if group_id:
        raise TargetError(f"DAG {dag.dag_id!r} has no sitemap in a group {group_id!r}. It has: {targets}")
    if len(sitemaps) > 1:
        raise TargetError(f"DAG {dag.dag_id!r} publishes {len(sitemaps)} sitemaps. Name one: {targets}")
    return next(iter(sitemaps.values()))


def _file_of(dag_id: str) -> Path:
    """Return the file of a DAG, from Airflow's database."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy.exc import SQLAlchemyError

    try:
        with create_session() as session:
            model = session.get(DagModel, dag_id)
            place = (model.bundle_name, model.relative_fileloc) if model is not None else None
    except SQLAlchemyError as error:
        raise TargetError(
            f"DAG {dag_id!r}: Airflow's database cannot be read ({type(error).__name__}). Name the sitemap as "
            "path/to/file.py:sitemap instead"
        ) from None
    if place is None:
        raise TargetError(
            f"no DAG {dag_id!r} in Airflow's database. A DAG is listed after the DAG processor has read its file; "
            "a sitemap can also be named as path/to/file.py:sitemap"
        )
    manager: Any = DagBundlesManager  # Airflow does not annotate it
    bundle = manager().get_bundle(str(place[0]))
    bundle.initialize()
    path = Path(bundle.path) / str(place[1])
    if not path.is_file():
        raise TargetError(f"DAG {dag_id!r}: its file {str(path)!r} does not exist on this machine")
    return path
