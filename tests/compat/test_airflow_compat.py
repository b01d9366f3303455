"""What may move between releases of Airflow: each name is where the module says, and 3.4's tables are read."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from airflow_sitemaps import airflow_compat


@pytest.mark.parametrize("name", sorted(airflow_compat._HOME))
def test_the_installed_airflow_has_each_name(name: str) -> None:
    assert getattr(airflow_compat, name) is not None


def test_a_name_that_airflow_no_longer_has_says_where_it_was_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(airflow_compat._HOME, "GoneModel", "airflow.models.gone")
    with pytest.raises(ImportError, match=r"no 'GoneModel' in airflow.models.gone.*page Compatibility lists"):
        _ = airflow_compat.GoneModel


def test_a_name_of_3_1_is_taken_from_its_older_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(airflow_compat._OLD_MODULES, "airflow.sdk.exceptions", "airflow.sdk")
    monkeypatch.setitem(airflow_compat._HOME, "Asset", "airflow.sdk.exceptions")
    assert airflow_compat.Asset.__name__ == "Asset"
    monkeypatch.delitem(airflow_compat.__dict__, "Asset")


def test_the_pages_read_the_tables_of_3_4() -> None:
    """In a process of its own: the value of the last attempt counts, from the new table or the one before the upgrade."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.compat.airflow_3_4"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "run": "failed",
        "tasks": [["plan", "success", 1], ["publish", "success", 2]],
        "pushed": {"sitemap_plan": "before the upgrade", "return_value": "second attempt"},
        "failed": [],
        "returned": [["shop", "r1"]],
        "unpublished": [],
    }
