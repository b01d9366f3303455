"""The functions of ``airflow_sitemaps.pipeline`` win over its sub-packages, whatever is imported first."""

from __future__ import annotations

import subprocess
import sys

import pytest

USE_CASES = (
    "adopt",
    "build",
    "changes",
    "find",
    "inventory",
    "plan",
    "publish",
    "recover",
    "rollback",
    "status",
    "write",
)

FIRST = (
    "airflow_sitemaps.pipeline",
    "airflow_sitemaps.pipeline.plan.planner",
    "airflow_sitemaps.pipeline.batch_writer",
    "airflow_sitemaps.pipeline.publish.rollback",
    "airflow_sitemaps.pipeline.state.repository",
    "airflow_sitemaps.pipeline.adoption",
    "airflow_sitemaps.pipeline.find",
    "airflow_sitemaps.pipeline.stages",
    "airflow_sitemaps.pipeline.report",
)


@pytest.mark.parametrize("first", FIRST)
def test_use_cases_are_functions(first: str) -> None:
    code = (
        f"import {first}\n"
        f"from airflow_sitemaps.pipeline import {', '.join(USE_CASES)}\n"
        "import airflow_sitemaps.pipeline.plan.section_planner, airflow_sitemaps.pipeline.publish.sweep\n"
        "import airflow_sitemaps.pipeline as facade\n"
        f"for name in {USE_CASES!r}:\n"
        "    found = getattr(facade, name)\n"
        "    assert callable(found) and found is globals()[name], (name, found)\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
