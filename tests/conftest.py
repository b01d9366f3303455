"""What holds for every test: an Airflow home of its own, made before Airflow is first imported."""

from __future__ import annotations

import atexit
import os
import re
import secrets
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.hangs import HangGuard

# Times are measured in benchmarks, never by tests: a slow machine must not fail one. A law that fails once is broken: the
# log has its example, a line that repeats it in any clone, and in its header the seed of all draws.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("suite")

MEMORY = Path("/dev/shm")
ENOUGH_BYTES = 4 * 2**30


def _keep_files_in_memory() -> None:
    """Let temporary files be in memory where there is room: on a disk, half of the suite's time is waiting for it."""
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return
    available = re.search(r"MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text())
    if available and min(shutil.disk_usage(MEMORY).free, int(available[1]) * 1024) > ENOUGH_BYTES:
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None


_keep_files_in_memory()
_HOME = Path(tempfile.mkdtemp(prefix="airflow-sitemaps-tests-"))
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)

# Airflow reads these once, at its import, and would otherwise write into the home of the user who runs the tests.
os.environ["AIRFLOW_HOME"] = str(_HOME)
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["AIRFLOW__CORE__DAGS_FOLDER"] = str(Path(__file__).parents[1] / "dags")
os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = f"sqlite:///{_HOME / 'airflow.db'}"
os.environ["AIRFLOW__USAGE_DATA_COLLECTION__ENABLED"] = "False"
if "XDG_RUNTIME_DIR" not in os.environ:  # platformdirs warns where it is missing, and warnings are errors here
    (_HOME / "run").mkdir(mode=0o700)
    os.environ["XDG_RUNTIME_DIR"] = str(_HOME / "run")
for name in [name for name in os.environ if name.startswith("AIRFLOW_CONN_")]:
    del os.environ[name]


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(secrets.randbelow(2**32))
    if config.option.basetemp is None:
        # A folder of this run alone: each start of pytest closes the folder that all runs share to other users, and
        # PostgreSQL, which runs as another user for root, loses its data.
        config.option.basetemp = str(_HOME / "files")
    if not config.option.usepdb:
        config.pluginmanager.register(HangGuard(config))


def pytest_report_header(config: pytest.Config) -> str:
    return f"repeat with --hypothesis-seed={config.option.hypothesis_seed}"
