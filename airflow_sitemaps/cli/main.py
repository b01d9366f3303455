"""Entry point of the command line: parse, run one command, print one result, exit with status 0, 1 or 2."""

from __future__ import annotations

import json
import logging
import os
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final, TextIO

from airflow_sitemaps.cli.arguments import parser
from airflow_sitemaps.cli.streams import answer_stream, log_lines
from airflow_sitemaps.errors import GuardError, SitemapError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

DONE: Final = 0
FAILED: Final = 1
WRONG_USE: Final = 2
INTERRUPTED: Final = 130

log = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status. argparse exits with status 2 if the arguments are wrong.

    Args:
        argv: The arguments. Default: those of the process.
    """
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
    from airflow_sitemaps.cli.target import TargetError

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
