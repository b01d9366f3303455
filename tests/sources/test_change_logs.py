"""Change logs on live databases: which ranges they touch, and what happens to a log with a gap."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_sitemaps import ChangeLog, SqlSource
from airflow_sitemaps.errors import SourceConfigurationError, TemplateError
from airflow_sitemaps.shards.ranges import KeyRange, cut
from airflow_sitemaps.sources.change_log import earlier, hiding
from airflow_sitemaps.sources.columns import TIMES, Column, Kind
from airflow_sitemaps.sources.queries import change_log_query
from tests.support.databases import NAMES, Database
from tests.support.source_sessions import CASES, KEYS, TYPES, World, create, live, read, session, world

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from airflow_sitemaps.ports import ChangeReading

BACKENDS = [case for case in CASES if case[0] != "memory" and not case[0].endswith("-cursor")]
LIVE = [name for name in ("sqlite", "postgresql", "duckdb", "mariadb") if name in NAMES]
SQL = {"key": "id", "loc": "slug"}


def outbox(base: Database, table: str, columns: dict[str, str], position: str = "integer") -> None:
    create(base, table, {"pos": position, **columns})


def swapped(row: dict[str, Any], columns: Sequence[str], *, any_case: bool) -> dict[str, Any]:
    """The key of a row, as another program may write it: where the collation ignores case, in the other case."""

    def other(value: Any) -> Any:
        return "".join(c.swapcase() if c.isascii() else c for c in value) if any_case else value

    return {name: other(row[name]) for name in columns}


@pytest.mark.parametrize(("backend", "key_name"), BACKENDS, ids=[" ".join(case) for case in BACKENDS])
def test_a_change_touches_the_range_of_its_row(backend: str, key_name: str) -> None:
    key = KEYS[key_name]
    with world(backend, key_name) as base:
        assert base.database is not None
        table = f"log_of_{base.table}"
        outbox(base.database, table, {name: TYPES[name] for name in key.names} | dict(key.columns))
        ranges = cut(KeyRange(None, None), base.source.boundaries(KeyRange(None, None), 9))
        places = {loc: place for place, _key, loc in read(base.source, ranges)[2]}
        any_case = key_name == "text of any case"
        with log_session(base, table) as source:
            mark, number = None, 0
            for size in (1, 1, 3, 17, 0):
                part = base.rows[number : number + size]
                rows = [
                    {"pos": number + place, **swapped(row, key.names, any_case=any_case)}
                    for place, row in enumerate(part)
                ]
                base.database.insert(table, rows)
                reading = source.changes(ranges, mark)
                if mark is not None:
                    assert reading.ranges == tuple(sorted({places[row["slug"]] for row in part})), reading.cause
                    assert reading.changes == size
                mark, number = reading.position, number + size


def log_session(base: World, table: str) -> AbstractContextManager[Any]:
    assert base.database is not None
    change_log = ChangeLog(table=table, position="pos")
    return session(base.database, table=base.table, key=base.key.names, loc="slug", change_log=change_log)


class Outbox:
    """A table of twenty rows in four ranges, and an outbox that a test fills."""

    def __init__(self, base: Database, position: str = "integer") -> None:
        self.base = base
        create(base, "fed", {"id": "integer", "slug": "text"})
        base.insert("fed", [{"id": number, "slug": f"p/{number}"} for number in range(20)])
        outbox(base, "fed_changes", {"id": "integer"}, position)
        self.ranges = cut(KeyRange(None, None), [(5,), (10,), (15,)])

    def put(self, *changes: tuple[Any, Any]) -> None:
        self.base.insert("fed_changes", [{"pos": position, "id": key} for position, key in changes])

    def read(self, since: str | None = None, *, as_role: str = "", **settings: Any) -> ChangeReading:
        settings = {"table": "fed_changes", "position": "pos"} | settings
        first = (f"SET ROLE {as_role}",) if as_role else ()
        with session(self.base, table="fed", **SQL, change_log=ChangeLog(**settings), session=first) as source:
            reading: ChangeReading = source.changes(self.ranges if since is not None else (), since)
        return reading


@pytest.fixture(params=LIVE)
def box(request: pytest.FixtureRequest) -> Iterator[Outbox]:
    return Outbox(live(request.param))


def test_no_change_touches_nothing(box: Outbox) -> None:
    box.put((1, 3))
    mark = box.read().position
    reading = box.read(mark)
    assert (reading.ranges, reading.changes, reading.position) == ((), 0, mark)


def test_a_truncated_log_is_a_gap(box: Outbox) -> None:
    box.put((1, 3), (2, 7))
    mark = box.read().position
    box.put((3, 8), (4, 17))
    box.base.run("DELETE FROM fed_changes WHERE pos < 2")
    assert box.read(mark).ranges == (1, 3)
    box.base.run("DELETE FROM fed_changes WHERE pos < 4")
    reading = box.read(mark)
    assert (reading.ranges, reading.is_gap) == (None, True)
    assert "truncated: position 2, to which it was read, is no longer in it" in reading.cause


def test_a_log_that_goes_backwards_is_a_gap(box: Outbox) -> None:
    box.put((100, 3))
    mark = box.read().position
    box.base.run("DELETE FROM fed_changes")
    box.put((1, 3), (2, 4))
    reading = box.read(mark)
    assert (reading.ranges, reading.is_gap) == (None, True)
    assert "goes backwards, from position 100 to 2" in reading.cause


def test_a_log_that_was_made_again_is_a_gap(box: Outbox) -> None:
    box.put((1, 3), (2, 4))
    mark = box.read().position
    box.base.run("DELETE FROM fed_changes")
    box.put((1, 12), (2, 13), (3, 14))
    reading = box.read(mark)
    assert (reading.ranges, reading.is_gap) == (None, True)
    assert "differ from those of the last run" in reading.cause


def test_an_empty_log_tells_nothing(box: Outbox) -> None:
    mark = box.read().position
    assert box.read(mark).ranges is None
    assert not box.read(mark).is_gap
    box.put((1, 3))
    first = box.read(mark)
    assert (first.ranges, first.is_gap) == (None, False)
    assert box.read(first.position).ranges == ()
    box.base.run("DELETE FROM fed_changes")
    assert box.read(first.position).is_gap


@pytest.mark.parametrize("change", [(2, None), (None, 7)], ids=["key", "position"])
def test_a_null_stands_for_any_row(box: Outbox, change: tuple[Any, Any]) -> None:
    box.put((1, 3))
    mark = box.read().position
    box.put(change)
    reading = box.read(mark)
    assert (reading.ranges, reading.is_gap) == (None, True)
    assert "1 changes of its change log have a NULL key or position" in reading.cause


def test_commits_of_one_position_are_a_gap_without_an_overlap(box: Outbox) -> None:
    box.put((1, 3), (2, 4))
    mark = box.read().position
    box.put((2, 17))  # visible only now
    assert box.read(mark).is_gap
    overlapping = box.read(mark, overlap=1)
    assert overlapping.ranges == (0, 3)


def test_an_overlap_finds_what_is_committed_late(box: Outbox) -> None:
    box.put((10, 3), (20, 4))
    mark = box.read().position
    box.put((15, 17))
    assert box.read(mark).ranges == ()
    assert box.read(mark, overlap=10).ranges == (0, 3)


@pytest.mark.parametrize("position", ["timestamp", "zoned", "date", "decimal", "text"])
@pytest.mark.parametrize("name", LIVE)
def test_positions_of_other_types(name: str, position: str) -> None:
    box = Outbox(live(name), position)
    days = [datetime(2026, 1, 9, 12) + timedelta(days=number) for number in range(4)]
    values = {
        "timestamp": days, "zoned": days, "date": [day.date() for day in days],
        "decimal": ["9.5", "10.5", "11.5", "12.5"], "text": [f"2026-01-09T12:00:0{number}Z" for number in range(4)],
    }[position]  # fmt: skip
    if name == "sqlite" and position == "decimal":
        values = [9.5, 10.5, 11.5, 12.5]
    box.put((values[0], 1), (values[2], 11))
    mark = box.read().position
    assert box.read(mark).ranges == ()
    box.put((values[3], 6))
    assert box.read(mark).ranges == (1,)
    box.put((values[1], 17))
    overlap = 2 if position == "decimal" else timedelta(days=1, hours=6)
    if position == "text" or (name == "sqlite" and position != "decimal"):
        with pytest.raises(SourceConfigurationError, match="does not fit the position 'pos'"):
            box.read(mark, overlap=overlap)
    else:
        assert box.read(mark, overlap=overlap).ranges == (1, 2, 3)


@pytest.mark.parametrize("name", LIVE)
def test_a_position_of_text_that_is_no_time_is_refused(name: str) -> None:
    box = Outbox(live(name), "text")
    box.put(("9", 1), ("10", 2))
    with pytest.raises(SourceConfigurationError, match="position='pos' holds a text, '9', and texts sort differently"):
        box.read()


@pytest.mark.parametrize("name", ["sqlite", "postgresql"])
def test_a_stated_position_of_text_is_compared_as_its_number(name: str) -> None:
    box = Outbox(live(name))
    least = "SELECT CAST(COALESCE(MIN(pos), 0) AS varchar(20)) FROM fed_changes"
    settings = {"newest": least.replace("MIN", "MAX"), "oldest": least}
    box.put((9, 1))
    mark = box.read(**settings).position
    box.put((10, 11))
    reading = box.read(mark, **settings)
    assert (reading.ranges, reading.is_gap) == ((2,), False)
    box.base.run("DELETE FROM fed_changes WHERE pos < 10")
    assert "truncated: it begins at 10, and was read to 9" in box.read(mark, **settings).cause


@pytest.mark.parametrize("name", ["sqlite", "postgresql"])
def test_stated_texts_whose_order_is_not_certain_are_a_gap(name: str) -> None:
    box = Outbox(live(name))
    query = "SELECT id FROM fed_changes WHERE pos > CAST(SUBSTR(:since, 3) AS integer)"
    newest = "SELECT '0/' || MAX(pos) FROM fed_changes"
    settings = {"table": None, "position": None, "query": query, "newest": newest}
    box.put((9, 1))
    mark = box.read(**settings).position
    box.put((10, 11))
    reading = box.read(mark, **settings)
    assert (reading.ranges, reading.is_gap) == (None, True)
    assert "texts of different lengths" in reading.cause


@pytest.mark.parametrize(
    ("name", "position", "value"),
    [(name, position, None) for name in LIVE for position in ("timestamp", "zoned", "date")]
    + [("postgresql", "decimal", "NaN"), ("postgresql", "float", "NaN"), ("postgresql", "float", "Infinity")]
    + [("postgresql", "timestamp", "infinity"), ("postgresql", "date", "12026-01-01"), ("duckdb", "float", "NaN")]
    + [("sqlite", "float", float("inf"))],
)
def test_a_position_that_hides_later_changes_is_a_gap(name: str, position: str, value: Any) -> None:
    """Until it is corrected: each run surveys every range and says why."""
    box = Outbox(live(name), position)
    now = datetime.now(tz=timezone.utc).replace(tzinfo=None)
    numbers = position in ("decimal", "float")
    early, late = (1.5, 2.5) if numbers else (now - timedelta(days=3), now - timedelta(hours=1))
    box.put((early, 1))
    mark = box.read().position
    far = value or now + timedelta(days=365)
    box.put((far.date() if position == "date" and value is None else far, 6))
    for since in (mark, None, box.read().position):
        reading = box.read(since)
        assert (reading.ranges, reading.is_gap) == (None, True)
        assert "greatest position of its change log" in reading.cause
    box.base.run("DELETE FROM fed_changes WHERE id = 6")
    box.put((late, 11))
    assert box.read(mark).ranges == (2,)


def test_an_infinite_position_that_is_corrected_is_a_gap_once() -> None:
    box = Outbox(live("postgresql"), "zoned")
    now = datetime.now(tz=timezone.utc)
    overlap = timedelta(minutes=5)
    box.put((now - timedelta(days=1), 1), ("infinity", 6))
    mark = box.read(overlap=overlap).position
    box.base.run("DELETE FROM fed_changes WHERE id = 6")
    box.put((now, 11))
    reading = box.read(mark, overlap=overlap)
    assert (reading.ranges, reading.is_gap) == (None, True)
    assert "was read to position infinity, from which overlap= cannot be subtracted" in reading.cause
    assert box.read(reading.position, overlap=overlap).ranges == (2,)


@pytest.mark.parametrize(
    ("kind", "text", "before"),
    [
        (Kind.ZONED, "2026-11-27 22:22:43.692382+00", "2026-11-27 21:22:43.692382"),  # PostgreSQL
        (Kind.ZONED, "2026-11-27 22:22:43.5+05:30", "2026-11-27 15:52:43.500000"),
        (Kind.ZONED, "2026-11-27 22:22:43.123456789 -0130", "2026-11-27 22:52:43.123456"),  # Snowflake
        (Kind.ZONED, "2026-11-27 22:22:43.000 UTC", "2026-11-27 21:22:43.000000"),  # Trino
        (Kind.ZONED, "2026-11-27T22:22Z", "2026-11-27 21:22:00.000000"),
        (Kind.TIMESTAMP, "2026-11-27 22:22:43.", "2026-11-27 21:22:43.000000"),
        (Kind.DATE, "2026-11-27", "2026-11-26"),
        *(
            (kind, text, None)
            for kind in sorted(TIMES)
            for text in ("infinity", "0044-03-15 BC", "12026-01-01", "0001-01-01")
        ),
    ],
)
def test_an_overlap_is_subtracted_from_the_text_of_every_database(kind: Kind, text: str, before: str | None) -> None:
    column = Column(name="pos", kind=kind)
    assert earlier(column, text, timedelta(hours=1)) == before
    if before is not None:
        assert hiding(text, column, datetime(2026, 11, 28, tzinfo=timezone.utc)) == ""
        assert hiding(text, column, datetime(2026, 11, 20, tzinfo=timezone.utc)) != ""


@pytest.mark.parametrize(("own", "changed"), [("citext", "text"), ("text", "citext"), ("citext", "citext")])
def test_a_key_without_case_and_one_with_it_compare_differently(own: str, changed: str) -> None:
    base = live("postgresql")
    base.run("CREATE EXTENSION IF NOT EXISTS citext")
    create(base, "fed", {"id": f"={own}", "slug": "text"})
    outbox(base, "fed_changes", {"id": f"={changed}"})
    base.run("INSERT INTO fed_changes VALUES (1, 'Apple')")
    with session(base, table="fed", **SQL, change_log=ChangeLog(table="fed_changes", position="pos")) as source:
        if own == changed:
            assert source.changes((), None).position
            return
        with pytest.raises(
            SourceConfigurationError, match=f"'id' is {changed}, and that of the source, 'id', is {own}:"
        ):
            source.changes((), None)


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("sqlite", "TEXT", "CAST(x'61ff' AS TEXT)"),
        ("mariadb", "VARCHAR(100) CHARACTER SET utf8mb3", "_utf8mb3 x'61EDA080'"),
    ],
)
def test_a_changed_key_that_is_not_utf8_is_found(name: str, kind: str, text: str) -> None:
    base = live(name)
    create(base, "fed", {"id": f"={kind}", "slug": "text"})
    outbox(base, "fed_changes", {"id": f"={kind}"})
    base.run(f"INSERT INTO fed VALUES ({text}, 'x'), ('b', 'y')", f"INSERT INTO fed_changes VALUES (1, {text})")
    ranges = cut(KeyRange(None, None), [("b",)])
    with session(base, table="fed", **SQL, change_log=ChangeLog(table="fed_changes", position="pos")) as source:
        mark = source.changes(ranges, None).position
        base.run(f"INSERT INTO fed_changes VALUES (2, {text})")
        reading = source.changes(ranges, mark)
        assert (reading.ranges, reading.cause) == ((0,), "")
        assert source.changes(ranges, reading.position).ranges == ()


SWAPS = ("ALTER TABLE fed RENAME TO fed_before", "ALTER TABLE fed_new RENAME TO fed")


@pytest.mark.parametrize("name", ["sqlite", "postgresql", "mariadb"])
def test_a_table_swapped_by_rename_is_a_gap(name: str) -> None:
    """The triggers that fill the outbox stay with the renamed table."""
    box = Outbox(live(name))
    box.base.run("DROP TABLE IF EXISTS fed_before", "DROP TABLE IF EXISTS fed_new")
    if name == "mariadb":  # its tables have a time of creation in seconds
        box.base.run(
            "CREATE TRIGGER fed_rows AFTER INSERT ON fed FOR EACH ROW INSERT INTO fed_changes VALUES (9, NEW.id)"
        )
    box.put((1, 3))
    mark = box.read().position
    assert box.read(mark).ranges == ()
    box.base.run("CREATE TABLE fed_new AS SELECT id, slug FROM fed", *SWAPS)
    reading = box.read(mark)
    assert (reading.ranges, reading.is_gap) == (None, True)
    assert "its table is another than at the last run" in reading.cause
    assert box.read(reading.position).ranges == ()
    box.base.run("DROP TABLE fed_before")


def test_a_table_of_sqlite_that_is_made_again_is_a_gap() -> None:
    """Its page, its text and its triggers are those of the first one."""
    box = Outbox(live("sqlite"))
    (made,) = box.base.rows("SELECT sql FROM sqlite_master WHERE name = 'fed'")
    trigger = "CREATE TRIGGER fed_rows AFTER INSERT ON fed BEGIN INSERT INTO fed_changes VALUES (9, NEW.id); END"
    box.base.run(trigger)
    box.put((1, 3))
    mark = box.read().position
    assert box.read(mark).ranges == ()
    box.base.run("DROP TABLE fed", made[0], trigger)
    assert box.read(mark).is_gap


def test_partitions_that_are_attached_are_a_gap() -> None:
    box = Outbox(live("postgresql"))
    box.base.run(
        "DROP TABLE fed", "DROP TABLE IF EXISTS fed_late", "CREATE TABLE fed_late (id bigint, slug text)",
        "CREATE TABLE fed (id bigint, slug text) PARTITION BY RANGE (id)", "INSERT INTO fed_late VALUES (100, 'p/100')",
    )  # fmt: skip
    box.put((1, 3))
    mark = box.read().position
    assert box.read(mark).ranges == ()
    box.base.run("ALTER TABLE fed ATTACH PARTITION fed_late FOR VALUES FROM (50) TO (200)")
    assert box.read(mark).is_gap
    box.base.run("DROP TABLE fed")


def test_a_transaction_that_stays_open_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its age if the role may see it; otherwise from the second run that meets it."""
    box = Outbox(live("postgresql"))
    box.base.run(
        "DROP ROLE IF EXISTS fed_reader", "CREATE ROLE fed_reader", "GRANT SELECT ON fed, fed_changes TO fed_reader"
    )
    box.put((1, 3))
    first = box.read()
    monkeypatch.setattr(change_log_query, "HELD_BACK", timedelta(0))
    assert box.read(first.position).warning == ""
    engine = box.base.engine()
    with engine.begin() as connection:
        connection.execute(sa.text("SELECT pg_current_xact_id()"))
        warning = box.read(first.position).warning
        assert re.match(r"a transaction has been open for 0:00:\d\d .*: process \d+ idle in transaction\.", warning)
        limited = box.read(first.position, as_role="fed_reader")
        assert limited.warning == ""
        warning = box.read(limited.position, as_role="fed_reader").warning
        assert re.match(r"a transaction has been open since the last run .*: process \d+\.", warning)
        monkeypatch.undo()
        assert box.read(limited.position).warning == ""
    engine.dispose()
    box.base.run("DROP OWNED BY fed_reader", "DROP ROLE fed_reader")


