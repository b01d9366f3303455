"""What a build requests from each cloud's store, and what these requests cost: ``python -m benchmarks.stores``.

Three runs of one table over a test server of each store: the first build, one without changes, and one with 1 % of the rows
changed side by side. Requests are counted where the clients send them. Seconds are those of the test servers, three
programs of different speed, and say nothing about the clouds.

It needs what ``make test-stores-deps`` installs; a store whose client or server is missing is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

from urllib3.connectionpool import HTTPConnectionPool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow_sitemaps.ports import StoreConfig

BASE: Final = "https://www.example.com/maps/"
RUNS: Final = ("first build", "no change", "1 % changed")
KINDS: Final = ("put", "copy", "list", "get", "head", "delete")
WRITES: Final = ("put", "copy", "list")
READS: Final = ("get", "head")
PRICES: Final[Mapping[str, tuple[float, float]]] = {"s3": (5.0, 0.40), "gcs": (5.0, 0.40), "azure": (5.5, 0.44)}
"""Dollars for a million writes (listings included) and reads; deletions are free. docs/stores.md has their sources."""


@dataclass(frozen=True)
class Cost:
    """What one run requested.

    Attributes:
        requests: Number of requests by kind.
        seconds: Duration of the run over the test server.
    """

    requests: Counter[str]
    seconds: float

    def dollars(self, store: str) -> float:
        """The price of the requests."""
        write, read = PRICES[store]
        writes, reads = (sum(self.requests[kind] for kind in kinds) for kinds in (WRITES, READS))
        return (writes * write + reads * read) / 1_000_000


def kind_of(method: str, url: str, headers: Mapping[str, Any]) -> str:
    """The kind of a request to any of the stores. ``head``: an object's properties without its bytes."""
    path = url.partition("?")[0]
    if method == "PUT":
        return "copy" if any(name.lower() == "x-amz-copy-source" for name in headers) else "put"
    if method == "POST":
        return "copy" if "/rewriteTo/" in path else "put"
    if method != "GET":
        return method.lower()
    if "list-type=2" in url or "comp=list" in url or path.endswith("/o"):
        return "list"
    return "head" if path.startswith("/storage/v1/") else "get"


@contextmanager
def counted(requests: Counter[str]) -> Iterator[None]:
    """Count every request of this process that goes through urllib3, which all three clients use."""
    send = HTTPConnectionPool._make_request

    def count(self: Any, connection: Any, method: str, url: str, *given: Any, **more: Any) -> Any:
        headers = more.get("headers") or (given[1] if len(given) > 1 else None) or {}
        requests[kind_of(method, url, headers)] += 1
        return send(self, connection, method, url, *given, **more)

    with mock.patch.object(HTTPConnectionPool, "_make_request", count):
        yield


@contextmanager
def store_of(name: str) -> Iterator[StoreConfig | str]:
    """A store on its test server, or why there is none."""
    from tests.support.azurite import azurite_program, azurite_server
    from tests.support.gcs import gcs_server
    from tests.support.s3 import moto_server

    with ExitStack() as stack:
        if name == "s3":
            yield stack.enter_context(stack.enter_context(moto_server(conditional_copies=True)).store())
            return
        try:
            if name == "gcs":
                from airflow_sitemaps import GCSStore

                gcs = stack.enter_context(gcs_server())
                conn_id = stack.enter_context(gcs.connection("bench_gcs"))
                yield GCSStore(f"gs://{gcs.new_bucket()}/maps", base_url=BASE, gcp_conn_id=conn_id)
                return
            from airflow_sitemaps import AzureBlobStore

            program = azurite_program()
            if program is None:
                yield "Azurite is not installed"
                return
            azure = stack.enter_context(azurite_server(program))
            conn_id = stack.enter_context(azure.connection("bench_azure"))
            yield AzureBlobStore(f"az://{azure.new_container()}/maps", base_url=BASE, wasb_conn_id=conn_id)
        except ImportError as e:
            yield str(e)


def measure(store: StoreConfig, rows: int, folder: Path, max_urls: int = 40_000) -> dict[str, Cost]:
    """Run the three runs, and return the cost of each."""
    import duckdb

    from airflow_sitemaps import Guards, Section, ShardPolicy, Sitemap, SqlSource
    from airflow_sitemaps.pipeline import build
    from airflow_sitemaps.pipeline.state import capability_probe

    capability_probe.forget()
    path = folder / "rows.duckdb"
    path.unlink(missing_ok=True)
    source = SqlSource(
        "bench_rows", table="pages", key="id", loc="https://www.example.com/maps/a-place/{id}", lastmod="lastmod"
    )
    sitemap = Sitemap(
        store, [Section("pages", source)], shards=ShardPolicy(max_urls=max_urls), guards=Guards.disabled()
    )
    connection = {"conn_type": "generic", "extra": {"sqlalchemy_url": f"duckdb:///{path}"}}
    found: dict[str, Cost] = {}
    statements = (
        f"CREATE TABLE pages AS SELECT i AS id, TIMESTAMP '2026-01-01' + INTERVAL (i) SECOND AS lastmod FROM range({rows}) t(i)",
        "SELECT 1",
        f"UPDATE pages SET lastmod = TIMESTAMP '2026-02-01' WHERE id < {rows // 100}",
    )
    with mock.patch.dict(os.environ, {"AIRFLOW_CONN_BENCH_ROWS": json.dumps(connection)}):
        for run, statement in zip(RUNS, statements, strict=True):
            with duckdb.connect(str(path)) as warehouse:
                warehouse.execute(statement)
            requests: Counter[str] = Counter()
            started = time.perf_counter()
            with counted(requests):
                result = build(sitemap).result
            if (result == "unchanged") != (run == "no change"):
                raise RuntimeError(f"{store.describe()}, {run}: the build is {result}")
            found[run] = Cost(requests, time.perf_counter() - started)
    return found


def main() -> None:
    """Print a table of all stores that run here."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("names", nargs="*", default=list(PRICES), help="stores; default: all that run here")
    given = parser.parse_args()
    print(f"| store | run | {' | '.join(KINDS)} | $ for 1,000 runs | s over the test server |")
    print("|---|---|" + "---:|" * (len(KINDS) + 2))
    with tempfile.TemporaryDirectory() as folder:
        for name in given.names:
            with store_of(name) as store:
                if isinstance(store, str):
                    print(f"| {name} | not here: {store} |")
                    continue
                for run, cost in measure(store, given.rows, Path(folder)).items():
                    numbers = " | ".join(f"{cost.requests[kind]:,}" for kind in KINDS)
                    dollars = f"{1_000 * cost.dollars(name):.2f}"
                    print(f"| {name} | {run} | {numbers} | {dollars} | {cost.seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
