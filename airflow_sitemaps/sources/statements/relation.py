"""The rows that a source reads: a table or a query, with the user's condition."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from airflow_sitemaps.sources.statements.binds import PLACEHOLDER, Binds, guarded
from airflow_sitemaps.sources.statements.table_name import name_parts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_sitemaps.sources.columns import Column
    from airflow_sitemaps.sources.statements.table_name import NamePart


class RelationSql(Protocol):
    """The part of a dialect with which a relation writes itself as SQL."""

    def quote(self, name: str) -> str:
        """Quote an identifier."""
        ...

    def quote_table(self, part: NamePart) -> str:
        """Quote one part of a table's name."""
        ...

    def column(self, column: Column) -> str:
        """Return the SQL name of a column of the source, which every statement calls ``src``."""
        ...

    def members(self, group: Column, columns: Sequence[Column], from_item: str, where: str, most: int) -> str:
        """Write a query of each group's members, or of ``#large`` for groups with more than ``most``."""
        ...

    def emit_text(self, column: Column) -> str:
        """Return SQL for a column as the text that goes into an entry."""
        ...

    def character_length(self, text: str) -> str:
        """Return SQL for the number of characters of a text."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A table or a query, with a condition on its rows. All texts are final SQL.

    Attributes:
        table: The table's name in the form that ``name_parts`` reads. Default: None, for a query.
        query: The SQL of the query. Default: None, for a table.
        where: A condition on the rows. Default: None.
        as_of: What follows the table's name to read an earlier state of it. Default: empty.
        parameters: The values of ``:name`` in query and condition. Default: none.
    """

    table: str | None = None
    query: str | None = None
    where: str | None = None
    as_of: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def from_item(self, sql: RelationSql) -> str:
        """Write the relation as ``… src``, for ``FROM``. The condition is inside it, so that no other names are visible to it."""
        if self.table is not None:
            name = ".".join(sql.quote_table(part) for part in name_parts(self.table))
            if self.as_of:
                name += f" {guarded(self.as_of)}"
            elif self.where is None:
                return f"{name} src"
            if self.where is None:
                return f"(SELECT * FROM {name}) src"
            return f"(SELECT * FROM {name} WHERE (\n{guarded(self.where, self.parameters)}\n)) src"
        # The line break ends a comment at the end of the query.
        inner = f"(\n{guarded((self.query or '').strip().rstrip(';'), self.parameters)}\n)"
        if self.where is None:
            return f"{inner} src"
        return f"(SELECT * FROM {inner} query_rows WHERE (\n{guarded(self.where, self.parameters)}\n)) src"

    def unknown_placeholders(self) -> list[str]:
        """Return the names in query and condition that look like placeholders and have no value, in order."""
        texts = (self.query or "", self.where or "")
        names = (match.group(1) for text in texts for match in PLACEHOLDER.finditer(text))
        return [name for name in dict.fromkeys(names) if name and not name[0].isdigit() and name not in self.parameters]

    def binds(self) -> Binds:
        """Return new binds that hold the user's values. A statement adds its own values to them."""
        binds = Binds()
        binds.include(self.parameters)
        return binds