def test_other_settings_are_another_log(box: Outbox) -> None:
    box.put((1, 3))
    mark = box.read().position
    box.put((2, 4))
    for settings in ({"table": None, "query": "SELECT * FROM fed_changes"}, {"key": ["ID"]}):
        reading = box.read(mark, **settings)
        assert (reading.ranges, reading.is_gap) == (None, False)
        assert "settings" in reading.cause
    assert box.read("what is this").ranges is None
    assert box.read(mark, full_every=timedelta(hours=1), overlap=1).ranges == (0,)


def test_a_query_may_rename_the_columns(box: Outbox) -> None:
    query = "SELECT pos AS at_place, id AS product FROM fed_changes -- all"
    settings = {"table": None, "query": query, "position": "at_place", "key": "product"}
    box.put((1, 3))
    mark = box.read(**settings).position
    box.put((2, 11))
    assert box.read(mark, **settings).ranges == (2,)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"key": "nothing"}, "change_log: key='nothing': there is no such column"),
        ({"position": "nothing"}, "change_log: position='nothing': there is no such column"),
        ({"table": "nothing"}, "change_log: the database refuses to read it"),
        ({"table": None, "query": "SELECT pos, slug FROM nothing"}, "change_log: the database refuses to read it"),
    ],
    ids=["key", "position", "table", "query"],
)
def test_a_log_without_its_columns_is_refused(box: Outbox, settings: dict[str, Any], words: str) -> None:
    box.put((1, 3))
    with pytest.raises(SourceConfigurationError, match=words):
        box.read(**settings)


