"""SIGKILL of a worker at every request to the store, and in the middle of its puts: the next run heals."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from airflow_sitemaps.stores.s3 import S3Store
from airflow_sitemaps.testing import crawl
from tests.chaos.zygote import BASE, rows_of
from tests.support.proxy import Spoil, proxy_to
from tests.support.repetition import LONG

if TYPE_CHECKING:
    from tests.chaos.worker import Worker
    from tests.support.proxy import Exchange
    from tests.support.s3 import S3Server

pytestmark = pytest.mark.long


def expected(version: int) -> set[str]:
    return {row["loc"] for row in rows_of({"version": version})}


class Town:
    """A worker behind a proxy, and what crawlers see."""

    def __init__(self, worker: Worker, server: S3Server, proxy, conn_id: str) -> None:
        self.worker, self.proxy, self.conn_id = worker, proxy, conn_id
        self.url = f"s3://{server.new_bucket()}/maps"
        self.base = 0

    def run(self, version: int) -> int:
        self.base = len(self.proxy.seen)
        return self.worker.run(url=self.url, conn_id=self.conn_id, version=version)

    def kill_at(self, request: int, spoil: Spoil | None) -> None:
        def choose(exchange: Exchange) -> Spoil | None:
            if exchange.number - self.base != request:
                return None
            self.worker.kill()
            return spoil

        self.proxy.choose = choose

    def calm(self) -> None:
        self.proxy.choose = lambda _: None

    def crawl(self) -> set[str]:
        """Every listed file is there and whole, and no URL is listed twice."""
        found = crawl(S3Store(self.url, base_url=BASE, conn_id=self.conn_id).open())
        assert all(len(facts) == 1 for facts in found.entries().values())
        return found.locs()


@pytest.mark.parametrize(
    "spoil", [None, Spoil.HALF_REQUEST, Spoil.RESET_BEFORE], ids=["it lands later", "half arrives", "nothing arrives"]
)
def test_a_worker_killed_at_any_request_loses_nothing(zygote: Worker, moto: S3Server, spoil: Spoil | None) -> None:
    with proxy_to(moto.endpoint) as proxy, moto.connection("s3_chaos", endpoint=proxy.endpoint) as conn_id:
        town = Town(zygote, moto, proxy, conn_id)
        assert town.run(0) == 0
        assert town.crawl() == expected(0)
        version, request, killed = 0, 3, 0
        while True:
            before, version = town.crawl(), version + 1
            town.kill_at(request, spoil)
            code = town.run(version)
            town.calm()
            seen = town.crawl()
            assert before & expected(version) <= seen <= before | expected(version)
            if code == 0:
                assert seen == expected(version)
                break
            assert code == -signal.SIGKILL
            killed += 1
            assert town.run(version) == 0
            assert town.crawl() == expected(version)
            request += 1 if LONG else 14
        assert killed >= (20 if LONG else 2)
