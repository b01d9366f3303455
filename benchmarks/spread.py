"""Scattered changes, with and without ``ShardPolicy(rewrite_after=…)``: ``python -m benchmarks.spread --rows 5000000``.

Two sitemaps of one DuckDB table run side by side, once in each simulated hour. In every hour, 0.1 % of the rows get another
priority and lastmod, at random. A thousandth of as many are deleted, and as many are inserted, so that 0.2 % of the changes add
or remove a URL. Hours follow each other at an even distance. The first of them decides it and does not count. ``rewrite_after``
is as many hours as are simulated.
"""

from __future__ import annotations

import argparse
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks import data, growth_report, pages_table
from benchmarks.forked import forked
from benchmarks.rows import Runs, finish, prepared, say

if TYPE_CHECKING:
    from collections.abc import Mapping

WAYS: Final = ("at once", "in turn")


def statements(hour: int) -> tuple[str, ...]:
    """The changes of one hour. What the hour before deleted comes back."""
    moment = f"TIMESTAMPTZ '2026-11-01 00:00:00+00' + INTERVAL {hour:d} HOUR"
    drawn = f"hash(id + {hour:d} * 1000003)"
    columns, priority = "id, loc, lastmod, changefreq, priority", "CASE WHEN priority = 0.9 THEN 0.7 ELSE 0.9 END"
    return (
        f"CREATE TABLE IF NOT EXISTS removed AS SELECT {columns} FROM {data.TABLE} WHERE false",
        f"UPDATE {data.TABLE} SET priority = {priority}, lastmod = {moment} WHERE {drawn} % 1000 = 7",
        f"INSERT INTO {data.TABLE} SELECT {columns} FROM removed",
        "DELETE FROM removed",
        f"INSERT INTO removed SELECT {columns} FROM {data.TABLE} WHERE {drawn} % 1000000 = 8",
        f"DELETE FROM {data.TABLE} WHERE {drawn} % 1000000 = 8",
    )


def change(path: Path, hour: int) -> dict[str, Any]:
    """Change the rows of one hour."""
    import duckdb

    with duckdb.connect(str(path)) as connection:
        connection.execute(f"SET memory_limit = '{pages_table.MEMORY}'")
        connection.execute("SET TimeZone = 'UTC'")
        for sql in statements(hour):
            connection.execute(sql)
        connection.execute("CHECKPOINT")
    return {}


def cpu_s(run: Mapping[str, Any]) -> float:
    """CPU seconds of all tasks of a run, DuckDB's included."""
    return float(sum(stage["cpu_s"] for stage in run["stages"].values()))


def files(run: Mapping[str, Any]) -> int:
    """Files that a crawler has to read again."""
    return int(run["shards"]["rewritten"] + run["shards"]["created"])


def measure(folder: Path, stores: Mapping[str, str], given: argparse.Namespace) -> dict[str, Any]:
    """Every run of both ways. Raises AssertionError where the files at the end do not list what they should."""
    rows, hours, max_urls = given.rows, given.hours, given.max_urls
    path = folder / "pages.duckdb"
    forked(lambda: pages_table.fill(path, rows) or {})
    found: dict[str, Any] = {way: [] for way in WAYS}
    runs = {way: Runs(stores[way], max_urls) for way in WAYS}
    runs["in turn"].rewrite_after = timedelta(days=1)
    first = {way: own.run() for way, own in runs.items()}
    period = 0.0
    for hour in range(hours + 1):
        begun = time.monotonic()
        forked(lambda hour=hour: change(path, hour))  # type: ignore[misc]
        now = WAYS if hour == hours or not given.sample else ("in turn",)
        for way in reversed(now):
            found[way].append(runs[way].run())
        took = time.monotonic() - begun
        period = period or took * 1.15
        runs["in turn"].rewrite_after = timedelta(seconds=period * given.period)
        lines = (f"{way} {files(found[way][-1]):,} files, {cpu_s(found[way][-1]):.1f} CPU s" for way in now)
        say(f"hour {hour} of {hours}: {'; '.join(lines)}")
        time.sleep(max(0.0, period - took))
    left = int(forked(lambda: {"rows": pages_table.count(path)})["rows"])
    assert [own.listed() for own in runs.values()] == [left, left]
    return {"first": first, "hours": {way: own[-hours:] for way, own in found.items()}, "period_s": period}


def report(result: Mapping[str, Any]) -> str:
    """The table: both ways, and the second as a share of the first."""
    first, hours = result["first"], result["hours"]
    build, count, period = cpu_s(first["at once"]), len(hours["in turn"]), result["period_hours"]
    lines = []
    for name, of, form in (
        ("files to read again", files, "{:,.0f}"),
        ("MB sent", lambda run: run["bytes_sent"] / 1e6, "{:,.0f}"),
        ("CPU s of plan, write and publish", cpu_s, "{:,.0f}"),
        ("CPU s of write and publish", lambda run: cpu_s(run) - run["stages"]["plan"]["cpu_s"], "{:,.0f}"),
    ):
        day = [sum(map(of, hours[way])) / len(hours[way]) * count for way in WAYS]
        lines.append((name, *(form.format(each) for each in day), f"{day[1] / day[0]:.1%}"))
    worst = max(cpu_s(run) - run["stages"]["plan"]["cpu_s"] for run in hours["in turn"])
    shards = first["at once"]["shards"]["total"]
    most = max(map(files, hours["in turn"]))
    sampled = (
        "" if len(hours["at once"]) == count else " Writing at once was measured in the last hour and stands for each."
    )
    return (
        f"{count} {'' if count == period else f'of {period} '}hours over {result['rows']:,} rows in {shards:,} shards.{sampled}\n\n"
        + growth_report.table(("a day" if count == period else f"{count} hours", "at once", "in turn", "share"), lines)
        + f"\n\nThe most in one hour, in turn: {most:,} of {shards:,} files, {worst:.1f} CPU seconds without the plan, "
        f"{worst / build:.1%} of a first build."
    )


def main() -> None:
    """Measure and print a table; ``--keep`` stores the result, with its table in the docs."""
    from benchmarks.__main__ import facts

    parser = argparse.ArgumentParser(prog="python -m benchmarks.spread", description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--period", type=int, help="hours of rewrite_after; default: --hours")
    parser.add_argument("--sample", action="store_true", help="write at once in the last hour only")
    parser.add_argument("--max-urls", type=int, default=50_000, help="URLs of a shard")
    parser.add_argument("--json", type=Path, help="a file for the result")
    parser.add_argument("--keep", action="store_true", help="write results/spread.json and docs/scale-runs.md")
    given = parser.parse_args()
    given.period = given.period or given.hours
    with prepared("spread", s3=True) as (folder, _):
        stores = {"at once": "s3://bench/at-once", "in turn": "s3://bench/in-turn"}
        found = measure(folder, stores, given)
        result = {**facts(given.rows, 1), **found, "period_hours": given.period}
        finish("spread", result, report(result), given, folder, plot=False)


if __name__ == "__main__":
    main()
