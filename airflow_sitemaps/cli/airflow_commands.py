"""The commands of ``airflow sitemaps``: those of ``airflow-sitemaps``, registered with Airflow's command line."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import Any, Final

from airflow.cli import cli_config
from airflow.cli.cli_config import ActionCommand, GroupCommand

NOT_IN_AIRFLOW: Final = frozenset({"demo"})
"""Commands that start their own Airflow."""


def get_cli_commands() -> list[Any]:
    """Return the group ``sitemaps``. Airflow calls this to build its parser."""
    from airflow_sitemaps.cli.arguments import parser

    (commands,) = (action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))  # noqa: SLF001
    texts = {choice.dest: choice.help or "" for choice in commands._choices_actions}  # noqa: SLF001
    subcommands = [
        ActionCommand(
            name=name,
            help=_sentence(texts[name]),
            func=partial(_run, name),
            args=[_argument(action) for action in command._actions if action.dest != "help"],  # noqa: SLF001
        )
        for name, command in sorted(commands.choices.items())
        if name not in NOT_IN_AIRFLOW
    ]
    return [GroupCommand(name="sitemaps", help="Manage sitemaps", subcommands=subcommands)]


def _run(command: str, arguments: argparse.Namespace) -> None:
    """Run a command, and end the process with its exit status."""
    from airflow_sitemaps.cli.main import execute

    arguments.command = command
    status = execute(arguments)
    if status:
        sys.exit(status)


def _argument(action: argparse.Action) -> Any:
    """Return Airflow's form of an argument."""
    arg: Any = cli_config.Arg  # Airflow does not annotate it
    flags = tuple(action.option_strings) or (action.dest,)
    settings: dict[str, Any] = {"help": action.help, "default": action.default}
    if isinstance(action, argparse._StoreTrueAction):  # noqa: SLF001
        return arg(flags=flags, action="store_true", help=action.help)
    if isinstance(action, argparse._AppendAction):  # noqa: SLF001
        settings["action"] = "append"
    for name in ("type", "choices", "metavar", "nargs"):
        if getattr(action, name) is not None:
            settings[name] = getattr(action, name)
    if not action.option_strings:
        del settings["default"]
    return arg(flags=flags, **settings)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
