"""The survey: one digest per key range, made by the database in as few scans as its SQL allows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from airflow_sitemaps.shards.digest import EMPTY, MODULUS, Digest, Survey
from airflow_sitemaps.sources import reading
from airflow_sitemaps.sources.columns import TIMES, Kind
from airflow_sitemaps.sources.intervals import GAP, Run, condition, nested_case, runs
from airflow_sitemaps.sources.selection import Output

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import sqlalchemy as sa

    from airflow_sitemaps.shards.key import KeyRange
    from airflow_sitemaps.sources.session import SqlSession
    from airflow_sitemaps.sources.statement import Binds, Statement

NULL_SAMPLES = 5
RUNS_AT_MOST = 8
"""More stretches than this are surveyed as one, gaps included: one scan instead of many."""

MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d+))?\s?(Z|UTC|[+-]00(?::?00)?)?")


def take(session: SqlSession, connection: sa.Connection, ranges: Sequence[KeyRange]) -> Survey:
    """See ``ports.Source.survey``."""
    digests = [EMPTY] * len(ranges)
    for run in runs(ranges, at_most=RUNS_AT_MOST) if ranges else ():
        found = (
            _hashed_here(session, connection, run) if session.dialect.hashes_here else _by_sql(session, connection, run)
        )
        for bucket, digest in found:
            place = run.places[bucket]
            if place != GAP:
                digests[place] = digests[place] + digest
    nulls, samples = _null_keys(session, connection)
    return Survey(digests=tuple(digests), null_keys=nulls, null_key_samples=samples)


# ---------------------------------------------------------------- in the database


def _by_sql(session: SqlSession, connection: sa.Connection, run: Run) -> Iterator[tuple[int, Digest]]:
    """Bucket and digest of each bucket that has rows."""
    binds = session.relation.binds()
    quick = _quick_rows(session, run, binds)
    if quick is not None:
        yield from _grouped(session, connection, quick, binds)
        return
    before = 0
    for part in run.split(session.dialect):
        binds = session.relation.binds()
        bucket = nested_case(session.dialect, session.mapping.key, part.cuts, binds)
        where = condition(session.dialect, session.mapping.key, part.within, binds)
        rows = f"SELECT {bucket} AS bucket, {_measures(session)} FROM {session.from_item} WHERE {where}"
        for number, digest in _grouped(session, connection, rows, binds):
            yield before + number, digest
        before += len(part.cuts) + 1


def _quick_rows(session: SqlSession, run: Run, binds: Binds) -> str | None:
    """Rows with their bucket by the database's own best way, or None where that is the nested CASE."""
    dialect, key = session.dialect, session.mapping.key
    if not run.cuts:
        return None
    bucket = dialect.buckets(key, run.cuts, binds)
    if bucket is not None:
        where = condition(dialect, key, run.within, binds)
        return f"SELECT {bucket} AS bucket, {_measures(session)} FROM {session.from_item} WHERE {where}"
    where = condition(dialect, key, run.within, binds)
    joined = dialect.bucket_rows(key, run.cuts, session.from_item, where, _measures(session), binds)
    if joined is not None:
        return joined
    if dialect.sorted_union and len(run.cuts) > dialect.max_case:
        return _sorted_union(session, run, where, binds)
    return None


def _sorted_union(session: SqlSession, run: Run, where: str, binds: Binds) -> str:
    """Rows and cuts in one order; a row's bucket is the number of cuts before it. One sort, however many cuts."""
    dialect, key = session.dialect, session.mapping.key
    names = [f"k{number}" for number in range(len(key))]
    values = ", ".join(f"{dialect.key_order(column)} AS {name}" for column, name in zip(key, names, strict=True))
    return (
        f"SELECT bucket, newest, row_hash FROM (SELECT SUM(mark) OVER (ORDER BY {', '.join(names)}, mark DESC"
        " ROWS UNBOUNDED PRECEDING) AS bucket, mark, newest, row_hash FROM"
        f" (SELECT {values}, 0 AS mark, {_measures(session)} FROM {session.from_item} WHERE {where} UNION ALL"
        f" SELECT {', '.join(names)}, 1, NULL, NULL FROM ({dialect.boundary_rows(key, run.cuts, binds)}) given)"
        " ordered) counted WHERE mark = 0"
    )


def _measures(session: SqlSession) -> str:
    """What each row adds to its digest: its lastmod and its hash."""
    dialect = session.dialect
    lastmod = session.mapping.field("lastmod")
    newest = "NULL"
    if lastmod is not None:
        newest = dialect.column(lastmod) if lastmod.kind in TIMES else dialect.emit_text(lastmod)
    return f"{newest} AS newest, {dialect.row_hash(session.mapping.emitted)} AS row_hash"


