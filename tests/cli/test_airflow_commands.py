"""The commands in Airflow's own command line, sitemaps named by DAG, and shell completion."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from airflow.cli.cli_parser import get_parser
from airflow.models.dag import DagModel
from airflow.utils.session import create_session

from airflow_sitemaps.cli import main
from airflow_sitemaps.cli.main import get_cli_commands, parser
from tests.support.airflow_db import BUNDLE, database

if TYPE_CHECKING:
    from pathlib import Path

FILE = """
from airflow.sdk import DAG
from airflow_sitemaps import LocalStore, Section, Sitemap, SitemapTaskGroup, SitemapVerifyOperator
from airflow_sitemaps.testing import MemorySourceConfig

def sitemap(name):
    rows = [{"id": 1, "loc": f"https://shop.example/{name}"}]
    return Sitemap(LocalStore(FOLDER + name, base_url=f"https://shop.example/{name}/"),
                   [Section("pages", MemorySourceConfig(rows), base_url="https://shop.example/")])

with DAG("cli_one", schedule=None, max_active_runs=1):
    SitemapTaskGroup("de", sitemap("de"))
with DAG("cli_two", schedule=None, max_active_runs=1):
    SitemapTaskGroup("fr", sitemap("fr"))
    SitemapTaskGroup("it", sitemap("it"))
one = sitemap("one")
with DAG("cli_twice", schedule=None, max_active_runs=1):
    SitemapTaskGroup("morning", one, plan_kwargs={"sections": ["pages"]})
    SitemapTaskGroup("evening", one, plan_kwargs={"sections": ["pages"]})
    SitemapVerifyOperator(task_id="check", sitemap=one)
with DAG("cli_none", schedule=None):
    pass
"""


@pytest.fixture
def dags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """DAGs in a bundle, listed in Airflow's database."""
    (tmp_path / "shop.py").write_text(f"FOLDER = {str(tmp_path)!r} + '/'\n{FILE}")
    bundle = {
        "name": BUNDLE,
        "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
        "kwargs": {"path": str(tmp_path)},
    }
    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", json.dumps([bundle]))
    database()
    with create_session() as session:
        for dag_id in ("cli_one", "cli_two", "cli_twice", "cli_none"):
            session.merge(
                DagModel(
                    dag_id=dag_id, bundle_name=BUNDLE, relative_fileloc="shop.py", fileloc=str(tmp_path / "shop.py")
                )
            )
    return tmp_path


def shell(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    return (main(arguments), *capsys.readouterr())


def test_a_sitemap_is_named_by_its_dag_and_group(dags: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = shell(capsys, "build", "cli_one", "--json")
    assert status == 0, err
    assert json.loads(out)["urls"] == 1
    assert (dags / "de" / "sitemap.xml").exists()
    assert shell(capsys, "build", "cli_two:it")[0] == 0
    assert (dags / "it" / "sitemap.xml").exists()
    assert not (dags / "fr").exists()
    assert json.loads(shell(capsys, "verify", "cli_two:it", "--json")[1])["urls"] == 1
    for target in ("cli_twice", "cli_twice:morning", "cli_twice:evening"):
        status, _, err = shell(capsys, "build", target)
        assert status == 0, err


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("cli_twice:noon", "no sitemap in a group 'noon'. It has: cli_twice:morning, cli_twice:evening\n"),
        ("cli_two", "publishes several sitemaps. Name one: cli_two:fr, cli_two:it"),
        ("cli_two:es", "has no sitemap in a group 'es'. It has: cli_two:fr, cli_two:it"),
        ("cli_none", "publishes no sitemap"),
        ("cli_missing", "no DAG 'cli_missing' in Airflow's database"),
    ],
)
@pytest.mark.usefixtures("dags")
def test_a_dag_without_such_a_sitemap_is_wrong_use(target: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = shell(capsys, "status", target)

    assert status == 2
    assert words in err


def options(command: Any) -> set[str]:
    return {flag for action in command._actions for flag in action.option_strings} - {"-h", "--help"}


def choices(own: argparse.ArgumentParser) -> Any:
    return next(action for action in own._actions if isinstance(action, argparse._SubParsersAction)).choices


def test_airflow_has_every_command_with_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    ours = choices(parser())
    theirs = choices(choices(get_parser())["sitemaps"])

    assert {name: options(command) for name, command in theirs.items()} == {
        name: options(command) for name, command in ours.items()
    }
    assert [group.name for group in get_cli_commands()] == ["sitemaps"]
    with pytest.raises(SystemExit) as ended:
        get_parser().parse_args(["sitemaps", "estimate"])
    assert ended.value.code == 2
    assert "the following arguments are required: --rows" in capsys.readouterr().err


@pytest.mark.usefixtures("dags")
def test_a_command_of_airflow_answers_and_exits_alike(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = get_parser().parse_args(["sitemaps", "build", "cli_one", "--json"])
    arguments.func(arguments)
    assert json.loads(capsys.readouterr().out)["result"] == "published"

    arguments = get_parser().parse_args(["sitemaps", "status", "cli_none"])
    with pytest.raises(SystemExit) as ended:
        arguments.func(arguments)
    assert ended.value.code == 2


def test_the_shell_completes_commands_and_options(tmp_path: Path) -> None:
    def completed(line: str) -> list[str]:
        answer = tmp_path / "completions"
        environment = {
            **os.environ,
            "_ARGCOMPLETE": "1",
            "_ARGCOMPLETE_IFS": "\n",
            "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
            "COMP_LINE": line,
            "COMP_POINT": str(len(line)),
        }
        subprocess.run([sys.executable, "-m", "airflow_sitemaps.cli"], env=environment, check=True, timeout=120)
        return [word.strip() for word in answer.read_text().split("\n")]

    assert completed("airflow-sitemaps ver") == ["verify"]
    assert completed("airflow-sitemaps verify x --format ju") == ["junit"]
    assert completed("airflow-sitemaps build x --reb") == ["--rebuild"]
