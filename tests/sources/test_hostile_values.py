"""Values that no driver, type or stream can hold: the run ends, and what cannot be used is counted by a rule."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from airflow_sitemaps import Guards, MemoryStore, Section, ShardPolicy, Sitemap, SqlSource
from airflow_sitemaps.errors import SitemapError, SourceConfigurationError, SourceError
from airflow_sitemaps.pipeline import build, stages
from airflow_sitemaps.pipeline.request import RunRequest
from airflow_sitemaps.shards.ranges import KeyRange, cut
from airflow_sitemaps.testing import crawl
from tests.support.databases import NAMES
from tests.support.source_sessions import BACKENDS, SQL_BACKENDS, create, live, session

if TYPE_CHECKING:
    from tests.support.databases import Database

BASE = "https://www.example.com/"


def published(base: Database, monkeypatch: pytest.MonkeyPatch, **arguments: Any) -> tuple[Any, dict[str, Any]]:
    """Build a sitemap of the table ``hostile``; the report, and the entries by their path."""
    monkeypatch.setenv(
        "AIRFLOW_CONN_HOSTILE", json.dumps({"conn_type": "generic", "extra": {"sqlalchemy_url": base.url}})
    )
    config = MemoryStore(base_url=BASE)
    source = SqlSource("hostile", **{"table": "hostile", "key": "id", "loc": BASE + "{slug}", **arguments})
    sitemap = Sitemap(config, [Section("pages", source)], guards=Guards(min_rows=10**6, max_dropped=1.0))
    report = build(sitemap)
    assert build(sitemap).result == "unchanged"
    files = crawl(config.open()).files.values()
    return report, {entry.loc.removeprefix(BASE): entry for entries in files for entry in entries}


@pytest.mark.parametrize("backend", [name for name in SQL_BACKENDS if BACKENDS[name][0] == "duckdb"])
def test_nanoseconds_are_a_lastmod(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    base = live("duckdb")
    create(base, "hostile", {"id": "integer", "slug": "text", "lm": "=TIMESTAMP_NS"})
    base.run("INSERT INTO hostile VALUES (1, 'a', '2024-05-01 10:00:00.123456789'), (2, 'b', NULL)")
    report, entries = published(base, monkeypatch, lastmod="lm", reader=BACKENDS[backend][1])
    assert report.urls == 2
    assert entries["a"].lastmod == "2024-05-01T10:00:00Z"


@pytest.mark.parametrize("reader", ["auto", "cursor"])
def test_numbers_beyond_floats_do_not_end_the_run(reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    base = live("postgresql")
    create(base, "hostile", {"id": "integer", "slug": "text", "weight": "=numeric"})
    values = ("1e400", "-1e400", "1e-400", "'NaN'", "0.5", "NULL")
    rows = ", ".join(f"({n}, 'p{n}', {value})" for n, value in enumerate(values))
    base.run(f"INSERT INTO hostile VALUES {rows}")
    report, entries = published(base, monkeypatch, priority="weight", reader=reader)
    assert report.urls == len(values)
    assert report.fields_fixed["priority"] == 3
    assert [entries[f"p{n}"].priority for n in range(6)] == [None, None, "0.0", None, "0.5", None]


@pytest.mark.parametrize("reader", ["auto", "cursor"])
@pytest.mark.parametrize("name", NAMES)
def test_a_failing_stream_is_an_error_of_ours(name: str, reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow's own errors come through drivers as they are: a server that stops, a value that no type holds."""
    base = live(name)
    create(base, "hostile", {"id": "integer", "slug": "text"})
    base.insert("hostile", [{"id": 1, "slug": "a"}])

    def broken(*_arguments: object) -> None:
        raise pa.ArrowInvalid("the stream broke")

    with session(base, table="hostile", key="id", loc="slug", reader=reader) as source:
        monkeypatch.setattr("airflow_sitemaps.sources.row_values.fitted", broken)
        monkeypatch.setattr("airflow_sitemaps.sources.row_values._next_batch", broken)
        with pytest.raises(SourceError, match=r"reading rows failed: ArrowInvalid: the stream broke"):
            list(source.read([KeyRange(None, None)]))


