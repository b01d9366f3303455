"""PostgreSQL behind PgBouncer, which gives each transaction whatever connection is free: the same rows, by every reader."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from airflow_sitemaps.shards.ranges import KeyRange, cut
from tests.support.databases import Database
from tests.support.pgbouncer import pgbouncer
from tests.support.source_sessions import live, read, rows_of, session, table_of

if TYPE_CHECKING:
    from collections.abc import Iterator

WHOLE = KeyRange(None, None)
ROWS = 2_000


@pytest.fixture(scope="module", params=["session", "transaction"])
def pooled(request: pytest.FixtureRequest) -> Iterator[Database]:
    base = live("postgresql")
    with pgbouncer(base.url, request.param, connections=20) as url:
        yield Database(name="postgresql", url=url, types=base.types)


SETTINGS = "SELECT name, setting FROM pg_settings WHERE source = 'session' ORDER BY name"
READERS = {
    "packed": ("auto", True, "reading packed rows by psycopg"),
    "adbc": ("auto", False, "reading Arrow batches by ADBC"),
    "cursor": ("cursor", True, ""),
}


@pytest.mark.parametrize("way", READERS)
def test_four_tasks_at_once_read_what_was_surveyed_and_leave_no_setting_behind(
    pooled: Database, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    reader, is_indexed, said = READERS[way]
    table = table_of("postgresql", "integer", ROWS)
    if not is_indexed:
        pooled.run("DROP TABLE IF EXISTS without_index", f"CREATE TABLE without_index AS SELECT * FROM {table}")
        table = "without_index"
    mapping = {"key": "id", "loc": "slug", "lastmod": "lm", "changefreq": "cf"}
    with session(pooled, table=table, reader=reader, **mapping) as source:
        ranges = cut(WHOLE, source.boundaries(WHOLE, 100))
        digests = source.survey(ranges, urgent=True).digests
        assert source.rank([ranges[1].lower, ranges[0].upper]) == [0, 0]
    found: dict[int, tuple[int, int]] = {}
    errors: list[BaseException] = []

    def task(number: int) -> None:
        own = list(range(number, len(ranges), 4))
        try:
            with session(pooled, table=table, reader=reader, **mapping) as source:
                counts, sums, _order = read(source, [ranges[place] for place in own])
            found.update({place: (counts[at], sums[at]) for at, place in enumerate(own)})
        except BaseException as error:
            errors.append(error)

    for _ in range(3):
        threads = [threading.Thread(target=task, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert found == {place: (digest.rows, digest.checksum) for place, digest in enumerate(digests)}
    assert sum(rows for rows, _ in found.values()) == len(rows_of(ROWS))
    assert said in caplog.text
    left = {name for _ in range(20) for name, _setting in pooled.rows(SETTINGS)}
    assert left <= {"client_encoding", "application_name"}


def test_where_no_second_connection_is_free_the_cursor_reads(caplog: pytest.LogCaptureFixture) -> None:
    """ADBC's connection waits, is refused, and its driver before 1.11 then aborted the process."""
    caplog.set_level("INFO")
    base, table = live("postgresql"), table_of("postgresql", "integer", ROWS)
    base.run("DROP TABLE IF EXISTS without_index", f"CREATE TABLE without_index AS SELECT * FROM {table}")
    with pgbouncer(base.url, "session", connections=1, wait_s=1) as url:
        narrow = Database(name="postgresql", url=url, types=base.types)
        with session(narrow, table="without_index", key="id", loc="slug") as source:
            digest = source.survey([WHOLE]).digests[0]
            counts, sums, _order = read(source, [WHOLE])
    assert (counts[0], sums[0]) == (digest.rows, digest.checksum)
    assert "reading through a cursor, because ADBC cannot connect" in caplog.text
