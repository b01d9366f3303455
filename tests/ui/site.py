"""A real Airflow for the browser tests: API server, scheduler, DAG processor, and a warehouse to publish from."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

USERS = {"admin": "ADMIN", "viewer": "VIEWER"}
START_S = 600.0
DAGS = Path(__file__).parent / "dags"
ENDED = ("success", "failed")
ATTEMPTS = 20
"""Times that a run is triggered while the database is busy; each answer takes SQLite's five seconds or less."""
ONCE = {"retries": {"mode": "standard", "total_max_attempts": 1}}
"""Settings of a client that does not try again."""


@dataclass(slots=True)
class Site:
    """A running Airflow below ``home``; passwords are the users' names."""

    home: Path
    url: str
    environment: Mapping[str, str]
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def warehouse(self) -> Path:
        return self.home / "warehouse.db"

    def write_dag(self, name: str, text: str) -> None:
        """Write a DAG file; the DAG processor reads it within seconds."""
        (self.home / "dags" / f"{name}.py").write_text(text)

    def remove_dag(self, name: str) -> None:
        """Remove a DAG file."""
        (self.home / "dags" / f"{name}.py").unlink()

    def execute(self, *statements: str) -> None:
        """Change the warehouse."""
        with sqlite3.connect(self.warehouse) as connection:
            for statement in statements:
                connection.execute(statement)
        connection.close()

    def token(self, user: str = "admin") -> str:
        """A user's token for the API."""
        if user not in self.tokens:
            answer = httpx.post(f"{self.url}/auth/token", json={"username": user, "password": user}, timeout=30)
            answer.raise_for_status()
            self.tokens[user] = answer.json()["access_token"]
        return self.tokens[user]

    def request(self, method: str, path: str, *, user: str = "admin", **kwargs: Any) -> httpx.Response:
        """Ask the API server."""
        headers = {"Authorization": f"Bearer {self.token(user)}"}
        return httpx.request(method, f"{self.url}{path}", headers=headers, timeout=300, **kwargs)

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        """Trigger a run; returns its id.

        While another process writes, SQLite refuses a transaction that read before it writes. Airflow then answers with a
        database error, and nothing is stored.
        """
        body = {"logical_date": None, "conf": dict(conf or {})}
        for _ in range(ATTEMPTS):
            answer = self.request("POST", f"/api/v2/dags/{dag_id}/dagRuns", json=body)
            if "Database error" not in answer.text:
                break
        assert answer.status_code == 200, answer.text
        return str(answer.json()["dag_run_id"])

    def state(self, dag_id: str, run_id: str) -> str:
        """A run's state."""
        return str(self.request("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}").json()["state"])

    def wait(self, *runs: tuple[str, str], seconds: float = 900) -> list[str]:
        """The states of runs once they have ended."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            states = [self.state(dag_id, run_id) for dag_id, run_id in runs]
            if all(state in ENDED for state in states):
                return states
            time.sleep(0.5)
        raise AssertionError(f"not ended within {seconds:g} s: {dict(zip(runs, states, strict=True))}")

    def wait_for_list(self, number: int, seconds: float = 300) -> None:
        """Wait until the list has so many sitemaps."""
        deadline = time.monotonic() + seconds
        while self.request("GET", "/sitemaps-ui/api/sitemaps").json()["total"] != number:
            assert time.monotonic() < deadline, f"the list does not have {number} sitemaps after {seconds:g} s"
            time.sleep(1)

    def run(self, *dag_ids: str, conf: Mapping[str, Any] | None = None) -> list[str]:
        """Run DAGs side by side to their ends; returns the states."""
        return self.wait(*[(dag_id, self.trigger(dag_id, conf)) for dag_id in dag_ids])

    def wait_for_dag(self, dag_id: str) -> None:
        """Wait until Airflow has read a DAG."""
        deadline = time.monotonic() + START_S
        while self.request("GET", f"/api/v2/dags/{dag_id}").status_code != 200:
            assert time.monotonic() < deadline, f"Airflow has not read the DAG {dag_id}"
            time.sleep(0.5)

    def archive(self, asset: str, *names: str) -> None:
        """Remove a test's own DAG files, and hide its sitemap, so that other tests find the list as it was."""
        for name in names:
            (self.home / "dags" / f"{name}.py").unlink(missing_ok=True)
        deadline = time.monotonic() + START_S
        while asset in self.listed():
            answer = self.request("POST", "/sitemaps-ui/api/archive", json={"asset": asset, "archived": True})
            assert answer.status_code in (200, 409), answer.text  # 409: Airflow has not missed the file yet
            assert time.monotonic() < deadline, f"{asset} is still in the list"
            time.sleep(0.5)

    def listed(self) -> dict[str, Any]:
        """The lines of the list, by asset."""
        answer = self.request("GET", "/sitemaps-ui/api/sitemaps", params={"limit": 500})
        return {line["asset"]: line for line in answer.json()["sitemaps"]}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment_of(home: Path, port: int) -> dict[str, str]:
    """Settings of all processes; nothing of an Airflow that this shell may know of gets in."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    shutil.copytree(DAGS, home / "dags", ignore=shutil.ignore_patterns("__pycache__"))
    (home / "passwords.json").write_text(json.dumps({user: user for user in USERS}))
    settings = {
        "API__BASE_URL": f"http://127.0.0.1:{port}",
        "API__HOST": "127.0.0.1",
        "API__PORT": str(port),
        "API__WORKERS": "1",
        "API__SECRET_KEY": "only-for-this-test",
        "API_AUTH__JWT_SECRET": "only-for-this-test-and-long-enough-to-sign-with-SHA-512-without-a-warning-of-any-kind",
        "CORE__DAGS_FOLDER": str(home / "dags"),
        "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__PARALLELISM": "3",
        "LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
        "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
        "CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{user}:{role}" for user, role in USERS.items()),
        "DAG_PROCESSOR__REFRESH_INTERVAL": "5",
        "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "5",
        "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.3",
        "USAGE_DATA_COLLECTION__ENABLED": "False",
        "WORKERS__EXECUTION_API_TIMEOUT": "120",  # on a busy machine
    }
    nowhere = json.dumps(
        {"endpoint_url": f"http://127.0.0.1:{free_port()}", "region_name": "us-east-1", "config_kwargs": ONCE}
    )
    extra = json.dumps({"sqlalchemy_url": f"sqlite:///{home / 'warehouse.db'}"})
    return {
        **inherited,
        **{f"AIRFLOW__{name}": value for name, value in settings.items()},
        "AIRFLOW_HOME": str(home),
        "AIRFLOW_CONN_WAREHOUSE": json.dumps({"conn_type": "generic", "extra": extra}),
        "AIRFLOW_CONN_NOWHERE": json.dumps(
            {"conn_type": "aws", "login": "nobody", "password": "nothing-at-all", "extra": nowhere}
        ),
        "SITEMAPS_UI_SITES": str(home / "sites"),
        "NO_PROXY": "127.0.0.1",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }


def make_warehouse(path: Path) -> None:
    """Tables with products, articles, offers, and rows that mean harm."""
    with sqlite3.connect(path) as connection:
        for table, number in (("products", 1_200), ("articles", 400), ("offers", 3_000)):
            connection.execute(f"create table {table} (id integer primary key, slug text, updated_at text)")
            rows = [
                (i, f"{table[:-1]}-{i}", f"2026-{1 + i % 10:02d}-{1 + i % 28:02d} 08:00:00")
                for i in range(1, number + 1)
            ]
            connection.executemany(f"insert into {table} values (?, ?, ?)", rows)
        connection.execute("update articles set slug = null where id % 40 = 0")
        connection.execute(
            "create table guides (id integer primary key, slug text, updated_at text, image text, other text)"
        )
        today = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
        guides = [
            (
                i,
                f"guide-{i}",
                today,
                f'["https://regions.example/i/{i}.jpg"]',
                f'[{{"hreflang": "de", "href": "https://regions.example/de/{i}"}}]',
            )
            for i in range(1, 31)
        ]
        connection.executemany("insert into guides values (?, ?, ?, ?, ?)", guides)
        connection.execute("create table hostile (id integer primary key, loc text, updated_at text)")
        connection.executemany("insert into hostile values (?, ?, '2026-11-01 08:00:00')", list(enumerate(HOSTILE, 1)))
    connection.close()


HOSTILE = (
    *[f"https://hostile.example/p/{i}" for i in range(50)],
    "javascript:alert(document.domain)",
    "<script>document.title='broken in'</script>",
    "<img src=x onerror=\"document.title='broken in'\">",
    "ftp://hostile.example/\u202egpj.exe",
    "https://hostile.example:99999/",
)
"""URLs of rows; those after the first fifty are dropped and shown as samples."""


@contextmanager
def running_site(home: Path) -> Iterator[Site]:
    """Make the database and the warehouse, start everything, wait until it is healthy, and end it afterwards."""
    port = free_port()
    environment = environment_of(home, port)
    make_warehouse(home / "warehouse.db")
    airflow = [sys.executable, "-m", "airflow"]
    subprocess.run([*airflow, "db", "migrate"], env=environment, check=True, capture_output=True, timeout=START_S)
    processes = []
    try:
        for name in ("api-server", "scheduler", "dag-processor"):
            with (home / f"{name}.log").open("wb") as log:
                command = [*airflow, name]
                processes.append(
                    subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
                )
        site = Site(home, f"http://127.0.0.1:{port}", environment)
        wait_until_healthy(site, processes)
        yield site
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in processes:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(5)


def wait_until_healthy(site: Site, processes: list[subprocess.Popen[bytes]]) -> None:
    """Return when the DAGs can be run. Raises AssertionError with the ends of the logs when a process dies."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if any(process.poll() is not None for process in processes):
            break
        with suppress(httpx.HTTPError, KeyError, ValueError):
            health = httpx.get(f"{site.url}/api/v2/monitor/health", timeout=5).json()
            dags = site.request("GET", "/api/v2/dags").json()
            if health["scheduler"]["status"] == "healthy" and dags["total_entries"] >= 12:
                return
        time.sleep(0.5)
    logs = {log.name: log.read_text(errors="replace")[-2_000:] for log in site.home.glob("*.log")}
    raise AssertionError(f"Airflow did not come up within {START_S:g} s: {logs}")