def test_a_backend_that_is_terminated_while_rows_stream_is_an_error_of_ours() -> None:
    base = live("postgresql")
    create(base, "hostile", {"id": "integer", "slug": "text"})
    base.run("INSERT INTO hostile SELECT i, repeat('x', 500) || i FROM generate_series(1, 60000) i")
    with session(base, table="hostile", key="id", loc="slug") as source:

        def read_and_terminate() -> None:
            for number, _batch in enumerate(source.read([KeyRange(None, None)])):
                if number == 0:
                    base.rows(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                        " WHERE pid <> pg_backend_pid() AND query LIKE '%range_no%'"
                    )

        with pytest.raises(SourceError, match="reading rows"):
            read_and_terminate()


def test_text_that_is_not_utf8_is_dropped_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    base = live("sqlite")
    create(base, "hostile", {"id": "integer", "slug": "text"})
    words = ("яблоко", "груша", "слива")
    rows = ", ".join(f"({n}, CAST(x'{word.encode('cp1251').hex()}' AS TEXT))" for n, word in enumerate(words))
    base.run(f"INSERT INTO hostile VALUES {rows}, (9, 'fine')")
    report, entries = published(base, monkeypatch)
    assert list(entries) == ["fine"]
    assert dict(report.rows_dropped) == {"loc-characters": 3}


