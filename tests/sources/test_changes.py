"""Every change of an emitted value changes the digest; what changes nothing leaves it alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from airflow_sitemaps.shards.ranges import KeyRange
from tests.support.databases import NAMES, Database
from tests.support.source_sessions import BACKENDS, SQL_BACKENDS, create, live, read, session

if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMNS = {
    "id": "integer", "slug": "text_ci", "note": "text", "lm": "timestamp", "at": "zoned", "day": "date",
    "weight": "decimal", "ratio": "float", "doc": "json", "flag": "boolean",
}  # fmt: skip
ROW = {
    "id": 1, "slug": "Foo", "note": "a", "lm": "2024-05-01 10:00:00", "at": "2024-05-01 10:00:00", "day": "2024-05-01",
    "weight": "0.500", "ratio": "0.1", "doc": '{"a": 1}', "flag": "1",
}  # fmt: skip


@pytest.fixture(params=NAMES)
def base(request: pytest.FixtureRequest) -> Iterator[Database]:
    found = live(request.param)
    columns = dict(COLUMNS)
    if "text_ci" not in found.types:
        columns["slug"] = "text"
    create(found, "changes", columns)
    return found


def fill(base: Database, *rows: dict[str, object]) -> None:
    base.run("DELETE FROM changes WHERE 1 = 1")
    for row in rows:
        values = {**ROW, **row}
        texts = ["NULL" if value is None else "'" + str(value).replace("'", "''") + "'" for value in values.values()]
        base.run(f"INSERT INTO changes ({', '.join(base.quote(name) for name in values)}) VALUES ({', '.join(texts)})")


def digest(base: Database, **mapping: object) -> tuple[int, int]:
    """The section's digest by survey, which must be that of the rows read."""
    arguments = {"key": "id", "loc": "slug", "lastmod": "lm", "changefreq": "note", **mapping}
    seen = set()
    for backend in (name for name in SQL_BACKENDS if BACKENDS[name][0] == base.name):
        with session(base, table="changes", reader=BACKENDS[backend][1], **arguments) as source:
            found = source.survey([KeyRange(None, None)]).digests[0]
            counts, sums, _order = read(source, [KeyRange(None, None)])
        assert (counts[0], sums[0]) == (found.rows, found.checksum)
        seen.add((found.rows, found.checksum))
    assert len(seen) == 1
    return seen.pop()


@pytest.mark.parametrize(
    ("before", "after", "is_urgent"),
    [
        ({"lm": "2024-05-01 10:00:00"}, {"lm": "2024-05-01 10:00:01"}, False),
        ({"lm": "2024-05-01 10:00:00"}, {"lm": None}, False),
        ({"note": "daily"}, {"note": "weekly"}, False),
        ({"weight": "0.500"}, {"weight": "0.600"}, False),
        ({"slug": "a"}, {"slug": "b"}, True),
        ({"doc": '{"a": 1}'}, {"doc": '{"a": 2}'}, True),
        ({"doc": '{"a": 1}'}, {"doc": None}, True),
    ],
    ids=str,
)
def test_only_changes_of_lastmod_changefreq_and_priority_are_not_urgent(
    base: Database, before: dict[str, object], after: dict[str, object], is_urgent: bool
) -> None:
    seen = set()
    for values in (before, after):
        fill(base, values, {"id": 2, "slug": "other"})
        for backend in (name for name in SQL_BACKENDS if BACKENDS[name][0] == base.name):
            mapping = {"key": "id", "loc": "slug", "lastmod": "lm", "changefreq": "note", "priority": "weight"}
            reader = BACKENDS[backend][1]
            with session(base, table="changes", reader=reader, images="doc", **mapping) as source:
                (digest,) = source.survey([KeyRange(None, None)], urgent=True).digests
            assert digest.rows == 2
            seen.add((digest.urgent, str(values) if is_urgent else ""))
    assert len(seen) == (2 if is_urgent else 1)
    assert len({urgent for urgent, _values in seen}) == len(seen)


