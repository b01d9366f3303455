"""Rows that come and go between two questions of a plan, and a table that is replaced while a run reads it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa
from tenacity import retry, retry_if_result, stop_after_delay, wait_fixed

from airflow_sitemaps import MemoryStore, Section, ShardPolicy, Sitemap
from airflow_sitemaps.errors import RefusedError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.shards.ranges import KeyRange
from tests.support.simulated_source import SimulatedSourceConfig
from tests.support.source_sessions import live, read, session

BASE = "https://www.example.com/"


def rows_of(number: int) -> list[dict[str, Any]]:
    return [{"id": n, "loc": f"{BASE}{n}"} for n in range(number)]


def sitemap_of(rows: list[dict[str, Any]], before: Any) -> Sitemap:
    source = SimulatedSourceConfig(rows, before=before)
    return Sitemap(MemoryStore(base_url=BASE), [Section("pages", source)], shards=ShardPolicy(max_urls=10))


def test_rows_that_come_before_the_survey_and_go_after_it_are_no_reason_to_refuse() -> None:
    rows = rows_of(25)
    guest = {"id": 3, "loc": f"{BASE}guest"}
    surveys = []

    def before(operation: str) -> None:
        if operation == "survey" and not surveys:
            surveys.append(operation)
            rows.append(guest)
        elif len(rows) > 25:
            rows[:] = rows[:25]

    report = build(sitemap_of(rows, before))
    assert (report.result, report.urls) == ("published", 25)


def test_a_key_that_has_too_many_rows_is_named() -> None:
    rows = [*rows_of(25), *({"id": 3, "loc": f"{BASE}{n}/x"} for n in range(12))]
    with pytest.raises(RefusedError, match=r"the key 3 has 13 rows, but a shard holds at most 10"):
        build(sitemap_of(rows, lambda _operation: None))


WHOLE = KeyRange(None, None)
LOADS = "INSERT INTO reloaded SELECT n, 'p' || n FROM generate_series(1, 10) n"


@retry(retry=retry_if_result(lambda waits: not waits), wait=wait_fixed(0.02), stop=stop_after_delay(60))
def wait_for_a_lock(base: Any) -> Any:
    return base.rows("SELECT pid FROM pg_locks WHERE NOT granted")


@pytest.mark.parametrize("reader", ["survey", "auto", "cursor"])
def test_a_table_that_is_truncated_and_loaded_at_once_never_looks_empty(reader: str) -> None:
    base = live("postgresql")
    base.run("DROP TABLE IF EXISTS reloaded", "CREATE TABLE reloaded (id bigint PRIMARY KEY, slug text)", LOADS)
    settings = {"table": "reloaded", "key": "id", "loc": "slug", "reader": reader.replace("survey", "auto")}
    loader = base.engine()

    def rows() -> int:
        if reader == "survey":
            return source.survey([WHOLE]).digests[0].rows
        return len(read(source, [WHOLE])[2])

    with session(base, **settings) as source, ThreadPoolExecutor() as threads:
        with loader.begin() as connection:
            connection.execute(sa.text("TRUNCATE reloaded"))
            counted = threads.submit(rows)
            wait_for_a_lock(base)
            connection.execute(sa.text(LOADS))
        assert counted.result() == 10
    loader.dispose()
    base.run("DROP TABLE reloaded")


@pytest.mark.parametrize("kind", ["MATERIALIZED VIEW", "VIEW"])
def test_what_cannot_be_locked_is_read(kind: str) -> None:
    base = live("postgresql")
    base.run(f"CREATE {kind} shown AS SELECT n AS id, 'p' || n AS slug FROM generate_series(1, 10) n")
    with session(base, table="shown", key="id", loc="slug") as source:
        assert len(read(source, [WHOLE])[2]) == 10
    base.run(f"DROP {kind} shown")


def test_a_role_with_rights_on_each_column_reads_them() -> None:
    base = live("postgresql")
    base.run(
        "CREATE TABLE private (id bigint PRIMARY KEY, slug text)", "INSERT INTO private VALUES (1, 'a')",
        "CREATE ROLE each_column", "GRANT SELECT (id, slug) ON private TO each_column",
    )  # fmt: skip
    with session(base, table="private", key="id", loc="slug", session=["SET ROLE each_column"]) as source:
        assert len(read(source, [WHOLE])[2]) == 1
    base.run("DROP TABLE private", "DROP ROLE each_column")


@pytest.mark.parametrize("way", ["packed", "adbc", "cursor"])
def test_a_reading_that_a_change_of_the_table_waits_for_may_look_at_the_clock(way: str) -> None:
    base = live("postgresql")
    key = "" if way == "adbc" else " PRIMARY KEY"
    base.run(
        "DROP TABLE IF EXISTS locked", f"CREATE TABLE locked (id bigint{key}, slug text)",
        "INSERT INTO locked SELECT n, 'p' || n FROM generate_series(1, 100000) n",
    )  # fmt: skip
    reader = "cursor" if way == "cursor" else "auto"
    with (
        session(base, table="locked", key="id", loc="slug", reader=reader) as source,
        ThreadPoolExecutor() as threads,
    ):
        batches = source.read([WHOLE])
        rows = next(iter(batches)).num_rows
        changed = threads.submit(base.run, "ALTER TABLE locked ADD COLUMN more text")
        wait_for_a_lock(base)
        assert source.clock() is not None
        assert rows + sum(batch.num_rows for batch in batches) == 100_000
        changed.result()
    base.run("DROP TABLE locked")
