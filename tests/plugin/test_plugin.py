"""What Airflow knows about the plugin, and what its import costs."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

from airflow_sitemaps.plugin import STATIC
from airflow_sitemaps.plugin.airflow_plugin import SitemapsPlugin

HEAVY = """
import sys, airflow.plugins_manager
before = set(sys.modules)
import airflow_sitemaps.plugin.airflow_plugin
print([name for name in ("fastapi", "sqlalchemy", "boto3", "pyarrow") if name in set(sys.modules) - before])
"""


def test_airflow_finds_the_plugin() -> None:
    (found,) = [entry for entry in entry_points(group="airflow.plugins") if entry.name == "sitemaps"]

    assert found.load() is SitemapsPlugin


def test_each_view_has_an_address_of_its_own_that_works_under_any_prefix() -> None:
    apps = SitemapsPlugin().react_apps

    assert [(app["name"], app["destination"]) for app in apps] == [
        ("Sitemaps", "nav"),
        ("Sitemap", "dag"),
        ("Sitemap run", "dag_run"),
        ("Sitemaps overview", "dashboard"),
    ]
    assert len({app["bundle_url"] for app in apps}) == 4
    assert len({app["url_route"] for app in apps}) == 4
    assert not any(app[name].startswith(("/", "http")) for app in apps for name in ("bundle_url", "icon"))


def test_the_bundle_is_there_and_small() -> None:
    bundle = STATIC / "airflow-sitemaps.js"

    assert 20_000 < bundle.stat().st_size < 100_000
    assert "AirflowPlugin" in bundle.read_text()[:500]


def test_nothing_heavy_is_imported_with_the_plugin() -> None:
    done = subprocess.run([sys.executable, "-c", HEAVY], capture_output=True, text=True, check=True, timeout=120)

    assert done.stdout.splitlines()[-1] == "[]"
