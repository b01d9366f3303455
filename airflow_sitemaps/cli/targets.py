"""Targets of commands: the sitemap of a file, ``path/to/file.py:sitemap``, or of a DAG, ``DAG_ID`` or ``DAG_ID:GROUP_ID``."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.errors import ConfigurationError, SitemapError
from airflow_sitemaps.sitemap import Sitemap

if TYPE_CHECKING:
    from airflow.sdk import DAG

DAG_TARGET: Final = re.compile(r"(?P<dag>[\w.-]+)(?::(?P<group>[\w.-]+))?", re.ASCII)


class TargetError(ConfigurationError):
    """The command line is wrong; exit status 2."""


@dataclass(frozen=True, slots=True)
class Target:
    """A sitemap of a file, with the params (``ParamsDict``) of the DAGs in the file that publish it."""

    sitemap: Sitemap
    params: Any = field(default_factory=dict)

    def params_with(self, given: Iterable[tuple[str, str]]) -> dict[str, Any]:
        """Return the params with values of the command line. JSON is parsed; where the default is a text, only quotes."""
        if not self.params:
            return {name: _parsed(name, text, None) for name, text in given}
        from airflow_sitemaps.airflow_compat import AirflowException

        defaults, values = self.params.dump(), dict(given)
        if unknown := sorted(values.keys() - defaults.keys()):
            raise TargetError(f"--param {unknown[0]}: the DAG has no such param; it has {', '.join(defaults)}")
        params = {}
        for name, default in defaults.items():
            parsed = [_parsed(name, values[name], default)] if name in values else []
            if parsed and not isinstance(parsed[0], str):
                parsed.append(values[name])  # JSON, such as 3.10, may be meant as a text
            tries: list[tuple[Any, ...]] = [(each,) for each in parsed] or [()]
            reasons: list[str] = []
            for value in tries:
                try:
                    params[name] = copy(self.params.get_param(name)).resolve(*value)
                    break
                except (AirflowException, ValueError) as error:
                    reasons.append(str(error).partition("\n")[0])  # in which lines of jsonschema follow the reason
            else:
                reason = reasons[-1] if "is not of type" in reasons[0] else reasons[0]
                raise TargetError(f"--param {name}: {reason}. Give {name}=VALUE that fits the DAG's params")
        return params


def _parsed(name: str, text: str, default: Any) -> Any:
    """Return a value: JSON or a text. Where the default is a text it is one, and where it is a flag, true or false."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    if isinstance(default, str):
        return value if isinstance(value, str) else text
    if isinstance(default, bool) and not isinstance(value, bool):
        raise TargetError(f"--param {name}={text}: give true or false, like the DAG's default {json.dumps(default)}")
    return value


def load_target(target: str) -> Target:
    """Return the sitemap of a target of any form."""
    return load(target) if ".py" in target or "/" in target else load_dag(target)


def load(target: str) -> Target:
    """Run a file and return its sitemap of a name. Its folder joins the import path, as Airflow's DAGs folder does."""
    file, separator, name = target.rpartition(":")
    path = Path(file)
    if not separator or not name.isidentifier() or path.suffix != ".py":
        raise TargetError(f"{target!r}: name a sitemap as path/to/file.py:sitemap")
    if not os.path.isfile(path):  # noqa: PTH113 - False for a path that cannot be looked up
        raise TargetError(f"{target!r}: there is no file {file!r} here ({Path.cwd()})")
    module, dags = run_file(path.resolve())
    sitemap = getattr(module, name, None)
    if not isinstance(sitemap, Sitemap):
        what = (
            "has no such name"
            if sitemap is None
            else f"holds an object of type {type(sitemap).__name__} there, not a Sitemap"
        )
        raise TargetError(f"{target!r}: {file} {what}")
    params: Any = {}
    for dag in dags:
        if any(getattr(operator_of(task), "sitemap", None) is sitemap for task in dag.tasks):
            params = copy(params) if params else type(dag.params)()
            params.update(dag.params)
    return Target(sitemap, params)


def operator_of(task: Any) -> Any:
    """Return the object that holds a task's arguments: the task, or the first arguments of a mapped task."""
    return task if not hasattr(task, "partial_kwargs") else SimpleNamespace(**task.partial_kwargs)


def run_file(path: Path) -> tuple[object, list[DAG]]:
    """Run a Python file, and return its module and the DAGs that it defines."""
    from airflow_sitemaps.airflow_compat import dags_defined  # Airflow takes seconds to import

    module_name = f"airflow_sitemaps_target_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise TargetError(f"{str(path)!r} cannot be read as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    try:
        with dags_defined(module_name) as dags:
            spec.loader.exec_module(module)
    except SitemapError:
        raise
    except (Exception, SystemExit) as error:  # a file that exits must not end the command with its status, often 0
        raise TargetError(f"{str(path)!r} failed when it was run: {type(error).__name__}: {error}") from error
    return module, dags


def load_dag(target: str) -> Target:
    """Return the sitemap of a DAG that Airflow's database lists."""
    match = DAG_TARGET.fullmatch(target)
    if match is None:
        raise TargetError(f"{target!r}: name a sitemap as path/to/file.py:sitemap, DAG_ID or DAG_ID:GROUP_ID")
    dag_id, group_id = match["dag"], match["group"] or ""
    _, dags = run_file(_file_of(dag_id))
    dag = next((dag for dag in dags if dag.dag_id == dag_id), None)
    if dag is None:
        raise TargetError(f"DAG {dag_id!r} is no longer defined in its file")
    return Target(_sitemap_of(dag, group_id), dag.params)


def sitemaps_of(dag: Any) -> dict[str, Sitemap]:
    """Return the sitemaps of a DAG by the ID of each task group, or by the task's ID if only tasks outside groups have it."""
    sitemaps: dict[str, Sitemap] = {}
    groups = {task: getattr(getattr(task, "task_group", None), "group_id", None) for task in dag.tasks}
    for task, group in sorted(groups.items(), key=lambda each: not each[1]):
        sitemap = getattr(operator_of(task), "sitemap", None)
        if sitemap is not None and (group or sitemap not in sitemaps.values()):
            sitemaps.setdefault(str(group or task.task_id), sitemap)
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
    first, *others = sitemaps.values()
    if any(other != first for other in others):
        raise TargetError(f"DAG {dag.dag_id!r} publishes several sitemaps. Name one: {targets}")
    return first


def _file_of(dag_id: str) -> Path:
    from sqlalchemy.exc import SQLAlchemyError

    from airflow_sitemaps.airflow_compat import DagBundlesManager, DagModel, create_session

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
