"""What Airflow knows of this package as a provider."""

from __future__ import annotations

import importlib
import json
from importlib.metadata import entry_points
from importlib.resources import files

import jsonschema
import pytest
from airflow.cli.cli_parser import get_parser
from airflow.providers_manager import ProvidersManager

from airflow_sitemaps.cli.main import get_cli_commands
from airflow_sitemaps.provider_info import get_provider_info


def test_provider_info_follows_airflows_schema() -> None:
    schema = json.loads(files("airflow").joinpath("provider_info.schema.json").read_text())

    jsonschema.validate(get_provider_info(), schema)


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
