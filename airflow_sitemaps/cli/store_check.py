"""The command that asks a store for everything that publishing relies on."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_sitemaps.cli.output import Answer
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.pipeline.state.capability_probe import examine
from airflow_sitemaps.stores.schemes import FOLDER, default_connection, open_area, scheme_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from airflow_sitemaps.pipeline.state.capability_probe import Reply
    from airflow_sitemaps.ports import ObjectStore


def store_check(arguments: argparse.Namespace) -> Answer:
    """Ask one area of a store every question of the probe. Exit status 1 if nothing would be published there."""
    with _area(arguments.address, arguments.conn) as area:
        replies = list(examine(area))
    accepted = all(reply.is_right for reply in replies if reply.is_needed)
    end = "Publishing is accepted." if accepted else "Publishing is refused."
    return Answer(
        document={"address": arguments.address, "accepted": accepted, "replies": [_document(r) for r in replies]},
        lines=[*map(_line, replies), end],
        well=accepted,
    )


@contextmanager
def _area(address: str, conn_id: str | None) -> Iterator[ObjectStore]:
    """Open an area. In a folder, use a new one within it, because a local store keeps locks beside its files."""
    if scheme_of(address) != FOLDER:
        yield open_area(address, conn_id or default_connection(address))
        return
    folder = Path(address.removeprefix("file://")).expanduser()
    if not folder.is_dir():
        raise ConfigurationError(f"{folder}: there is no such folder. Create it, or correct the path")
    with tempfile.TemporaryDirectory(prefix=".airflow-sitemaps-", dir=folder) as inner:
        yield open_area(str(Path(inner).resolve()), None)


def _line(reply: Reply) -> str:
    answer = {"done": "yes", "refused": "refused", "lost": "no clear answer"}[reply.outcome]
    line = f"{'ok   ' if reply.is_right else 'WRONG'}  {reply.question}: {answer} ({1000 * reply.seconds:.0f} ms)"
    if reply.is_right:
        return line
    return f"{line}. Wanted: {reply.wanted}. {reply.effect[:1].upper()}{reply.effect[1:]}" + (
        f". {reply.detail}" if reply.detail else ""
    )


def _document(reply: Reply) -> dict[str, object]:
    fields = asdict(reply)
    return {**fields, "is_right": reply.is_right}
