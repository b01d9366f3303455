"""The search for a file that a source names: beside the DAG file, in the current folder, and in Airflow's DAG folder."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

from airflow_sitemaps.errors import SourceConfigurationError

STANDARD_LIBRARY: Final = ("dataclasses.py", "copy.py")


def callers_folder() -> str:
    """Return the folder of the nearest file on the call stack outside this package and the standard library."""
    package = str(Path(__file__).parent)
    frame = sys._getframe(1)  # noqa: SLF001 - the one way to know the caller without a base class
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith("<") and not name.startswith(package) and Path(name).name not in STANDARD_LIBRARY:
            return str(Path(name).absolute().parent)
        if frame.f_back is None:
            break
        frame = frame.f_back
    return str(Path.cwd())


def dag_folder() -> list[Path]:
    """Return Airflow's DAG folder if Airflow is loaded or its environment variable is set, otherwise an empty list."""
    folder = os.environ.get("AIRFLOW__CORE__DAGS_FOLDER")
    if folder is None and "airflow.configuration" in sys.modules:
        folder = import_module("airflow.configuration").conf.get("core", "dags_folder", fallback=None)
    return [Path(folder)] if folder else []


def found_file(name: str, folder: str, argument: str, *, hint: str = "") -> Path:
    """Return the first file of a name in a folder, the current folder or Airflow's DAG folder.

    Args:
        folder: The folder that is searched first, usually that of the DAG file.
        argument: The argument that names the file, for the message.
        hint: How the file is made, for the message. Default: "".

    Raises:
        SourceConfigurationError: The file does not exist. The message lists the paths that were tried.
    """
    paths = dict.fromkeys(each / name for each in (Path(folder), Path.cwd(), *dag_folder()))
    for path in paths:
        if path.is_file():
            return path
    tried = ", ".join(map(str, paths))
    raise SourceConfigurationError(f"{argument}: there is no such file; tried {tried}{f'. {hint}' if hint else ''}")
