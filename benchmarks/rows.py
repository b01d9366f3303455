"""Runs over one large DuckDB table: ``python -m benchmarks.rows --rows 1000000`` (or ``make bench-rows ROWS=…``).

A first build, an unchanged run, 0.1 % of the rows changed side by side and scattered, a hole of 5 %, a rollback. Every task
runs in a process of its own, one after the other, as Airflow's tasks do. See README.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from benchmarks import data, environment, growth_report, pages_table
from benchmarks.counted_store import CountedStore
from benchmarks.forked import forked
from benchmarks.meter import resident_mb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import timedelta

    from airflow_sitemaps import Sitemap

STAGES: Final = ("plan", "write", "publish")


def warm(s3: bool) -> float:
    """Import what a task of Airflow has imported when it starts, but connect to nothing; the MB that this process holds."""
    import duckdb_engine  # noqa: F401
    import pyarrow as pa
    from airflow.sdk import BaseHook

    pa.array(["pandas is imported here where it is installed"])
    BaseHook.get_connection("bench_duckdb")
    if s3:
        from airflow.providers.amazon.aws.hooks.s3 import S3Hook  # noqa: F401
    from airflow_sitemaps import assets, pipeline  # noqa: F401
    from airflow_sitemaps.operators import plan, publish  # noqa: F401
    from airflow_sitemaps.protocol.columnar.elements import render  # noqa: F401
    from airflow_sitemaps.shards import (
        range_actions,  # noqa: F401
        stream,  # noqa: F401
    )

    return resident_mb()


def sitemap_of(store: str, max_urls: int, rewrite_after: timedelta | None = None) -> tuple[Sitemap, CountedStore]:
    """The sitemap, with default guards, and its store, which counts its calls."""
    from airflow_sitemaps import LocalStore, S3Store, Section, ShardPolicy, Sitemap, SqlSource

    inner = (
        S3Store(store, base_url=data.BASE, conn_id="bench_s3")
        if store.startswith("s3://")
        else LocalStore(store, base_url=data.BASE)
    )
    counted = CountedStore(inner)
    source = SqlSource(
        "bench_duckdb", table=data.TABLE, key="id", loc="loc", lastmod="lastmod", changefreq="changefreq",
        priority="priority", session=[f"SET memory_limit = '{pages_table.MEMORY}'"],
    )  # fmt: skip
    section = Section("pages", source)
    policy = ShardPolicy(max_urls=max_urls, rewrite_after=rewrite_after)
    return Sitemap(store=counted, sections=[section], shards=policy), counted


def json_bytes(*values: Any) -> int:
    """Bytes of values as XCom keeps them."""
    return sum(len(json.dumps(value, ensure_ascii=False, default=str).encode()) for value in values)


class Runs:
    """Runs over one store. Each task is a process of its own."""

    def __init__(self, store: str, max_urls: int) -> None:
        self.store = store
        self.max_urls = max_urls
        self.rewrite_after: timedelta | None = None

    def run(self) -> dict[str, Any]:
        """Plan, write each task, publish; what each took."""
        begun = time.perf_counter()
        plan = forked(self._plan)
        writes = [forked(lambda reference=reference: self._write(reference)) for reference in plan["references"]]  # type: ignore[misc]
        receipts = [key for one in writes for key in one["receipts"]]
        publish = forked(lambda: self._publish(plan["key"], receipts))
        return summary([plan], writes, [publish], time.perf_counter() - begun)

    def rollback(self) -> dict[str, Any]:
        """Publish the generation before the last one again."""
        begun = time.perf_counter()
        return summary([], [], [forked(self._rollback)], time.perf_counter() - begun)

    def listed(self) -> int:
        """URLs in all files that the index lists, counted in the files."""
        return int(forked(self._listed)["urls"])

    def _task(self, work: Callable[[Sitemap], dict[str, Any]]) -> dict[str, Any]:
        sitemap, counted = sitemap_of(self.store, self.max_urls, self.rewrite_after)
        return {**work(sitemap), "calls": counted.calls.to_dict()}

    def _plan(self) -> dict[str, Any]:
        from airflow_sitemaps.operators import plan_facts
        from airflow_sitemaps.operators.plan import references
        from airflow_sitemaps.pipeline import stages
        from airflow_sitemaps.pipeline.plan.dry_run import explain
        from airflow_sitemaps.shards.range_actions import make_tasks

        def work(sitemap: Sitemap) -> dict[str, Any]:
            stages.recover(sitemap)
            planned = stages.plan(sitemap)
            tasks = make_tasks(planned.batches)
            made = references(tasks, planned.key)
            facts = plan_facts(planned, planned.key, explain(planned), tasks)
            return {"key": planned.key, "references": made, "xcom_bytes": json_bytes(made, facts, planned.key)}

        return self._task(work)

    def _write(self, reference: dict[str, Any]) -> dict[str, Any]:
        from airflow_sitemaps.operators import written_facts
        from airflow_sitemaps.pipeline import stages

        def work(sitemap: Sitemap) -> dict[str, Any]:
            done = [stages.write(sitemap, reference["plan"], number) for number in reference["batches"]]
            receipts = [one.receipt_key for one in done]
            return {"receipts": receipts, "xcom_bytes": json_bytes(receipts, written_facts(done))}

        return self._task(work)

    def _publish(self, key: str, receipts: list[str]) -> dict[str, Any]:
        from airflow_sitemaps.pipeline import stages

        return self._task(lambda sitemap: published(stages.publish(sitemap, key, receipts)))

    def _rollback(self) -> dict[str, Any]:
        from airflow_sitemaps import pipeline

        def work(sitemap: Sitemap) -> dict[str, Any]:
            return published(pipeline.rollback(sitemap, pipeline.status(sitemap).generation - 1))

        return self._task(work)

    def _listed(self) -> dict[str, Any]:
        from isal import igzip

        from airflow_sitemaps.pipeline.state.repository import StateRepository

        opened = sitemap_of(self.store, self.max_urls)[0].store.open()
        manifest = StateRepository(opened.state).manifest()
        assert manifest is not None
        urls = 0
        for file in manifest.files():
            stored = opened.public.get(file.name)
            assert stored is not None, file.name
            urls += igzip.decompress(stored.body).count(b"<loc>")
        return {"urls": urls}


def published(report: Any) -> dict[str, Any]:
    """What a publication says of itself, and what of it Airflow keeps."""
    from airflow_sitemaps.operators.base import reference

    told = report.to_dict()
    return {
        "result": report.result, "urls": report.urls, "shards": told["shards"], "file_bytes": told["file_bytes"],
        "xcom_bytes": json_bytes(reference(report)), "event_bytes": json_bytes(told),
    }  # fmt: skip


def summary(
    plans: Sequence[dict[str, Any]],
    writes: Sequence[dict[str, Any]],
    publishes: Sequence[dict[str, Any]],
    wall_s: float,
) -> dict[str, Any]:
    """One run in numbers."""
    tasks = dict(zip(STAGES, (plans, writes, publishes), strict=True))
    everything = [*plans, *writes, *publishes]
    verbs: Counter[str] = Counter()
    for one in everything:
        verbs.update(one["calls"]["verbs"])
    return {
        "wall_s": wall_s,
        "tasks": len(everything),
        "stages": {
            name: {
                "wall_s": sum(one["wall_s"] for one in found),
                "cpu_s": sum(one["cpu_s"] for one in found),
                "peak_mb": max(one["peak_mb"] for one in found),
                "median_peak_mb": median(one["peak_mb"] for one in found),
            }
            for name, found in tasks.items()
            if found
        },
        "requests": dict(verbs),
        "bytes_sent": sum(one["calls"]["sent"] for one in everything),
        "bytes_received": sum(one["calls"]["received"] for one in everything),
        "xcom_bytes": sum(one["xcom_bytes"] for one in everything),
        "largest_xcom_bytes": max(one["xcom_bytes"] for one in everything),
        **{name: publishes[0][name] for name in ("result", "urls", "shards", "file_bytes", "event_bytes")},
    }


def measure(folder: Path, store: str, rows: int, max_urls: int) -> dict[str, dict[str, Any]]:
    """Every run, one after the other. Raises AssertionError where a run does not do what it should."""
    path = folder / "pages.duckdb"
    begun = time.perf_counter()
    forked(lambda: _nothing(pages_table.fill(path, rows)))
    say(f"{rows:,} rows made in {time.perf_counter() - begun:.0f} s, {path.stat().st_size / 1e9:.2f} GB")
    runs = Runs(store, max_urls)
    found: dict[str, dict[str, Any]] = {}

    def keep(name: str, one: dict[str, Any], expected: str = "published") -> None:
        assert one["result"] == expected, (name, one)
        found[name] = one
        say(line(name, one))

    def change(sql: str) -> None:
        # In a child: DuckDB starts threads, and this process forks.
        say(f"{forked(lambda: {'rows': pages_table.change(path, sql)})['rows']:,} rows are changed")

    keep("first build", runs.run())
    assert found["first build"]["urls"] == rows, found["first build"]
    keep("unchanged", runs.run(), "unchanged")
    change(pages_table.clustered(rows))
    keep("0.1 % changed, clustered", runs.run())
    change(pages_table.scattered())
    keep("0.1 % changed, scattered", runs.run())
    change(pages_table.hole(rows))
    keep("hole of 5 %", runs.run())
    left = int(forked(lambda: {"rows": pages_table.count(path)})["rows"])
    assert found["hole of 5 %"]["urls"] == left, (left, found["hole of 5 %"])
    assert runs.listed() == left
    keep("rollback", runs.rollback())
    assert runs.listed() == rows
    return found


def _nothing(_: None) -> dict[str, Any]:
    return {}


def line(name: str, one: dict[str, Any]) -> str:
    """A run, as it is done."""
    stages = ", ".join(
        f"{stage} {cost['cpu_s']:.1f} s/{cost['peak_mb']:.0f} MB" for stage, cost in one["stages"].items()
    )
    return f"{name}: {one['wall_s']:.1f} s, {one['tasks']} tasks ({stages}), {one['shards']}"


def say(text: str) -> None:
    """Progress, for people."""
    print(text, file=sys.stderr, flush=True)


def settings(folder: Path, endpoint: str) -> dict[str, str]:
    """Environment variables of the measured processes: Airflow's connections."""
    place = environment.Place(
        folder, _NoDatabases(f"duckdb:///{folder / 'pages.duckdb'}"), endpoint, Path(sys.executable)
    )
    return {name: value for name, value in place.child().items() if name.startswith("AIRFLOW")}


