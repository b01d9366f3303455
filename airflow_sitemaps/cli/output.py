"""What a command prints: one result on standard output; progress, log lines and all other output on standard error."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress

AIRFLOW_LEVEL: Final = "AIRFLOW__LOGGING__LOGGING_LEVEL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of a command, for programs (with ``json`` regardless of ``--json``) and people; ``well``: status 0."""

    document: Mapping[str, Any]
    lines: Iterable[str] = ()
    well: bool = True
    json: bool | None = None


@contextmanager
def answer_stream() -> Iterator[TextIO]:
    """Yield the real standard output. All else, also that of C libraries, is redirected to standard error meanwhile."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by what started this process
            setattr(sys, name, Path(os.devnull).open("r+", encoding="utf-8"))  # noqa: SIM115 - stays open
    sys.stdout.flush()
    try:
        number = sys.stdout.fileno()
        kept = os.dup(number)
    except (OSError, ValueError):  # no file descriptor, as under a test's capture: replace only the name
        own, sys.stdout = sys.stdout, sys.stderr
        try:
            yield own
        finally:
            sys.stdout = own
        return
    own, sys.stdout = sys.stdout, sys.stderr
    os.dup2(sys.stderr.fileno(), number)
    try:
        with suppress(BrokenPipeError), os.fdopen(kept, "w", -1, "utf-8", "backslashreplace", closefd=False) as stream:
            yield stream
    finally:
        sys.stdout = own
        os.dup2(kept, number)
        os.close(kept)


@contextmanager
def log_lines(*, verbose: bool) -> Iterator[None]:
    """Write log lines to standard error: warnings of all libraries, and with ``verbose`` this package's INFO lines.

    Airflow replaces the handlers and the level of the root logger when it is imported, which may happen within the
    block. So this package's logger has its own handler, and Airflow gets its level from the environment: warnings,
    unless it is set.
    """
    root, ours = logging.getLogger(), logging.getLogger("airflow_sitemaps")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", datefmt="%H:%M:%S"))
    earlier = [(logger, list(logger.handlers), logger.level, logger.propagate) for logger in (root, ours)]
    root.handlers[:] = ours.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    ours.setLevel(logging.INFO if verbose else logging.WARNING)
    ours.propagate = False
    sets_level = AIRFLOW_LEVEL not in os.environ
    if sets_level:
        os.environ[AIRFLOW_LEVEL] = "WARNING"
    try:
        yield
    finally:
        for logger, handlers, level, propagate in earlier:
            logger.handlers[:] = handlers
            logger.setLevel(level)
            logger.propagate = propagate
        if sets_level:
            del os.environ[AIRFLOW_LEVEL]


@contextmanager
def bars() -> Iterator[Bars]:
    """Show progress bars on standard error, and restore the terminal at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description:>10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}"),
    )
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as progress:
        yield Bars(progress)


class Bars:
    """Progress bars, one for each stage."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._stage: Any = None

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """Start a stage of ``total`` units (None: not known) with a new bar."""
        self._stage = self._progress.add_task(stage, total=total, unit=unit)

    def advance(self, number: int) -> None:
        """Add completed units."""
        self._progress.advance(self._stage, number)

    def finish(self) -> None:
        """End the stage. Its bar stays on the screen, full."""
        self._progress.update(self._stage, total=self._progress.tasks[self._stage].completed)