def test_keys_of_another_type_are_refused(box: Outbox) -> None:
    create(box.base, "fed_changes", {"pos": "integer", "id": "text"})
    box.base.insert("fed_changes", [{"pos": 1, "id": "3"}])
    with pytest.raises(SourceConfigurationError, match="Cast 'id' to the source's type"):
        box.read()


# ---------------------------------------------------------------- functions of the last position

FUNCTIONS = {
    "postgresql": (
        "DROP FUNCTION IF EXISTS changes_of(bigint)",
        (
            "CREATE FUNCTION changes_of(since bigint) RETURNS TABLE (pos bigint, id bigint) LANGUAGE sql STABLE"
            " AS 'SELECT * FROM fed_changes WHERE pos > since'"
        ),
    ),
    "duckdb": ("CREATE OR REPLACE MACRO changes_of(since) AS TABLE SELECT * FROM fed_changes WHERE pos > since",),
}
"""What stands for SQL Server's CHANGETABLE and Delta's table_changes."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_query_takes_the_last_position(name: str) -> None:
    box = Outbox(live(name))
    box.base.run(*FUNCTIONS[name])
    settings = {
        "table": None, "position": None, "query": "SELECT id FROM changes_of(:since)",
        "newest": "SELECT COALESCE(MAX(pos), 0) FROM fed_changes;",
        "oldest": "SELECT COALESCE(MIN(pos), 0) FROM fed_changes",
    }  # fmt: skip
    box.put((5, 1))
    mark = box.read(**settings).position
    assert box.read(mark, **settings).ranges == ()
    box.put((7, 11), (8, 17))
    assert box.read(mark, **settings).ranges == (2, 3)
    assert box.read(mark, **settings).changes == 2
    box.base.run("DELETE FROM fed_changes WHERE pos < 7")
    reading = box.read(mark, **settings)
    assert (reading.ranges, reading.is_gap) == (None, True)
    assert "truncated: it begins at 7, and was read to 5" in reading.cause
    late = box.read(**settings).position
    box.base.run("DELETE FROM fed_changes WHERE pos > 7")
    assert "goes backwards, from position 8 to 7" in box.read(late, **settings).cause
    with pytest.raises(SourceConfigurationError, match="newest= gives None"):
        box.read(**settings | {"newest": "SELECT NULL"})


@pytest.mark.parametrize("stated", [False, True])
def test_a_log_that_is_truncated_while_it_is_read_is_a_gap(stated: bool) -> None:
    """As in a database without snapshots: each statement sees the log as it is then."""
    box = Outbox(live("sqlite"))
    position = {"newest": "SELECT MAX(pos) FROM fed_changes", "oldest": "SELECT MIN(pos) FROM fed_changes"}
    change_log = ChangeLog(table="fed_changes", position="pos", **(position if stated else {}))
    box.put((1, 3))
    with session(box.base, table="fed", **SQL, change_log=change_log) as source:
        mark = source.changes((), None).position
        box.put((2, 12), (3, 17))

        def purge(_connection: Any, cursor: Any, sql: str, *_rest: Any) -> None:
            if " AS bucket" in sql:  # after the changes were counted
                cursor.connection.execute("PRAGMA query_only = OFF")
                cursor.connection.execute("DELETE FROM fed_changes WHERE pos < 3")

        sa.event.listen(source.engine, "before_cursor_execute", purge)
        reading = source.changes(box.ranges, mark)
    assert (reading.ranges, reading.is_gap) == (None, True)
    assert "truncated" in reading.cause


GONE = {
    "postgresql": (
        "DROP FUNCTION IF EXISTS changes_gone(bigint)",
        (
            "CREATE FUNCTION changes_gone(since bigint) RETURNS TABLE (pos bigint, id bigint) LANGUAGE plpgsql STABLE"
            " AS 'BEGIN IF since < 6 THEN RAISE ''version % is gone'', since; END IF;"
            " RETURN QUERY SELECT f.pos, f.id FROM fed_changes f WHERE f.pos > since; END'"
        ),
    ),
    "duckdb": (
        (
            "CREATE OR REPLACE MACRO changes_gone(since) AS TABLE SELECT * FROM fed_changes WHERE pos >"
            " CASE WHEN since < 6 THEN error('version is gone') ELSE since END"
        ),
    ),
}
"""Functions that fail below position 6, as Delta's table_changes does below the oldest version that is kept."""


