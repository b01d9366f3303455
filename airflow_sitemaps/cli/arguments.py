"""What may be typed after ``airflow-sitemaps``."""

from __future__ import annotations

import argparse
from typing import Final

from airflow_sitemaps import __version__

TARGET: Final = "file.py:sitemap"
_TARGET_HELP: Final = "a Python file (a DAG file will do) and the name of the Sitemap in it"


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
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
    _command(commands, "status", "what is published now, and how it came to be")

    duplicates = _command(commands, "duplicates", "ask the databases for URLs that several rows share")
    duplicates.add_argument("--sections", type=_names, default=(), metavar="A,B", help="only these sections")
    duplicates.add_argument("--most", type=int, default=20, metavar="N", help="so many URLs of each section (20)")
    robots = _command(commands, "robots", "the Sitemap lines for robots.txt, printed, or put into a file")
    robots.add_argument("--file", metavar="FILE", help="put them between markers into this file, no other line touched")

    verify = commands.add_parser("verify", help="check what is published against the protocol's rules")
    verify.add_argument("target", metavar="TARGET", help=f"{TARGET}, a folder, a file, or an s3:// or https:// address")
    verify.add_argument("--sample", type=int, default=0, metavar="N", help="fetch so many of the listed pages as well")
    verify.add_argument("--public", metavar="URL", help="where a file or folder given by path is served, for its scope")
    verify.add_argument(
        "--conn", default="aws_default", metavar="ID", help="Airflow connection that reads s3:// (%(default)s)"
    )
    _common_options(verify)

    rollback = _command(commands, "rollback", "publish an earlier generation again, as a new one")
    rollback.add_argument("generation", type=int, metavar="GENERATION", help="its number; status lists them")
    _yes(rollback)
    adopt = _command(commands, "adopt", "take over an address where another program's sitemap lies")
    _yes(adopt)
    _allow(adopt)

    demo = commands.add_parser("demo", help="real places to a sitemap on S3 by a real Airflow, twice, on this machine")
    demo.add_argument("--site", default="demo-site", metavar="FOLDER", help="where the published files are left")
    demo.add_argument(
        "--work", default=".demo", metavar="FOLDER", help="where the database and Airflow's home are made"
    )
    demo.add_argument("--places", type=int, default=None, metavar="N", help="only so many places, for a quick look")
    return result


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    text: str,
) -> argparse.ArgumentParser:
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
    command.add_argument("--rebuild", type=_names, default=(), metavar="SHARD,…", help="write these shards again")
    _allow(command)


def _allow(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--allow", type=_names, action="append", default=[], metavar="GUARD", help="let a guard pass: shrink:products"
    )


def _yes(command: argparse.ArgumentParser) -> None:
    command.add_argument("--yes", action="store_true", help="do it without asking")


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
