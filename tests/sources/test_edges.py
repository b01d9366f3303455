"""Values at the edges of what a type holds, and two readers of one database that must give the same columns."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_sitemaps.shards.ranges import KeyRange
from tests.support.source_sessions import create, live, load, session

EDGES = {
    "postgresql": (
        "'infinity'",
        "'-infinity'",
        "'0044-03-15 BC'",
        "'12000-01-01'",
        "'9999-12-31 23:59:59.999999'",
        "'1969-12-31 23:59:59.5'",
    ),
    "duckdb": (
        "'infinity'",
        "'-infinity'",
        "'0044-03-15 (BC)'",
        "'12000-01-01'",
        "'9999-12-31 23:59:59.999999'",
        "'1969-12-31 23:59:59.5'",
    ),
}


@pytest.mark.parametrize("kind", ["timestamp", "zoned", "date"])
@pytest.mark.parametrize("name", EDGES)
def test_times_that_no_driver_can_hold(name: str, kind: str) -> None:
    base = live(name)
    create(base, "edges", {"id": "integer", "lm": kind})
    for number, value in enumerate(EDGES[name]):
        cut_value = value.split(" ")[0] + "'" if kind == "date" and ":" in value else value
        base.run(f"INSERT INTO edges (id, lm) VALUES ({number}, {cut_value})")
    found = []
    for reader in ("auto", "cursor"):
        with session(base, table="edges", key="id", loc="id", lastmod="lm", reader=reader) as source:
            batches = list(source.read([KeyRange(None, None)]))
            digest = source.survey([KeyRange(None, None)]).digests[0]
        found.append((batches[0].schema, batches[0].to_pylist()))
        assert sum(batches[0]["row_hash"].to_pylist()) % (1 << 64) == digest.checksum
    assert found[0] == found[1]
    years = [row["lastmod"].year for row in found[0][1]]
    assert years == [9999, 1, 1, 9999, 9999, 1969]


def test_zero_dates_come_through_as_they_are() -> None:
    base = live("mariadb")
    create(base, "zeros", {"id": "integer", "lm": "timestamp", "at": "zoned", "day": "date"})
    base.run(
        "SET SESSION sql_mode = ''",
        "INSERT INTO zeros VALUES (1, '0000-00-00 00:00:00', '2024-05-01 10:00:00', '0000-00-00'),"
        " (2, '2024-05-01 10:00:00.7', '0000-00-00 00:00:00', '2024-02-00')",
    )
    found = {}
    for column in ("lm", "at", "day"):
        with session(base, table="zeros", key="id", loc="id", lastmod=column) as source:
            found[column] = [v for batch in source.read([KeyRange(None, None)]) for v in batch["lastmod"].to_pylist()]
            assert source.survey([KeyRange(None, None)]).digests[0].rows == 2
    assert found == {
        "lm": ["0000-00-00 00:00:00", "2024-05-01 10:00:00"],
        "at": ["2024-05-01 10:00:00Z", "0000-00-00 00:00:00Z"],
        "day": ["0000-00-00", "2024-02-00"],
    }


def test_sqlite_holds_what_it_likes() -> None:
    base = live("sqlite")
    create(base, "mixed", {"id": "integer", "slug": "text", "lm": "timestamp"})
    base.run(
        "INSERT INTO mixed VALUES (1, 'a', '2024-05-01 10:00:00'), (2, 7, 1714557600), (3, x'ff41', '2024-05-01'),"
        " (4, 1.5, NULL), (5, NULL, 'soon')"
    )
    with session(base, table="mixed", key="id", loc="slug", lastmod="lm") as source:
        (batch,) = source.read([KeyRange(None, None)])
        digest = source.survey([KeyRange(None, None)]).digests[0]
    assert batch["loc"].to_pylist() == ["a", "7", "\x1aFFA", "1.5", None]
    assert batch["lastmod"].to_pylist() == ["2024-05-01 10:00:00", "1714557600", "2024-05-01", None, "soon"]
    assert sum(batch["row_hash"].to_pylist()) % (1 << 64) == digest.checksum


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=20)
DB_ROWS = st.lists(
    st.fixed_dictionaries({
        "word": TEXT, "slug": st.none() | TEXT,
        "lm": st.none() | st.datetimes(), "at": st.none() | st.datetimes(timezones=st.timezones(no_cache=False)),
        "weight": st.none() | st.decimals(-999, 999, places=3), "ratio": st.none() | st.floats(),
        "day": st.none() | st.dates(), "flag": st.none() | st.booleans(), "mood": st.none() | st.sampled_from(["sad", "ok"]),
    }),
    min_size=1, max_size=12,
)  # fmt: skip


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=DB_ROWS)
def test_adbc_and_the_cursor_give_the_same_columns(rows: list[dict[str, Any]]) -> None:
    base = live("postgresql")
    if not base.rows("SELECT 1 FROM pg_type WHERE typname = 'mood'"):
        base.run("CREATE TYPE mood AS ENUM ('sad', 'ok')")
        kinds = {"id": "integer", "word": "text", "slug": "text", "lm": "timestamp", "at": "zoned", "weight": "decimal"}
        create(base, "random", kinds | {"ratio": "float", "day": "date", "flag": "boolean", "mood": "=mood"})
    base.run("TRUNCATE random")
    base.insert(
        "random", [{"id": n, **row} for n, row in enumerate(rows) if row["at"] is None or 1 < row["at"].year < 9999]
    )
    for key, lastmod, priority, freq in (
        ("id", "at", "weight", "mood"), ("word", "lm", "ratio", "flag"), (("word", "id"), "day", "id", "slug"),
    ):  # fmt: skip
        found = []
        for reader in ("auto", "cursor"):
            with session(
                base, table="random", key=key, loc="https://x.test/{slug}/{flag}", lastmod=lastmod, priority=priority,
                changefreq=freq, images="slug", timezone="America/New_York", reader=reader,
            ) as source:  # fmt: skip
                batches = list(source.read([KeyRange(None, None)]))
                digest = source.survey([KeyRange(None, None)]).digests[0]
            found.append([(batch.schema, repr(batch.to_pydict())) for batch in batches])
            assert sum(sum(batch["row_hash"].to_pylist()) for batch in batches) % (1 << 64) == digest.checksum
            assert all(load(text) for batch in batches for text in batch["key"].to_pylist())
        assert found[0] == found[1]
