"""A test that no exception can end, in a run of pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = """
from tests.support.hangs import HangGuard

def pytest_configure(config):
    config.pluginmanager.register(HangGuard(config, grace_s=1))
"""
TESTS = """
import threading

import pytest

@pytest.mark.timeout(1)
def test_stuck():
    while True:
        try:
            threading.Event().wait()
        except BaseException:
            continue

def test_other():
    pass
"""


@pytest.mark.long
def test_it_ends_its_worker_and_the_others_run(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_two.py").write_text(TESTS)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    for name in [name for name in environment if name.startswith("PYTEST_")]:
        del environment[name]

    command = [sys.executable, "-m", "pytest", "-n", "1", "-p", "no:cacheprovider"]
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert "1 failed, 1 passed" in run.stdout, run.stdout + run.stderr
    assert "crashed while running 'test_two.py::test_stuck'" in run.stdout
    assert "in test_stuck" in run.stderr