NOT_UTF8 = {
    "sqlite": ("TEXT", "CAST(x'61ff{:02x}' AS TEXT)"),
    "mariadb": ("VARCHAR(100) CHARACTER SET utf8mb3", "_utf8mb3 x'61EDA080{:02x}'"),
}


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("name", NOT_UTF8)
def test_a_key_that_is_not_utf8_ends_the_run_only_where_a_file_would_begin(
    name: str, indexed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = live(name)
    kind, written = NOT_UTF8[name]
    create(base, "hostile", {"slug": f"={kind}"})
    rows = ", ".join(f"({written.format(n)})" for n in range(48, 58))
    base.run(f"INSERT INTO hostile VALUES {rows}, ('0fine')")
    if indexed:
        base.run("CREATE INDEX hostile_k ON hostile (slug)")
    report, entries = published(base, monkeypatch, key="slug")
    assert list(entries) == ["0fine"]
    assert dict(report.rows_dropped) == {"loc-characters": 10}
    words = r"hostile\): the key column 'slug' holds b'a.+', which is not UTF-8, and no file can begin with such a key"
    with session(base, table="hostile", key="slug", loc="slug") as source:
        with pytest.raises(SourceConfigurationError, match=words):
            source.boundaries(KeyRange(None, None), 4)
        base.run("DELETE FROM hostile WHERE slug = '0fine'")
        with pytest.raises(SourceConfigurationError, match=words):
            source.largest_key(KeyRange(None, None))


@pytest.mark.parametrize("name", NOT_UTF8)
def test_no_range_that_overflows_is_cut_at_a_key_that_is_not_utf8(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    base = live(name)
    kind, written = NOT_UTF8[name]
    create(base, "hostile", {"id": "integer", "slug": f"={kind}"})
    base.run("INSERT INTO hostile VALUES " + ", ".join(f"({n}, 'ab{n:02}')" for n in range(4)))
    monkeypatch.setenv(
        "AIRFLOW_CONN_HOSTILE", json.dumps({"conn_type": "generic", "extra": {"sqlalchemy_url": base.url}})
    )
    source = SqlSource("hostile", table="hostile", key="slug", loc=BASE + "{id}")
    sitemap = Sitemap(
        MemoryStore(base_url=BASE),
        [Section("pages", source)],
        shards=ShardPolicy(max_urls=5),
        guards=Guards.disabled(),
    )
    plan = stages.plan(sitemap, RunRequest())
    base.run("INSERT INTO hostile VALUES " + ", ".join(f"({n}, {written.format(n)})" for n in range(48, 54)))
    words = r"section 'pages': the key holds 'a(\\x[A-F0-9]{2})+\d', which is not UTF-8"
    with pytest.raises(SourceConfigurationError, match=words):
        _ = [stages.write(sitemap, plan.key, batch.number) for batch in plan.batches]


BLOBS = {
    "sqlite": ("BLOB", "x'{}'"),
    "duckdb": ("BLOB", "unhex('{}')"),
    "mariadb": ("VARBINARY(50)", "x'{}'"),
    "postgresql": ("bytea", "decode('{}', 'hex')"),
    "clickhouse": ("String", "unhex('{}')"),
}


@pytest.mark.parametrize("reader", ["auto", "cursor"])
@pytest.mark.parametrize("name", [name for name in NAMES if name in BLOBS])
def test_bytes_are_read_as_utf8(name: str, reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    base = live(name)
    kind, written = BLOBS[name]
    create(base, "hostile", {"id": "integer", "slug": f"={kind}"})
    values = ("é".encode().hex(), b"\xff\xfe".hex(), b"plain".hex())
    rows = ", ".join(f"({n}, {written.format(value)})" for n, value in enumerate(values))
    base.run(f"INSERT INTO hostile VALUES {rows}")
    report, entries = published(base, monkeypatch, reader=reader)
    assert sorted(entries) == ["%C3%A9", "plain"]
    assert dict(report.rows_dropped) == {"loc-characters": 1}


MOMENT = datetime(2024, 5, 1, 10, 0, 1, tzinfo=timezone.utc)
WRITTEN = "2024-05-01T10:00:01Z"


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@pytest.mark.parametrize("kind", ["integer", "decimal", "text", "float"])
@pytest.mark.parametrize("name", NAMES)
def test_the_unit_of_a_numeric_lastmod(name: str, kind: str, unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    base = live(name)
    decimal = "Nullable(Decimal(20, 3))" if name == "clickhouse" else "DECIMAL(20, 3)"
    kinds = {"decimal": f"={decimal}", "text": "text", "integer": "integer", "float": "float"}
    create(base, "hostile", {"id": "integer", "slug": "text", "lm": kinds[kind]})
    ticks = int(MOMENT.timestamp()) * {"s": 1, "ms": 1_000, "us": 1_000_000}[unit]
    base.insert("hostile", [
        {"id": 1, "slug": "a", "lm": str(ticks) if kind == "text" else ticks},
        {"id": 2, "slug": "b", "lm": None},
        {"id": 3, "slug": "old", "lm": "1" if kind == "text" else 1},
    ])  # fmt: skip
    report, entries = published(base, monkeypatch, lastmod="lm", lastmod_unit=unit)
    assert report.urls == 3
    assert entries["a"].lastmod == WRITTEN
    assert entries["b"].lastmod is None
    if kind in ("integer", "decimal"):
        with session(base, table="hostile", key="id", loc="slug", lastmod="lm", lastmod_unit=unit) as source:
            ranges = cut(KeyRange(None, None), [(2,), (3,)])
            assert list(source.touched(ranges, MOMENT)) == [0]
            assert source.survey([KeyRange(None, None)]).digests[0].newest == MOMENT.isoformat()


def test_a_number_that_is_no_moment_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    base = live("sqlite")
    create(base, "hostile", {"id": "integer", "slug": "text", "lm": "="})
    base.run(
        "INSERT INTO hostile VALUES (1, 'a', 1714557601), (2, 'b', 9e300), (3, 'c', 'soon'), (4, 'd', 1714557601.5)"
    )
    report, entries = published(base, monkeypatch, lastmod="lm", lastmod_unit="s")
    assert [entries[slug].lastmod for slug in "abcd"] == [WRITTEN, None, None, WRITTEN]
    assert report.fields_fixed["lastmod-format"] == 2


@pytest.mark.parametrize("backend", SQL_BACKENDS)
def test_a_parameter_may_be_a_list(backend: str) -> None:
    name, reader = BACKENDS[backend]
    base = live(name)
    create(base, "hostile", {"id": "integer", "slug": "text"})
    base.insert("hostile", [{"id": n, "slug": f"p{n}"} for n in range(6)])
    with session(
        base, query="SELECT id, slug FROM hostile WHERE id IN :ids AND slug NOT IN :slugs", where="id <> :ids_0",
        parameters={"ids": [1, 2, 4, 5], "slugs": ("p4", "it's"), "ids_0": 5}, key="id", loc="slug", reader=reader,
    ) as source:  # fmt: skip
        assert source.survey([KeyRange(None, None)]).digests[0].rows == 2
        assert [loc for batch in source.read([KeyRange(None, None)]) for loc in batch["loc"].to_pylist()] == [
            "p1",
            "p2",
        ]
    with (
        pytest.raises(SourceConfigurationError, match="an empty list matches no row"),
        session(base, table="hostile", where="id IN :ids", parameters={"ids": []}, key="id", loc="slug"),
    ):
        pass


@pytest.mark.parametrize("reader", ["auto", "cursor"])
def test_a_list_is_an_array_after_any(reader: str) -> None:
    base = live("postgresql")
    create(base, "hostile", {"id": "integer", "slug": "text"})
    base.insert("hostile", [{"id": n, "slug": f"p{n}"} for n in range(6)])
    where = "id = ANY(:ids)"
    with session(
        base, table="hostile", where=where, parameters={"ids": [1, 4]}, key="id", loc="slug", reader=reader
    ) as source:
        assert [loc for batch in source.read([KeyRange(None, None)]) for loc in batch["loc"].to_pylist()] == [
            "p1",
            "p4",
        ]


@pytest.mark.parametrize("value", [10**30, Decimal("1e400"), object()], ids=("integer", "decimal", "object"))
@pytest.mark.parametrize("backend", SQL_BACKENDS)
def test_a_parameter_that_no_type_holds_is_an_error_of_ours(backend: str, value: Any) -> None:
    name, reader = BACKENDS[backend]
    base = live(name)
    create(base, "hostile", {"id": "integer", "slug": "text"})
    base.insert("hostile", [{"id": 1, "slug": "a"}])
    arguments = {"where": "id < :most", "parameters": {"most": value}, "key": "id", "loc": "slug", "reader": reader}
    try:
        with session(base, table="hostile", **arguments) as source:
            rows = source.survey([KeyRange(None, None)]).digests[0].rows
            assert sum(batch.num_rows for batch in source.read([KeyRange(None, None)])) == rows
    except SitemapError:
        pass


@pytest.mark.parametrize("value", [10**30, "half a pair \ud800"], ids=("integer", "surrogate"))
def test_a_refused_parameter_is_named_and_not_retried(value: Any) -> None:
    base = live("sqlite")
    create(base, "hostile", {"id": "integer", "slug": "text"})
    arguments = {"where": "id < :most", "parameters": {"most": value}, "key": "id", "loc": "slug"}
    with (
        pytest.raises(SourceConfigurationError, match="parameters= holds a value that the database's driver refuses"),
        session(base, table="hostile", **arguments),
    ):
        pass


@pytest.mark.parametrize("name", ["sqlite", "postgresql", "duckdb"])
def test_a_placeholder_without_a_value_is_named(name: str) -> None:
    base = live(name)
    create(base, "hostile", {"id": "integer", "slug": "text"})
    arguments = {"where": "slug <> '12:30' AND id < :most", "parameters": {"least": 1}, "key": "id", "loc": "slug"}
    with (
        pytest.raises(SourceConfigurationError, match=r"[^.]\. parameters= has no value for :most, which the SQL"),
        session(base, table="hostile", **arguments),
    ):
        pass