def test_values_swapped_between_rows_are_seen(base: Database) -> None:
    fill(base, {"id": 1, "slug": "a", "note": "x"}, {"id": 2, "slug": "b", "note": "y"})
    before = digest(base)
    fill(base, {"id": 1, "slug": "a", "note": "y"}, {"id": 2, "slug": "b", "note": "x"})
    assert digest(base) != before


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"slug": "Foo"}, {"slug": "foo"}),
        ({"slug": "foo"}, {"slug": "foo "}),
        ({"slug": "fóo"}, {"slug": "foo"}),
        ({"note": None}, {"note": ""}),
        ({"note": None}, {"note": "|"}),
        ({"slug": "ab", "note": "c"}, {"slug": "a", "note": "bc"}),
        ({"slug": "a|", "note": "c"}, {"slug": "a", "note": "|c"}),
        ({"slug": "", "note": None}, {"slug": None, "note": ""}),
        ({"slug": "1:a", "note": ""}, {"slug": "", "note": "1:a"}),
        ({"lm": "2024-05-01 10:00:00"}, {"lm": "2024-05-01 10:00:01"}),
        ({"lm": "2024-05-01 10:00:00"}, {"lm": None}),
    ],
    ids=str,
)
def test_a_change_is_seen(base: Database, before: dict[str, object], after: dict[str, object]) -> None:
    fill(base, before)
    first = digest(base)
    fill(base, after)
    assert digest(base) != first


@pytest.mark.parametrize(
    ("field", "column", "before", "after"),
    [
        ("lastmod", "at", "2024-05-01 10:00:00", "2024-05-01 11:00:00"),
        ("lastmod", "day", "2024-05-01", "2024-05-02"),
        ("lastmod", "note", "2024-05-01", "2024-05-02"),
        ("priority", "weight", "0.500", "0.501"),
        ("priority", "ratio", "0.1", "0.10000001"),
        ("images", "doc", '{"a": 1}', '{"a": 2}'),
        ("changefreq", "flag", "1", "0"),
    ],
)
def test_every_type_of_column_is_hashed(base: Database, field: str, column: str, before: str, after: str) -> None:
    fill(base, {column: before})
    first = digest(base, **{field: column})
    fill(base, {column: None})
    empty = digest(base, **{field: column})
    fill(base, {column: after})
    assert len({first, empty, digest(base, **{field: column})}) == 3


def test_a_column_that_is_not_emitted_does_not_count(base: Database) -> None:
    fill(base, {"doc": '{"a": 1}'})
    before = digest(base)
    fill(base, {"doc": '{"a": 2}', "ratio": "0.7"})
    assert digest(base) == before


def test_a_row_twice_counts_twice(base: Database) -> None:
    fill(base, {}, {})
    rows, checksum = digest(base)
    fill(base, {})
    assert rows == 2
    assert checksum == digest(base)[1] * 2 % (1 << 64)


ZONES = {
    "postgresql": ("SET TimeZone = 'Asia/Kolkata'", "SET DateStyle = 'German'", "SET extra_float_digits = -5"),
    "duckdb": ("SET TimeZone = 'Asia/Kolkata'",),
    "mariadb": ("SET SESSION time_zone = '+05:30'", "SET SESSION sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT'"),
}


@pytest.mark.parametrize("reader", ["auto", "cursor"])
@pytest.mark.parametrize("name", ZONES)
def test_a_session_in_another_zone_hashes_and_reads_alike(name: str, reader: str) -> None:
    base = live(name)
    create(base, "zones", COLUMNS | {"slug": "text"})
    names = ", ".join(map(base.quote, ("id", "slug", "lm", "at", "day", "ratio")))
    values = "1, 'a', '2024-05-01 10:00:00', '2024-07-01 23:30:00', '2024-05-01', 0.1"
    base.run(f"INSERT INTO zones ({names}) VALUES ({values})")
    seen = []
    for commands in ((), ZONES[name]):
        for lastmod in ("lm", "at", "day"):
            with session(
                base, table="zones", key="at", loc="slug", lastmod=lastmod, priority="ratio", reader=reader
            ) as source:
                sa.event.listen(source.engine, "connect", lambda raw, _record, run=commands: every(raw, run))
                source.engine.dispose()
                digests = source.survey([KeyRange(None, None)]).digests
                rows = [row for batch in source.read([KeyRange(None, None)]) for row in batch.to_pylist()]
                seen.append((lastmod, digests, rows))
    assert seen[:3] == seen[3:]


def every(raw: object, commands: tuple[str, ...]) -> None:
    """Run each command on a new connection, and commit."""
    cursor = raw.cursor()
    for command in commands:
        cursor.execute(command)
    if not hasattr(raw, "notices"):
        raw.commit()


def test_a_null_key_is_counted_and_shown(base: Database) -> None:
    fill(base, {"id": 1, "slug": "a"}, {"id": None, "slug": "lost"}, {"id": None, "slug": "gone"})
    with session(base, table="changes", key="id", loc="slug") as source:
        found = source.survey([KeyRange(None, None)])
        _counts, _sums, order = read(source, [KeyRange(None, None)])
    assert (found.digests[0].rows, found.null_keys) == (1, 2)
    assert sorted(found.null_key_samples) == ["gone", "lost"]
    assert [loc for _place, _key, loc in order] == ["a"]
