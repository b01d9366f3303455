"""End a test process that hangs, with the stacks of all its threads.

The time-out of pytest raises an exception in the main thread. A test whose other threads are stuck then waits for them
while the exception unwinds, and the run never ends. A worker that ends is reported as a failed test, and its other tests
run in a new worker.
"""

from __future__ import annotations

import faulthandler
import os
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

GRACE_S: Final = 60
"""Seconds after the test's time-out in which it may still end."""


class HangGuard:
    """Ends the process if a test does not end in time.

    Args:
        config: The configuration of pytest.
        grace_s: Seconds after the test's time-out in which it may still end. Default: ``GRACE_S``.
    """

    def __init__(self, config: pytest.Config, grace_s: float = GRACE_S) -> None:
        self._grace_s = grace_s
        self._default = float(config.getini("timeout") or 0)
        capture = config.pluginmanager.getplugin("capturemanager")
        assert capture is not None
        with capture.global_and_fixture_disabled():
            self._stderr = os.dup(2)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        """Watch one test with its fixtures."""
        marker = item.get_closest_marker("timeout")
        seconds = float(marker.args[0]) if marker is not None else self._default
        if seconds:
            faulthandler.dump_traceback_later(seconds + self._grace_s, file=self._stderr, exit=True)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()
