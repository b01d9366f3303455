"""Every command of ``airflow sitemaps``, run by Airflow's own command line over the sitemap of a DAG."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from airflow.cli.cli_parser import get_parser
from airflow.models.dag import DagModel
from airflow.utils.session import create_session

from airflow_sitemaps.cli.main import get_cli_commands
from tests.support.airflow_db import BUNDLE, database
from tests.support.website import Page, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.website import Site

DAG_ID = "cli_shop"
KEY = "0123-secret-key"
FILE = """
from airflow.sdk import DAG
from airflow_sitemaps import LocalStore, Section, Sitemap, SitemapTaskGroup, SqlSource

source = SqlSource("cli_shop", table="products", key="id", loc={base!r} + "p/{{id}}")
with DAG({dag_id!r}, schedule=None, max_active_runs=1):
    SitemapTaskGroup("site", Sitemap(LocalStore({site!r}, base_url={base!r}), [Section("products", source)]))
"""
NAMESPACE = "http://www.sitemaps.org/schemas/sitemap/0.9"


class Shop:
    """A table in SQLite, a DAG over it that Airflow's database lists, and Airflow's command line."""

    def __init__(self, folder: Path, base: str, capture: pytest.CaptureFixture[str]) -> None:
        self.database, self.site, self.capture = folder / "shop.db", folder / "site", capture
        self.base, self.commands = base, set[str]()
        (folder / "shop.py").write_text(FILE.format(base=base, site=str(self.site), dag_id=DAG_ID))
        self.execute("CREATE TABLE products (id INTEGER PRIMARY KEY)")
        self.execute("INSERT INTO products VALUES (1), (2), (3)")

    def execute(self, statement: str) -> None:
        with sqlite3.connect(self.database) as connection:
            connection.execute(statement)
        connection.close()

    def airflow(self, command: str, *words: str, status: int = 0) -> Any:
        """The JSON that a command prints about the DAG's sitemap, ended with a status."""
        target = () if command in ("estimate", "store-check") else (DAG_ID,)
        arguments = get_parser().parse_args(["sitemaps", command, *target, *words, "--json"])
        self.commands.add(command)
        ended = 0
        try:
            arguments.func(arguments)
        except SystemExit as error:
            ended = int(error.code or 0)
        out, err = self.capture.readouterr()
        assert ended == status, err
        return json.loads(out)


@pytest.fixture
def website() -> Iterator[Site]:
    with serving() as site:
        yield site


@pytest.fixture
def shop(tmp_path: Path, website: Site, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shop:
    made = Shop(tmp_path, f"{website.base}/", capfd)
    bundle = {
        "name": BUNDLE,
        "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
        "kwargs": {"path": str(tmp_path)},
    }
    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", json.dumps([bundle]))
    warehouse = {"conn_type": "generic", "extra": {"sqlalchemy_url": f"sqlite:///{made.database}"}}
    monkeypatch.setenv("AIRFLOW_CONN_CLI_SHOP", json.dumps(warehouse))
    monkeypatch.setenv("AIRFLOW_CONN_INDEXNOW_DEFAULT", json.dumps({"conn_type": "generic", "password": KEY}))
    database()
    with create_session() as session:
        file = str(tmp_path / "shop.py")
        session.merge(DagModel(dag_id=DAG_ID, bundle_name=BUNDLE, relative_fileloc="shop.py", fileloc=file))
    return made


def test_airflow_runs_every_command_over_the_sitemap_of_a_dag(shop: Shop, website: Site, tmp_path: Path) -> None:
    """Another program's sitemap is adopted, searched, compared, refused, rolled back and checked."""
    shop.site.mkdir()
    (shop.site / "sitemap.xml").write_text(
        f'<urlset xmlns="{NAMESPACE}"><url><loc>{shop.base}old</loc></url><url><loc>{shop.base}p/1</loc></url></urlset>'
    )
    assert shop.airflow("build", status=1)["error"]["type"] == "OwnershipError"
    explained = shop.airflow("adopt")
    assert (explained["theirs"], explained["ours"], explained["only_theirs_samples"]) == (2, 3, [f"{shop.base}old"])
    assert shop.airflow("adopt", "--yes")["urls"] == 3

    shop.execute("INSERT INTO products VALUES (4)")
    planned = shop.airflow("plan")
    assert planned["changes"] is True
    assert set(planned["sections"]) == {"products"}
    assert shop.airflow("status")["generation"] == 1, "a plan publishes nothing"
    built = shop.airflow("build")
    assert (built["result"], built["generation"], built["urls"]) == ("published", 2, 4)
    assert shop.airflow("status", "--max-age", "1h")["fresh"] is True

    assert shop.airflow("find", "/p/4")["listed"] is True
    absent = shop.airflow("find", "/p/5", "--source", status=1)
    assert (absent["listed"], absent["matches"]) == (False, [])
    difference = shop.airflow("diff", "1", "2")
    assert (difference["added_samples"], difference["removed"]) == ([f"{shop.base}p/4"], 0)
    assert shop.airflow("duplicates") == {"products": []}

    checked = shop.airflow("verify")
    assert (checked["valid"], checked["urls"]) == (True, 4)
    robots = tmp_path / "robots.txt"
    shop.airflow("robots", "--file", str(robots))
    assert f"Sitemap: {shop.base}sitemap.xml\n" in robots.read_text()
    assert shop.airflow("indexnow-key", "--allow-http", "--allow-private", status=1)["key_files"][0]["served"] is False
    website.pages[f"/{KEY}.txt"] = Page(KEY.encode())
    assert shop.airflow("indexnow-key", "--allow-http", "--allow-private")["key_files"][0]["served"] is True

    shop.execute("DELETE FROM products")
    refused = shop.airflow("build", status=1)["error"]
    assert (refused["type"], [each["permit"] for each in refused["refusals"]]) == ("GuardError", ["empty:products"])
    restored = shop.airflow("rollback", "1", "--yes")
    assert (restored["generation"], restored["urls"]) == (3, 3)
    assert shop.airflow("find", "/p/4", status=1)["listed"] is False

    assert {cost["shards"] for cost in shop.airflow("estimate", "--rows", "1000000")["costs"]} == {20}

    (counted,) = shop.airflow("inventory")["sections"]
    assert (counted["section"], counted["urls"]) == ("products", 3)

    assert shop.airflow("store-check", str(shop.site))["accepted"] is True

    (group,) = get_cli_commands()
    assert shop.commands == {command.name for command in group.subcommands}
