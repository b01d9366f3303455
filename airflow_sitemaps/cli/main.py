"""``airflow-sitemaps`` and ``airflow sitemaps``: parse arguments, run a command, print a result, exit with 0, 1 or 2."""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, Final, TextIO, TypeAlias

from airflow_sitemaps import __version__
from airflow_sitemaps.cli.output import answer_stream, log_lines
from airflow_sitemaps.errors import GuardError, RequestError, SitemapError

DONE: Final = 0
FAILED: Final = 1
WRONG_USE: Final = 2
INTERRUPTED: Final = 130

TARGET: Final = "file.py:sitemap"
_TARGET_HELP: Final = (
    "a Python file (a DAG file, for example) and the name of the Sitemap in it; or DAG_ID or DAG_ID:GROUP_ID"
)

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 - argparse has no other name

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
    wants_json = bool(getattr(arguments, "json", False)) or getattr(arguments, "format", "") == "json"
    verbose = bool(getattr(arguments, "verbose", False))
    status = FAILED
    try:
        with answer_stream() as out, log_lines(verbose=verbose):
            try:
                status = _run(arguments, out, wants_json=wants_json)
            except KeyboardInterrupt:
                status = INTERRUPTED
                print("interrupted; the published sitemap is still complete", file=sys.stderr)
            except Exception as error:
                status = _failed(error, out, wants_json=wants_json)
    except OSError as error:  # of the answer, which is written to its end here: its disk is full, for example
        print(f"standard output: {error.strerror}. The answer (exit status {status}) is cut off", file=sys.stderr)
        status = status or FAILED
    return status


def _run(arguments: argparse.Namespace, out: TextIO, *, wants_json: bool) -> int:
    from airflow_sitemaps.cli.commands import COMMANDS

    answer = COMMANDS[arguments.command](arguments)
    with suppress(OSError):  # who reads the output wants no more, as ``head`` does, or ``execute`` reports it
        if wants_json if answer.json is None else answer.json:
            _print_json(answer.document, out)
        else:
            out.writelines(f"{line}\n" for line in answer.lines)
    return DONE if answer.well else FAILED


def _failed(error: Exception, out: TextIO, *, wants_json: bool) -> int:
    from airflow_sitemaps.cli.targets import TargetError

    if wants_json:
        refusals = list(map(_refusal, error.refusals)) if isinstance(error, GuardError) else []
        document = {"type": type(error).__name__, "message": str(error), "refusals": refusals}
        with suppress(OSError):
            _print_json({"error": document}, out)
    if isinstance(error, SitemapError):
        with suppress(BrokenPipeError):
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
    else:
        log.error("Unexpected error: %s", error, exc_info=error)
    return WRONG_USE if isinstance(error, (TargetError, RequestError)) else FAILED


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
    from airflow_sitemaps.airflow_compat import ActionCommand, GroupCommand

    (commands,) = (action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))  # noqa: SLF001
    texts = {choice.dest: choice.help or "" for choice in commands._choices_actions}  # noqa: SLF001
    subcommands = [
        ActionCommand(
            name=name,
            help=texts[name][:1].upper() + texts[name][1:],
            func=partial(_run_in_airflow, name),
            args=[_argument(action) for action in command._actions if action.dest != "help"],  # noqa: SLF001
        )
        for name, command in sorted(commands.choices.items())
    ]
    return [GroupCommand(name="sitemaps", help="Manage sitemaps", subcommands=subcommands)]


def _run_in_airflow(command: str, arguments: argparse.Namespace) -> None:
    """Run a command, and end the process with its exit status."""
    arguments.command = command
    status = execute(arguments)
    if status:
        sys.exit(status)


