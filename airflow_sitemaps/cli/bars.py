"""Progress bars on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from types import TracebackType

    from rich.progress import TaskID


class Bars:
    """One bar a stage, on standard error; a context manager, since a terminal must be put right again."""

    def __init__(self, console: Console | None = None) -> None:
        self._progress = Progress(
            TextColumn("{task.description:>10}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[unit]}"),
            TimeElapsedColumn(),
            console=console or Console(stderr=True),
        )
        self._stage: TaskID | None = None

    def __enter__(self) -> Bars:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """A stage begins: a new bar."""
        self._stage = self._progress.add_task(stage, total=total, unit=unit)

    def advance(self, number: int) -> None:
        """So many units more."""
        if self._stage is not None:
            self._progress.advance(self._stage, number)

    def finish(self) -> None:
        """The stage is done: the bar stays, full."""
        if self._stage is not None:
            done = self._progress.tasks[self._stage].completed
            self._progress.update(self._stage, total=done)
            self._stage = None
