"""A real Airflow for the browser tests: API server, scheduler, DAG processor, and a warehouse to publish from."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from tests.support.airflow_processes import free_port, running

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.support.airflow_processes import Airflow

USERS = {"admin": "ADMIN", "viewer": "VIEWER", "keeper": "USER"}
START_S = 600.0
DAGS = Path(__file__).parent / "dags"
DAG_FILES = 12
ENDED = ("success", "failed")
ONCE = {"retries": {"mode": "standard", "total_max_attempts": 1}}
"""Settings of a client that does not try again."""


@dataclass(slots=True)
class Site:
    """A running Airflow below ``home``; passwords are the users' names."""

    home: Path
    airflow: Airflow
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.airflow.url

    @property
    def database(self) -> str:
        """The URL of Airflow's database."""
        return self.airflow.environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]

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
        """Trigger a run; returns its id."""
        body = {"logical_date": None, "conf": dict(conf or {})}
        answer = self.request("POST", f"/api/v2/dags/{dag_id}/dagRuns", json=body)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["dag_run_id"])

    def state(self, dag_id: str, run_id: str) -> str:
        """A run's state."""
        return str(self.request("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}").json()["state"])

    def wait(self, *runs: tuple[str, str], seconds: float = 900) -> list[str]:
        """The states of runs once they have ended."""

        def ended() -> list[str] | None:
            states = [self.state(dag_id, run_id) for dag_id, run_id in runs]
            return states if all(state in ENDED for state in states) else None

        return list(self.airflow.wait(f"the ends of {runs}", ended, seconds=seconds))

    def wait_for_list(self, number: int, seconds: float = 300) -> None:
        """Wait until the list has so many sitemaps."""

        def complete() -> bool:
            return bool(self.request("GET", "/sitemaps-ui/api/sitemaps").json()["total"] == number)

        self.airflow.wait(f"{number} sitemaps in the list", complete, seconds=seconds)

    def run(self, *dag_ids: str, conf: Mapping[str, Any] | None = None) -> list[str]:
        """Run DAGs side by side to their ends; returns the states."""
        return self.wait(*[(dag_id, self.trigger(dag_id, conf)) for dag_id in dag_ids])

    def wait_for_dag(self, dag_id: str) -> None:
        """Wait until Airflow has read a DAG."""

        def known() -> bool:
            return self.request("GET", f"/api/v2/dags/{dag_id}").status_code == 200

        self.airflow.wait(f"the DAG {dag_id}", known, seconds=START_S)

    def archive(self, asset: str, *names: str) -> None:
        """Remove a test's own DAG files, and hide its sitemap, so that other tests find the list as it was."""
        for name in names:
            (self.home / "dags" / f"{name}.py").unlink(missing_ok=True)

        def gone() -> bool:
            if asset not in self.listed():
                return True
            answer = self.request("POST", "/sitemaps-ui/api/archive", json={"asset": asset, "archived": True})
            assert answer.status_code in (200, 404, 409), answer.text  # 404, 409: Airflow is only now missing the file
            return False

        self.airflow.wait(f"the list without {asset}", gone, seconds=START_S)

    def listed(self) -> dict[str, Any]:
        """The lines of the list, by asset."""
        answer = self.request("GET", "/sitemaps-ui/api/sitemaps", params={"limit": 500})
        return {line["asset"]: line for line in answer.json()["sitemaps"]}


def settings_of(home: Path) -> dict[str, str]:
    """Settings of all processes."""
    shutil.copytree(DAGS, home / "dags", ignore=shutil.ignore_patterns("__pycache__"))
    (home / "passwords.json").write_text(json.dumps({user: user for user in USERS}))
    settings = {
        "API__SECRET_KEY": "only-for-this-test",
        "CORE__DAGS_FOLDER": str(home / "dags"),
        "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "CORE__PARALLELISM": "3",
        "LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
        "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
        "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
        "CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{user}:{role}" for user, role in USERS.items()),
        "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "5",
        "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.3",
        "WORKERS__EXECUTION_API_TIMEOUT": "120",  # on a busy machine
    }
    nowhere = json.dumps(
        {"endpoint_url": f"http://127.0.0.1:{free_port()}", "region_name": "us-east-1", "config_kwargs": ONCE}
    )
    extra = json.dumps({"sqlalchemy_url": f"sqlite:///{home / 'warehouse.db'}"})
    return {
        **{f"AIRFLOW__{name}": value for name, value in settings.items()},
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


def admin_token(airflow: Airflow) -> str:
    """The administrator's token."""
    return str(airflow.call("POST", "/auth/token", {"username": "admin", "password": "admin"})["access_token"])


@contextmanager
def running_site(home: Path) -> Iterator[Site]:
    """Make the database and the warehouse, start everything, wait until the DAGs can be run, and end it afterwards."""
    make_warehouse(home / "warehouse.db")
    with running(home, settings_of(home), log_in=admin_token) as airflow:

        def healthy() -> bool:
            scheduler = airflow.call("GET", "/api/v2/monitor/health")["scheduler"]["status"]
            return scheduler == "healthy" and airflow.get("/dags")["total_entries"] >= DAG_FILES

        airflow.wait("a healthy scheduler and the DAGs", healthy, seconds=START_S)
        yield Site(home, airflow)
