"""The shell answers at once: what costs seconds is imported by the command that needs it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

HEAVY = (
    "adbc_driver_manager",
    "airflow",
    "boto3",
    "botocore",
    "fastapi",
    "jinja2",
    "lxml",
    "moto",
    "pandas",
    "sqlalchemy",
)
SITE = """
from airflow_sitemaps import ListSource, LocalStore, Section, Sitemap, SqlSource

base = "https://shop.example/"
site = Sitemap(LocalStore("{folder}", base_url=base), [Section("pages", ListSource([base + "about"]))])
shop = Sitemap(
    LocalStore("{folder}", base_url=base),
    [Section("pages", SqlSource("shop", table="products", key="id", loc="https://shop.example/{{id}}"))],
)
"""
DAG_FILE = """
from airflow_sitemaps import ListSource, LocalStore, Section, Sitemap, SitemapTaskGroup

base = "https://shop.example/"
site = Sitemap(LocalStore("{folder}", base_url=base), [Section("pages", ListSource([base + "about"]))])

from airflow.sdk import dag

@dag(params={{"land": "fr"}})
def maps():
    SitemapTaskGroup("shop", sitemap=site)

maps()
"""
COMMANDS = """
from airflow_sitemaps.cli import main
for command in {commands!r}:
    assert main(command) == 0, command
"""
LOADED = """
import json, sys
from contextlib import suppress
{statement}
print(json.dumps(sorted({{name.partition(".")[0] for name in sys.modules}})))
"""


@pytest.mark.parametrize(
    "statement",
    [
        "from airflow_sitemaps.cli import main\nwith suppress(SystemExit):\n    main(['--help'])",
        "from airflow_sitemaps.cli import main\nmain(['estimate', '--rows', '10'])",
        "import airflow_sitemaps.cli.commands",
    ],
    ids=["help", "a command without a sitemap", "the commands"],
)
def test_what_needs_no_airflow_does_not_import_it(statement: str) -> None:
    code = LOADED.format(statement=statement)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert not set(HEAVY) & set(json.loads(done.stdout.splitlines()[-1]))


def test_commands_without_a_connection_do_not_import_airflow(tmp_path: Path) -> None:
    """A build reads a list. The other commands read the published sitemap of sections of any source."""
    (tmp_path / "maps.py").write_text(SITE.format(folder=tmp_path / "site"))
    built, sql = f"{tmp_path}/maps.py:site", f"{tmp_path}/maps.py:shop"
    commands = [
        ["build", built], ["plan", built], ["status", built], ["status", sql], ["verify", sql], ["robots", sql],
        ["find", sql, "https://shop.example/about"], ["diff", sql, "1", "1"],
    ]  # fmt: skip
    code = LOADED.format(statement=COMMANDS.format(commands=commands))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert not {"airflow", "boto3", "fastapi", "sqlalchemy"} & set(json.loads(done.stdout.splitlines()[-1]))


def test_the_dags_of_a_file_that_first_imports_airflow_are_found(tmp_path: Path) -> None:
    (tmp_path / "maps.py").write_text(DAG_FILE.format(folder=tmp_path / "site"))
    code = (
        "import sys\nfrom airflow_sitemaps.cli.targets import load\nassert 'airflow' not in sys.modules\n"
        f"print(*(load('{tmp_path}/maps.py:site').params['land'] for _ in range(2)), sys.meta_path)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    last = done.stdout.splitlines()[-1]
    assert last.startswith("fr fr ")
    assert "_ImportObserver" not in last