class _NoDatabases:
    """The one connection that is needed here, in place of ``databases.Databases``."""

    def __init__(self, url: str) -> None:
        self.url = url

    def environment(self) -> dict[str, str]:
        connection = {"conn_type": "generic", "extra": {"sqlalchemy_url": self.url}}
        return {"AIRFLOW_CONN_BENCH_DUCKDB": json.dumps(connection)}


@contextmanager
def prepared(name: str, *, s3: bool) -> Iterator[tuple[Path, float]]:
    """A folder for tables and stores, the S3 server, Airflow's connections; and the MB with which a task begins."""
    with ExitStack() as stack:
        parent = tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR"), prefix=f"bench-{name}-")
        folder = Path(stack.enter_context(parent))
        endpoint = stack.enter_context(environment.sink(folder)) if s3 else ""
        os.environ.update(settings(folder, endpoint))
        yield folder, warm(s3)


def finish(
    name: str, result: dict[str, Any], tables: str, given: argparse.Namespace, folder: Path, *, plot: bool
) -> None:
    """Print the tables, and keep the result as the command line says."""
    print(tables)
    if given.json:
        given.json.write_text(json.dumps(result, indent=1) + "\n")
    if given.keep:
        growth_report.keep(name, result, tables, folder, plot=plot)


def main() -> None:
    """Measure and print a table; ``--keep`` stores the result, with its table in the docs."""
    from benchmarks.__main__ import facts

    parser = argparse.ArgumentParser(prog="python -m benchmarks.rows", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--max-urls", type=int, default=50_000, help="URLs of a shard")
    parser.add_argument(
        "--store", choices=("local", "s3"), default="s3", help="a folder, or benchmarks.sink over a file"
    )
    parser.add_argument("--json", type=Path, help="a file for the result")
    parser.add_argument("--keep", action="store_true", help="write results/rows.json and docs/scale-runs.md")
    given = parser.parse_args()
    with prepared("rows", s3=given.store == "s3") as (folder, base_mb):
        store = "s3://bench/rows" if given.store == "s3" else str(folder / "out")
        say(f"{shutil.disk_usage(folder).free / 1e9:.0f} GB free; a task begins with {base_mb:.0f} MB")
        found = measure(folder, store, given.rows, given.max_urls)
        result = {**facts(given.rows, 1), "store": given.store, "base_mb": base_mb, "runs": found}
        tables = f"{given.rows:,} rows:\n\n{growth_report.rows_runs(result)}"
        finish("rows", result, tables, given, folder, plot=True)


if __name__ == "__main__":
    main()
