"""Table names as users write them: ``mart.products``, or with quotes if a part contains dots: ``mart."my.table"``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from airflow_sitemaps.errors import SourceConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

NAME_PART: Final = re.compile(r'"((?:[^"]|"")+)"|`((?:[^`]|``)+)`|([^".`]+)')


class NamePart(NamedTuple):
    """One part of a table's name.

    Attributes:
        text: The name without quotes.
        is_quoted: Whether the user wrote it in quotes, so that the database must not change its case.
    """

    text: str
    is_quoted: bool


def name_parts(table: str) -> tuple[NamePart, ...]:
    """Split a table's name into its parts, such as project, schema and table.

    Args:
        table: The name. Parts may be in double quotes or in backticks. Dots inside one pair of backticks separate
            parts, as they do in BigQuery: ``shop-1.mart.products`` in backticks has three parts.

    Raises:
        SourceConfigurationError: The name is invalid.
    """
    parts: list[NamePart] = []
    position = 0
    while True:
        match = NAME_PART.match(table, position)
        if match is None:
            break
        parts += _parts(match)
        position = match.end()
        if position == len(table):
            return tuple(parts)
        if table[position] != ".":
            break
        position += 1
    raise SourceConfigurationError(
        f"table={table!r}: give a name like 'products', 'mart.products' or 'mart.\"my.table\"'"
    )


def _parts(match: re.Match[str]) -> list[NamePart]:
    if match[1]:
        return [NamePart(match[1].replace('""', '"'), is_quoted=True)]
    if match[2]:
        return [NamePart(text, is_quoted=True) for text in match[2].replace("``", "`").split(".")]
    return [NamePart(match[3], is_quoted=False)]


def written_name(parts: Iterable[NamePart]) -> str:
    """Return the parts as a table's name that ``name_parts`` reads back."""
    return ".".join('"' + part.text.replace('"', '""') + '"' if part.is_quoted else part.text for part in parts)
