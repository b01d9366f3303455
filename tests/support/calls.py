"""Count the function calls of a piece of work: its cost without a clock."""

from __future__ import annotations

import sys
import threading
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def calls_of(work: Callable[[], object]) -> int:
    """Function calls, Python's and C's, of all threads."""
    calls = count()

    def note(_frame: Any, event: str, _argument: Any) -> None:
        if event in ("call", "c_call"):
            next(calls)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return next(calls)
