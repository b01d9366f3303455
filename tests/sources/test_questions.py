"""What a source answers beside its rows: which ranges changed since a moment, which URLs stand twice."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from airflow_sitemaps import ChangeLog
from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.shards.ranges import KeyRange, cut
from airflow_sitemaps.sources.queries import boundaries
from tests.support.databases import NAMES
from tests.support.source_sessions import BACKENDS, EPOCH, ROWS, create, live, session, world


def expected(rows, ranges, since) -> list[int]:
    hit = set()
    for row in rows:
        if row["lm"] is None or row["lm"].replace(tzinfo=timezone.utc) < since:
            continue
        for at, within in enumerate(ranges):
            low = within.lower is None or row["id"] >= within.lower[0]
            if low and (within.upper is None or row["id"] < within.upper[0]):
                hit.add(at)
    return sorted(hit)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("hours", [0, 100, 200, ROWS - 3, ROWS + 5])
def test_ranges_that_changed_since_a_moment(backend, hours):
    since = (EPOCH + timedelta(hours=hours)).replace(tzinfo=timezone.utc)
    with world(backend, "integer") as found:
        ranges = cut(KeyRange(None, None), found.source.boundaries(KeyRange(None, None), 20))
        assert len(ranges) > 5
        # SQLite keeps texts, of which one may be a date alone.
        bound = (since - timedelta(days=1)).replace(hour=0) if backend == "sqlite" else since
        for some in (ranges, ranges[1::3]):
            assert list(found.source.touched(some, since)) == expected(found.rows, some, bound)


def listed(batches) -> list[tuple]:
    columns = ("range", "key", "loc", "lastmod", "row_hash")
    return sorted(row for batch in batches for row in zip(*(batch[name].to_pylist() for name in columns), strict=True))


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_newest_rows_of_ranges_are_those_that_a_build_reads(backend):
    """Whichever ranges are named, adjoining or not, and in as many statements as the database needs."""
    with world(backend, "integer") as found:
        ranges = cut(KeyRange(None, None), found.source.boundaries(KeyRange(None, None), 20))
        for some in (ranges, ranges[1::3], ranges[2:3]):
            rows = listed(found.source.read(some))
            dated = sorted((row[3] for row in rows if row[3] is not None), reverse=True)
            since = dated[len(dated) // 3]
            newer = [row for row in rows if row[3] is not None and row[3] >= since]
            if isinstance(since, str):  # SQLite keeps texts
                moment = datetime.fromisoformat(since).replace(tzinfo=timezone.utc)
                newest = listed(found.source.newest(some, moment, 1_000))
                assert {*newer} <= {*newest} <= {*rows}
                continue
            assert listed(found.source.newest(some, since, 1_000)) == newer
            few = listed(found.source.newest(some, since, 3))
            assert {*few} <= {*newer}
            assert {row[3] for row in few} >= {*dated[:3]}


@pytest.mark.parametrize("backend", ["postgresql-adbc", "duckdb-arrow", "mariadb"])
def test_the_newest_rows_of_several_statements_are_the_newest_of_all(backend, monkeypatch):
    with world(backend, "text") as found:
        dialect = type(found.source.context.dialect)
        monkeypatch.setattr(dialect, "max_case", 3)
        ranges = cut(KeyRange(None, None), found.source.boundaries(KeyRange(None, None), 10))
        assert len([*boundaries.parts(found.source.context, ranges, 1)]) > 2
        for some in (ranges, ranges[::2]):
            dated = sorted((row[3] for row in listed(found.source.read(some)) if row[3] is not None), reverse=True)
            newest = listed(found.source.newest(some, EPOCH.replace(tzinfo=timezone.utc), 7))
            assert sorted((row[3] for row in newest), reverse=True) == dated[:7]


@pytest.mark.parametrize("name", NAMES)
def test_the_newest_rows_are_read_where_a_column_has_the_name_of_a_field(name):
    base = live(name)
    create(base, "newest", {"id": "integer", "loc": "text", "lastmod": "timestamp"})
    base.run("INSERT INTO newest VALUES (1, 'a', '2026-01-10 00:00:00'), (5, 'b', '2026-01-20 00:00:00')")
    ranges = cut(KeyRange(None, None), [(3,)])
    with session(base, table="newest", key="id", loc="loc", lastmod="lastmod") as source:
        (row,) = listed(source.newest(ranges, datetime(2026, 1, 15, tzinfo=timezone.utc), 10))
        assert (row[0], row[2]) == (1, "b")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["timestamp", "zoned", "date"])
def test_the_moment_is_meant_in_the_sources_own_zone(name, kind):
    base = live(name)
    create(base, "moments", {"id": "integer", "slug": "text", "lm": kind})
    base.run("INSERT INTO moments VALUES (1, 'a', '2026-01-10 00:00:00'), (5, 'b', '2026-01-20 00:00:00')")
    ranges = cut(KeyRange(None, None), [(3,)])
    with session(base, table="moments", key="id", loc="slug", lastmod="lm", timezone="Europe/Berlin") as source:
        assert list(source.touched(ranges, datetime(2026, 1, 15, tzinfo=timezone.utc))) == [1]
        assert list(source.touched(ranges, datetime(2026, 1, 9, tzinfo=timezone.utc))) == [0, 1]
        late = datetime(2026, 1, 19, 23, 30, tzinfo=timezone.utc)
        # 00:30 in Berlin: past midnight for a time without a zone, half an hour before it for one in UTC.
        # SQLite keeps texts, whatever the column is declared as. ClickHouse's times have a zone.
        local = kind == "timestamp" and name not in ("sqlite", "clickhouse")
        assert list(source.touched(ranges, late)) == ([] if local else [1])


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati"])
@pytest.mark.parametrize("name", NAMES)
def test_a_lastmod_of_text_may_be_a_date_or_a_moment_of_any_zone(name, zone):
    base = live(name)
    create(base, "moments", {"id": "integer", "slug": "text", "lm": "text"})
    # All are 10:30 UTC or later, in the order of ids.
    texts = ["2026-01-15", "2026-01-15 12:00:00", "2026-01-15T12:00:00Z", "2026-01-14T22:30:00-12:00"]
    base.insert("moments", [{"id": n, "slug": f"p{n}", "lm": text} for n, text in enumerate([*texts, "2026-01-01"])])
    ranges = cut(KeyRange(None, None), [(1,), (2,), (3,), (4,)])
    with session(base, table="moments", key="id", loc="slug", lastmod="lm", timezone=zone) as source:
        assert list(source.touched(ranges, datetime(2026, 1, 15, 10, 15, tzinfo=timezone.utc))) == [0, 1, 2, 3]


CLICKHOUSE_TIMES = ["DateTime", "DateTime('America/New_York')", "Nullable(DateTime64(3, 'Asia/Tokyo'))"]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
@pytest.mark.parametrize("kind", CLICKHOUSE_TIMES)
def test_clickhouse_compares_times_in_utc_whatever_their_zone(kind, zone):
    base = live("clickhouse")
    create(base, "zones", {"id": "=Int64", "slug": "=String", "lm": f"={kind}"})
    create(base, "zone_changes", {"id": "=Int64", "pos": f"={kind}"})
    start = "toDateTime('2026-06-01 00:00:00', 'UTC')"
    base.run(
        f"INSERT INTO zones SELECT number, toString(number), {start} + number * 3600 FROM numbers(100)",
        f"INSERT INTO zone_changes SELECT 1, {start}",
    )
    ranges = cut(KeyRange(None, None), [(50,)])
    arguments = {"table": "zones", "loc": "slug", "session": [f"SET session_timezone = '{zone}'"]}
    log = ChangeLog(table="zone_changes", position="pos")
    with session(base, **arguments, key="id", lastmod="lm", change_log=log) as source:
        assert list(source.touched(ranges, datetime(2026, 6, 5, 3, tzinfo=timezone.utc))) == [1]
        assert list(source.touched(ranges, datetime(2026, 6, 5, 3, 0, 1, tzinfo=timezone.utc))) == []
        mark = source.changes(ranges, None).position
        assert source.changes(ranges, mark).ranges == ()
        base.run(f"INSERT INTO zone_changes SELECT 60, {start} + 3600")
        assert source.changes(ranges, mark).ranges == (1,)
    with session(base, **arguments, key="lm") as source:
        pieces = cut(KeyRange(None, None), source.boundaries(KeyRange(None, None), 10))
        assert [digest.rows for digest in source.survey(pieces).digests] == [10] * 10


@pytest.mark.parametrize("name", NAMES)
def test_a_watermark_needs_a_lastmod(name):
    base = live(name)
    create(base, "plain", {"id": "integer", "slug": "text", "size": "float"})
    with (
        session(base, table="plain", key="id", loc="slug") as source,
        pytest.raises(SourceConfigurationError, match=r"needs a lastmod .* has no lastmod"),
    ):
        source.touched([KeyRange(None, None)], datetime(2026, 1, 15, tzinfo=timezone.utc))


@pytest.mark.parametrize("name", NAMES)
def test_urls_that_stand_twice_are_told_by_their_bytes(name):
    base = live(name)
    create(base, "twice", {"id": "integer", "slug": "text", "part": "text"})
    rows = [(1, "a", "x"), (2, "b", "x"), (3, "A", "x"), (4, "a", "x"), (5, "c", "ü"), (6, "c", "ü"), (7, "c", "ü")]
    base.insert("twice", [dict(zip(("id", "slug", "part"), row, strict=True)) for row in rows])
    base.insert("twice", [{"id": n, "slug": None, "part": "x"} for n in (8, 9)])
    with session(base, table="twice", key="id", loc="https://h.example/{slug}/{part}") as source:
        found = [(shared.loc, shared.rows) for shared in source.duplicates(10)]
        assert found == [("https://h.example/c/%C3%BC", 3), ("https://h.example/a/x", 2)]
        assert len(source.duplicates(1)) == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_key_column_of_another_kind_or_collation_has_another_description(name):
    base = live(name)
    kinds = [kind for kind in ("integer", "text", "text_ci", "timestamp", "uuid", "decimal") if kind in base.types]
    values = {"integer": 7, "timestamp": EPOCH, "uuid": "0c1d2e3f-0000-4000-8000-000000000000", "decimal": "1.5"}
    seen = {}
    for kind in kinds:
        create(base, "kinds", {"id": kind, "slug": "text"})
        base.insert("kinds", [{"id": values.get(kind, "a"), "slug": "a"}])
        with session(base, table="kinds", key="id", loc="slug") as source:
            (seen[kind],) = source.key_kinds
        with session(base, table="kinds", key=("slug", "id"), loc="slug") as source:
            assert len(source.key_kinds) == 2
            assert source.key_kinds[1] == seen[kind]
    assert all(text.startswith("id ") for text in seen.values())
    # SQLite and DuckDB compare by a collation that no description of a column tells, SQLite by what the values are.
    # Snowflake, BigQuery, Redshift and Databricks have no type for a UUID: the tests take a text.
    alike = {
        "sqlite": {"text", "text_ci", "timestamp", "uuid"},
        "duckdb": {"text", "text_ci"},
        **{each: {"uuid"} for each in ("snowflake", "bigquery", "redshift", "databricks")},
    }.get(name, set())
    different = [kind for kind in kinds if kind not in alike]
    assert len({seen[kind] for kind in different}) == len(different)
    assert seen["integer"] == "id integer"