@pytest.mark.parametrize("name", GONE)
def test_a_function_that_cannot_be_read_from_the_last_position_is_a_gap(name: str) -> None:
    """The survey that follows works."""
    box = Outbox(live(name))
    box.base.run(*GONE[name])
    change_log = ChangeLog(query="SELECT id FROM changes_gone(:since)", newest="SELECT MAX(pos) FROM fed_changes")
    box.put((5, 1))
    with session(box.base, table="fed", **SQL, change_log=change_log) as source:
        early = source.changes(box.ranges, None).position
        box.put((9, 11))
        reading = source.changes(box.ranges, early)
        digests = source.survey(box.ranges).digests
        assert (reading.ranges, reading.is_gap) == (None, True)
        assert reading.cause.startswith("its change log cannot be read from position 5: ")
        assert "is gone" in reading.cause
        assert digests == source.survey(box.ranges).digests
        box.put((12, 17))
        assert source.changes(box.ranges, reading.position).ranges == (3,)


# ---------------------------------------------------------------- costs


def statements(base: Database, box: Outbox, since: str | None) -> list[str]:
    seen: list[str] = []
    with session(base, table="fed", **SQL, change_log=ChangeLog(table="fed_changes", position="pos")) as source:
        sa.event.listen(source.engine, "before_cursor_execute", lambda *arguments: seen.append(arguments[2]))
        source.changes(box.ranges, since)
    return [sql for sql in seen if "fed_changes" in sql]


