"""Run an example DAG as a test, in the shape of AIP-47: ``test_run = get_test_run(dag)``, as Airflow's providers have it."""

from __future__ import annotations

import importlib.util
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import airflow_sitemaps.example_dags
from tests.support.airflow_db import run, states

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from airflow.sdk import DAG

FOLDER = Path(airflow_sitemaps.example_dags.__path__[0])
ROWS = 25


def get_test_run(dag: DAG) -> Callable[[], dict[str, str]]:
    """Return a function that runs a DAG to its end and returns the states of its tasks."""

    def test_run() -> dict[str, str]:
        dag_run: Any = run(dag)
        ended = states(dag_run)
        assert dag_run.state == "success", ended
        return ended

    return test_run


def load(name: str) -> ModuleType:
    """Import an example once more, since it reads its folder or bucket from the environment."""
    spec = importlib.util.spec_from_file_location(f"again_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def warehouse(file: Path) -> str:
    """Make the table that the examples read. Return the connection's address."""
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE products (id INTEGER PRIMARY KEY, slug TEXT, updated_at TEXT)")
        rows = [(number, f"slug-{number}", "2026-01-01 00:00:00") for number in range(ROWS)]
        connection.executemany("INSERT INTO products VALUES (?, ?, ?)", rows)
    connection.close()
    return f"sqlite:///{file}"
