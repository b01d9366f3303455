"""What holds for every test: an Airflow home of its own, made before Airflow is first imported."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings

from tests.support.hangs import HangGuard

if TYPE_CHECKING:
    import pytest

# Times are measured in benchmarks, never by tests: a slow machine must not fail one.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

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


def pytest_configure(config: pytest.Config) -> None:
    if not config.option.usepdb:
        config.pluginmanager.register(HangGuard(config))
