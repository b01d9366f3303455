"""An expensive query is stored once, shared by the tasks of a run, dropped at the end, and swept after a crash."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.shards.ranges import KeyRange
from airflow_sitemaps.sources.sql import SqlSource
from tests.support.databases import NAMES, Database
from tests.support.source_sessions import create, live, read, session

SCHEMAS = {"sqlite": "main", "postgresql": "public", "duckdb": "main", "mariadb": "test"}
LISTS = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'sitemap_rows%'",
    "postgresql": "SELECT tablename FROM pg_tables WHERE tablename LIKE 'sitemap_rows%'",
    "duckdb": "SELECT table_name FROM duckdb_tables() WHERE table_name LIKE 'sitemap_rows%'",
    "mariadb": "SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'sitemap_rows%'",
}


@pytest.fixture(params=NAMES)
def base(request: pytest.FixtureRequest) -> Database:
    found = live(request.param)
    create(found, "dear", {"id": "integer", "slug": "text", "lm": "timestamp"})
    found.insert("dear", [{"id": n, "slug": f"it's {n}% :x \\:y", "lm": datetime(2024, 1, 1)} for n in range(20)])
    for (name,) in found.rows(LISTS[found.name]):
        found.run(f"DROP TABLE {name}")
    return found


def arguments(base: Database) -> dict[str, object]:
    return {
        "query": "SELECT id, slug, lm, 'x' AS unused FROM dear WHERE slug <> :not", "parameters": {"not": "it's ; -- :z"},
        "key": "id", "loc": "slug", "lastmod": "lm", "materialize": SCHEMAS[base.name],
    }  # fmt: skip


def test_it_is_one_snapshot_and_is_dropped(base: Database) -> None:
    plain = {name: value for name, value in arguments(base).items() if name != "materialize"}
    with session(base, **plain) as source:
        before = source.survey([KeyRange(None, None)])
    with session(base, **arguments(base)) as source:
        assert len(base.rows(LISTS[base.name])) == 1
        base.run("DELETE FROM dear WHERE id > 3")
        assert source.survey([KeyRange(None, None)]) == before
        counts, sums, order = read(source, [KeyRange(None, None)])
        assert source.boundaries(KeyRange(None, None), 6) == [(6,), (12,), (18,)]
    assert [loc for _place, _key, loc in order] == [f"it's {n}% :x \\:y" for n in range(20)]
    assert (counts[0], sums[0]) == (before.digests[0].rows, before.digests[0].checksum)
    assert base.rows(LISTS[base.name]) == []


def test_what_a_crash_left_is_dropped_a_day_later(base: Database) -> None:
    now = datetime.now(timezone.utc)
    old, young = ((now - age).strftime("%Y%m%d%H%M%S") for age in (timedelta(hours=25), timedelta(hours=20)))
    create(base, f"sitemap_rows_{old}_a_1", {"id": "integer"})
    create(base, f"sitemap_rows_{young}_a_2", {"id": "integer"})
    with session(base, **arguments(base)):
        pass
    assert base.rows(LISTS[base.name]) == [(f"sitemap_rows_{young}_a_2",)]
    base.run(f"DROP TABLE sitemap_rows_{young}_a_2")


@pytest.mark.parametrize("base", ["postgresql"], indirect=True)
def test_an_expired_table_that_cannot_be_dropped_stays(base: Database) -> None:
    """It belongs to another role, or something depends on it."""
    base.run(
        "CREATE TABLE sitemap_rows_20240101000000_a_1 (id bigint)",
        "CREATE VIEW its_rows AS SELECT id FROM sitemap_rows_20240101000000_a_1",
    )
    with session(base, **arguments(base)) as source:
        assert source.survey([KeyRange(None, None)]).digests[0].rows == 20
    assert base.rows(LISTS[base.name]) == [("sitemap_rows_20240101000000_a_1",)]
    base.run("DROP VIEW its_rows", "DROP TABLE sitemap_rows_20240101000000_a_1")


def in_a_run(base: Database, monkeypatch: pytest.MonkeyPatch, **changed: object) -> SqlSource:
    """Return a source as the tasks of one Airflow run render it."""
    connection = {"conn_type": "generic", "extra": {"sqlalchemy_url": base.url}}
    monkeypatch.setenv("AIRFLOW_CONN_DEAR", json.dumps(connection))
    render = {"{{ dag.dag_id }}/{{ run_id }}": "shop/manual__1"}
    return SqlSource("dear", **arguments(base) | changed).rendered(lambda text: render.get(text, text))


def test_the_tasks_of_a_run_read_what_the_plan_stored(base: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    source = in_a_run(base, monkeypatch)
    with source.open(section="dear") as plan:
        surveyed = plan.survey([KeyRange(None, None)])
    base.run("DELETE FROM dear")
    stored = source.at(plan.state)
    with stored.open(section="dear") as task:
        assert task.survey([KeyRange(None, None)]) == surveyed
        assert task.now() == plan.now()
    assert len(base.rows(LISTS[base.name])) == 1
    source.discard(section="dear")
    assert len(base.rows(LISTS[base.name])) == 1
    stored.discard(section="dear")
    assert base.rows(LISTS[base.name]) == []


def test_a_plan_that_is_repeated_stores_the_present_rows(base: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sensor plans at each poke, and a person clears the plan of a refused run after a correction of the table."""
    source = in_a_run(base, monkeypatch)
    with source.open(section="dear") as first:
        assert first.survey([KeyRange(None, None)]).digests[0].rows == 20
    base.run("DELETE FROM dear WHERE id > 3")
    with source.open(section="dear") as second:
        assert second.survey([KeyRange(None, None)]).digests[0].rows == 4
    for plan in (first, second):
        source.at(plan.state).discard(section="dear")
    assert base.rows(LISTS[base.name]) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("de-products", "products"),
        ("products_of_the_catalogue_de", "products_of_the_catalogue_fr"),
        ("products", "products"),  # of two sitemaps of one DAG
    ],
)
def test_sections_of_one_run_read_their_own_rows(
    base: Database, monkeypatch: pytest.MonkeyPatch, one: str, other: str
) -> None:
    sources = [in_a_run(base, monkeypatch), in_a_run(base, monkeypatch, parameters={"not": "it's 3% :x \\:y"})]
    states = []
    for source, section, rows in zip(sources, (one, other), (20, 19), strict=True):
        with source.open(section=section) as plan:
            assert plan.survey([KeyRange(None, None)]).digests[0].rows == rows
        states.append(plan.state)
    for source, section, rows, state in zip(sources, (one, other), (20, 19), states, strict=True):
        with source.at(state).open(section=section) as task:
            assert task.survey([KeyRange(None, None)]).digests[0].rows == rows
        source.at(state).discard(section=section)
    assert base.rows(LISTS[base.name]) == []


