"""What a survey is estimated to scan, by the engines that say it, and the ceiling above which none begins."""

from __future__ import annotations

import gzip
import json
import logging
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest
import sqlalchemy as sa

from airflow_sitemaps import Guards, MemoryStore, Section, ShardPolicy, Sitemap, SqlSource
from airflow_sitemaps.errors import RefusedError, SourceConfigurationError
from airflow_sitemaps.pipeline import build, stages
from airflow_sitemaps.pipeline.plan.explainer import explain
from airflow_sitemaps.pipeline.request import RunRequest
from airflow_sitemaps.shards.codec import decode_plan, encode_plan
from airflow_sitemaps.shards.key import KeyRange, cut
from airflow_sitemaps.shards.plan import Plan, SectionPlan
from airflow_sitemaps.shards.scan_estimate import ScanEstimate
from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.queries import survey
from airflow_sitemaps.sources.scans import snowflake_explain
from airflow_sitemaps.sources.scans.scan_meter import ESTIMATORS
from tests.sources.test_compiled import context_of
from tests.support import transpiled
from tests.support.databases import NAMES, Database
from tests.support.source_sessions import create, live, session

BASE = "https://www.example.com/"
ROWS = 20_000
WHOLE = [KeyRange(None, None)]
SOURCE = {"table": "scanned", "key": "id", "loc": "slug"}


def table(name: str, rows: int = ROWS) -> Database:
    """A table of rows with an index, and with statistics of it."""
    if name not in NAMES:
        pytest.skip(f"{name} is not here: `make test-warehouses`")
    base = live(name)
    create(base, "scanned", {"id": "=Int64" if name == "clickhouse" else "integer", "slug": "text", "other": "text"})
    numbers = {
        "postgresql": f"SELECT n, 'p/' || n, repeat('x', 50) FROM generate_series(1, {rows}) n",
        "mariadb": f"SELECT seq, CONCAT('p/', seq), REPEAT('x', 50) FROM seq_1_to_{rows}",
        "clickhouse": f"SELECT number, concat('p/', toString(number)), repeat('x', 50) FROM numbers({rows})",
        "duckdb": f"SELECT range, 'p/' || range, repeat('x', 50) FROM range({rows})",
        "bigquery": f"SELECT range, 'p/' || range, repeat('x', 50) FROM range({rows})",
        "sqlite": "SELECT 1, 'p/1', 'x'",
    }
    base.run(f"INSERT INTO scanned {numbers[name]}")
    if name == "mariadb":
        base.run("ALTER TABLE scanned ADD PRIMARY KEY (id)", "ANALYZE TABLE scanned PERSISTENT FOR ALL")
    if name == "postgresql":
        base.run("CREATE UNIQUE INDEX scanned_id ON scanned (id)", "ALTER TABLE scanned ALTER id SET NOT NULL")
        base.run("ANALYZE scanned")
    return base


def scanned(base: Database, ranges: list[KeyRange] = WHOLE, **arguments: Any) -> ScanEstimate | None:
    with session(base, **{**SOURCE, **arguments}) as source:
        source.survey(ranges)
        found: ScanEstimate | None = source.scan_estimate()
        return found


def test_postgresql_counts_the_pages_of_a_whole_table_and_the_share_of_a_range() -> None:
    base = table("postgresql")
    ((heap,),) = base.rows("SELECT pg_relation_size('scanned')")
    whole = scanned(base, cut(KeyRange(None, None), [(n,) for n in range(100, ROWS, 100)]))
    assert whole is not None
    assert heap <= whole.byte_size <= 1.2 * heap + 8_192  # the count of NULL keys reads a page, or none
    few = scanned(base, [KeyRange((5_000,), (5_200,))])
    assert few is not None
    assert 0 < few.byte_size < heap / 20


