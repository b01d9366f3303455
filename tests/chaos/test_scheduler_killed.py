"""SIGKILL of the scheduler, and of every task that it runs, in the middle of a run: started again, it ends the run."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_sitemaps import S3Store
from airflow_sitemaps.testing import crawl
from tests.chaos.test_kills import expected
from tests.chaos.zygote import BASE
from tests.support.airflow_processes import Airflow, running
from tests.support.proxy import proxy_to
from tests.support.s3 import REGION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.proxy import Exchange, Proxy
    from tests.support.s3 import S3Server

pytestmark = [pytest.mark.system, pytest.mark.heavy, pytest.mark.timeout(1_200)]

DAG = """
import os
from datetime import timedelta

from airflow.sdk import dag

from airflow_sitemaps import S3Store, Section, ShardPolicy, Sitemap, SitemapTaskGroup
from airflow_sitemaps.testing import MemorySourceConfig
from tests.chaos.zygote import FREE, rows_of

version = int(open(os.environ["VERSION_FILE"]).read())
sitemap = Sitemap(
    S3Store(os.environ["SITE"], base_url="https://www.example.com/maps/", conn_id="aws_default"),
    [Section("pages", MemorySourceConfig(rows_of({"version": version}), key="id", priority="priority"))],
    shards=ShardPolicy(max_urls=5), guards=FREE,
)


@dag(schedule=None, default_args={"retries": 3, "retry_delay": timedelta(seconds=1)})
def site():
    SitemapTaskGroup("sitemap", sitemap)


site()
"""
POINTS = {"plan": "/plans/", "write": "/bodies/", "commit": "/manifest.json.gz", "promotion": "/maps/pages-"}
"""Where it is killed: at the first put of a key in which this stands."""


class Town:
    """An Airflow whose S3 is behind a proxy."""

    def __init__(self, airflow: Airflow, proxy: Proxy, store: S3Store, version: Path) -> None:
        self.airflow, self.proxy, self.store, self._version = airflow, proxy, store, version
        self.version = 0

    def move(self) -> None:
        """The rows change. The DAG file reads them when it is loaded."""
        self.version += 1
        self._version.write_text(str(self.version))

    def kill_at(self, part: str) -> list[str]:
        """Kill the scheduler with its tasks at the next put of such a key; where it was is in the list."""
        struck: list[str] = []

        def choose(exchange: Exchange) -> None:
            if not struck and exchange.method == "PUT" and part in exchange.path:
                struck.append(exchange.path)
                os.killpg(self.airflow.processes["scheduler"].pid, signal.SIGKILL)

        self.proxy.choose = choose
        return struck

    def locs(self) -> set[str]:
        found = crawl(self.store.open())
        assert all(len(facts) == 1 for facts in found.entries().values())
        return found.locs()


@pytest.fixture(scope="module")
def town(moto: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    folder = tmp_path_factory.mktemp("killed")
    (folder / "dags").mkdir()
    (folder / "dags" / "site.py").write_text(DAG)
    version = folder / "version"
    version.write_text("0")
    url = f"s3://{moto.new_bucket()}/maps"
    with proxy_to(moto.endpoint) as proxy, moto.connection("s3_killed") as conn_id:
        aws = {"endpoint_url": proxy.endpoint, "region_name": REGION}
        connection = {"conn_type": "aws", "login": moto.access_key, "password": moto.secret_key, "extra": aws}
        settings = {
            "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
            "AIRFLOW_CONN_AWS_DEFAULT": json.dumps(connection),
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
            "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
            "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "20",
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "SITE": url,
            "VERSION_FILE": str(version),
        }
        with running(folder, settings) as airflow:
            airflow.wait("the DAG", lambda: airflow.get("/dags/site"))
            airflow.unpause("site")
            assert airflow.wait_for_run("site", airflow.trigger("site"), seconds=400)["state"] == "success"
            yield Town(airflow, proxy, S3Store(url, base_url=BASE, conn_id=conn_id), version)


@pytest.mark.parametrize("point", POINTS)
def test_a_scheduler_killed_in_mid_run_ends_the_run_when_it_is_started_again(town: Town, point: str) -> None:
    before = town.locs()
    assert before == expected(town.version)
    town.move()
    struck = town.kill_at(POINTS[point])

    run = town.airflow.trigger("site")

    town.airflow.processes["scheduler"].wait(120)
    assert len(struck) == 1
    seen = town.locs()
    assert before & expected(town.version) <= seen <= before | expected(town.version)
    town.airflow.start("scheduler")
    assert town.airflow.wait_for_run("site", run, seconds=400)["state"] == "success"
    assert town.locs() == expected(town.version)
