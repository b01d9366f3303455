"""Key ranges with rows that changed since a moment, found by the index of lastmod if there is one."""

from __future__ import annotations

from datetime import timezone
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.sources.columns import TIMES, Kind
from airflow_sitemaps.sources.epochs import number_of
from airflow_sitemaps.sources.queries import row_places

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import sqlalchemy as sa

    from airflow_sitemaps.shards.key import KeyRange
    from airflow_sitemaps.sources.columns import Column
    from airflow_sitemaps.sources.queries.context import QueryContext
    from airflow_sitemaps.sources.statements.binds import Binds

NUMBERS = frozenset({Kind.INTEGER, Kind.NUMBER})
TEXT_TIMES = frozenset({Kind.TEXT, Kind.OTHER})
"""The kinds of times in SQLite. They are compared as ISO text, which sorts chronologically."""


def find(context: QueryContext, connection: sa.Connection, ranges: Sequence[KeyRange], since: datetime) -> list[int]:
    """Return the positions of changed ranges, as ``ports.Source.touched`` defines them.

    Raises:
        SourceConfigurationError: The source has no lastmod that is a time.
    """
    column = _lastmod(context)
    unit = context.selection.lastmod_unit
    bound = _since(column, since, context.selection.timezone) if unit is None else number_of(since, unit)

    def rows(binds: Binds) -> tuple[str, str]:
        return context.from_item, context.dialect.compare((column,), ">=", (bound,), binds)

    return row_places.find(context, connection, ranges, rows)


def _lastmod(context: QueryContext) -> Column:
    column = context.mapping.field("lastmod")
    if column is not None and context.selection.lastmod_unit is not None and column.kind in NUMBERS:
        return column
    if column is None or column.kind not in TIMES | TEXT_TIMES:
        what = "no lastmod" if column is None else f"a lastmod of type {column.type_name or column.kind.value}"
        raise SourceConfigurationError(
            f"{context.name}: change_detection='watermark' needs a lastmod that is a date or timestamp, indexed; this "
            f"source has {what}. Use change_detection='digest'."
        )
    return column


def _since(column: Column, since: datetime, zone: str) -> str:
    """Return a moment in the format of the column's own values."""
    if column.kind is Kind.ZONED:
        return since.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
    local = since.astimezone(ZoneInfo(zone))
    return local.strftime("%Y-%m-%d" if column.kind is Kind.DATE else "%Y-%m-%d %H:%M:%S")
