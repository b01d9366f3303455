"""What Airflow knows of this package as a provider."""

from __future__ import annotations

import importlib
import json
import re
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
from airflow.cli.cli_parser import get_parser
from airflow.providers_manager import ProvidersManager

from airflow_sitemaps.cli.main import get_cli_commands
from airflow_sitemaps.operators.links import API_PREFIX
from airflow_sitemaps.plugin import STATIC
from airflow_sitemaps.provider_info import get_provider_info

ROOT = Path(__file__).parents[2]


def test_provider_info_follows_airflows_schema() -> None:
    schema = json.loads(files("airflow").joinpath("provider_info.schema.json").read_text())

    jsonschema.validate(get_provider_info(), schema)


def test_it_is_complete_by_the_schema_of_airflows_own_providers() -> None:
    schema = json.loads(files("airflow").joinpath("provider.yaml.schema.json").read_text())

    jsonschema.validate(
        {**get_provider_info(), "state": "ready", "source-date-epoch": 0, "versions": ["0.1.0"]}, schema
    )


def test_it_names_every_module_with_an_operator() -> None:
    folder = ROOT / "airflow_sitemaps" / "operators"
    modules = {
        f"airflow_sitemaps.operators.{path.stem}"
        for path in folder.glob("*.py")
        if path.stem != "base" and re.search(r"^class \w+Operator\(", path.read_text(), re.MULTILINE)
    }
    (operators,) = get_provider_info()["operators"]
    assert set(operators["python-modules"]) == modules


def test_its_guides_and_its_logo_exist() -> None:
    (integration,) = get_provider_info()["integrations"]
    assert all((ROOT / path.removeprefix("/")).is_file() for path in integration["how-to-guide"])
    assert integration["logo"] == f"{API_PREFIX}/static/icon.svg"
    assert (STATIC / "icon.svg").is_file()


def test_the_entry_point_leads_to_it() -> None:
    found = [
        point for point in entry_points(group="apache_airflow_provider") if point.module.startswith("airflow_sitemaps")
    ]

    assert [point.load() for point in found] == [get_provider_info]


def test_airflow_lists_the_provider() -> None:
    provider = ProvidersManager().providers["airflow-sitemaps"]

    assert provider.data["name"] == "Sitemaps"


def test_it_leads_to_the_documentation_and_adds_no_connection_form() -> None:
    info = get_provider_info()

    assert all(each["external-doc-url"].startswith("https://") for each in info["integrations"])
    # Airflow demands a hook for each form; the connections are of other providers' types, or generic.
    assert not {"connection-types", "hooks", "hook-class-names"} & set(info)


def test_everything_it_names_can_be_imported() -> None:
    info = get_provider_info()
    for integration in info["operators"]:
        for module in integration["python-modules"]:
            importlib.import_module(module)
    for link in [*info["extra-links"], *info["notifications"]]:
        module, _, name = link.rpartition(".")
        assert getattr(importlib.import_module(module), name)


def airflow(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command of Airflow prints."""
    arguments = get_parser().parse_args(words)
    arguments.func(arguments)
    return capsys.readouterr().out


def test_airflow_providers_get_shows_what_is_registered(capsys: pytest.CaptureFixture[str]) -> None:
    (shown,) = json.loads(airflow(capsys, "providers", "get", "airflow-sitemaps", "--full", "--output", "json"))

    info = get_provider_info()
    assert shown["description"] == info["description"].rstrip(".")
    for key in ("operators", "sensors", "triggers", "notifications", "extra-links", "asset-uris", "config", "cli"):
        assert info[key]
        assert shown[key] == str(info[key]) or shown[key] == info[key]


def test_airflow_config_list_shows_the_settings_with_their_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    listed = airflow(capsys, "config", "list", "--section", "sitemaps", "--include-descriptions", "--show-values")

    assert "[sitemaps]" in listed
    for name, option in get_provider_info()["config"]["sitemaps"]["options"].items():
        assert f"{name} = {option['default']}" in listed
        assert option["description"] in listed


def test_airflow_sitemaps_help_shows_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        get_parser().parse_args(["sitemaps", "--help"])

    shown = capsys.readouterr().out
    (group,) = get_cli_commands()
    assert ended.value.code == 0
    for command in group.subcommands:
        assert command.name in shown
        assert command.help in " ".join(shown.split())
