"""What a source costs: the statements of a survey and of a read, by database."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.shards.ranges import KeyRange, cut
from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.dialects.duckdb import DuckDB
from airflow_sitemaps.sources.queries import boundaries, survey
from airflow_sitemaps.sources.queries.key_spans import GAP, RANGES_AT_ONCE, spans_with_gaps
from tests.sources.test_compiled import Recorder, context_of
from tests.support.databases import NAMES
from tests.support.source_sessions import ROWS, create, live, read, session, world

SURVEYS = {
    # 2,000 and 20,000 shards, by an integer
    "snowflake": (1, 1),
    "bigquery": (1, 1),
    "trino": (1, 1),
    "clickhouse": (1, 3),
    "postgresql": (1, 1),
    "duckdb": (1, 1),
    "mysql": (1, 10),
    "databricks": (2, 20),
    "redshift": (7, 67),
    "mssql": (7, 67),
    "oracle": (10, 100),
}
"""The statements that scan the table in a survey: one where the engine searches a list, else one for each key interval."""


def scans(name: str, shards: int) -> list[str]:
    context, recorder = context_of(name, (Column(name="shop", kind=Kind.INTEGER),)), Recorder()
    survey.take(context, recorder, cut(KeyRange(None, None), [(1_000_000 + n * 50_000,) for n in range(1, shards)]))
    return [sql for sql, _values in recorder.asked if "GROUP BY bucket" in sql]


@pytest.mark.parametrize("name", SURVEYS)
def test_an_unchanged_survey_takes_few_scans(name: str) -> None:
    assert (len(scans(name, 2_000)), len(scans(name, 20_000))) == SURVEYS[name]


@pytest.mark.parametrize("name", ["snowflake", "bigquery", "trino", "clickhouse", "databricks", "redshift"])
def test_no_large_table_is_sorted_by_one_process(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    context, recorder = context_of(name, (Column(name="shop", kind=Kind.INTEGER),)), Recorder()
    monkeypatch.setattr(recorder, "execute", large(recorder.execute))
    boundaries.find(context, recorder, KeyRange(None, None), 50_000)
    (numbering,) = (sql for sql, _values in recorder.asked if "ROW_NUMBER" in sql)
    assert numbering.count("OVER (PARTITION BY CASE ") == numbering.count("OVER (") == 2


def large(execute):
    """Answers of a table of five million rows."""

    class Row(tuple):
        def first(self):
            return (1, 5_000_000, 5_000_000)

        def all(self):
            return []

    def answer(clause, values):
        execute(clause, values)
        return Row()

    return answer


@pytest.mark.parametrize("name", ["duckdb", "trino", "bigquery", "redshift", "clickhouse"])
@pytest.mark.parametrize("key", ["integer", "not unique"])
def test_numbering_in_parts_finds_the_same_boundaries(name: str, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name not in NAMES:
        pytest.skip(f"{name} is not here: `make test-warehouses`")
    with world({"duckdb": "duckdb-arrow"}.get(name, name), key) as found:
        monkeypatch.setattr(boundaries, "SORTED_AT_ONCE", 10**9)
        plain = [list(found.source.boundaries(KeyRange(None, None), every)) for every in (7, 40, 100)]
        monkeypatch.setattr(boundaries, "SORTED_AT_ONCE", 10)
        monkeypatch.setattr(DuckDB, "sorts_in_parts", True)
        assert [list(found.source.boundaries(KeyRange(None, None), every)) for every in (7, 40, 100)] == plain
        low, high = plain[0][2], plain[0][-2]
        inner = list(found.source.boundaries(KeyRange(low, high), 10))
        monkeypatch.setattr(boundaries, "SORTED_AT_ONCE", 10**9)
        assert inner == list(found.source.boundaries(KeyRange(low, high), 10))


@pytest.mark.parametrize("name", ["duckdb", "trino", "bigquery", "redshift", "clickhouse"])
def test_scattered_ranges_are_read_by_one_statement_without_their_gaps(name: str) -> None:
    if name not in NAMES:
        pytest.skip(f"{name} is not here: `make test-warehouses`")
    with world({"duckdb": "duckdb-cursor"}.get(name, name), "integer") as found:
        ranges = cut(KeyRange(None, None), found.source.boundaries(KeyRange(None, None), 3))
        assert len(ranges) == ROWS / 3
        some = ranges[1:30:2]
        found.source.arrow = False  # the test counts the statements of the cursor
        asked: list[str] = []
        real = found.source.context.dialect.rows
        found.source.context.dialect.rows = lambda connection, statement: (
            asked.append(str(statement[0])) or real(connection, statement)
        )
        counts, _sums, order = read(found.source, some)
        assert len(asked) == 1
        assert asked[0].count(" OR ") == len(some) - 1
        assert counts == dict.fromkeys(range(len(some)), 3)
        assert [place for place, _key, _loc in order] == sorted(place for place, _key, _loc in order)


def test_more_ranges_than_a_condition_names_take_more_statements() -> None:
    ranges = cut(KeyRange(None, None), [(n,) for n in range(1, 260)])[1::2]
    joined = spans_with_gaps(ranges)
    assert [len(span.wanted()) for span in joined] == [RANGES_AT_ONCE, RANGES_AT_ONCE, 30]
    assert [within for span in joined for within in span.wanted()] == list(ranges)
    assert [place for span in joined for place in span.places if place != GAP] == list(range(len(ranges)))


@pytest.mark.parametrize("name", ["snowflake", "bigquery", "trino", "clickhouse", "databricks"])
def test_the_order_of_many_text_keys_is_one_list(name: str) -> None:
    """A UNION of 500 SELECTs is more than Trino's 150 stages (finding W7)."""
    context, recorder = context_of(name, (Column(name="slug", kind=Kind.TEXT),)), Recorder()
    with pytest.raises(KeyError):
        boundaries.rank(context, recorder, [(f"p{n:04d}",) for n in range(500)])
    (asked,) = recorder.asked
    assert asked[0].count("UNION ALL") == 1