def test_postgresql_counts_toast_and_only_the_partitions_that_are_left() -> None:
    base = live("postgresql")
    base.run(
        "DROP TABLE IF EXISTS scanned_parts",
        "CREATE TABLE scanned_parts (id bigint NOT NULL, slug text) PARTITION BY RANGE (id)",
        "CREATE TABLE scanned_parts_1 PARTITION OF scanned_parts FOR VALUES FROM (0) TO (1000)",
        "CREATE TABLE scanned_parts_2 PARTITION OF scanned_parts FOR VALUES FROM (1000) TO (2000)",
        "ALTER TABLE scanned_parts ALTER slug SET STORAGE EXTERNAL",
        "ALTER TABLE scanned_parts_2 ALTER slug SET STORAGE EXTERNAL",
        "INSERT INTO scanned_parts SELECT n, 'p/' || n FROM generate_series(0, 999) n",
        "INSERT INTO scanned_parts SELECT n, repeat('x', 9000) FROM generate_series(1000, 1099) n",
        "ANALYZE scanned_parts",
    )
    ((small,),) = base.rows("SELECT pg_relation_size('scanned_parts_1')")
    ((toast,),) = base.rows("SELECT pg_relation_size(reltoastrelid) FROM pg_class WHERE relname = 'scanned_parts_2'")
    assert toast > 800_000
    first = scanned(base, [KeyRange((0,), (1_000,))], table="scanned_parts")
    second = scanned(base, [KeyRange((1_000,), (2_000,))], table="scanned_parts")
    assert first is not None
    assert second is not None
    nulls = scanned(base, [], table="scanned_parts")  # the count of NULL keys alone
    assert nulls is not None
    assert first.byte_size - nulls.byte_size == small
    assert second.byte_size - nulls.byte_size > toast


def test_an_estimate_that_fails_leaves_the_survey_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    base = table("postgresql", 10)

    def broken(_context: Any, connection: sa.Connection, _statement: Any) -> None:
        with connection.begin_nested():
            connection.execute(sa.text("SELECT 1 / 0"))

    with pytest.MonkeyPatch.context() as patch, session(base, **SOURCE) as source, caplog.at_level(logging.INFO):
        expected = source.survey(WHOLE)
        patch.setitem(ESTIMATORS, "postgresql", broken)
        with source.snapshot():
            assert source.survey(WHOLE) == expected
    assert "the database cannot estimate what the survey will scan" in caplog.text
    assert "division by zero" in caplog.text


def test_mariadb_counts_the_clustered_index() -> None:
    base = table("mariadb")
    ((size,),) = base.rows("SELECT DATA_LENGTH FROM information_schema.TABLES WHERE TABLE_NAME = 'scanned'")
    whole, few = scanned(base), scanned(base, [KeyRange((5_000,), (5_200,))])
    assert whole is not None
    assert few is not None
    assert size <= whole.byte_size < 1.1 * size
    assert 0 < few.byte_size < size / 20
    assert scanned(base, table=None, query="SELECT * FROM scanned") is None


def test_clickhouse_counts_the_columns_of_the_rows_that_are_left() -> None:
    base = table("clickhouse", 200_000)
    base.run("DROP TABLE IF EXISTS scanned_wide", "DROP VIEW IF EXISTS scanned_view")
    base.run(
        "CREATE TABLE scanned_wide (id Int64, slug String, other String) ENGINE = MergeTree ORDER BY id"
        " SETTINGS min_bytes_for_wide_part = 0",
        "INSERT INTO scanned_wide SELECT * FROM scanned",
        "OPTIMIZE TABLE scanned_wide FINAL",
        "CREATE VIEW scanned_view AS SELECT * FROM scanned_wide",
    )
    sizes = dict(
        base.rows(
            "SELECT column, sum(column_data_uncompressed_bytes) FROM system.parts_columns"
            " WHERE active AND table = 'scanned_wide' GROUP BY column"
        )
    )
    ((rows,),) = base.rows("SELECT count() FROM scanned_wide")
    whole = scanned(base, table="scanned_wide")
    assert whole is not None
    two = int(sizes["id"]) + int(sizes["slug"])
    assert whole.byte_size in (two, 2 * two)  # the count of NULL keys is or is not answered by the type
    few = scanned(base, [KeyRange((50_000,), (50_200,))], table="scanned_wide")
    nulls = scanned(base, [], table="scanned_wide")
    assert few is not None
    assert nulls is not None
    assert 0 < few.byte_size - nulls.byte_size < two / 5
    condition = scanned(base, table="scanned_wide", where="other <> ''")
    assert condition is not None
    assert condition.byte_size >= sum(map(int, sizes.values())) * int(rows) / int(rows)
    small = scanned(base)
    assert small is not None
    assert small.byte_size > 0
    assert scanned(base, table="scanned_view") is None


