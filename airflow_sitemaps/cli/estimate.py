"""Estimates of the cost of a first build and of a later run, computed from measured rates. Pure: no I/O, no clock.

The rates of ``Rates`` are from an earlier run of ``make bench`` and from docs/guarantees.md, on two cores of one machine. A
figure that was not measured there is marked as assumed. Use the result to compare layouts and numbers of workers, not as a
promise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Final

from airflow_sitemaps.errors import ConfigurationError

MILLION: Final = 1_000_000
MAX_URLS: Final = 50_000
"""URLs of one file (sitemaps.org/protocol.html)."""
MAX_TASKS: Final = 1_000
"""Mapped tasks of one run; larger tables get larger batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """The cost of each unit of work. ``read_cpu_s``, ``request_s``, ``requests_at_once`` are assumed, others measured.

    A million rows cost a worker ``write_cpu_s`` to read, render, compress and store (PostgreSQL to S3), and the
    warehouse ``survey_cpu_s`` to digest and ``read_cpu_s`` to send in key order. Each shard of the manifest costs
    ``plan_shard_s`` and ``publish_shard_s`` (at 50,000 shards). LocalExecutor needs ``task_s`` to start a task. A URL
    of 77 characters has ``file_bytes``, compressed. Prices are those of 1,000 requests to Amazon S3 Standard in
    us-east-1: PUT, COPY or LIST, and GET or HEAD.
    """

    write_cpu_s: float = 2.373
    survey_cpu_s: float = 0.71
    read_cpu_s: float = 0.6
    plan_shard_s: float = 4.2 / 50_000
    publish_shard_s: float = 10.5 / 50_000
    task_s: float = 0.5
    request_s: float = 0.03
    requests_at_once: int = 16
    file_bytes: float = 33.0
    put_usd: float = 0.005
    get_usd: float = 0.0004


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The table, and the changes between two runs: a share of the rows from 0 to 1, ``scattered`` or neighbours."""

    rows: int
    changed: float = 0.001
    scattered: bool = False
    shard_urls: int = MAX_URLS
    batch_rows: int = 500_000

    def __post_init__(self) -> None:
        limits = (
            ("rows", self.rows, 1, 10**12),
            ("changed", self.changed, 0, 1),
            ("shard_urls", self.shard_urls, 1, MAX_URLS),
            ("batch_rows", self.batch_rows, 1, 10**9),
        )
        for name, value, least, most in limits:
            if not least <= value <= most:
                raise ConfigurationError(f"{name} is {value:,}; it must be between {least:,} and {most:,}")

    @property
    def shards(self) -> int:
        """Files of the whole table."""
        return ceil(self.rows / self.shard_urls)

    @property
    def dirty_shards(self) -> int:
        """Files that the changes between two runs touch, on average."""
        changed_rows = round(self.rows * self.changed)
        if not changed_rows:
            return 0
        if not self.scattered:
            return min(self.shards, ceil(changed_rows / self.shard_urls) + 1)
        return min(self.shards, ceil(self.shards * (1 - (1 - self.changed) ** min(self.rows, self.shard_urls))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of one run, from the start of the plan to the end of the publication.

    Promotion writes ``bytes_written`` again within the store. ``puts`` are all requests priced so: bodies, copies,
    lists, the manifest, receipts.
    """

    kind: str
    workers: int
    shards: int
    shards_written: int
    tasks: int
    wall_s: float
    worker_cpu_s: float
    warehouse_cpu_s: float
    bytes_written: int
    puts: int
    gets: int
    requests_usd: float


def estimate(load: Load, workers: int, rates: Rates = Rates()) -> tuple[Cost, Cost]:
    """Work out a first build and a later run by a number of tasks that run at the same time."""
    if workers < 1:
        raise ConfigurationError(f"workers is {workers}; it must be at least 1")
    later_rows = min(load.rows, load.dirty_shards * load.shard_urls)
    return (
        _cost("first build", load, workers, rates, shards=load.shards, rows=load.rows),
        _cost("later run", load, workers, rates, shards=load.dirty_shards, rows=later_rows),
    )


def _cost(kind: str, load: Load, workers: int, rates: Rates, *, shards: int, rows: int) -> Cost:
    tasks = min(MAX_TASKS, ceil(rows / load.batch_rows))
    write_cpu_s = rows / MILLION * rates.write_cpu_s
    survey_s = load.rows / MILLION * rates.survey_cpu_s
    plan_s, publish_s = load.shards * rates.plan_shard_s, load.shards * rates.publish_shard_s
    task_s = write_cpu_s / tasks + rates.task_s if tasks else 0.0
    promote_s = shards * rates.request_s / rates.requests_at_once
    puts = 2 * shards + tasks + ceil(load.shards / 1_000) + 10
    gets = 2 * shards + tasks + 10
    return Cost(
        kind=kind,
        workers=workers,
        shards=load.shards,
        shards_written=shards,
        tasks=tasks,
        wall_s=survey_s + plan_s + ceil(tasks / workers) * task_s + publish_s + promote_s + 2 * rates.task_s,
        worker_cpu_s=plan_s + write_cpu_s + publish_s,
        warehouse_cpu_s=survey_s + rows / MILLION * rates.read_cpu_s,
        bytes_written=round(rows * rates.file_bytes),
        puts=puts,
        gets=gets,
        requests_usd=puts / 1_000 * rates.put_usd + gets / 1_000 * rates.get_usd,
    )


def table(costs: list[Cost]) -> Iterator[str]:
    """Yield the lines of a table for people, one line a cost."""
    yield f"{'run':12} {'workers':>7} {'files':>8} {'tasks':>6} {'time':>10} {'CPU':>10} {'warehouse':>10} {'GB':>8} {'USD':>8}"
    for cost in costs:
        yield (
            f"{cost.kind:12} {cost.workers:7,} {cost.shards_written:8,} {cost.tasks:6,} {_time(cost.wall_s):>10} "
            f"{_time(cost.worker_cpu_s):>10} {_time(cost.warehouse_cpu_s):>10} {cost.bytes_written / 1e9:8.2f} "
            f"{cost.requests_usd:8.2f}"
        )


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.1f} s"
    if seconds < 5_400:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3_600:.1f} h"
