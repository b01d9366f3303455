"""The parts in which a database sorts a large table, so that no single process has to sort all rows."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.sources.columns import Kind
from airflow_sitemaps.sources.queries.key_spans import condition, nested_case

if TYPE_CHECKING:
    import sqlalchemy as sa

    from airflow_sitemaps.shards.key import Key, KeyRange
    from airflow_sitemaps.sources.queries.context import QueryContext

PARTS: Final = 64
SORTED_AT_ONCE: Final = 1_000_000
"""The number of rows up to which one sort is used."""


def find(context: QueryContext, connection: sa.Connection, within: KeyRange) -> tuple[list[Key], list[int]]:
    """Divide the values of an integer that leads the key into parts of equal width.

    Args:
        context: The source.
        connection: A connection in a transaction.
        within: The keys to sort.

    Returns:
        The first value of each part but the first, and the number of rows before each part. Both are empty if one
        sort is used.
    """
    dialect, lead = context.dialect, context.mapping.key[0]
    if not dialect.sorts_in_parts or lead.kind is not Kind.INTEGER:
        return [], []
    binds = context.relation.binds()
    where = condition(dialect, context.mapping.key, within, binds)
    column = dialect.column(lead)
    sql = f"SELECT MIN({column}), MAX({column}), COUNT(*) FROM {context.from_item} WHERE {where}"
    row = connection.execute(*binds.statement(sql)).first()
    if row is None or int(row[2]) <= SORTED_AT_ONCE:
        return [], []
    low, width = int(row[0]), int(row[1]) - int(row[0])
    cuts: list[Key] = [(value,) for value in dict.fromkeys(low + width * n // PARTS for n in range(1, PARTS))]
    binds = context.relation.binds()
    where = condition(dialect, context.mapping.key, within, binds)
    part = nested_case(dialect, (lead,), cuts, binds)
    sql = (
        f"SELECT part_no, COUNT(*) FROM (SELECT {part} AS part_no FROM {context.from_item} WHERE {where}) counted"
        " GROUP BY part_no"
    )
    rows = {int(number): int(count) for number, count in connection.execute(*binds.statement(sql))}
    sizes = [rows.get(number, 0) for number in range(len(cuts) + 1)]
    return cuts, [0, *accumulate(sizes[:-1])]
