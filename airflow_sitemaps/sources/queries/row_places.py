"""The key ranges in which rows with some property are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.sources.queries.key_spans import GAP, condition, nested_case, spans
from airflow_sitemaps.sources.statements.binds import Binds

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa

    from airflow_sitemaps.shards.key import KeyRange
    from airflow_sitemaps.sources.queries.context import QueryContext
    from airflow_sitemaps.sources.queries.key_spans import KeySpan

RUNS_AT_MOST: Final = 8

Rows = Callable[[Binds], tuple[str, str]]
"""Writes the relation, called ``src``, and the condition on its rows. It adds their values to the binds."""


def find(context: QueryContext, connection: sa.Connection, ranges: Sequence[KeyRange], rows: Rows) -> list[int]:
    """Return the positions of the ranges that hold at least one of the rows, in ascending order."""
    positions: set[int] = set()
    for run in spans(ranges, at_most=RUNS_AT_MOST) if ranges else ():
        quick = _buckets(context, connection, run, rows, whole=True)
        if quick is not None:
            positions |= {run.places[bucket] for bucket in quick}
            continue
        for part in run.split(context.dialect):
            buckets = _buckets(context, connection, part, rows, whole=False) or ()
            positions |= {part.places[bucket] for bucket in buckets}
    return sorted(positions - {GAP})


def _buckets(
    context: QueryContext, connection: sa.Connection, run: KeySpan, rows: Rows, *, whole: bool
) -> set[int] | None:
    """Return the buckets of a span that hold at least one of the rows.

    Args:
        whole: Whether to accept only the database's own bucket expression, however long the span is.

    Returns:
        The buckets, or None if ``whole`` is set and the database has no such expression.
    """
    dialect, key = context.dialect, context.mapping.key
    binds = context.relation.binds()
    bucket = dialect.buckets(key, run.cuts, binds) if whole and run.cuts else None
    if bucket is None:
        if whole and run.cuts:
            return None
        bucket = nested_case(dialect, key, run.cuts, binds)
    where = condition(dialect, key, run.within, binds)
    from_item, wanted = rows(binds)
    sql = f"SELECT DISTINCT {bucket} AS bucket FROM {from_item} WHERE {where} AND {wanted}"
    return {int(row[0]) for row in connection.execute(*binds.statement(sql))}
