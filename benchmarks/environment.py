"""What the measurements need beside the package: peers in environments of their own, databases, an S3 server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.request import urlopen

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from benchmarks.databases import Databases

PIP: Final = ("django>=5.2,<6", "pandas", "boto3", "psycopg[binary]>=3.2", "sqlalchemy>=2", "matplotlib>=3.9")
NPM: Final = ("sitemap@9", "pg@8", "pg-query-stream@4")
ROOT: Final = Path(__file__).parent.parent


@dataclass(frozen=True)
class Place:
    """Where everything is: a folder, the running databases, the S3 server, the peers' interpreters."""

    folder: Path
    databases: Databases
    endpoint: str
    python: Path

    def child(self) -> dict[str, str]:
        """Environment variables of a measured process."""
        extra = {
            "endpoint_url": self.endpoint,
            "region_name": "us-east-1",
            "config_kwargs": {"s3": {"addressing_style": "path"}},
        }
        store = {"conn_type": "aws", "login": "x", "password": "x", "extra": extra}
        return {
            **{k: v for k, v in os.environ.items() if not k.startswith("AIRFLOW")},
            **self.databases.environment(),
            "AIRFLOW_CONN_BENCH_S3": json.dumps(store),
            "AIRFLOW_HOME": str(self.folder / "airflow"),
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
            "PYTHONPATH": str(ROOT),
        }

    def stage(self, name: str, **how: Any) -> dict[str, Any]:
        """A stage of this package in a fresh process."""
        return run([sys.executable, "-W", "ignore", "-m", "benchmarks.stages", name, json.dumps(how)], self.child())

    def peer(self, name: str, rows: int, **how: Any) -> dict[str, Any]:
        """A peer in a fresh process."""
        folder = self.folder / "out" / f"peer-{name}"
        url = self.databases.postgresql
        given = {"rows": rows, "endpoint": self.endpoint, "folder": str(folder), "url": url, **how}
        given["dsn"] = url.replace("postgresql+psycopg://", "postgresql://")
        if name == "sitemap.js":
            given |= {"host": str(self.folder / "postgresql"), "user": "postgres", "database": "postgres"}
            return run(["node", str(self.folder / "node" / "sitemap.mjs"), json.dumps(given)], self.child())
        return run([str(self.python), "-m", "benchmarks.peers.python", name, json.dumps(given)], self.child())

    def bytes_received(self) -> int:
        """Bytes that the S3 server has been sent so far."""
        with urlopen(f"{self.endpoint}/-/bytes") as answer:
            return int(answer.read().split()[0])


def run(command: list[str], environment: Mapping[str, str]) -> dict[str, Any]:
    """Run a process, and read the JSON of its last line. Raises RuntimeError with the end of what it said."""
    done = subprocess.run(command, env=dict(environment), cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)[:300]} failed: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def peers(folder: Path) -> Path:
    """Install the peers where they are missing; the interpreter of the Python ones."""
    venv = folder / "venv"
    python = venv / "bin" / "python"
    ready = folder / "peers-are-ready"
    if not ready.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PIP], check=True)
        node = folder / "node"
        node.mkdir(exist_ok=True)
        (node / "package.json").write_text('{"name": "bench", "private": true}')
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--silent", *NPM], cwd=node, check=True)
        ready.touch()
    (folder / "node" / "sitemap.mjs").write_text((Path(__file__).parent / "peers" / "sitemap.mjs").read_text())
    return python


@contextmanager
def sink(folder: Path | None = None) -> Iterator[str]:
    """The S3 server in a process of its own, its bodies in memory or in a folder; its address."""
    command = [sys.executable, "-m", "benchmarks.sink", *([] if folder is None else [str(folder)])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()
