"""Collations of SQL Server by which a varchar column is ordered differently from an nvarchar value.

https://learn.microsoft.com/en-us/sql/relational-databases/collations/collation-and-unicode-support and
https://learn.microsoft.com/en-us/sql/relational-databases/system-stored-procedures/sp-describe-first-result-set-transact-sql
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

if TYPE_CHECKING:
    from airflow_sitemaps.sources.statements.binds import Binds

DESCRIBED: Final = sa.text(
    "SELECT name, system_type_name, collation_name FROM sys.dm_exec_describe_first_result_set(:statement, NULL, 0)"
    " WHERE collation_name IS NOT NULL"
)
"""The collations of a query's columns (SQL Server 2012 and later)."""

CODEPAGE_TYPES: Final = ("varchar", "char", "text")
"""The types whose texts are in the collation's code page. Those of nvarchar follow one rule under every collation."""


def codepage_collations(connection: sa.Connection, from_item: str, binds: Binds) -> dict[str, str]:
    """Return the ``SQL_…`` collation of each column that has one and a type of ``CODEPAGE_TYPES``.

    A query with parameters has no description without the types of these, so its columns are not known.

    Args:
        connection: A connection in a transaction.
        from_item: The relation, called ``src``.
        binds: The values that the relation needs.
    """
    text, values = binds.statement(f"SELECT src.* FROM {from_item}")
    if values:
        return {}
    rows = connection.execute(DESCRIBED, {"statement": text.text.replace("\\:", ":")}).all()
    return {
        str(name): str(collation)
        for name, type_name, collation in rows
        if str(type_name).partition("(")[0] in CODEPAGE_TYPES and str(collation).startswith("SQL_")
    }