class Answers:
    """A connection that answers each statement with the next of some results."""

    def __init__(self, *results: list[tuple[object, ...]]) -> None:
        self.results = list(results)

    def execute(self, _clause: object, _values: object) -> list[tuple[object, ...]]:
        class Rows(list):
            def all(self):
                return list(self)

            def first(self):
                return self[0] if self else None

        return Rows(self.results.pop(0))


def test_boundaries_that_do_not_increase_are_refused_with_the_cast() -> None:
    """The database orders an odd type by its value, and the text of the value otherwise (finding W4)."""
    context = replace(context_of("mysql", (Column(name="code", kind=Kind.OTHER),)), indexed=False)
    numbered = [("10", 11, 11), ("9", 21, 21)]
    with pytest.raises(SourceConfigurationError, match=r"the key \(code\b.*the boundary \('9',\).*cast the column"):
        boundaries.find(context, Answers(numbered, [(0, 2), (1, 1)]), KeyRange(None, None), 10)


def test_a_step_that_comes_back_to_a_boundary_ends_with_the_reason() -> None:
    """Stepping by an index never runs for ever (finding W4)."""
    context = replace(context_of("mysql", (Column(name="code", kind=Kind.OTHER),)), indexed=True)
    steps = [[("a", 1)], [("b", 1)], [("a", 1)]]
    with pytest.raises(SourceConfigurationError, match=r"no increasing boundaries; the boundary \('a',\)"):
        boundaries.find(context, Answers(*steps), KeyRange(None, None), 10)


def test_a_decimal_key_of_redshift_is_cast_to_its_own_type() -> None:
    """A comparison of NUMERIC with a text fails on Redshift (finding W9)."""
    context, recorder = context_of("redshift", (Column(name="price", kind=Kind.NUMBER),)), Recorder()
    survey.take(context, recorder, cut(KeyRange(None, None), [("1.5",), ("20.25",)]))
    with pytest.raises(KeyError):
        boundaries.rank(context, recorder, [("1.5",), ("20.25",)])
    compared = [sql for sql, _values in recorder.asked if "sitemap_" in sql]
    assert len(compared) == 2
    for sql in compared:
        assert sql.count("CAST(:sitemap_") == sql.count(":sitemap_") == 2
        assert "AS DECIMAL(38, 18))" in sql


@pytest.mark.parametrize("name", ["trino", "bigquery"])
def test_a_key_of_bytes_is_bound_as_bytes(name: str) -> None:
    if name not in NAMES:
        pytest.skip(f"{name} is not here: `make test-warehouses`")
    base = live(name)
    create(base, "bytes_keys", {"k": "=BLOB", "slug": "text"})
    base.run("INSERT INTO bytes_keys SELECT unhex(md5(CAST(i AS VARCHAR))), 'p' || i FROM range(60) t(i)")
    with session(base, table="bytes_keys", key="k", loc="slug") as source:
        ranges = cut(KeyRange(None, None), source.boundaries(KeyRange(None, None), 20))
        assert [digest.rows for digest in source.survey(ranges).digests] == [20, 20, 20]
        counts, _sums, _order = read(source, ranges)
    assert counts == {0: 20, 1: 20, 2: 20}
