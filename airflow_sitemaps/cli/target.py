"""From ``path/to/file.py:sitemap`` to the sitemap."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from airflow_sitemaps.errors import ConfigurationError, SitemapError
from airflow_sitemaps.sitemap import Sitemap


class TargetError(ConfigurationError):
    """The target was not understood: wrong use of the shell."""


def load(target: str) -> Sitemap:
    """Run the file and take the sitemap of that name from it.

    The file's folder is put on the import path, as Airflow does with its DAGs folder.

    Raises:
        TargetError: no such file or name, or what has the name is no sitemap.
        ConfigurationError: the file itself says something that cannot be.
    """
    file, separator, name = target.rpartition(":")
    path = Path(file)
    if not separator or not name.isidentifier() or path.suffix != ".py":
        raise TargetError(f"{target!r}: name a sitemap as path/to/file.py:sitemap")
    if not path.is_file():
        raise TargetError(f"{target!r}: there is no file {file!r} here ({Path.cwd()})")
    found = getattr(_run(path.resolve()), name, None)
    if not isinstance(found, Sitemap):
        what = "has no such name" if found is None else f"holds a {type(found).__name__} there, not a Sitemap"
        raise TargetError(f"{target!r}: {file} {what}")
    return found


def _run(path: Path) -> object:
    module_name = f"airflow_sitemaps_target_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise TargetError(f"{str(path)!r} cannot be read as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except SitemapError:
        raise
    except Exception as error:
        raise TargetError(f"{str(path)!r} failed when it was run: {type(error).__name__}: {error}") from error
    return module
