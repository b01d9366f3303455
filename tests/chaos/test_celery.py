"""A sitemap on two Celery workers: mapped batches on both, a worker killed, and a task delivered twice."""

from __future__ import annotations

import importlib.util
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import psutil
import pytest

from airflow_sitemaps import Guards, LocalStore, S3Store, Section, ShardPolicy, Sitemap
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.testing import MemorySourceConfig, crawl
from tests.chaos.zygote import BASE, rows_of
from tests.support.airflow_processes import Airflow, running
from tests.support.proxy import Spoil, proxy_to
from tests.support.redis_server import REDIS, redis_server
from tests.support.s3 import REGION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.proxy import Exchange, Proxy
    from tests.support.s3 import S3Server

pytestmark = [
    pytest.mark.system,
    pytest.mark.heavy,
    pytest.mark.timeout(900),
    pytest.mark.skipif(REDIS is None, reason="redis-server is not installed: make test-celery"),
    pytest.mark.skipif(
        importlib.util.find_spec("celery") is None, reason="Celery is not installed here: make test-celery"
    ),
]

ROWS = 60
WORKERS = ("worker-1", "worker-2")
_REFUSED = re.compile(r"\[([0-9a-f-]{36})\] Task already running elsewhere, ignoring redelivered message")
DAG = """
import os
from datetime import timedelta
from pathlib import Path

from airflow.sdk import dag

from airflow_sitemaps import Guards, S3Store, Section, ShardPolicy, Sitemap, SitemapTaskGroup
from airflow_sitemaps.testing import MemorySourceConfig
from tests.chaos.zygote import BASE, rows_of

version = Path(os.environ["VERSION_FILE"]).read_text()
sitemap = Sitemap(
    S3Store(os.environ["SITE"], base_url=BASE, conn_id="aws_default"),
    [Section("pages", MemorySourceConfig(rows_of({"version": version, "rows": 60}), key="id", priority="priority"))],
    shards=ShardPolicy(max_urls=5),
    guards=Guards.disabled(),
)


@dag(schedule=None, default_args={"retries": 4, "retry_delay": timedelta(seconds=1)})
def site():
    SitemapTaskGroup("sitemap", sitemap, batch_size=1)


site()
"""


class Cluster:
    """Airflow with two workers, whose S3 is behind a proxy."""

    def __init__(self, airflow: Airflow, proxy: Proxy, store: S3Store, version: Path) -> None:
        self.airflow, self.proxy, self.store, self._version = airflow, proxy, store, version
        self.version = 0

    def start_worker(self, name: str) -> None:
        """Start a worker with a home of its own."""
        settings = {
            "AIRFLOW_HOME": str(self.airflow.folder / name),
            "AWS_SDK_UA_APP_ID": name,  # the worker's requests to the store name it
            "WORKER_NAME": name,
        }
        self.airflow.start(
            name, "celery", "worker", "--celery-hostname", f"{name}@%h", "--skip-serve-logs", settings=settings
        )
        seen = self.airflow.log(name).count("ready.")
        self.airflow.wait(f"{name} to be ready", lambda: self.airflow.log(name).count("ready.") > seen)

    def change_rows(self) -> None:
        """Change the table. The DAG file reads it when it is loaded."""
        self.version += 1
        self._version.write_text(str(self.version))

    def run(self) -> str:
        return self.airflow.trigger("site")

    def wait(self, run_id: str) -> list[dict[str, Any]]:
        """Wait until a run has succeeded, and return its task instances."""
        run = self.airflow.wait_for_run("site", run_id, seconds=600)
        tasks = self.airflow.get(f"/dags/site/dagRuns/{quote(run_id)}/taskInstances?limit=100")["task_instances"]
        assert run["state"] == "success", [(task["task_id"], task["map_index"], task["state"]) for task in tasks]
        return list(tasks)

    def kill_at(self, part: str, worker: list[str]) -> None:
        """Kill the worker that puts the next key in which ``part`` stands; its name goes into the list."""

        def choose(exchange: Exchange) -> Spoil | None:
            if worker or exchange.method != "PUT" or part not in exchange.path:
                return None
            agent = exchange.headers.get("user-agent", "")
            name = next(name for name in WORKERS if f"app/{name}" in agent)
            worker.append(name)
            process = self.airflow.processes.pop(name)
            worker_process = psutil.Process(process.pid)
            for victim in (worker_process, *worker_process.children(recursive=True)):  # tasks have groups of their own
                with suppress(psutil.NoSuchProcess):
                    victim.kill()
            process.wait()
            return Spoil.RESET_BEFORE

        self.proxy.choose = choose

    def hold(self, part: str) -> None:
        """Hold each put of the next key in which ``part`` stands, until ``release``."""
        held: list[str] = []

        def choose(exchange: Exchange) -> Spoil | None:
            if exchange.method != "PUT" or part not in exchange.path:
                return None
            if not held:
                held.append(exchange.path)
            return Spoil.HELD if exchange.path == held[0] else None

        self.proxy.released.clear()
        self.proxy.choose = choose

    def release(self) -> None:
        """Pass on what is held."""
        self.proxy.choose = lambda _: None
        self.proxy.released.set()

    def refused_deliveries(self) -> set[str]:
        """Return the ids of the messages whose second delivery Airflow has refused."""
        return {found for name in WORKERS for found in _REFUSED.findall(self.airflow.log(name))}

    def entries(self) -> dict[str, Any]:
        """Return the facts of each listed URL; none is listed twice."""
        found = crawl(self.store.open()).entries()
        assert all(len(facts) == 1 for facts in found.values())
        return found


