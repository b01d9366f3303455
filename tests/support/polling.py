"""Waiting for a state."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def wait_until(look: Callable[[], object], what: str, *, seconds: float = 120) -> None:
    """Look five times a second until a state is there."""
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.2)
