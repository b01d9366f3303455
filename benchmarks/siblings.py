"""The survey of thirty sections of one table, shared and not: ``python -m benchmarks.siblings --rows 3000000``.

One table holds the pages of thirty locales. It is one section, thirty sections that share a survey, thirty that a run makes of the
column, with one for all other rows, and thirty that survey one after the other, because their condition is in parentheses. Each plans an unchanged run, in turn with the others. The table is in
PostgreSQL, with and without an index that leads with the locale, and in DuckDB.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from benchmarks import databases, growth_report
from benchmarks.forked import forked
from benchmarks.rows import finish, prepared, say

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_sitemaps import Sitemap

TABLE: Final = "translations"
LOCALES: Final = 30
WAYS: Final = ("one section", "thirty sections, one survey", "`Section.each`", "thirty sections, a survey each")
PLACES: Final = ("PostgreSQL", "PostgreSQL, with an index by locale", "DuckDB")
COLUMNS: Final = (
    "n AS id, 'l' || mod(n * 7919, {locales}) AS locale, 'https://www.example.com/a-folder/the-name-of-a-page-' || n AS loc,"
    " TIMESTAMPTZ '2026-11-01 00:00:00+00' - mod(n, 1000000) * INTERVAL '1 second' AS lastmod,"
    " CAST(0.5 AS DOUBLE PRECISION) AS priority"
)


def fill_postgresql(url: str, rows: int) -> None:
    """Make the table in PostgreSQL, with an index by the key."""
    import sqlalchemy as sa

    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        for statement in (
            f"DROP TABLE IF EXISTS {TABLE}",
            f"CREATE TABLE {TABLE} AS SELECT {COLUMNS.format(locales=LOCALES)} FROM generate_series(CAST(1 AS BIGINT), {rows:d}) t(n)",
            f"ALTER TABLE {TABLE} ADD PRIMARY KEY (id)",
            f"VACUUM (ANALYZE) {TABLE}",
        ):
            connection.exec_driver_sql(statement)


def add_index(url: str) -> None:
    """Add an index that leads with the locale."""
    import sqlalchemy as sa

    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE INDEX ON {TABLE} (locale, id)")
        connection.exec_driver_sql(f"VACUUM (ANALYZE) {TABLE}")


def fill_duckdb(path: Path, rows: int) -> dict[str, Any]:
    """Make the table in DuckDB."""
    import duckdb

    with duckdb.connect(str(path)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(
            f"CREATE TABLE {TABLE} AS SELECT {COLUMNS.format(locales=LOCALES)} FROM range(1, {rows + 1:d}) t(n)"
        )
    return {}


def sitemap_of(store: Path, connection: str, way: str) -> Sitemap:
    """The sitemap of one way, with default guards."""
    from airflow_sitemaps import LocalStore, Section, Sitemap, SqlSource

    def source(where: str | None) -> SqlSource:
        return SqlSource(
            connection, table=TABLE, key="id", loc="loc", lastmod="lastmod", priority="priority", where=where
        )

    condition = "locale = 'l{}'" if way == WAYS[1] else "(locale = 'l{}')"
    if way in (WAYS[0], WAYS[2]):
        whole = source(None)
        section = Section("pages", whole) if way == WAYS[0] else Section.each("locale", whole, name="locale")
        return Sitemap(LocalStore(store, base_url="https://www.example.com/"), [section])
    sections = [Section(f"locale-{number}", source(condition.format(number))) for number in range(LOCALES)]
    keys = {section.source.sibling_key for section in sections}
    assert len(keys) == 1
    assert (keys != {None}) == (way == WAYS[1])
    return Sitemap(LocalStore(store, base_url="https://www.example.com/"), sections)


def plan(sitemap: Sitemap) -> dict[str, Any]:
    """Plan a run. Raises AssertionError where a row has changed."""
    from airflow_sitemaps.pipeline import stages

    planned = stages.plan(sitemap)
    assert not planned.batches
    return {}


def compared(
    folder: Path, connection: str, rounds: int, server: Callable[[], float]
) -> dict[str, list[dict[str, float]]]:
    """CPU seconds of client and server for each way, round by round, after a first build of each."""
    from airflow_sitemaps.pipeline import build

    sitemaps = {way: sitemap_of(folder / f"way-{number}", connection, way) for number, way in enumerate(WAYS)}
    for way, sitemap in sitemaps.items():
        forked(lambda sitemap=sitemap: {"result": build(sitemap).result})  # type: ignore[misc]
        say(f"{connection}: {way} is built")
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for number in range(rounds):
        for way, sitemap in sitemaps.items():
            before = server()
            client = forked(lambda sitemap=sitemap: plan(sitemap))["cpu_s"]  # type: ignore[misc]
            found[way].append({"client_cpu_s": client, "server_cpu_s": server() - before})
        lines = (f"{way} {cpu_s(found[way][-1:]):.2f} CPU s" for way in WAYS)
        say(f"{connection}, round {number + 1} of {rounds}: {'; '.join(lines)}")
    return found


def cpu_s(rounds: list[dict[str, float]]) -> float:
    """The median of the CPU seconds of client and server together."""
    return median(sum(one.values()) for one in rounds)


def measure(folder: Path, rows: int, rounds: int) -> dict[str, Any]:
    """All ways on all databases."""

    def at(url: str) -> str:
        return json.dumps({"conn_type": "generic", "extra": {"sqlalchemy_url": url}})

    found = {}
    with databases.postgresql(folder) as (url, postmaster):
        fill_postgresql(url, rows)
        os.environ["AIRFLOW_CONN_BENCH_SIBLINGS"] = at(url)
        for number, place in enumerate(PLACES[:2]):
            if number:
                add_index(url)
            own = folder / f"place-{number}"
            found[place] = compared(
                own, "bench_siblings", rounds, lambda postmaster=postmaster: databases.server_cpu_s(postmaster)
            )
    path = folder / "translations.duckdb"
    forked(lambda: fill_duckdb(path, rows))
    os.environ["AIRFLOW_CONN_BENCH_SIBLINGS"] = at(f"duckdb:///{path}")
    found[PLACES[2]] = compared(folder / "duckdb", "bench_siblings", rounds, lambda: 0.0)
    return {"places": found}


def report(result: Mapping[str, Any]) -> str:
    """The table: CPU seconds of each way, and as a multiple of one section's."""
    lines = []
    for place, ways in result["places"].items():
        one = cpu_s(ways[WAYS[0]])
        lines.append((place, *(f"{cpu_s(ways[way]):,.2f} ({cpu_s(ways[way]) / one:.2f} ×)" for way in WAYS)))
    return f"The plan of an unchanged run, {result['rows']:,} rows, CPU seconds of client and database:\n\n" + (
        growth_report.table(("", *WAYS), lines)
    )


def main() -> None:
    """Measure and print a table; ``--keep`` stores the result, with its table in the docs."""
    from benchmarks.__main__ import facts

    parser = argparse.ArgumentParser(prog="python -m benchmarks.siblings", description=__doc__)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="a file for the result")
    parser.add_argument("--keep", action="store_true", help="write results/siblings.json and docs/database-costs.md")
    given = parser.parse_args()
    logging.getLogger("airflow_sitemaps").setLevel(logging.ERROR)  # each section warns of its first build
    with prepared("siblings", s3=False) as (folder, _):
        folder.chmod(0o755)
        result = {**facts(given.rows, given.rounds), **measure(folder, given.rows, given.rounds)}
        finish("siblings", result, report(result), given, folder, plot=False)


if __name__ == "__main__":
    main()
