"""What a run costs on each database: statements, ranges digested, rows read, and CPU seconds of client and database.

Three runs of one table in 20 shards: the first build, one without changes, and one with one changed row. The database is the
only thing that differs, and the counts are exact: `tests/benchmarks/test_warehouse_costs.py` asserts them.

Run it in the environment of `make test-warehouses`: `make bench-warehouses`.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

import sqlalchemy as sa

from airflow_sitemaps import Guards, MemoryStore, Section, ShardPolicy, Sitemap, SqlSource
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.sources import session
from tests.support.databases import NAMES, Database, NotAvailable, database

if TYPE_CHECKING:
    from collections.abc import Iterator

BASE: Final = "https://www.example.com/"
SHARDS: Final = 20
ROWS: Final = {"postgresql": 200_000, "mariadb": 200_000, "duckdb": 200_000, "sqlite": 200_000, "clickhouse": 200_000}
"""The rows of the table, by database: the engines themselves."""
FEW_ROWS: Final = 2_000
"""The rows where another engine runs the statements: its seconds say nothing about the warehouse."""
RUNS: Final = ("first build", "no change", "one shard changed")
FILL: Final = {
    "postgresql": "INSERT INTO costs SELECT i, 'p/' || i FROM generate_series(1, {rows}) t(i)",
    "mariadb": "INSERT INTO costs SELECT seq, CONCAT('p/', seq) FROM seq_1_to_{rows}",
    "sqlite": "INSERT INTO costs WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t WHERE i < {rows})"
    " SELECT i, 'p/' || i FROM t",
    "clickhouse": "INSERT INTO costs SELECT number + 1, concat('p/', toString(number + 1)) FROM numbers({rows})",
}
"""By database, the rows of the table; the others take DuckDB's, or literals (Snowflake)."""
FILL_BY_DUCKDB: Final = "INSERT INTO costs SELECT i, 'p/' || i FROM range(1, {rows} + 1) t(i)"
TYPES: Final = {"clickhouse": ("Int64", "String"), "mariadb": ("BIGINT", "VARCHAR(99)")}


@dataclass(frozen=True)
class Cost:
    """What one run requested from the database.

    Attributes:
        statements: The statements that name the table.
        other: The other statements: settings, the clock, system tables.
        digested: The ranges whose digests were computed.
        rows: The rows that the client read.
        cpu_s: CPU seconds of this process and of the servers that it started.
    """

    statements: int
    other: int
    digested: int
    rows: int
    cpu_s: float

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """All but the seconds."""
        return self.statements, self.other, self.digested, self.rows


@contextmanager
def _counted(counts: Counter[str]) -> Iterator[None]:
    """Count what sessions ask of a database by its cursor."""

    def listen(_connection: Any, _cursor: Any, text: str, _values: Any, context: Any, _many: bool) -> None:
        # The statements that read rows are counted below: psycopg's are not SQLAlchemy's.
        if not (context is not None and context.execution_options.get("stream_results")):
            counts["statements" if "costs" in text else "other"] += 1

    rows_statement, read, survey = session.rows_statement, session.SqlSession.read, session.SqlSession.survey

    def count_statement(*arguments: Any) -> Any:
        counts["statements"] += 1
        return rows_statement(*arguments)

    def count_rows(self: Any, ranges: Any) -> Any:
        for batch in read(self, ranges):
            counts["rows"] += batch.num_rows
            yield batch

    def count_ranges(self: Any, ranges: Any) -> Any:
        counts["digested"] += len(ranges)
        return survey(self, ranges)

    sa.event.listen(sa.Engine, "before_cursor_execute", listen)
    try:
        with (
            mock.patch.object(session, "rows_statement", count_statement),
            mock.patch.object(session.SqlSession, "read", count_rows),
            mock.patch.object(session.SqlSession, "survey", count_ranges),
        ):
            yield
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", listen)


