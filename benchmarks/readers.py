"""Rows a second of each Arrow reader beside its cursor, in one run: DuckDB, and ClickHouse by chdb.

Run it in the environment of `make test-warehouses`: `.test/warehouses/bin/python -m benchmarks.readers --rows 500000`.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from airflow_sitemaps.shards.ranges import KeyRange
from airflow_sitemaps.sources.session_factory import session_of
from airflow_sitemaps.sources.sql import SqlSource

if TYPE_CHECKING:
    from collections.abc import Iterator

FILL: Final = {
    "duckdb": (
        "CREATE TABLE pages AS SELECT i AS id, 'products/item-' || i AS slug,"
        " TIMESTAMP '2024-01-01' + to_seconds(i) AS lm, (i % 10) / 10 AS priority FROM range({rows}) t(i)"
    ),
    "clickhouse": (
        "CREATE TABLE pages ENGINE = MergeTree ORDER BY id AS SELECT toInt64(number) AS id,"
        " concat('products/item-', toString(number)) AS slug, toDateTime('2024-01-01', 'UTC') + number AS lm,"
        " (number % 10) / 10 AS priority FROM numbers({rows})"
    ),
}
"""A table of the same rows, by database."""


@contextmanager
def _engine(name: str, folder: Path) -> Iterator[sa.Engine]:
    url = (
        f"duckdb:///{folder / 'bench.duckdb'}"
        if name == "duckdb"
        else f"clickhousedb://localhost/default?interface=chdb&path={folder}"
    )
    engine = sa.create_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()


def _read(engine: sa.Engine, reader: str) -> tuple[int, float, float]:
    """Read all rows; their number, and the seconds of the clock and of the process."""
    source = SqlSource("bench", table="pages", key="id", loc="slug", lastmod="lm", priority="priority", reader=reader)  # type: ignore[arg-type]
    with session_of(source, "bench", engine) as session:
        clock, cpu = time.perf_counter(), time.process_time()
        rows = sum(batch.num_rows for batch in session.read([KeyRange(None, None)]))
        return rows, time.perf_counter() - clock, time.process_time() - cpu


def main() -> None:
    """Print one line for each way to read."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    logging.disable(logging.INFO)
    for name, fill in FILL.items():
        with tempfile.TemporaryDirectory() as folder, _engine(name, Path(folder)) as engine:
            with engine.begin() as connection:
                connection.exec_driver_sql(
                    fill.format(rows=given.rows).replace("%", "%%" if name == "clickhouse" else "%")
                )
            # Interleaved, so that a busy moment of the machine slows both.
            taken: dict[str, list[tuple[int, float, float]]] = {"auto": [], "cursor": []}
            for _ in range(given.repeat):
                for reader, runs in taken.items():
                    runs.append(_read(engine, reader))
        for reader, runs in taken.items():
            rows = runs[0][0]
            clock, cpu = (statistics.median(run[place] for run in runs) for place in (1, 2))
            way = "Arrow" if reader == "auto" else "cursor"
            print(f"{name:10} {way:6} {rows / clock:>12,.0f} rows/s {rows / cpu:>12,.0f} rows/CPU s")


if __name__ == "__main__":
    main()