def test_bigquery_is_asked_by_dry_runs() -> None:
    base = table("bigquery", 1_000)
    log = transpiled.STATEMENTS["bigquery"]
    log.clear()
    narrow = scanned(base)
    # Key and URL for the survey, and the key for the count of NULL keys.
    assert narrow == ScanEstimate(byte_size=1_000 * 3 * transpiled.BYTES_OF_VALUE, basis="BigQuery dry run")
    dry = [sql.removeprefix("DRY RUN ") for sql in log if sql.startswith("DRY RUN ")]
    assert len(dry) == 2
    run = [sql.split("*/ ", 1)[-1] for sql in log if not sql.startswith("DRY RUN ")]
    assert all(sql in run for sql in dry)
    wide = scanned(base, changefreq="other")
    assert wide is not None
    assert wide.byte_size == 1_000 * 4 * transpiled.BYTES_OF_VALUE


class Explains:
    """A connection to Snowflake that answers EXPLAIN."""

    def __init__(self, stats: dict[str, Any]) -> None:
        self.stats, self.received = stats, []

    def execute(self, clause: Any, values: Any) -> Any:
        self.received.append(clause.text)
        return self

    def scalar_one(self) -> str:
        return json.dumps({"GlobalStats": self.stats, "Operations": [[]]})


def test_snowflake_is_asked_by_explain() -> None:
    context = context_of("snowflake", (Column(name="id", kind=Kind.INTEGER),))
    stats = {"partitionsTotal": 340, "partitionsAssigned": 12, "bytesAssigned": 5_000}
    connection = Explains(stats)
    statements = list(survey.statements(context, cut(KeyRange(None, None), [(1,), (2,)])))
    found = [snowflake_explain.estimate(context, connection, each) for each in statements]
    assert connection.received == [f"EXPLAIN USING JSON {clause.text}" for clause, _values in statements]
    assert found[0] is not None
    assert found[1] is not None
    both = ScanEstimate(byte_size=10_000, basis="Snowflake EXPLAIN", partitions=24, all_partitions=680)
    assert found[0] + found[1] == both
    assert snowflake_explain.estimate(context, Explains({}), statements[0]) is None


@pytest.mark.parametrize("name", ["sqlite", "duckdb"])
def test_a_database_that_cannot_tell_refuses_a_ceiling(name: str) -> None:
    base = table(name)
    assert scanned(base) is None
    with session(base, **SOURCE, max_scan_bytes=10**12) as source:
        for question in (lambda: source.survey(WHOLE), lambda: source.boundaries(KeyRange(None, None), 10)):
            with pytest.raises(SourceConfigurationError, match=rf"section 'test' .*{name}.* cannot estimate the scan"):
                question()