def expected(version: int, folder: Path) -> dict[str, Any]:
    """Return what one process publishes from the same rows."""
    store = LocalStore(folder / f"alone-{version}", base_url=BASE)
    source = MemorySourceConfig(rows_of({"version": version, "rows": ROWS}), key="id", priority="priority")
    build(Sitemap(store, [Section("pages", source)], shards=ShardPolicy(max_urls=5), guards=Guards.disabled()))
    return crawl(store.open()).entries()


@pytest.fixture(scope="module")
def cluster(moto: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("celery")
    (folder / "dags").mkdir()
    (folder / "dags" / "site.py").write_text(DAG)
    version = folder / "version"
    version.write_text("0")
    url = f"s3://{moto.new_bucket()}/maps"
    with (
        proxy_to(moto.endpoint) as proxy,
        moto.connection("s3_celery") as conn_id,
        redis_server(folder) as broker,
    ):
        aws = {"endpoint_url": proxy.endpoint, "region_name": REGION}
        connection = {"conn_type": "aws", "login": moto.access_key, "password": moto.secret_key, "extra": aws}
        settings = {
            "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
            "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
            "AIRFLOW__CORE__HOSTNAME_CALLABLE": "tests.support.worker_name.worker_name",
            "AIRFLOW__CELERY__BROKER_URL": broker,
            "AIRFLOW__CELERY__WORKER_CONCURRENCY": "2",
            "AIRFLOW__CELERY_BROKER_TRANSPORT_OPTIONS__VISIBILITY_TIMEOUT": "15",
            # Look for overdue messages each second, instead of each hundred.
            "AIRFLOW__CELERY_BROKER_TRANSPORT_OPTIONS__UNACKED_RESTORE_INTERVAL": "1",
            "AIRFLOW__CELERY_BROKER_TRANSPORT_OPTIONS__UNACKED_RESTORE_THROTTLE": "1",
            "AIRFLOW_CONN_AWS_DEFAULT": json.dumps(connection),
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "SITE": url,
            "VERSION_FILE": str(version),
        }
        with running(folder, settings) as airflow:
            cluster = Cluster(airflow, proxy, S3Store(url, base_url=BASE, conn_id=conn_id), version)
            for name in WORKERS:
                cluster.start_worker(name)
            airflow.wait("the DAG", lambda: airflow.get("/dags/site"))
            airflow.unpause("site")
            yield cluster


def test_batches_run_on_both_workers_and_give_the_urls_of_one_process(cluster: Cluster, tmp_path: Path) -> None:
    tasks = cluster.wait(cluster.run())

    batches = [task for task in tasks if task["task_id"] == "sitemap.write"]
    assert len(batches) == ROWS // 5
    assert {task["hostname"] for task in batches} == set(WORKERS)
    assert cluster.entries() == expected(cluster.version, tmp_path)


def test_a_task_that_outlasts_the_visibility_timeout_is_delivered_twice_and_runs_once(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.change_rows()
    refused = cluster.refused_deliveries()
    cluster.hold("/bodies/")

    run = cluster.run()
    try:
        cluster.airflow.wait("a second delivery", lambda: cluster.refused_deliveries() - refused, seconds=300)
    finally:
        cluster.release()

    cluster.wait(run)
    assert cluster.entries() == expected(cluster.version, tmp_path)


@pytest.mark.parametrize("part", ["/bodies/", "/manifest.json.gz"], ids=["write", "publish"])
def test_a_killed_worker_costs_a_retry_on_the_other(cluster: Cluster, tmp_path: Path, part: str) -> None:
    before = expected(cluster.version, tmp_path)
    assert cluster.entries() == before
    cluster.change_rows()
    after = expected(cluster.version, tmp_path)
    killed: list[str] = []
    cluster.kill_at(part, killed)

    run = cluster.run()
    cluster.airflow.wait("the kill", lambda: killed, seconds=300)

    seen = set(cluster.entries())
    assert set(before) & set(after) <= seen <= set(before) | set(after)
    tasks = cluster.wait(run)
    assert any(task["try_number"] > 1 for task in tasks)
    assert cluster.entries() == after
    cluster.start_worker(killed[0])
