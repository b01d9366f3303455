"""The list of sitemaps: filtered, sorted and paginated on the server, with totals over all of them. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

SortKey = Literal["state", "name", "dag", "at", "urls", "shards", "size", "generation", "dropped"]

SEVERITY: Final[Mapping[str, int]] = {"failing": 0, "warning": 1, "not_verified": 2, "unknown": 3, "healthy": 4}
"""Order of the states, those that need attention first."""

CSV_COLUMNS: Final = (
    "index_url", "asset", "dag_id", "state", "reason", "activity", "paused", "orphaned", "archived", "result", "run_id",
    "generation", "at", "committed_at", "verified_at", "urls", "shards", "file_bytes", "rows", "dropped",
)  # fmt: skip
"""Columns of the exported list."""
FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")
"""First characters of a text that a spreadsheet would run as a formula."""

Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """The filter and the order of the list.

    Attributes:
        search: Text that the address, the asset or a DAG's ID contains, regardless of case. Default: empty, all.
        state: A verdict, ``running`` or ``paused``. Default: empty, all.
        dag: ID of a DAG. Default: empty, all.
        tag: Tag of a DAG. Default: empty, all.
        archived: Whether to show the archived sitemaps instead of the others. Default: False.
        sort: Column to sort by. Default: ``state``.
        descending: Whether the largest value is first. Default: False.
    """

    search: str = ""
    state: str = ""
    dag: str = ""
    tag: str = ""
    archived: bool = False
    sort: SortKey = "state"
    descending: bool = False


def selected(lines: Sequence[Line], query: ListQuery) -> list[Line]:
    """Return the lines that match a query, in its order."""
    matching = [line for line in lines if _matches(line, query)]
    matching.sort(key=lambda line: str(line["name"]))
    matching.sort(key=_SORT[query.sort], reverse=query.descending)
    return matching


def _matches(line: Line, query: ListQuery) -> bool:
    needle = query.search.strip().lower()
    texts = (line["asset"], line["index_url"] or "", *line["dag_ids"], line["dag_id"])
    return bool(
        line["archived"] == query.archived
        and (not needle or any(needle in text.lower() for text in texts))
        and (not query.state or _has_state(line, query.state))
        and (not query.dag or query.dag in line["dag_ids"] or query.dag == line["dag_id"])
        and (not query.tag or query.tag in line["tags"])
    )


def _has_state(line: Line, state: str) -> bool:
    if state == "running":
        return bool(line["activity"])
    if state == "paused":
        return bool(line["paused"])
    return bool(line["state"] == state)


_SORT: Final[Mapping[str, Callable[[Line], Any]]] = {
    "state": lambda line: (SEVERITY[line["state"]], line["activity"] == ""),
    "name": lambda line: line["index_url"] or line["name"],
    "dag": lambda line: line["dag_id"],
    "at": lambda line: line["at"] or "",
    "urls": lambda line: line["urls"],
    "shards": lambda line: line["shards"],
    "size": lambda line: line["file_bytes"],
    "generation": lambda line: line["generation"],
    "dropped": lambda line: line["dropped"],
}


def totals(lines: Sequence[Line]) -> dict[str, int]:
    """Return counts over every line. Archived sitemaps are counted separately."""
    shown = [line for line in lines if not line["archived"]]
    states = {state: sum(line["state"] == state for line in shown) for state in SEVERITY}
    return {
        "sitemaps": len(shown),
        "urls": sum(line["urls"] for line in shown),
        **states,
        "running": sum(line["activity"] in ("running", "planning") for line in shown),
        "archived": len(lines) - len(shown),
    }


def csv_of(lines: Sequence[Line], columns: Sequence[str] = CSV_COLUMNS) -> str:
    """Return lines as CSV with a header. Text that a spreadsheet would run as a formula is prefixed with an apostrophe.

    Args:
        columns: The columns. Default: ``CSV_COLUMNS``.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows([_cell(line[column]) for column in columns] for line in lines)
    return buffer.getvalue()


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(FORMULA_STARTS) else value
    return value