def _grouped(session: SqlSession, connection: sa.Connection, rows: str, binds: Binds) -> Iterator[tuple[int, Digest]]:
    dialect = session.dialect
    lastmod = session.mapping.field("lastmod")
    newest = "NULL" if lastmod is None else dialect.as_text("MAX(newest)", lastmod)
    sql = f"SELECT bucket, COUNT(*), {newest}, {dialect.checksum('row_hash')} FROM ({rows}) hashed GROUP BY bucket"
    for bucket, count, moment, checksum in connection.execute(*binds.statement(sql)):
        yield (
            int(bucket),
            Digest(
                rows=int(count),
                newest=_iso(moment, utc=lastmod is not None and lastmod.kind is Kind.ZONED),
                checksum=int(checksum) % MODULUS,
            ),
        )


def _iso(value: Any, *, utc: bool) -> str | None:
    """A newest lastmod for people: ISO 8601 where it is a time, else as it is."""
    if value is None:
        return None
    text = str(value)
    match = MOMENT.fullmatch(text)
    if match is None:
        return text
    fraction = (match[3] or "").rstrip("0")
    return f"{match[1]}T{match[2]}{'.' + fraction if fraction else ''}{'+00:00' if match[4] or utc else ''}"


# ---------------------------------------------------------------- in this process


def _hashed_here(session: SqlSession, connection: sa.Connection, run: Run) -> Iterator[tuple[int, Digest]]:
    """Rows and cuts come in key order, merged by the database; the rows are hashed and summed here."""
    outputs = [output for output in session.selection.outputs(objects=True) if not output.name.startswith("key_")]
    statement, columns = _marked_rows(session, run, outputs)
    bucket = 0
    with session.dialect.reading(connection):
        for raw in reading.from_cursor(connection, session.dialect, statement, columns):
            marks = [place for place, mark in enumerate(raw["mark"].to_pylist()) if mark]
            hashes = session.selection.hashes(raw).to_pylist()
            moments = raw["lastmod"].to_pylist() if "lastmod" in raw.schema.names else None
            start = 0
            for end in (*marks, raw.num_rows):
                if end > start:
                    yield bucket, _digest(hashes[start:end], moments and moments[start:end])
                bucket += 1
                start = end + 1
            # The last stretch of a batch goes on in the next.
            bucket -= 1


def _digest(hashes: Sequence[int], moments: Sequence[str | None] | None) -> Digest:
    newest = max((moment for moment in moments or () if moment is not None), default=None)
    return Digest(rows=len(hashes), newest=_iso(newest, utc=False), checksum=sum(hashes) % MODULUS)


def _marked_rows(session: SqlSession, run: Run, outputs: Sequence[Output]) -> tuple[Statement, list[Output]]:
    dialect, key = session.dialect, session.mapping.key
    binds = session.relation.binds()
    columns = [Output(name="mark", sql="0", type=pa.int32()), *outputs]
    select = ", ".join(f"{column.sql} AS {column.name}" for column in columns)
    names = [f"k{number}" for number in range(len(key))]
    values = ", ".join(f"{dialect.key_order(column)} AS {name}" for column, name in zip(key, names, strict=True))
    where = condition(dialect, key, run.within, binds)
    sql = f"SELECT {select}, {values} FROM {session.from_item} WHERE {where}"
    if run.cuts:
        nothing = ", ".join("NULL" for _ in outputs)
        given = dialect.boundary_rows(key, run.cuts, binds)
        sql += f" UNION ALL SELECT 1, {nothing}, {', '.join(names)} FROM ({given}) given"
        sql += f" ORDER BY {', '.join(names)}, mark DESC"
    return binds.statement(sql), columns


# ---------------------------------------------------------------- rows without a key


def _null_keys(session: SqlSession, connection: sa.Connection) -> tuple[int, tuple[str, ...]]:
    dialect = session.dialect
    binds = session.relation.binds()
    missing = " OR ".join(f"{dialect.column(column)} IS NULL" for column in session.mapping.key)
    count = connection.execute(
        *binds.statement(f"SELECT COUNT(*) FROM {session.from_item} WHERE {missing}")
    ).scalar_one()
    if not count:
        return 0, ()
    shown = ", ".join(dialect.emit_text(column) for column in session.mapping.loc)
    rows = connection.execute(
        *binds.statement(
            f"SELECT {shown} FROM {session.from_item} WHERE {missing}{dialect.limit(NULL_SAMPLES, ordered=False)}"
        )
    ).all()
    return int(count), tuple(", ".join(str(value) for value in row) for row in rows)
