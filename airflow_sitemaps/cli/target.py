"""Targets of the form ``path/to/file.py:sitemap``: the sitemap of a file."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from airflow_sitemaps.errors import ConfigurationError, SitemapError
from airflow_sitemaps.sitemap import Sitemap

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import DAG


class TargetError(ConfigurationError):
    """The command line is wrong; exit status 2."""


@dataclass(frozen=True, slots=True)
class Target:
    """A sitemap of a file.

    Attributes:
        sitemap: The sitemap.
        params: Defaults of the params of the DAGs in the file that publish the sitemap. Default: none.
    """

    sitemap: Sitemap
    params: Mapping[str, Any] = field(default_factory=dict)


def load(target: str) -> Target:
    """Run a file and return the sitemap with a given name.

    The file's folder is added to the import path, as Airflow does with its DAGs folder.

    Args:
        target: ``path/to/file.py:sitemap``.

    Raises:
        TargetError: The file or the name does not exist, or the name is not that of a sitemap.
        ConfigurationError: The file holds an invalid setting.
    """
    file, separator, name = target.rpartition(":")
    path = Path(file)
    if not separator or not name.isidentifier() or path.suffix != ".py":
        raise TargetError(f"{target!r}: name a sitemap as path/to/file.py:sitemap")
    if not path.is_file():
        raise TargetError(f"{target!r}: there is no file {file!r} here ({Path.cwd()})")
    module, dags = run_file(path.resolve())
    sitemap = getattr(module, name, None)
    if not isinstance(sitemap, Sitemap):
        what = "has no such name" if sitemap is None else f"holds a {type(sitemap).__name__} there, not a Sitemap"
        raise TargetError(f"{target!r}: {file} {what}")
    params: dict[str, Any] = {}
    for dag in dags:
        if any(getattr(operator_of(task), "sitemap", None) is sitemap for task in dag.tasks):
            params |= dag.params.dump()
    return Target(sitemap, params)


def operator_of(task: Any) -> Any:
    """Return the object that holds a task's arguments: the task, or the first arguments of a mapped task."""
    return task if not hasattr(task, "partial_kwargs") else SimpleNamespace(**task.partial_kwargs)


def run_file(path: Path) -> tuple[object, list[DAG]]:
    """Run a Python file, and return its module and the DAGs that it defines.

    Raises:
        TargetError: The file is not Python, or raises an error.
        SitemapError: The file holds an invalid setting.
    """
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
    except Exception as error:
        raise TargetError(f"{str(path)!r} failed when it was run: {type(error).__name__}: {error}") from error
    return module, dags
