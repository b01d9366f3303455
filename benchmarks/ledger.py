"""What a ledger costs: ``python -m benchmarks.ledger``, the same runs with and without one, side by side.

The rows are those of ``data.py`` in PostgreSQL, whose process does not count, and the store is a folder. Each run is a forked
process; the pairs alternate in rounds, and the medians count.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks import data, databases
from benchmarks.forked import forked

if TYPE_CHECKING:
    from airflow_sitemaps import Sitemap

BASE: Final = "https://www.example.com/"
TARGETS: Final = {"first build": 1.3, "unchanged": 1.0, "one shard": 1.3, "everything rewritten": 1.7}
"""Most CPU with a ledger, as a multiple of that without."""

OBSERVED: Final = "SITEMAPS_BENCH_OBSERVED"
"""Environment variable: the side with a ledger observes its dates too."""


def sitemap_of(folder: Path, *, ledger: bool) -> Sitemap:
    """The sitemap over the table, in a folder of its own."""
    from airflow_sitemaps import Guards, LocalStore, Observed, Section, Sitemap, SqlSource

    name = "with" if ledger else "without"
    source = SqlSource(
        "bench_postgresql",
        table=data.TABLE,
        key="id",
        loc="loc",
        lastmod=Observed("priority", initial="lastmod") if ledger and os.environ.get(OBSERVED) else "lastmod",
        changefreq="changefreq",
        priority="priority",
    )
    store = LocalStore(str(folder / name / "public"), state_dir=str(folder / name / "state"), base_url=BASE)
    return Sitemap(store, [Section("pages", source, ledger=ledger)], guards=Guards.disabled())


def run(folder: Path, *, ledger: bool, full: bool = False) -> dict[str, Any]:
    """One build in a process of its own."""

    def work() -> dict[str, Any]:
        from airflow_sitemaps.pipeline import build

        report = build(sitemap_of(folder, ledger=ledger), full)
        return {"rewritten": report.shards.rewritten + report.shards.created}

    return forked(work)


def change(url: str, sql: str) -> None:
    """Change rows."""
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        cursor.execute(f"VACUUM {data.TABLE}")


def measure(folder: Path, url: str, rows: int, number: int) -> dict[str, dict[bool, dict[str, Any]]]:
    """One round: each kind of run, with and without a ledger."""
    for name in ("with", "without"):
        shutil.rmtree(folder / name, ignore_errors=True)
    first, priority = data.FIRST_ID + rows // 2, number / 100
    steps = {
        "first build": None,
        "unchanged": None,
        "one shard": f"UPDATE {data.TABLE} SET priority = {priority} WHERE id BETWEEN {first} AND {first + 9}",
        "everything rewritten": f"UPDATE {data.TABLE} SET priority = {priority + 0.5}",
    }
    measured: dict[str, dict[bool, dict[str, Any]]] = {}
    for step, sql in steps.items():
        if sql is not None:
            change(url, sql)
        measured[step] = {ledger: run(folder, ledger=ledger) for ledger in (False, True)}
    return measured


def sizes(folder: Path) -> dict[str, int]:
    """Bytes of the bodies and of the parts of everything that the state area keeps."""
    files = list((folder / "with" / "state").rglob("bodies/pages-*"))
    parts = sum(f.stat().st_size for f in files if f.suffix == ".parquet")
    return {"bodies": sum(f.stat().st_size for f in files) - parts, "parts": parts}


def main() -> None:
    """Measure, and print a table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--observed", action="store_true", help="the side with a ledger observes its dates too")
    given = options.parse_args()
    os.environ |= {OBSERVED: "1"} if given.observed else {}
    import pyarrow.parquet  # noqa: F401 - shared by the forked processes, like everything imported before

    with tempfile.TemporaryDirectory() as name, databases.running(Path(name), given.rows) as running:
        os.environ |= running.environment()
        url = running.postgresql.replace("postgresql+psycopg://", "postgresql://")
        with sitemap_of(Path(name), ledger=False).sections[0].source.open(section="pages") as source:
            source.now()  # what it imports is shared by the forked processes too
        rounds = [measure(Path(name), url, given.rows, number) for number in range(1, given.rounds + 1)]
        kept = sizes(Path(name))
    print(f"{given.rows:,} rows, medians of {given.rounds} rounds")
    print(
        "| run | CPU s without | CPU s with | ratio | target | peak MB without | with |\n|---|---|---|---|---|---|---|"
    )
    for step, target in TARGETS.items():
        cpu = {each: statistics.median(r[step][each]["cpu_s"] for r in rounds) for each in (False, True)}
        peak = {each: statistics.median(r[step][each]["peak_mb"] for r in rounds) for each in (False, True)}
        print(
            f"| {step} | {cpu[False]:.2f} | {cpu[True]:.2f} | {cpu[True] / cpu[False]:.2f} | {target} | {peak[False]:.0f}"
            f" | {peak[True]:.0f} |"
        )
    print(f"parts: {kept['parts']:,} bytes, bodies: {kept['bodies']:,} bytes: {kept['parts'] / kept['bodies']:.2f}")


if __name__ == "__main__":
    main()
