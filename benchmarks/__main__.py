"""Measure everything: ``python -m benchmarks`` (or ``make bench``), ``--small`` for CI. See README.md beside this file."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

from benchmarks import databases, environment, report, targets

RESULTS: Final = Path(__file__).parent / "results"
FAR_OFF: Final = 2.0
"""The small version fails where a ratio is worse by more than this than its target, or than the kept result."""


def measure(place: environment.Place, rows: int, rounds: int) -> dict[str, list[dict[str, Any]]]:
    """Every measurement, one after the other, as often as there are rounds, so that all see the same machine."""
    runs: dict[str, list[dict[str, Any]]] = {}
    few, some = min(rows, 100_000), min(rows, 250_000)
    for number in range(rounds):

        def keep(name: str, found: dict[str, Any], number: int = number) -> None:
            runs.setdefault(name, []).append(found)
            say(f"round {number + 1}/{rounds}  {report.line(name, found)}")

        keep("drain", place.stage("drain", database="postgresql", shards=50_000))
        keep("to disk", build(place))
        keep("to S3", build(place, s3=True))
        keep("a plain loop", place.peer("loop", some))
        keep("small preset", build(place, s3=True, compression="small"))
        keep("sitemap.js buffered", place.peer("sitemap.js", some, buffered=True))
        keep("cursor fallback", build(place, s3=True, reader="cursor"))
        keep("Django sitemaps", place.peer("django", few))
        keep("pandas and a loop", place.peer("pandas", few))
        keep("sitemap.js as documented", place.peer("sitemap.js", min(rows, 25_000)))
        keep("DuckDB drain", place.stage("drain", database="duckdb", shards=50_000))
        keep("DuckDB to disk", build(place, database="duckdb"))
        keep("parts", place.stage("parts", database="postgresql"))
        keep("digest", place.stage("digest", database="postgresql", postmaster=place.databases.postmaster))
        keep("changed", changed(place, rows))
        keep("import", place.stage("imports"))
    return runs


def build(
    place: environment.Place, *, s3: bool = False, database: str = "postgresql", table: str = "pages", **how: Any
) -> dict[str, Any]:
    """A whole first build by the package's pipeline, into an empty store."""
    with tempfile.TemporaryDirectory(dir=place.folder) as folder:
        store = f"s3://bench/{Path(folder).name}" if s3 else f"{folder}/out"
        found = place.stage("build", database=database, store=store, table=table, **how)
    assert found["result"] == "published", found
    return found


def changed(place: environment.Place, rows: int) -> dict[str, Any]:
    """Full, unchanged, and one of a hundred shards."""
    with tempfile.TemporaryDirectory(dir=place.folder) as folder:
        return place.stage(
            "changed", database="postgresql", store=f"{folder}/out", shards=100, max_urls=-(-rows // 100),
            postmaster=place.databases.postmaster,
        )  # fmt: skip


def memory(place: environment.Place, sizes: list[int]) -> list[dict[str, Any]]:
    """Peak memory of builds to disk of tables of several sizes."""
    found = []
    for rows in sizes:
        with databases.other_table(place.databases.postgresql, rows) as table:
            found.append(build(place, table=table))
        say(f"memory, {rows:,} rows: {found[-1]['peak_mb']:.0f} MB")
    return found


def facts(rows: int, rounds: int) -> dict[str, Any]:
    """Where and when this was measured."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "measured_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip(),
        "rows": rows,
        "rounds": rounds,
        "cores": os.cpu_count(),
        "load_average": os.getloadavg(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "s3": "benchmarks.sink, in a process of its own",
    }


def say(text: str) -> None:
    """Progress, for people."""
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Measure, print, store. 1 where the small version found a ratio far off."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--small", action="store_true", help="quick and coarse: fails only on a ratio far off")
    small = parser.parse_args().small
    rows = int(os.environ.get("BENCH_ROWS", "500000" if small else "2000000"))
    rounds = int(os.environ.get("BENCH_ROUNDS", "1" if small else "3"))
    sizes = [int(n) for n in os.environ.get("BENCH_FLAT_ROWS", "" if small else "1000000,20000000").split(",") if n]
    with ExitStack() as stack:
        folder = folder_of(stack)
        say(f"peers, databases and {rows:,} rows in {folder}")
        python = environment.peers(folder)
        running = stack.enter_context(databases.running(folder, rows))
        place = environment.Place(folder, running, stack.enter_context(environment.sink()), python)
        runs = measure(place, rows, rounds)
        if sizes:
            runs["memory"] = memory(place, sizes)
        result = {**facts(rows, rounds), "runs": runs}
        result["targets"] = [verdict.to_dict() for verdict in targets.verdicts(runs)]
        print(report.text(result))
        if not small:
            report.store(result, RESULTS, python)
    known = report.known(RESULTS)
    far = [v for v in targets.verdicts(runs) if v.far_off(known.get(v.what), FAR_OFF)]
    for verdict in far if small else ():
        say(f"far off: {verdict.what}: {verdict.measured:.3g}, the target is {verdict.target:g}")
    return 1 if small and far else 0


def folder_of(stack: ExitStack) -> Path:
    """``BENCH_DIR``, kept for the next time; else a temporary folder."""
    given = os.environ.get("BENCH_DIR")
    folder = Path(given) if given else Path(tempfile.mkdtemp(prefix="airflow-sitemaps-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    # PostgreSQL runs as another user where this is root's process.
    folder.chmod(0o755)
    if not given:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


if __name__ == "__main__":
    sys.exit(main())
