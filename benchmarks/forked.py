"""Run a function in a forked process, as Airflow runs a task, and measure that process alone."""

from __future__ import annotations

import multiprocessing
import traceback
from typing import TYPE_CHECKING, Any

from benchmarks.meter import metered

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection


def forked(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run ``work`` in a child process.

    The child shares what this process has imported; its peak memory includes that.

    Returns:
        What ``work`` returned, with ``cpu_s``, ``wall_s`` and ``peak_mb`` of the child.

    Raises:
        RuntimeError: The child failed; the message has its traceback.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(work, theirs))
    child.start()
    theirs.close()
    try:
        result: dict[str, Any] | str = ours.recv()
    except EOFError:
        result = "it ended without a result"
    child.join()
    if isinstance(result, str):
        raise RuntimeError(f"a measured process failed: {result}")
    return result


def _child(work: Callable[[], dict[str, Any]], answer: Connection) -> None:
    try:
        with metered() as found:
            result = work()
        answer.send({**result, **found})
    except Exception:
        answer.send(traceback.format_exc(limit=-8))
