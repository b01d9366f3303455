"""What BigQuery says that a survey will scan, and the ceiling above which none begins."""

from __future__ import annotations

import gzip
import json
import logging
from typing import Any

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from airflow_sitemaps import Guards, MemoryStore, Section, ShardPolicy, Sitemap, SqlSource
from airflow_sitemaps.errors import RefusedError, SourceConfigurationError
from airflow_sitemaps.pipeline import build, stages
from airflow_sitemaps.pipeline.plan.dry_run import explain
from airflow_sitemaps.pipeline.request import RunRequest
from airflow_sitemaps.shards.codec import decode_plan, encode
from airflow_sitemaps.shards.ranges import KeyRange, cut
from airflow_sitemaps.sources.dialects.postgresql import PostgreSQL
from tests.support import transpiled
from tests.support.databases import NAMES, Database
from tests.support.source_sessions import create, live, session

BASE = "https://www.example.com/"
ROWS = 20_000
WHOLE = [KeyRange(None, None)]
SOURCE = {"table": "scanned", "key": "id", "loc": "slug"}


def table(name: str, rows: int = ROWS) -> Database:
    """A table of rows."""
    if name not in NAMES:
        pytest.skip(f"{name} is not here: `make test-warehouses`")
    base = live(name)
    create(base, "scanned", {"id": "integer", "slug": "text", "other": "text"})
    numbers = {
        "postgresql": f"SELECT n, 'p/' || n, repeat('x', 50) FROM generate_series(1, {rows}) n",
        "mariadb": "SELECT 1, 'p/1', 'x'",
        "duckdb": f"SELECT range, 'p/' || range, repeat('x', 50) FROM range({rows})",
        "bigquery": f"SELECT range, 'p/' || range, repeat('x', 50) FROM range({rows})",
        "sqlite": "SELECT 1, 'p/1', 'x'",
    }
    base.run(f"INSERT INTO scanned {numbers[name]}")
    return base


@pytest.fixture
def estimates(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that are estimated on PostgreSQL, each at a million bytes, as if it were BigQuery."""
    asked: list[str] = []

    def scanned_bytes(_self: PostgreSQL, _connection: Any, statement: Any) -> int:
        asked.append(str(statement[0]))
        return 1_000_000

    monkeypatch.setattr(PostgreSQL, "estimates_scans", True)
    monkeypatch.setattr(PostgreSQL, "scanned_bytes", scanned_bytes)
    return asked


def scanned(base: Database, ranges: list[KeyRange] = WHOLE, **arguments: Any) -> int | None:
    with session(base, **{**SOURCE, **arguments}) as source:
        source.survey(ranges)
        found: int | None = source.scan_estimate()
        return found


def test_an_estimate_that_fails_leaves_the_survey_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    base = table("postgresql", 10)

    def broken(_self: PostgreSQL, connection: sa.Connection, _statement: Any) -> None:
        with connection.begin_nested():
            connection.execute(sa.text("SELECT 1 / 0"))

    with pytest.MonkeyPatch.context() as patch, session(base, **SOURCE) as source, caplog.at_level(logging.INFO):
        expected = source.survey(WHOLE)
        patch.setattr(PostgreSQL, "estimates_scans", True)
        patch.setattr(PostgreSQL, "scanned_bytes", broken)
        assert source.survey(WHOLE) == expected
    assert "the database cannot estimate what the survey will scan" in caplog.text
    assert "division by zero" in caplog.text


def test_bigquery_is_asked_by_dry_runs() -> None:
    base = table("bigquery", 1_000)
    log = transpiled.STATEMENTS["bigquery"]
    log.clear()
    narrow = scanned(base)
    # Key and URL for the survey, and the key for the count of NULL keys.
    assert narrow == 1_000 * 3 * transpiled.BYTES_OF_VALUE
    dry = [sql.removeprefix("DRY RUN ") for sql in log if sql.startswith("DRY RUN ")]
    assert len(dry) == 2
    run = [sql.split("*/ ", 1)[-1] for sql in log if not sql.startswith("DRY RUN ")]
    assert all(sql in run for sql in dry)
    assert scanned(base, changefreq="other") == 1_000 * 4 * transpiled.BYTES_OF_VALUE


@pytest.mark.parametrize("name", ["sqlite", "duckdb", "postgresql", "mariadb"])
def test_a_database_that_cannot_tell_refuses_a_ceiling(name: str) -> None:
    base = table(name)
    assert scanned(base) is None
    with session(base, **SOURCE, max_scan_bytes=10**12) as source:
        for question in (lambda: source.survey(WHOLE), lambda: source.boundaries(KeyRange(None, None), 10)):
            with pytest.raises(
                SourceConfigurationError, match=r"section 'test' .* cannot estimate the scan.*; only BigQuery can"
            ):
                question()


@pytest.fixture
def sitemap(monkeypatch: pytest.MonkeyPatch, estimates: list[str]) -> Any:
    """A sitemap over PostgreSQL, by its ceiling. Each statement is estimated at a million bytes."""
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
    assert "would scan about 2,000,000 bytes" in said  # with the count of NULL keys
    assert "Raise max_scan_bytes" in said
    sent = [record.message for record in caplog.records if "section=pages" in record.message]
    assert not any("GROUP BY bucket" in sql or "ROW_NUMBER" in sql for sql in sent)
    assert build(sitemap(100_000_000)).urls == ROWS
    with pytest.raises(RefusedError, match="max_scan_bytes=1,000"):
        build(sitemap(1_000))


def test_the_plan_says_what_the_survey_scans(sitemap: Any) -> None:
    plan = stages.plan(sitemap(None), RunRequest(dry_run=True))
    (line,) = (line for line in explain(plan) if "estimated to scan" in line)
    assert line == "  the survey was estimated to scan 1.9 MB"
    assert decode_plan(encode(plan)) == plan
    older = replace(plan, sections={"pages": replace(plan.sections["pages"], scan=None)})
    assert b'"scan"' not in gzip.decompress(encode(older))
    assert decode_plan(encode(older)) == older


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


def test_the_statements_of_an_estimate_are_those_of_the_survey(estimates: list[str]) -> None:
    base = table("postgresql", 100)
    seen: list[str] = []
    with session(base, **SOURCE) as source:
        sa.event.listen(source.engine, "before_execute", lambda _c, clause, *_: seen.append(str(clause)))
        source.survey(cut(KeyRange(None, None), [(n,) for n in range(1, 90)]))
    assert estimates
    assert [sql for sql in seen if sql in estimates] == estimates