def _argument(action: argparse.Action) -> Any:
    """Return the argument that adds an action of the own parser to Airflow's, as argparse does with ``parents=``."""
    from airflow_sitemaps.airflow_compat import Arg

    arg: Any = Arg(flags=tuple(action.option_strings) or (action.dest,))
    arg.add_to_parser = lambda parser: parser._add_action(action)  # noqa: SLF001
    return arg


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    result = argparse.ArgumentParser(
        prog="airflow-sitemaps",
        description="Sitemaps from SQL: sharded, incremental, published safely.",
        epilog="Exit status: 0 done, 1 refused or failed, 2 wrong use. "
        "Connections are Airflow's: AIRFLOW_CONN_<ID> in the environment, or its database.",
    )
    result.add_argument("--version", action="version", version=f"airflow-sitemaps {__version__}")
    commands = result.add_subparsers(dest="command", required=True, metavar="COMMAND")

    build = _command(commands, "build", "plan, write and publish what changed")
    _run_options(build)
    plan = _command(commands, "plan", "explain what a build would do; write nothing")
    _run_options(plan)
    text = "read and render the first N rows of each section, and report the effect of every rule"
    plan.add_argument("--check", type=_rows, default=None, metavar="N", help=text)
    status = _command(commands, "status", "what is published now, and the generations that are kept")
    text = "exit with 1 unless a run succeeded within AGE (90m, 26h, 3d); a run that changed nothing counts"
    status.add_argument("--max-age", type=_age, metavar="AGE", help=text)

    duplicates = _command(commands, "duplicates", "ask the databases for URLs that several rows share")
    duplicates.add_argument("--sections", type=_names, default=(), metavar="A,B", help="only these sections")
    _params(duplicates)
    text = "largest number of URLs of each section (20)"
    duplicates.add_argument("--most", type=_rows, default=20, metavar="N", help=text)
    robots = _command(commands, "robots", "the Sitemap lines for robots.txt, printed, or put into a file")
    text = "write the lines between markers in this file; other lines do not change"
    robots.add_argument("--file", metavar="FILE", help=text)

    _verify(commands)
    _lookups(commands)
    _indexnow_key(commands)

    rollback = _command(commands, "rollback", "publish an earlier generation again, as a new one")
    text = "number of the generation; the status command lists them"
    rollback.add_argument("generation", type=int, metavar="GENERATION", help=text)
    _yes(rollback)
    adopt = _command(commands, "adopt", "take over an address where another program publishes a sitemap")
    text = "write every URL that the adoption would remove or add into this file"
    adopt.add_argument("--difference", metavar="FILE", help=text)
    _yes(adopt)
    _allow(adopt)
    _params(adopt)

    _store_check(commands)
    _estimate(commands)

    return result


def _verify(commands: Commands) -> None:
    verify = commands.add_parser("verify", help="check what is published against the protocol's rules")
    text = f"{TARGET}, DAG_ID, DAG_ID:GROUP_ID, a folder, a file, or an s3://, gs://, az:// or https:// address"
    verify.add_argument("target", metavar="TARGET", help=text)
    verify.add_argument("--sample", type=int, default=0, metavar="N", help="number of listed pages to fetch (0)")
    verify.add_argument("--public", metavar="URL", help="address at which a file or folder given by path is served")
    text = "Airflow connection of the store (its default one: aws_default for s3://)"
    verify.add_argument("--conn", default=None, metavar="ID", help=text)
    _access(verify)
    formats = ("text", "json", "junit")
    verify.add_argument("--format", choices=formats, default=None, help="output format (text; json with --json)")
    _common_options(verify)


def _lookups(commands: Commands) -> None:
    find = _command(commands, "find", "whether the published sitemap lists a URL; exit status 1 when it does not")
    find.add_argument("url", metavar="URL", help="the page's URL, or its path from the root: /p/42")
    text = "if it is not listed, also query the source for the row with its key"
    find.add_argument("--source", action="store_true", help=text)
    _params(find)
    inventory = _command(commands, "inventory", "every listed URL with its age, counted, or written as Parquet files")
    inventory.add_argument(
        "--to", metavar="ADDRESS", help="write the files there: s3://, gs:// or az:// with a prefix, or a folder"
    )
    inventory.add_argument("--conn", default=None, metavar="ID", help="Airflow connection of that address")
    diff = _command(commands, "diff", "the URLs that differ between two kept generations")
    text = "the base generation; the status command lists all kept generations"
    diff.add_argument("before", type=int, metavar="A", help=text)
    diff.add_argument("after", type=int, metavar="B", help="the generation to compare with the base")


