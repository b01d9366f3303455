"""Columns of rows in memory, in the types that a database's driver would give them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from airflow_sitemaps.sources.row_values import LocMapping

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo


def kind(value: Any) -> str:
    """Return the kind of a key's value: ``integer``, ``text``, or ``unknown`` for None."""
    if value is None:
        return "unknown"
    return "integer" if isinstance(value, int) else "text"


def locs(loc: str, rows: Sequence[Mapping[str, Any]]) -> pa.Array:
    """Return the URLs of rows, from a column or a template."""
    location = LocMapping(loc)
    return location.expand(
        {name: pa.array([text(row.get(name)) for row in rows], pa.string()) for name in location.columns}
    )


def text(value: Any) -> str | None:
    """Return a value as the text of a column."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (dict, list)):
        return json.dumps(value, sort_keys=True, ensure_ascii=False)
    return iso(value) if isinstance(value, date) else str(value)


def iso(value: Any) -> str:
    """Return a lastmod in the form of the survey. Naive datetimes are in UTC."""
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
        return aware.astimezone(timezone.utc).isoformat()
    return value.isoformat() if isinstance(value, date) else str(value)


def lastmods(values: Sequence[Any], zone: ZoneInfo) -> pa.Array:
    """Return a column of type timestamp, date32 or string: the type of all values, or string for mixed types."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {datetime}:
        aware = [value.replace(tzinfo=zone) if value and not value.tzinfo else value for value in values]
        return pa.array(aware, pa.timestamp("us", "UTC"))
    if kinds == {date}:
        return pa.array(values, pa.date32())
    return pa.array([None if value is None else iso(value) for value in values], pa.string())


def priorities(values: Sequence[Any]) -> pa.Array:
    """Return a column of numbers, or of texts if any value is one."""
    if any(isinstance(value, str) for value in values):
        return pa.array([None if value is None else str(value) for value in values], pa.string())
    return pa.array([None if value is None else float(value) for value in values], pa.float64())
