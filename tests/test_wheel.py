"""The wheel holds all that runs, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("hatchling", reason="the build backend is not installed")

ROOT = Path(__file__).parents[1]


def test_the_wheel_carries_the_bundle_and_the_entry_points(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (entry_points,) = (archive.read(name).decode() for name in names if name.endswith("entry_points.txt"))
    bundle = "airflow_sitemaps/plugin/static/airflow-sitemaps.js"
    assert {"airflow_sitemaps/py.typed", bundle, "airflow_sitemaps/provider_info.py"} <= names
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "airflow_sitemaps").rglob("*.py")}
    assert sources <= names
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"airflow_sitemaps"}
    testing = {name for name in names if name.startswith("airflow_sitemaps/testing/")}
    assert testing == {
        f"airflow_sitemaps/testing/{name}.py" for name in ("__init__", "crawler", "row_columns", "source")
    }
    for group in ("console_scripts", "apache_airflow_provider", "airflow.plugins"):
        assert f"[{group}]" in entry_points
