"""Parameters that are lists: ``id IN :ids`` accepts a list of any length on every database."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.sources.statements.binds import PLACEHOLDER
from airflow_sitemaps.sources.statements.one_statement import one_statement
from airflow_sitemaps.sources.statements.relation import Relation

if TYPE_CHECKING:
    from collections.abc import Mapping

ARRAY_BEFORE: Final = re.compile(r"\b(any|all|some|unnest)\s*\(\s*$", re.IGNORECASE)
"""The text before a list that the database reads as an array, not as the right side of ``IN``."""


def relation_of(table: str | None, query: str | None, where: str | None, parameters: Mapping[str, Any]) -> Relation:
    """Create a relation in which each list parameter becomes one parameter per value.

    ``:ids`` becomes ``(:ids_0, :ids_1)``. After ``ANY(`` and similar functions it becomes ``ARRAY[:ids_0, :ids_1]``.

    Args:
        table: The table's name, or None.
        query: The query's SQL, or None.
        where: A condition, or None.
        parameters: The values of ``:name`` in query and condition.

    Raises:
        SourceConfigurationError: A list is empty, or the query holds several statements.
    """
    query = None if query is None else one_statement(query, "query=")
    lists = {
        name: list(value) for name, value in parameters.items() if isinstance(value, (list, tuple, set, frozenset))
    }
    if not lists:
        return Relation(table=table, query=query, where=where, parameters=parameters)
    empty = [name for name, values in lists.items() if not values]
    if empty:
        raise SourceConfigurationError(
            f"parameters={{{empty[0]!r}: []}}: an empty list matches no row, and SQL cannot express it. Give at least "
            "one value, or omit the condition"
        )
    names = {name: _free_names(name, len(values), parameters) for name, values in lists.items()}
    flat = {name: value for name, value in parameters.items() if name not in lists}
    for name, values in lists.items():
        flat |= dict(zip(names[name], values, strict=True))
    return Relation(table=table, query=_expanded(query, names), where=_expanded(where, names), parameters=flat)


def _free_names(name: str, number: int, taken: Mapping[str, Any]) -> list[str]:
    stem = name
    while any(other.startswith(f"{stem}_") for other in taken):
        stem += "_"
    return [f"{stem}_{place}" for place in range(number)]


def _expanded(text: str | None, names: Mapping[str, list[str]]) -> str | None:
    if text is None:
        return None

    def expand(match: re.Match[str]) -> str:
        listed = names.get(match.group(1) or "")
        if listed is None:
            return match.group(0)
        values = ", ".join(f":{each}" for each in listed)
        before = match.string[: match.start()]
        return f"ARRAY[{values}]" if ARRAY_BEFORE.search(before) else f"({values})"

    return PLACEHOLDER.sub(expand, text)
