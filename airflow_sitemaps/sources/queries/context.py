"""A source in the form that its queries need, and the ordered query of the rows of one span of keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from airflow_sitemaps.sources.columns import Output
from airflow_sitemaps.sources.dialects.value_sql import ascending
from airflow_sitemaps.sources.queries.key_spans import nested_case, span_condition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_sitemaps.sources.columns import ColumnMapping
    from airflow_sitemaps.sources.dialects.base import Dialect
    from airflow_sitemaps.sources.queries.key_spans import KeySpan
    from airflow_sitemaps.sources.selection import Selection
    from airflow_sitemaps.sources.statements.binds import Binds, Statement
    from airflow_sitemaps.sources.statements.relation import Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryContext:
    """One source in one dialect.

    Attributes:
        dialect: The database's SQL.
        relation: The table or query.
        selection: The select list that reads rows.
        name: The section and source, for messages.
        unique: Whether the database enforces that no two rows share a key. It only selects between equivalent
            statements. Default: False.
        versioned: The table, if its version tells whether the source's rows changed. Default: None.
        indexed: Whether an index leads with the key. It only selects between equivalent statements. Default: False.
    """

    dialect: Dialect
    relation: Relation
    selection: Selection
    name: str
    unique: bool = False
    indexed: bool = False
    versioned: Relation | None = None

    @property
    def mapping(self) -> ColumnMapping:
        """The columns that make an entry."""
        return self.selection.mapping

    @property
    def from_item(self) -> str:
        """The relation for ``FROM``, called ``src``."""
        return self.relation.from_item(self.dialect)


def rows_statement(context: QueryContext, span: KeySpan, outputs: Sequence[Output]) -> tuple[Statement, list[Output]]:
    """Write the query of a span's rows.

    Args:
        outputs: The columns to select, without the bucket's number.

    Returns:
        The statement and its columns. The first column is the bucket's number.
    """
    binds = context.relation.binds()
    bucket = bucket_number(context, span, binds)
    columns = [Output(name="range_no", sql=bucket, type=pa.int32()), *outputs]
    select = ", ".join(f"{column.sql} AS {column.name}" for column in columns)
    where = span_condition(context.dialect, context.mapping.key, span, binds)
    sql = f"SELECT {select} FROM {context.from_item} WHERE {where} ORDER BY {ascending(row_order(context))}"
    return binds.statement(sql), columns


def bucket_number(context: QueryContext, span: KeySpan, binds: Binds) -> str:
    """Return SQL for the number of a row's bucket within a span.

    Args:
        binds: The statement's values, to which this function adds those of the cuts.
    """
    if not span.cuts:
        return "0"
    search = context.dialect.buckets(context.mapping.key, span.cuts, binds)
    return search or nested_case(context.dialect, context.mapping.key, span.cuts, binds)


def row_order(context: QueryContext) -> list[str]:
    """Return the ORDER BY expressions of rows.

    Rows are ordered by their key. If the key is not unique, the bytes of all emitted columns follow, so that rows of one key
    keep their order.
    """
    order = [context.dialect.key_order(column) for column in context.mapping.key]
    if not context.unique:
        order += [context.dialect.binary_order(column) for column in context.mapping.emitted]
    return order
