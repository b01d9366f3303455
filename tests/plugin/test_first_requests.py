"""A fresh API server answers its first requests at the same moment: each page is the first to decode its view."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.long
def test_the_first_requests_of_an_api_server_may_be_concurrent(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "tests.plugin.first_requests", str(tmp_path)]
    home = {
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{tmp_path / 'airflow.db'}",
    }
    run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **home})
    assert (run.returncode, run.stdout.splitlines()[-1:]) == (0, ["{}"]), run.stderr[-2_000:]
