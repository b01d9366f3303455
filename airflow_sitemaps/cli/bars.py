"""Progress bars on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from types import TracebackType

    from rich.progress import TaskID


class Bars:
    """Progress bars on standard error, one for each stage.

    It is a context manager, because the terminal must be restored at the end.

    Args:
        console: Console that shows the bars. Default: standard error.
    """

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
        """Start a stage with a new bar.

        Args:
            total: Number of units; None if unknown.
        """
        self._stage = self._progress.add_task(stage, total=total, unit=unit)

    def advance(self, number: int) -> None:
        """Add completed units."""
        if self._stage is not None:
            self._progress.advance(self._stage, number)

    def finish(self) -> None:
        """End the stage. Its bar stays on the screen, full."""
        if self._stage is not None:
            done = self._progress.tasks[self._stage].completed
            self._progress.update(self._stage, total=done)
            self._stage = None
