"""A distribution of a third party adds a store and a database by entry points, and a sitemap is built with both."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.setting_checks import loaded
from airflow_sitemaps.stores import open_area

ATTIC = Path(__file__).parent / "attic"
BUILD = """
import json
from attic import AtticStore
from airflow_sitemaps import Section, Sitemap, SqlSource
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.stores import open_area
from airflow_sitemaps.verification import of_address

source = SqlSource("attic", table="products", key="id", loc="https://attic.example/{slug}")
sitemap = Sitemap(AtticStore("attic://shop", base_url="https://attic.example/"), [Section("products", source)])
report = build(sitemap)
verification = of_address("attic://shop/sitemap.xml").verify()
state = open_area("attic://shop-state", None)
same = open_area(sitemap.store.open().state.url(""), None)
print(json.dumps({
    "result": report.result,
    "urls": verification.urls,
    "asset": sitemap.asset.uri,
    "console": sitemap.store.console_url(),
    "manifest": state.get("manifest.json.gz") == same.get("manifest.json.gz") is not None,
}))
"""


@pytest.fixture(scope="module")
def site_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the distribution, installed by pip as a user installs it."""
    folder = tmp_path_factory.mktemp("site-packages")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, "--target", folder, ATTIC], check=True)
    return folder


@pytest.mark.long  # pip installs a distribution
def test_a_sitemap_is_built_with_a_third_partys_store_and_database(site_packages: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection, connection:
        connection.execute("CREATE TABLE products (id INTEGER PRIMARY KEY, slug TEXT)")
        connection.executemany("INSERT INTO products VALUES (?, ?)", [(n, f"p-{n}") for n in range(20)])
    url = f"attic:///{tmp_path / 'shop.db'}"
    environment = {
        **os.environ,
        "ATTIC": str(tmp_path),
        "AIRFLOW_CONN_ATTIC": json.dumps({"conn_type": "generic", "extra": {"sqlalchemy_url": url}}),
        "PYTHONPATH": os.pathsep.join([str(site_packages), str(Path(__file__).parents[2])]),
    }
    run = subprocess.run([sys.executable, "-c", BUILD], capture_output=True, text=True, env=environment)

    assert run.returncode == 0, run.stderr[-3_000:]
    assert json.loads(run.stdout.splitlines()[-1]) == {
        "result": "published",
        "urls": 20,
        "asset": "attic://shop/sitemap.xml",
        "console": "https://attic.example/shop",
        "manifest": True,
    }


@pytest.mark.parametrize("value", ["nowhere:Store", "json:Store", "json:loads.nothing"])
def test_an_entry_point_that_cannot_be_loaded_is_named(value: str) -> None:
    entry = EntryPoint(name="oss", value=value, group="airflow_sitemaps.stores")
    with pytest.raises(ConfigurationError, match=rf"entry point 'oss' of 'airflow_sitemaps.stores' .* from '{value}'"):
        loaded(entry)


def test_an_unknown_scheme_names_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"no store has the scheme 'oss'. The schemes are az, file, gs, s3"):
        open_area("oss://bucket/maps", None)
