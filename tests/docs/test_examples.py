"""Every example of the README and the docs: Python runs, commands are understood, connections are read."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from airflow.configuration import conf
from airflow.sdk import Connection

from airflow_sitemaps.cli.commands import COMMANDS
from airflow_sitemaps.cli.main import parser
from airflow_sitemaps.pipeline.report import Report
from airflow_sitemaps.stores.local import LocalStore
from airflow_sitemaps.testing import MemorySourceConfig

if TYPE_CHECKING:
    from airflow_sitemaps.sitemap import Section, Sitemap

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^ *```(\w+)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
"""A block of code, also within a list."""
COMMAND = re.compile(r"`(?:airflow-sitemaps|airflow sitemaps) ([a-z-]+)[^`]*`")
"""A command in a sentence."""
BUILD = re.compile(r"^(?=report = build\(sitemap)", re.MULTILINE)
"""Where an example builds ``sitemap``: nothing wide, so that splitting keeps the line."""
CONN_TYPES = (
    "aws",
    "clickhouse",
    "databricks",
    "duckdb",
    "gcpbigquery",
    "generic",
    "google_cloud_platform",
    "mysql",
    "postgres",
    "redshift",
    "snowflake",
    "sqlite",
    "trino",
    "wasb",
)
CONNECTION = re.compile(r"(AIRFLOW_CONN_[A-Z_]+)='([^']+)'")


def blocks(language: str) -> list[Any]:
    """The blocks of a language, by page, since later examples go on from earlier ones."""
    found = []
    for page in PAGES:
        texts = [text for name, text in BLOCK.findall(page.read_text()) if name == language]
        if texts:
            found.append(pytest.param(texts, id=page.relative_to(ROOT).as_posix()))
    return found


@pytest.mark.parametrize("texts", blocks("python"))
def test_python_examples_run(texts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page's examples run in one namespace; what would reach a warehouse and S3 gets rows and a folder instead."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "target").mkdir()
    shutil.copy(ROOT / "tests/sources/data/manifest.json", tmp_path / "target")
    names: dict[str, Any] = {}
    for number, part in enumerate(part for text in texts for part in BUILD.split(text)):
        if BUILD.match(part):
            names["sitemap"] = within_reach(names["sitemap"], tmp_path / str(number), monkeypatch)
        exec(compile(part, "example", "exec"), names)
        if BUILD.match(part):
            assert isinstance(names["report"], Report)
            assert names["report"].result == "published"


def within_reach(sitemap: Sitemap, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Sitemap:
    """The same sitemap over rows of a list, or of a table for sections of a column, and a folder."""
    base = sitemap.store.base_url
    record = {"publication": {"name": "Shop", "language": "en"}, "title": "Opening"}
    record["publication_date"] = datetime.now(timezone.utc).isoformat()

    def source(section: Section) -> Any:
        if section.split is not None:
            return replace(section.source, conn_id="within_reach")  # type: ignore[type-var]
        row = {"id": 1, "loc": f"{sitemap.base_url_of(section)}{section.name}", "article": json.dumps(record)}
        return MemorySourceConfig([row], lastmod="updated_at", news="article" if section.kind == "news" else None)

    sections = tuple(replace(section, source=source(section)) for section in sitemap.sections)
    folder.mkdir()
    monkeypatch.setenv("AIRFLOW_CONN_WITHIN_REACH", f"sqlite:///{folder}/shop.db")
    with closing(sqlite3.connect(folder / "shop.db")) as shop:
        shop.execute("CREATE TABLE product_pages (id INTEGER PRIMARY KEY, locale TEXT, slug TEXT, updated_at TEXT)")
        rows = [(n, "de" if n else None, f"p{n}", "2026-11-01") for n in range(1_001)]
        shop.executemany("INSERT INTO product_pages VALUES (?, ?, ?, ?)", rows)
        shop.commit()
    return replace(
        sitemap, store=LocalStore(folder, base_url=base, index_name=sitemap.store.index_name), sections=sections
    )


@pytest.mark.parametrize("texts", blocks("console"))
def test_commands_are_understood(texts: list[str]) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for line in "".join(texts).splitlines():
        words = shlex.split(line.strip().removeprefix("$ "), comments=True)
        if words[:1] == ["make"]:
            assert words[1] in targets
        elif words[:1] == ["airflow-sitemaps"] or words[:2] == ["airflow", "sitemaps"]:
            arguments = words[1:] if words[0] == "airflow-sitemaps" else words[2:]
            assert parser().parse_args(arguments).command == arguments[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_sentences_exist(page: Path) -> None:
    for command in COMMAND.findall(page.read_text()):
        assert command in COMMANDS, f"{page.name}: {command}"


@pytest.mark.parametrize("texts", blocks("json"))
def test_json_examples_are_json(texts: list[str]) -> None:
    for text in texts:
        assert json.loads(text)


@pytest.mark.parametrize("texts", blocks("ini"))
def test_settings_are_airflows(texts: list[str]) -> None:
    for text in texts:
        read = configparser.ConfigParser()
        read.read_string(text)
        for section in read.sections():
            known = conf.configuration_description[section]["options"]
            assert set(read[section]) <= set(known), section


RUN_WORDS = re.compile(r"{{ *(ds|ts|ds_nodash|ts_nodash|logical_date|data_interval_start|data_interval_end)\b")


@pytest.mark.parametrize("texts", blocks("python"))
def test_examples_work_in_every_kind_of_run(texts: list[str]) -> None:
    """A word of a logical date is not in them: it would fail in a run that an asset starts."""
    assert [found for text in texts for found in RUN_WORDS.findall(text)] == []


@pytest.mark.parametrize(
    ("name", "value"),
    [pair for page in PAGES for pair in CONNECTION.findall(page.read_text())],
    ids=lambda text: text[:60],
)
def test_connections_are_read(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)

    connection = Connection.get(name.removeprefix("AIRFLOW_CONN_").lower())

    assert connection.conn_type in CONN_TYPES
    if url := connection.extra_dejson.get("sqlalchemy_url"):
        assert sa.engine.make_url(url).get_dialect()
    if value.startswith("{"):
        assert json.loads(os.environ[name])["conn_type"] == connection.conn_type


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_files_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_tests_that_a_page_names_are_there(page: Path) -> None:
    for target in re.findall(r"`(tests/[^`]+)`", page.read_text()):
        assert (ROOT / target).exists(), f"{page.name}: {target}"