@pytest.mark.parametrize("name", ["postgresql", "duckdb"])
def test_a_reading_without_changes_is_a_few_statements(name: str) -> None:
    box = Outbox(live(name))
    box.put((1, 3))
    mark = box.read().position
    quiet = statements(box.base, box, mark)
    box.put((2, 4))
    assert len(statements(box.base, box, mark)) == len(quiet) + 2
    described = {"postgresql": 2, "duckdb": 1}[name]
    assert len(quiet) == described + 3
    assert not [sql for sql in quiet if "fed " in sql]


# ---------------------------------------------------------------- settings

WRONG = {
    "nothing": {"position": "p"},
    "both": {"table": "t", "query": "SELECT 1", "position": "p"},
    "no position": {"table": "t"},
    "an empty text": {"table": "t", "position": " "},
    "since without newest": {"query": "SELECT id FROM f(:since)"},
    "oldest without newest": {"table": "t", "position": "p", "oldest": "SELECT 1"},
    "a table by template": {"table": "{{ params.table }}", "position": "p"},
    "a position by template": {"table": "t", "position": "{{ params.position }}"},
    "no key": {"table": "t", "position": "p", "key": ()},
    "one key twice": {"table": "t", "position": "p", "key": ("a", "a")},
    "a key that is no name": {"table": "t", "position": "p", "key": (1,)},
    "overlap of nothing": {"table": "t", "position": "p", "overlap": 0},
    "overlap of a flag": {"table": "t", "position": "p", "overlap": True},
    "a negative overlap": {"table": "t", "position": "p", "overlap": timedelta(-1)},
    "overlap with newest": {"table": "t", "position": "p", "overlap": 1, "newest": "SELECT 1"},
    "no interval": {"table": "t", "position": "p", "full_every": timedelta(0)},
    "an interval that is no time": {"table": "t", "position": "p", "full_every": 3600},
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_settings_are_refused_when_the_object_is_made(name: str) -> None:
    with pytest.raises(SourceConfigurationError, match="ChangeLog"):
        ChangeLog(**WRONG[name])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"change_log": "SELECT id"}, "give ChangeLog"),
        ({"group": "g", "language": "l"}, "cannot be used with group="),
        ({"materialize": "scratch"}, "cannot be used with materialize="),
        ({"as_of": "plan"}, "cannot be used with as_of="),
        ({"key": ("a", "b"), "change_log": ChangeLog(table="t", position="p", key="a")}, "another number of columns"),
        ({"parameters": {"since": 1}}, "the name of the last position"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_source_that_cannot_have_a_log_is_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(SourceConfigurationError, match=words):
        SqlSource("w", table="t", loc="/p/{a}", **{"change_log": ChangeLog(table="c", position="p"), **arguments})


def test_a_log_does_not_change_what_the_files_depend_on() -> None:
    with_log = SqlSource("w", table="t", loc="url", change_log=ChangeLog(table="c", position="p"))
    assert with_log.identity() == SqlSource("w", table="t", loc="url").identity()
    assert with_log.change_log_interval == timedelta(days=1)
    assert SqlSource("w", table="t", loc="url").change_log_interval is None


def test_its_texts_are_templates() -> None:
    change_log = ChangeLog(
        query="SELECT id FROM f('{{ x }}', :since)", newest="SELECT {{ x }}", oldest="SELECT {{ x }} - 1"
    )
    source = SqlSource("w", table="t", loc="url", change_log=change_log)
    rendered = source.rendered(lambda text: text.replace("{{ x }}", "7"))
    assert rendered.change_log is not None
    assert rendered.change_log.query == "SELECT id FROM f('7', :since)"
    assert (rendered.change_log.newest, rendered.change_log.oldest) == ("SELECT 7", "SELECT 7 - 1")
    assert rendered.change_log_identity() == source.change_log_identity()

    def fail(text: str) -> str:
        if "since" in text:
            raise TemplateError("'x' is undefined")
        return text

    with pytest.raises(TemplateError, match=r"change_log\.query="):
        source.rendered(fail)


def test_the_position_depends_on_the_rows_that_the_source_selects() -> None:
    change_log = ChangeLog(table="c", position="p")
    plain = SqlSource("w", table="t", loc="url", change_log=change_log).change_log_identity()
    for arguments in ({"where": "a = 1"}, {"parameters": {"a": 1}}):
        assert SqlSource("w", table="t", loc="url", change_log=change_log, **arguments).change_log_identity() != plain
    assert SqlSource("w", table="t", loc="url").change_log_identity() == ""
