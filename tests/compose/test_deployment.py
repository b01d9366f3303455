"""docker-compose.yml, started: both workers, a killed worker, and the UI's page. ``make test-compose`` runs it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps.operators.links import API_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
FILES = os.environ.get("SITEMAPS_COMPOSE", "")
CITIES = 34_024
WORKERS = ("airflow-worker-1", "airflow-worker-2")

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.timeout(3_600),
    pytest.mark.skipif(not FILES, reason="needs a Docker engine and the images: make test-compose"),
]

CALL = """
import json, sys, urllib.request
def call(method, path, body=None, token=None):
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request("http://airflow-api:8080" + path, method=method, data=data, headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()
method, path, body = json.loads(sys.argv[1])
token = json.loads(call("GET", "/auth/token"))["access_token"]
print(call(method, path, body, token))
"""
CRAWL = """
import gzip, json, re
from airflow.providers.amazon.aws.hooks.s3 import S3Hook
client = S3Hook("aws_default").get_conn()
body = lambda name: client.get_object(Bucket="places-web", Key="cities/" + name)["Body"].read()
names = [loc.rpartition("/")[2] for loc in re.findall("<loc>(.*?)</loc>", body("sitemap.xml").decode())]
urls = [url for name in names for url in re.findall("<loc>(.*?)</loc>", gzip.decompress(body(name)).decode())]
print(json.dumps([len(names), len(urls), len(set(urls))]))
"""


def compose(*arguments: str, check: bool = True) -> str:
    """Run docker compose, and return what it prints."""
    files = [word for file in FILES.split(":") for word in ("-f", file)]
    done = subprocess.run(
        ["docker", "compose", *files, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert not check or done.returncode == 0, done.stdout[-3_000:] + done.stderr[-3_000:]
    return done.stdout


def inside(script: str, *arguments: str) -> Any:
    """Run Python in the scheduler's container; return the JSON that it prints last."""
    printed = compose("exec", "-T", "airflow-scheduler", "python", "-W", "ignore", "-c", script, *arguments)
    return json.loads(printed.splitlines()[-1])


def call(method: str, path: str, body: Any = None) -> Any:
    """Return the answer of Airflow's API."""
    return inside(CALL, json.dumps([method, path, body]))


def wait(what: str, look: Callable[[], Any], seconds: float = 1_200) -> Any:
    """Look until there is something."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(2)
    raise AssertionError(f"waited {seconds} s for {what}\n{compose('logs', '--tail', '30', check=False)}")


def ended(dag_id: str, run_id: str | None = None) -> dict[str, Any] | None:
    """Return the newest run of a DAG, or the named one, once it has ended."""
    runs = call("GET", f"/api/v2/dags/{dag_id}/dagRuns?order_by=-run_after")["dag_runs"]
    found = [run for run in runs if run_id in (None, run["dag_run_id"]) and run["state"] in ("success", "failed")]
    return found[0] if found else None


def tasks(run_id: str, task_id: str = "sitemap.write") -> list[dict[str, Any]]:
    """Return the instances of a task, of the writing one by default."""
    found = call("GET", f"/api/v2/dags/cities_sitemap/dagRuns/{run_id}/taskInstances?limit=100")["task_instances"]
    return [task for task in found if task["task_id"] == task_id]


def running(run_id: str, task_id: str = "sitemap.write") -> dict[str, Any] | None:
    """Return an instance of a task that a worker runs."""
    return next((task for task in tasks(run_id, task_id) if task["state"] == "running" and task["hostname"]), None)


def let_start(slots: int) -> None:
    """Let this number of tasks run at the same time. Those that run go on."""
    call("PATCH", "/api/v2/pools/default_pool?update_mask=slots", {"pool": "default_pool", "slots": slots})


@pytest.fixture(scope="module", autouse=True)
def deployment() -> Iterator[None]:
    """Start every service and wait until all are healthy; take them away at the end."""
    try:
        compose("up", "--detach", "--wait", "--wait-timeout", "1500")
        yield
    finally:
        compose("down", "--volumes", check=False)


def test_every_service_is_healthy() -> None:
    services = [json.loads(line) for line in compose("ps", "--format", "json").splitlines()]
    assert {service["Health"] for service in services} == {"healthy"}
    assert len(services) == 10


def test_a_load_starts_the_sitemap_on_both_workers() -> None:
    for dag_id in ("load_places", "cities_sitemap"):
        wait(dag_id, lambda dag_id=dag_id: any(d["dag_id"] == dag_id for d in call("GET", "/api/v2/dags")["dags"]))
        call("PATCH", f"/api/v2/dags/{dag_id}?update_mask=is_paused", {"is_paused": False})
    call("POST", "/api/v2/dags/load_places/dagRuns", {"logical_date": None})

    run = wait("cities_sitemap", lambda: ended("cities_sitemap"))

    assert (run["state"], run["run_type"]) == ("success", "asset_triggered")
    assert len({task["hostname"] for task in tasks(run["dag_run_id"])}) == 2
    assert inside(CRAWL) == [12, CITIES, CITIES]


def test_a_killed_worker_container_costs_retries_only() -> None:
    """The store stands still, so that a task stays in the state that is waited for, however quick the machine is."""
    compose("pause", "s3")
    made = call("POST", "/api/v2/dags/cities_sitemap/dagRuns", {"logical_date": None, "conf": {"full": True}})
    run_id = made["dag_run_id"]
    wait("the plan", lambda: running(run_id, "sitemap.plan"))
    let_start(0)
    compose("unpause", "s3")
    wait("the end of the plan", lambda: any(task["state"] == "success" for task in tasks(run_id, "sitemap.plan")))
    compose("pause", "s3")
    let_start(128)

    batch = wait("a batch", lambda: running(run_id))
    (killed,) = (name for name in WORKERS if compose("ps", "--quiet", name).startswith(batch["hostname"]))
    compose("kill", killed)
    compose("unpause", "s3")

    assert wait("the run", lambda: ended("cities_sitemap", run_id))["state"] == "success"
    assert any(task["try_number"] > 1 for task in tasks(run_id))
    assert inside(CRAWL) == [12, CITIES, CITIES]
    compose("up", "--detach", "--wait", killed)


def test_the_page_of_all_sitemaps_shows_it() -> None:
    page = call("GET", f"{API_PREFIX}/api/sitemaps")
    assert any("places-web/cities" in json.dumps(item) for item in page["sitemaps"]), page