def _store_check(commands: Commands) -> None:
    text = "ask a store for everything that publishing relies on; exit status 1 if nothing would be published there"
    command = commands.add_parser("store-check", help=text, description=text[0].upper() + text[1:] + ".")
    text = "s3://, gs:// or az:// with a prefix to write to, or a folder"
    command.add_argument("address", metavar="ADDRESS", help=text)
    command.add_argument("--conn", default=None, metavar="ID", help="Airflow connection (the default one of the store)")
    _common_options(command)


def _indexnow_key(commands: Commands) -> None:
    text = "whether the site serves the key file of IndexNow; exit status 1 when it does not"
    command = _command(commands, "indexnow-key", text)
    text = "Airflow connection that holds the key (%(default)s)"
    command.add_argument("--conn", default="indexnow_default", metavar="ID", help=text)
    _access(command)


def _access(command: argparse.ArgumentParser) -> None:
    command.add_argument("--allow-http", action="store_true", help="also request addresses without TLS (staging sites)")
    text = "also connect to addresses that are not on the public Internet"
    command.add_argument("--allow-private", action="store_true", help=text)


def _estimate(commands: Commands) -> None:
    text = "what a first build and a later run would cost, computed from measured rates"
    command = commands.add_parser("estimate", help=text, description=text[0].upper() + text[1:] + ".")
    command.add_argument("--rows", type=int, required=True, metavar="N", help="rows of the table")
    text = "share of rows that change between runs (0.001)"
    command.add_argument("--changed", type=float, default=0.001, metavar="SHARE", help=text)
    command.add_argument("--scattered", action="store_true", help="changes are spread over all keys")
    command.add_argument("--shard-urls", type=int, default=50_000, metavar="N", help="URLs of a full shard (50000)")
    text = "numbers of parallel tasks to compare (4,16,64)"
    command.add_argument("--workers", type=_counts, default=(4, 16, 64), metavar="A,B", help=text)
    command.add_argument("--json", action="store_true", help="print one JSON document on standard output")


def _command(commands: Commands, name: str, text: str) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    command.add_argument("target", metavar=TARGET, help=_TARGET_HELP)
    _common_options(command)
    return command


def _common_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print one JSON document on standard output")
    command.add_argument("--verbose", "-v", action="store_true", help="show the log of every stage")


def _run_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--sections", type=_names, default=(), metavar="A,B", help="only these sections")
    command.add_argument("--full", action="store_true", help="read and render every shard")
    command.add_argument("--rebuild", type=_names, default=(), metavar="SHARD,...", help="write these shards again")
    text = "changed URLs of these sections keep their observed dates"
    command.add_argument("--keep-lastmods", type=_names, default=(), metavar="A,B", help=text)
    _allow(command)
    _params(command)


def _params(command: argparse.ArgumentParser) -> None:
    text = "a param for templates: {{ params.NAME }}; default: the DAG's value"
    command.add_argument("--param", type=_pair, action="append", default=[], metavar="NAME=VALUE", help=text)


def _allow(command: argparse.ArgumentParser) -> None:
    text = "let this run pass a guard, for example shrink:products"
    command.add_argument("--allow", type=_names, action="append", default=[], metavar="GUARD", help=text)


def _yes(command: argparse.ArgumentParser) -> None:
    command.add_argument("--yes", action="store_true", help="do it without asking")


def _names(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    if not names:
        raise argparse.ArgumentTypeError(f"{text!r}: write one name, or several with commas, or omit the option")
    return names


def _rows(text: str) -> int:
    if not re.fullmatch(r"0*[1-9]\d{0,11}", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"{text!r}: write a number of rows, from 1 to 999,999,999,999")
    return int(text)


def _counts(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in _names(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: write whole numbers with commas between them") from None


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r}: write NAME=VALUE")
    return name, value


def _age(text: str) -> timedelta:
    """Parse an age such as ``90m``, ``26h`` or ``3d``."""
    match = re.fullmatch(r"(\d{1,6}(?:\.\d+)?)([mhd])", text)
    if match is None or not float(match[1]):
        raise argparse.ArgumentTypeError(f"{text!r}: write a number of minutes, hours or days, like 90m, 26h or 3d")
    return timedelta(**{{"m": "minutes", "h": "hours", "d": "days"}[match[2]]: float(match[1])})
