"""What rows come from: a table or a query, with the user's condition."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.sources.statement import Binds, guarded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_sitemaps.sources.dialects.base import Dialect

NAME_PART: Final = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')


def name_parts(table: str) -> tuple[str, ...]:
    """The parts of a table's name: ``mart.products``, or quoted where a name holds dots: ``mart."a.b"``.

    Raises:
        SourceConfigurationError: the name cannot be read.
    """
    parts: list[str] = []
    position = 0
    while True:
        match = NAME_PART.match(table, position)
        if match is None:
            break
        parts.append(match[1].replace('""', '"') if match[1] else match[2])
        position = match.end()
        if position == len(table):
            return tuple(parts)
        if table[position] != ".":
            break
        position += 1
    raise SourceConfigurationError(
        f"table={table!r}: give a name like 'products', 'mart.products' or 'mart.\"my.table\"'"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A table or a query, with a condition on its rows and the values both use. All texts are final SQL."""

    table: str | None = None
    query: str | None = None
    where: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def from_item(self, dialect: Dialect) -> str:
        """The relation as ``… src``, for ``FROM``. A condition stands inside, so that nothing else is in its scope."""
        if self.table is not None:
            name = ".".join(dialect.quote_table(part) for part in name_parts(self.table))
            if self.where is None:
                return f"{name} src"
            return f"(SELECT * FROM {name} WHERE (\n{guarded(self.where, self.parameters)}\n)) src"
        # A line break ends a comment that the query may end with.
        inner = f"(\n{guarded((self.query or '').strip().rstrip(';'), self.parameters)}\n)"
        if self.where is None:
            return f"{inner} src"
        return f"(SELECT * FROM {inner} query_rows WHERE (\n{guarded(self.where, self.parameters)}\n)) src"

    def binds(self) -> Binds:
        """The user's values, to begin a statement's binds with."""
        binds = Binds()
        binds.include(self.parameters)
        return binds
