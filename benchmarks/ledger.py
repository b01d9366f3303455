"""What a ledger costs: ``python -m benchmarks.ledger``, the same runs without one, with one, and with observed dates.

The rows are those of ``data.py`` in PostgreSQL, whose process does not count, and the store is a folder. Each run is a forked
process; the three ways take turns in rounds, and the medians count.
"""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from benchmarks import data, databases, growth_report
from benchmarks.forked import forked
from benchmarks.rows import finish, prepared, say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_sitemaps import Sitemap

BASE: Final = "https://www.example.com/"
WAYS: Final = ("no ledger", "a ledger", "observed dates")
TARGETS: Final = {"first build": 1.3, "unchanged": 1.0, "one shard": 1.3, "everything rewritten": 1.7}
"""Most CPU with a ledger, as a multiple of that without."""


def sitemap_of(folder: Path, way: str) -> Sitemap:
    """The sitemap over the table, in a folder of its own."""
    from airflow_sitemaps import Guards, LocalStore, Observed, Section, Sitemap, SqlSource

    source = SqlSource(
        "bench_postgresql",
        table=data.TABLE,
        key="id",
        loc="loc",
        lastmod=Observed("priority", initial="lastmod") if way == WAYS[2] else "lastmod",
        changefreq="changefreq",
        priority="priority",
    )
    store = LocalStore(str(folder / way / "public"), state_dir=str(folder / way / "state"), base_url=BASE)
    return Sitemap(store, [Section("pages", source, ledger=way != WAYS[0])], guards=Guards.disabled())


def run(folder: Path, way: str) -> dict[str, Any]:
    """One build in a process of its own."""

    def work() -> dict[str, Any]:
        from airflow_sitemaps.pipeline import build

        report = build(sitemap_of(folder, way))
        return {"rewritten": report.shards.rewritten + report.shards.created}

    return forked(work)


def change(url: str, sql: str) -> None:
    """Change rows."""
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        cursor.execute(f"VACUUM {data.TABLE}")


def measure(folder: Path, url: str, rows: int, number: int) -> dict[str, dict[str, dict[str, Any]]]:
    """One round: each kind of run, in each way."""
    for way in WAYS:
        shutil.rmtree(folder / way, ignore_errors=True)
    first, priority = data.FIRST_ID + rows // 2, number / 100
    steps = {
        "first build": None,
        "unchanged": None,
        "one shard": f"UPDATE {data.TABLE} SET priority = {priority} WHERE id BETWEEN {first} AND {first + 9}",
        "everything rewritten": f"UPDATE {data.TABLE} SET priority = {priority + 0.5}",
    }
    measured: dict[str, dict[str, dict[str, Any]]] = {}
    for step, sql in steps.items():
        if sql is not None:
            change(url, sql)
        measured[step] = {way: run(folder, way) for way in WAYS}
        seconds = "; ".join(f"{way} {one['cpu_s']:.2f} CPU s" for way, one in measured[step].items())
        say(f"round {number}, {step}: {seconds}")
    return measured


def sizes(folder: Path) -> dict[str, int]:
    """Bytes of the bodies and of the parts of everything that the state area keeps."""
    files = list((folder / WAYS[1] / "state").rglob("bodies/pages-*"))
    parts = sum(f.stat().st_size for f in files if f.suffix == ".parquet")
    return {"bodies": sum(f.stat().st_size for f in files) - parts, "parts": parts}


def medians(rounds: list[dict[str, dict[str, dict[str, Any]]]]) -> dict[str, dict[str, dict[str, float]]]:
    """CPU seconds and peak MB of each kind of run in each way."""
    return {
        step: {
            way: {what: median(one[step][way][what] for one in rounds) for what in ("cpu_s", "peak_mb")} for way in WAYS
        }
        for step in TARGETS
    }


def report(result: Mapping[str, Any]) -> str:
    """The table: CPU and memory of each kind of run, and the CPU as a multiple of that without a ledger."""
    lines = []
    for step, ways in result["runs"].items():
        alone, cells = ways[WAYS[0]]["cpu_s"], []
        for way in WAYS:
            times = "" if way == WAYS[0] else f" ({ways[way]['cpu_s'] / alone:.2f} ×)"
            cells.append(f"{ways[way]['cpu_s']:.2f}{times}, {ways[way]['peak_mb']:.0f} MB")
        lines.append((step, *cells, f"≤ {TARGETS[step]} ×"))
    part = result["sizes"]["parts"] / result["sizes"]["bodies"]
    return (
        f"{result['rows']:,} rows of PostgreSQL into a folder: CPU seconds and peak memory of the process.\n\n"
        f"{growth_report.table(('', *WAYS, 'target of a ledger'), lines)}\n\n"
        f"The parts have {part:.2f} times the bytes of the bodies (target: at most 1.5)."
    )


def main() -> None:
    """Measure and print a table; ``--keep`` stores the result, with its table in the docs."""
    from benchmarks.__main__ import facts

    parser = argparse.ArgumentParser(prog="python -m benchmarks.ledger", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="a file for the result")
    parser.add_argument(
        "--keep", action="store_true", help="write results/ledger.json, docs/ledger.svg and docs/ledger.md"
    )
    given = parser.parse_args()
    import pyarrow.parquet  # noqa: F401 - shared by the forked processes, like everything imported before

    with prepared("ledger", s3=False) as (folder, _), databases.running(folder, given.rows) as running:
        os.environ |= running.environment()
        url = running.postgresql.replace("postgresql+psycopg://", "postgresql://")
        with sitemap_of(folder, WAYS[0]).sections[0].source.open(section="pages") as source:
            source.now()  # what it imports is shared by the forked processes too
        rounds = [measure(folder, url, given.rows, number) for number in range(1, given.rounds + 1)]
        result = {**facts(given.rows, given.rounds), "runs": medians(rounds), "sizes": sizes(folder)}
        finish("ledger", result, report(result), given, folder, plot=True)


if __name__ == "__main__":
    main()
