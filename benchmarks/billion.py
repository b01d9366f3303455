"""Plan and publish sitemaps of up to 2,500 million URLs with the product's own code: ``make bench-billion``.

The table is generated (``generated.py``) and the store is in memory, so that what is measured is the pipeline: the plan, the
manifest, the batches, the commit, the promotion and the index. Each size runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks import growth_report
from benchmarks.counted_store import Calls, CountedStore
from benchmarks.forked import forked
from benchmarks.generated import BASE, GeneratedTable, receipt_of
from benchmarks.meter import peak_mb, resident_mb

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_URLS: Final = 50_000
SIZES: Final = (1_000_000, 10_000_000, 100_000_000, 1_000_000_000, 2_500_000_000)


class Sitemaps:
    """One sitemap over a generated table, and what each stage of its runs takes."""

    def __init__(self, rows: int, max_urls: int = MAX_URLS) -> None:
        from airflow_sitemaps import MemoryStore, Section, ShardPolicy, Sitemap

        self.table = GeneratedTable(rows, max_urls)
        self.memory = MemoryStore(base_url=BASE, copies=True)
        self.store = CountedStore(self.memory)
        section = Section("pages", self.table)  # type: ignore[arg-type]
        self.sitemap = Sitemap(self.store, [section], shards=ShardPolicy(max_urls=max_urls))
        self.shards = -(-rows // max_urls)

    @contextmanager
    def measured(self) -> Iterator[dict[str, Any]]:
        """CPU seconds, memory above what was held before, and calls to the store."""
        self.memory.log.clear()
        self.store.calls = Calls()
        reset_peak()
        held, cpu, wall = resident_mb(), time.process_time(), time.perf_counter()
        found: dict[str, Any] = {}
        yield found
        found |= {
            "cpu_s": time.process_time() - cpu,
            "wall_s": time.perf_counter() - wall,
            "grown_mb": max(0.0, peak_mb() - held),
            **self.store.calls.to_dict(),
        }

    def plan(self) -> tuple[Any, dict[str, Any]]:
        """The plan of a run, and what it takes."""
        from airflow_sitemaps.pipeline import stages

        with self.measured() as found:
            planned = stages.plan(self.sitemap)
        return planned, found | self.xcom(planned)

    def xcom(self, planned: Any) -> dict[str, Any]:
        """What Airflow keeps of a plan, and the tasks it maps."""
        from airflow_sitemaps.operators import plan_facts
        from airflow_sitemaps.operators.plan import references
        from airflow_sitemaps.pipeline.plan.dry_run import explain
        from airflow_sitemaps.shards.range_actions import make_tasks

        tasks = make_tasks(planned.batches)
        kept = (references(tasks, planned.key), plan_facts(planned, planned.key, explain(planned), tasks))
        return {
            "tasks": len(tasks),
            "xcom_bytes": sum(len(json.dumps(value).encode()) for value in kept),
            "plan_bytes": len(self.memory.state.objects[planned.key].body),
        }

    def write(self, planned: Any) -> list[str]:
        """The receipts of all batches."""
        from airflow_sitemaps.pipeline.state.repository import StateRepository

        state = StateRepository(self.memory.state)
        receipts = (receipt_of(self.table, self.memory.state, planned, batch) for batch in planned.batches)
        return [state.write_receipt(receipt, f"t{receipt.batch}") for receipt in receipts]

    def publish(self, planned: Any, receipts: Sequence[str]) -> dict[str, Any]:
        """Commit and promote; what that takes."""
        from airflow_sitemaps.pipeline import stages

        with self.measured() as found:
            report = stages.publish(self.sitemap, planned.key, receipts)
        return found | {"result": report.result, "urls": report.urls}

    def run(self) -> dict[str, dict[str, Any]]:
        """A run: plan, receipts, publication."""
        planned, plan = self.plan()
        receipts = self.write(planned)
        with self.measured() as reading:
            if planned.batches:
                self.read_plan(planned.key)
        return {"plan": plan, "task": reading, "publish": self.publish(planned, receipts)}

    def read_plan(self, key: str) -> None:
        """What each writing task does before it reads rows."""
        from airflow_sitemaps.pipeline.state.repository import StateRepository

        StateRepository(self.memory.state).read_plan(key)

    def touch(self, number: int) -> None:
        """Change rows of so many shards, spread over the table."""
        for position in {at * self.shards // number for at in range(number)}:
            self.table.changed[position] = self.table.changed.get(position, 0) + 1

    def sizes(self) -> dict[str, int]:
        """Bytes of what every run reads and writes."""
        objects = self.memory.public.objects
        indexes = [name for name in objects if name.startswith("sitemap")]
        return {
            "manifest_bytes": len(self.memory.state.objects["manifest.json.gz"].body),
            "index_bytes": sum(len(objects[name].body) for name in indexes),
            "indexes": len(indexes),
        }


def measure(rows: int, max_urls: int = MAX_URLS) -> dict[str, Any]:
    """Every stage at one size."""
    one = Sitemaps(rows, max_urls)
    first = one.run()
    assert first["publish"]["urls"] == rows, first
    sizes = one.sizes()
    unchanged = one.run()
    assert unchanged["publish"]["result"] == "unchanged"
    one.touch(1)
    single = one.run()
    one.touch(max(1, one.shards // 100))
    part = one.run()
    assert single["publish"]["result"] == part["publish"]["result"] == "published"
    return {
        "rows": rows, "shards": one.shards, **sizes, "first": first, "unchanged": unchanged, "one": single, "part": part,
    }  # fmt: skip


def reset_peak() -> None:
    """Forget this process's peak memory, where the system can (Linux)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def main() -> None:
    """Measure every size and print a table; ``--keep`` stores the result, with plot and table in the docs."""
    from benchmarks.__main__ import facts, folder_of

    parser = argparse.ArgumentParser(prog="python -m benchmarks.billion", description=__doc__)
    parser.add_argument(
        "--keep", action="store_true", help="write results/billion.json, docs/billion.svg and docs/scale-urls.md"
    )
    parser.add_argument("--rows", type=int, nargs="*", default=SIZES, help="sizes of the table")
    given = parser.parse_args()
    os.environ.setdefault("AIRFLOW__LOGGING__LOGGING_LEVEL", "ERROR")
    warm()
    found = []
    for rows in given.rows:
        found.append(forked(lambda rows=rows: measure(rows)))  # type: ignore[misc]
        one = found[-1]
        print(
            f"{rows:,} rows: {one['cpu_s']:.1f} s of CPU, {one['peak_mb']:.0f} MB in all", file=sys.stderr, flush=True
        )
    told = {**facts(max(given.rows), 1), "s3": "in memory", "sizes": found}
    print(growth_report.billion(told))
    if given.keep:
        with ExitStack() as stack:
            growth_report.keep("billion", told, growth_report.billion(told), folder_of(stack), plot=True)


def warm() -> None:
    """Import what a run imports."""
    import pyarrow  # noqa: F401

    from airflow_sitemaps.operators import plan  # noqa: F401
    from airflow_sitemaps.pipeline import stages  # noqa: F401
    from airflow_sitemaps.shards import stream  # noqa: F401


if __name__ == "__main__":
    main()
