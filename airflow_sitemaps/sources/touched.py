"""Which key ranges hold rows that changed since a moment: one look at the index of lastmod, if there is one."""

from __future__ import annotations

from datetime import timezone
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.sources.columns import TIMES, Kind
from airflow_sitemaps.sources.intervals import GAP, condition, nested_case, runs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import sqlalchemy as sa

    from airflow_sitemaps.shards.key import KeyRange
    from airflow_sitemaps.sources.columns import Column
    from airflow_sitemaps.sources.intervals import Run
    from airflow_sitemaps.sources.session import SqlSession

RUNS_AT_MOST = 8
TEXT_TIMES = frozenset({Kind.TEXT, Kind.OTHER})
"""Kinds that SQLite gives its times: compared as ISO text, which sorts as time does."""


def find(
    session: SqlSession, connection: sa.Connection, ranges: Sequence[KeyRange], since: datetime, zone: str
) -> list[int]:
    """See ``ports.Source.touched``."""
    column = _lastmod(session)
    text = _since(column, since, zone)
    found: set[int] = set()
    for run in runs(ranges, at_most=RUNS_AT_MOST) if ranges else ():
        quick = _buckets(session, connection, run, column, text, whole=True)
        if quick is not None:
            found |= {run.places[bucket] for bucket in quick}
            continue
        for part in run.split(session.dialect):
            buckets = _buckets(session, connection, part, column, text, whole=False) or ()
            found |= {part.places[bucket] for bucket in buckets}
    return sorted(found - {GAP})


def _buckets(
    session: SqlSession, connection: sa.Connection, run: Run, column: Column, text: str, *, whole: bool
) -> set[int] | None:
    """Buckets of a run with a row that changed; None when ``whole`` and the database cannot tell them in one go."""
    dialect, key = session.dialect, session.mapping.key
    binds = session.relation.binds()
    bucket = dialect.buckets(key, run.cuts, binds) if whole and run.cuts else None
    if bucket is None:
        if whole and run.cuts:
            return None
        bucket = nested_case(dialect, key, run.cuts, binds)
    where = condition(dialect, key, run.within, binds)
    changed = dialect.compare((column,), ">=", (text,), binds)
    sql = f"SELECT DISTINCT {bucket} AS bucket FROM {session.from_item} WHERE {where} AND {changed}"
    return {int(row[0]) for row in connection.execute(*binds.statement(sql))}


def _lastmod(session: SqlSession) -> Column:
    column = session.mapping.field("lastmod")
    if column is None or column.kind not in TIMES | TEXT_TIMES:
        what = "no lastmod" if column is None else f"a lastmod of type {column.type_name or column.kind.value}"
        raise SourceConfigurationError(
            f"{session.name}: change_detection='watermark' needs a lastmod that is a date or timestamp, indexed; this "
            f"source has {what}. Use change_detection='digest'."
        )
    return column


def _since(column: Column, since: datetime, zone: str) -> str:
    """The moment as the column's own values are written."""
    if column.kind is Kind.ZONED:
        return since.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
    local = since.astimezone(ZoneInfo(zone))
    return local.strftime("%Y-%m-%d" if column.kind is Kind.DATE else "%Y-%m-%d %H:%M:%S")