@pytest.fixture
def sitemap(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A sitemap over PostgreSQL, by its ceiling."""
    base = table("postgresql")
    extra = {"sqlalchemy_url": base.url}
    monkeypatch.setenv("AIRFLOW_CONN_SCANNED", json.dumps({"conn_type": "generic", "extra": extra}))
    store = MemoryStore(base_url=BASE)

    def made(ceiling: int | None) -> Sitemap:
        source = SqlSource("scanned", table="scanned", key="id", loc="/{slug}", max_scan_bytes=ceiling)
        return Sitemap(store, [Section("pages", source)], shards=ShardPolicy(max_urls=1_000), guards=Guards.disabled())

    return made


def test_a_survey_above_the_ceiling_is_refused_before_it_runs(sitemap: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(RefusedError) as refused:
        build(sitemap(100_000))
    said = str(refused.value)
    assert "section 'pages'" in said
    assert "max_scan_bytes=100,000" in said
    assert "PostgreSQL EXPLAIN" in said
    assert "Raise max_scan_bytes" in said
    sent = [record.message for record in caplog.records if "section=pages" in record.message]
    assert not any("GROUP BY bucket" in sql or "ROW_NUMBER" in sql for sql in sent)
    assert build(sitemap(100_000_000)).urls == ROWS
    with pytest.raises(RefusedError, match="max_scan_bytes=1,000"):
        build(sitemap(1_000))


def test_the_plan_says_what_the_survey_scans(sitemap: Any) -> None:
    plan = stages.plan(sitemap(None), RunRequest(dry_run=True)).plan
    (line,) = (line for line in stages.explain(plan) if "estimated to scan" in line)
    assert line.startswith("  the survey was estimated to scan 1.")
    assert line.endswith(" MB (PostgreSQL EXPLAIN, pages of tables and TOAST)")
    assert decode_plan(encode_plan(plan)) == plan
    older = replace(plan, sections={"pages": replace(plan.sections["pages"], scan=None)})
    assert b'"scan"' not in gzip.decompress(encode_plan(older))
    assert decode_plan(encode_plan(older)) == older


def test_the_plan_says_how_many_partitions_are_left() -> None:
    scan = ScanEstimate(byte_size=3 << 20, basis="Snowflake EXPLAIN", partitions=12, all_partitions=340)
    plan = SectionPlan(name="pages", base=0, fingerprint="", digest_kind="", targets=(), scan=scan)
    moment = datetime(2026, 1, 1, tzinfo=timezone.utc)
    lines = explain(Plan(run="r", created_at=moment, base_generation=0, sections={"pages": plan}))
    assert "  the survey was estimated to scan 3.0 MB, 12 of 340 partitions (Snowflake EXPLAIN)" in lines


def test_the_ceiling_is_no_part_of_the_files() -> None:
    plain, limited = (SqlSource("mart", **SOURCE, max_scan_bytes=each) for each in (None, 5))
    assert plain.identity() == limited.identity()


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "1 GB"])
def test_a_ceiling_is_a_whole_number_of_bytes(wrong: Any) -> None:
    with pytest.raises(SourceConfigurationError, match="max_scan_bytes"):
        SqlSource("mart", **SOURCE, max_scan_bytes=wrong)


def test_a_ceiling_does_not_hold_for_a_query_that_is_stored() -> None:
    with pytest.raises(SourceConfigurationError, match="materialize"):
        SqlSource("mart", query="SELECT 1", key="id", loc="slug", materialize="scratch", max_scan_bytes=1)


def test_the_statements_of_an_estimate_are_those_of_the_survey() -> None:
    base = table("postgresql", 100)
    seen: list[str] = []
    with session(base, **SOURCE) as source:
        sa.event.listen(source.engine, "before_execute", lambda _c, clause, *_: seen.append(str(clause)))
        ranges = cut(KeyRange(None, None), [(n,) for n in range(1, 90)])
        source.survey(ranges)
        sent = [str(clause) for clause, _values in survey.statements(source.context, ranges)]
    assert [sql for sql in seen if sql in sent] == sent
    explained = [sql.removeprefix("EXPLAIN (VERBOSE, FORMAT JSON) ") for sql in seen if sql.startswith("EXPLAIN")]
    assert explained == sent
