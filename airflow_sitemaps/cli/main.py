"""Entry point of ``airflow-sitemaps`` and ``airflow sitemaps``: run a command, print a result, exit with 0, 1 or 2."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TextIO

from airflow_sitemaps.cli.arguments import parser
from airflow_sitemaps.cli.output import answer_stream, log_lines
from airflow_sitemaps.errors import GuardError, SitemapError

if TYPE_CHECKING:
    from collections.abc import Sequence

DONE: Final = 0
FAILED: Final = 1
WRONG_USE: Final = 2
INTERRUPTED: Final = 130

NOT_IN_AIRFLOW: Final = frozenset({"demo"})
"""Commands that start their own Airflow."""

log = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status. argparse exits with status 2 if the arguments are wrong."""
    own = parser()
    complete(own)
    return execute(own.parse_args(argv))


def complete(own: argparse.ArgumentParser) -> None:
    """Answer a shell's request for completions, and exit. Without such a request, do nothing."""
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(own)


def execute(arguments: argparse.Namespace) -> int:
    """Run a command whose arguments are parsed, and return the exit status."""
    wants_json = bool(getattr(arguments, "json", False))
    # The demonstration prints while it runs, and its Airflow keeps its own log. Every other command prints one result,
    # and only that is standard output.
    is_demo = arguments.command == "demo"
    stream = nullcontext(sys.stdout) if is_demo else answer_stream()
    verbose = bool(getattr(arguments, "verbose", False))
    with stream as out, log_lines(verbose=verbose, quiet_airflow=not is_demo):
        try:
            return _run(arguments, out, wants_json=wants_json)
        except KeyboardInterrupt:
            print("interrupted; the published sitemap is still complete", file=sys.stderr)
            return INTERRUPTED
        except Exception as error:
            return _failed(error, out, wants_json=wants_json)


def _run(arguments: argparse.Namespace, out: TextIO, *, wants_json: bool) -> int:
    from airflow_sitemaps.cli.commands import COMMANDS

    answer = COMMANDS[arguments.command](arguments)
    if wants_json if answer.json is None else answer.json:
        _print_json(answer.document, out)
    else:
        for line in answer.lines:
            print(line, file=out)
    return DONE if answer.well else FAILED


def _failed(error: Exception, out: TextIO, *, wants_json: bool) -> int:
    from airflow_sitemaps.cli.targets import TargetError

    if wants_json:
        refusals = list(map(_refusal, error.refusals)) if isinstance(error, GuardError) else []
        document = {"type": type(error).__name__, "message": str(error), "refusals": refusals}
        _print_json({"error": document}, out)
    if isinstance(error, SitemapError):
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    else:
        log.error("Unexpected error: %s", error, exc_info=error)
    return WRONG_USE if isinstance(error, TargetError) else FAILED


def _refusal(refusal: object) -> dict[str, Any]:
    """Return a refusal as JSON values; ``text`` is the whole sentence."""
    fields = {name: getattr(refusal, name, None) for name in ("guard", "section", "message", "permit")}
    return {**fields, "text": str(refusal)}


def _print_json(document: Any, out: TextIO) -> None:
    json.dump(document, out, ensure_ascii=False, indent=2, default=str)
    out.write("\n")
    out.flush()


def get_cli_commands() -> list[Any]:
    """Return the group ``sitemaps``. Airflow calls this to build its parser."""
    from airflow.cli.cli_config import ActionCommand, GroupCommand

    (commands,) = (action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))  # noqa: SLF001
    texts = {choice.dest: choice.help or "" for choice in commands._choices_actions}  # noqa: SLF001
    subcommands = [
        ActionCommand(
            name=name,
            help=_sentence(texts[name]),
            func=partial(_run_in_airflow, name),
            args=[_argument(action) for action in command._actions if action.dest != "help"],  # noqa: SLF001
        )
        for name, command in sorted(commands.choices.items())
        if name not in NOT_IN_AIRFLOW
    ]
    return [GroupCommand(name="sitemaps", help="Manage sitemaps", subcommands=subcommands)]


def _run_in_airflow(command: str, arguments: argparse.Namespace) -> None:
    """Run a command, and end the process with its exit status."""
    arguments.command = command
    status = execute(arguments)
    if status:
        sys.exit(status)


def _argument(action: argparse.Action) -> Any:
    """Return Airflow's form of an argument."""
    from airflow.cli import cli_config

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
