"""The test's side of the zygote."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]


class Worker:
    """Runs jobs, each in a process of its own. ``pid`` is that of the run that goes on."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.pid = 0

    def run(self, **job: Any) -> int:
        """The exit code; negative: the signal that killed it."""
        connections = {name: value for name, value in os.environ.items() if name.startswith("AIRFLOW_CONN_")}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"environment": connections, **job}) + "\n")
        self._process.stdin.flush()
        self.pid = int(self._answer()["pid"])
        code = self._answer()["code"]
        self.pid = 0
        return int(code)

    def kill(self) -> None:
        """SIGKILL the run that goes on."""
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the zygote has ended"
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def worker() -> Iterator[Worker]:
    """A zygote, ended with the test."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.chaos.zygote"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        yield Worker(process)
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.wait(30)
        process.stdout.close()