def test_a_plan_that_fails_leaves_no_table(base: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError), in_a_run(base, monkeypatch).open(section="dear"):
        _ = 1 // 0
    assert base.rows(LISTS[base.name]) == []


def test_a_task_after_the_end_of_the_run_stores_the_rows_again(base: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    source = in_a_run(base, monkeypatch)
    with source.open(section="dear") as plan:
        pass
    stored = source.at(plan.state)
    stored.discard(section="dear")
    with stored.open(section="dear") as task:
        assert task.survey([KeyRange(None, None)]).digests[0].rows == 20
    stored.discard(section="dear")


def test_a_plan_names_only_tables_of_stored_rows(base: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    source = in_a_run(base, monkeypatch).at("dear; DROP TABLE dear")
    with (
        pytest.raises(SourceConfigurationError, match="is not valid: run the plan task again"),
        source.open(section="dear"),
    ):
        pass


def test_a_schema_that_is_not_there() -> None:
    base = live("postgresql")
    with (
        pytest.raises(SourceConfigurationError, match=r"storing the query.s rows failed \(the schema must exist"),
        session(base, query="SELECT 1 AS id", key="id", loc="id", materialize="nowhere"),
    ):
        pass


def test_the_stored_rows_are_those_of_a_session_in_utc() -> None:
    """A query that turns moments into dates and texts gives the same ones with and without ``materialize``."""
    base = live("postgresql")
    base.run(
        "DROP TABLE IF EXISTS moments", "CREATE TABLE moments (id bigint, ts timestamptz)",
        "INSERT INTO moments VALUES (1, '2024-01-02 03:00+00')", "ALTER ROLE CURRENT_USER SET timezone = 'America/New_York'",
    )  # fmt: skip
    query = "SELECT id, CAST(ts AS date) AS day, CAST(ts AS text) AS said FROM moments"
    try:
        for schema in (None, "public"):
            with session(base, query=query, key="id", loc="said", lastmod="day", materialize=schema) as source:
                rows = [row for batch in source.read([KeyRange(None, None)]) for row in batch.to_pylist()]
            assert [(row["loc"], str(row["lastmod"])) for row in rows] == [("2024-01-02 03:00:00+00", "2024-01-02")]
    finally:
        base.run("ALTER ROLE CURRENT_USER RESET timezone")


LONG_KEYS = {
    "postgresql": "SELECT string_agg(md5(CAST(n AS text)), '' ORDER BY n) AS slug FROM generate_series(1, 400) n",
    "mariadb": "SELECT REPEAT('ä', 5000) AS slug",
    "sqlite": "SELECT hex(zeroblob(5000)) AS slug",
}


@pytest.mark.parametrize("name", LONG_KEYS)
def test_a_key_too_long_for_an_index_is_stored_without_one(name: str) -> None:
    """PostgreSQL refuses it, and MySQL refuses an index of a TEXT."""
    with session(live(name), query=LONG_KEYS[name], loc="slug", materialize=SCHEMAS[name]) as source:
        assert [batch.num_rows for batch in source.read([KeyRange(None, None)])] == [1]


def test_an_index_that_the_database_refuses_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    base = live("postgresql")
    with session(base, query=LONG_KEYS["postgresql"], loc="slug", materialize="public") as source:
        assert not source.context.indexed
    assert "creating the index of the stored rows failed" in caplog.text
    with session(base, query="SELECT 'a' AS slug", loc="slug", materialize="public") as source:
        assert source.context.indexed
