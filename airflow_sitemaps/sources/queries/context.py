"""The context of a source's queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_sitemaps.sources.columns import ColumnMapping
    from airflow_sitemaps.sources.dialects.base import Dialect
    from airflow_sitemaps.sources.selection import Selection
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