def _cpu_seconds() -> float:
    """CPU seconds of this process and of all that come from it, those that ended included."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(path.parent.name)] = int(fields[1])
        ticks[int(path.parent.name)] = sum(map(int, fields[11:15]))
    known = {os.getpid()}
    while found := {process for process, parent in parents.items() if parent in known} - known:
        known |= found
    return sum(ticks[process] for process in known) / os.sysconf("SC_CLK_TCK")


def _fill(base: Database, rows: int) -> None:
    integer, text = TYPES.get(base.name, ("BIGINT", "VARCHAR"))
    key = "" if base.name in ("clickhouse", "databricks") else " PRIMARY KEY"
    end = " ENGINE = MergeTree ORDER BY id" if base.name == "clickhouse" else ""
    base.run("DROP TABLE IF EXISTS costs", f"CREATE TABLE costs (id {integer}{key}, slug {text}){end}")
    if base.name == "snowflake":
        for start in range(1, rows + 1, 500):
            values = ", ".join(f"({n}, 'p/{n}')" for n in range(start, min(start + 500, rows + 1)))
            base.run(f"INSERT INTO costs VALUES {values}")
        return
    base.run(FILL.get(base.name, FILL_BY_DUCKDB).format(rows=rows))


def measure(name: str, rows: int, *, versions: bool = False) -> dict[str, Cost]:
    """Run the three runs on one database.

    Args:
        name: The database, of ``tests.support.databases.NAMES``.
        rows: The rows of the table, a multiple of ``SHARDS``.
        versions: Whether the plan asks for the table's version. Default: False.

    Raises:
        NotAvailable: The database cannot run here.
    """
    base = database(name)
    _fill(base, rows)
    connection = {"conn_type": "generic", "extra": {"sqlalchemy_url": base.url}}
    source = SqlSource("costs", table="costs", key="id", loc=BASE + "{slug}", reader="cursor")
    timed = {} if versions else {"table_versions": None}
    sitemap = Sitemap(
        MemoryStore(base_url=BASE),
        [Section("pages", source)],
        shards=ShardPolicy(max_urls=rows // SHARDS),
        guards=Guards.disabled(),
        **timed,
    )
    update = "ALTER TABLE costs UPDATE slug" if name == "clickhouse" else "UPDATE costs SET slug"
    wait = " SETTINGS mutations_sync = 1" if name == "clickhouse" else ""
    found: dict[str, Cost] = {}
    with mock.patch.dict(os.environ, {"AIRFLOW_CONN_COSTS": json.dumps(connection)}):
        for run in RUNS:
            if run == "one shard changed":
                base.run(f"{update} = 'new' WHERE id = {rows // 2}{wait}")
            counts: Counter[str] = Counter()
            before = _cpu_seconds()
            with _counted(counts):
                result = build(sitemap).result
            if (result == "unchanged") != (run == "no change"):
                raise RuntimeError(f"{name}, {run}: the build is {result}")
            names = ("statements", "other", "digested", "rows")
            found[run] = Cost(*(counts[each] for each in names), _cpu_seconds() - before)
    return found


def main() -> None:
    """Print a table of all databases that run here."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(NAMES), help="databases; default: all that run here")
    given = parser.parse_args()
    print("| database | run | statements on the table | others | ranges digested | rows read | CPU s |")
    print("|---|---|---:|---:|---:|---:|---:|")
    measure("sqlite", FEW_ROWS)  # the first builds then find all libraries loaded
    for name in given.names:
        for versions in (False, True) if name == "clickhouse" else (False,):
            try:
                costs = measure(name, ROWS.get(name, FEW_ROWS), versions=versions)
            except NotAvailable as lacking:
                print(f"| {name} | not here: {lacking} |")
                break
            title = f"{name}, by the table's version" if versions else name
            for run, cost in costs.items():
                seconds = f"{cost.cpu_s:.2f}" if name in ROWS else ""
                print(
                    f"| {title} | {run} | {' | '.join(f'{each:,}' for each in cost.counts)} | {seconds} |", flush=True
                )


if __name__ == "__main__":
    main()
